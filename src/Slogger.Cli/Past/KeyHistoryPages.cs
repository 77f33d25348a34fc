// What was done to a key, page by page from the newest on. Where slots have moved it was done at one shard after the other: each tells its
// stretch, and up to which version another one had the key before.
using System.Text;
using Slogger.Cli.Access;

namespace Slogger.Cli.Past;

/// <summary>A page.</summary>
/// <param name="Address">The shard that had the key.</param>
/// <param name="From">The version behind which this shard has looked.</param>
/// <param name="To">The version up to which it has.</param>
/// <param name="LeftOut">How many commands this shard did before those.</param>
/// <param name="Commands">Commands, oldest first, as DPR.HISTORY has them.</param>
/// <param name="Earlier">The version up to which another shard had the key; 0: none had.</param>
internal sealed record HistoryPage(string Address, long From, long To, long LeftOut, IReadOnlyList<ProxyReply> Commands, long Earlier);

/// <summary>Reads them.</summary>
internal static class KeyHistoryPages
{
    private const int PageMax = 10_000;

    /// <summary>All pages.</summary>
    /// <param name="past">The cluster.</param>
    /// <param name="key">The key.</param>
    /// <param name="begin">The version behind which it begins; null: all that is kept.</param>
    /// <param name="end">The version with which it ends; null: the first that has all that was acknowledged.</param>
    /// <param name="wanted">How many commands are wanted still, when the page before was taken. 0: of each shard's only how many there are;
    /// then a page has one nevertheless.</param>
    /// <exception cref="ProxyUnreachableException">A shard could not be asked, or has refused.</exception>
    public static async IAsyncEnumerable<HistoryPage> ReadAsync(PastCluster past, byte[] key, long? begin, long? end, Func<int> wanted)
    {
        HistoryPage? page = null;
        for (long? place = null; ;)
        {
            ProxyReply reply = await past.TryAsync(["DPR.HISTORY"u8.ToArray(), key, .. Option("FROM", begin), .. Option("TO", end),
                .. Option("BEFORE", place), .. Option("COUNT", Math.Clamp(wanted(), 1, PageMax))]).ConfigureAwait(false);
            // What the shard before has deleted of its log, or took with it when it left, is not kept.
            if (reply.IsError && begin is null && page is not null && PastCluster.IsNotKept(reply)) { yield break; }
            if (reply.IsError) { throw PastCluster.Refused(reply); }
            yield return page = new(past.CurrentAddress, reply.Items[0].Number, reply.Items[1].Number, reply.Items[2].Number,
                reply.Items[3].Items, reply.Items[4].Number);
            if (page.LeftOut > 0 && wanted() > 0) { (end, place) = (page.To, page.Commands[0].Items[3].Number); }
            else if (page.Earlier > 0) { (end, place) = (page.Earlier, null); }
            else { yield break; }
        }
    }

    private static byte[][] Option(string name, long? number) =>
        number is { } value ? [Encoding.ASCII.GetBytes(name), Encoding.ASCII.GetBytes(PastCluster.Text(value))] : [];
}

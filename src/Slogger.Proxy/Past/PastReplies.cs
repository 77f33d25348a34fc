// The replies to what is asked about the past, as they stand on the wire. See docs/reference/dpr-commands.md.
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;

namespace Slogger.Proxy.Past;

/// <summary>Writes replies.</summary>
internal static class PastReplies
{
    /// <summary>The history of a key.</summary>
    /// <param name="from">The version behind which was looked.</param>
    /// <param name="to">The version up to which was looked.</param>
    /// <param name="found">What was found.</param>
    /// <param name="versions">The end of the version of each command.</param>
    /// <param name="hidden">Keys that the client may not read: of a command that names one the name alone is told.</param>
    /// <param name="timeUs">When a version ended, in microseconds since the Unix epoch.</param>
    /// <param name="earlier">The version up to which another shard has done what was done before; zero: none has.</param>
    public static byte[] History(VersionNumber from, VersionNumber to, KeyHistory found, IReadOnlyList<Boundary> versions,
        IReadOnlySet<StoreKey> hidden, Func<Boundary, long> timeUs, VersionNumber earlier)
    {
        var bytes = new List<byte>();
        RespText.AppendHeader(bytes, '*', 5);
        RespText.AppendHeader(bytes, ':', from.Number);
        RespText.AppendHeader(bytes, ':', to.Number);
        RespText.AppendHeader(bytes, ':', found.LeftOut);
        RespText.AppendHeader(bytes, '*', found.Commands.Count);
        foreach ((KeyCommand command, Boundary version) in found.Commands.Zip(versions))
        {
            RespText.AppendHeader(bytes, '*', 5);
            RespText.AppendHeader(bytes, ':', version.Version.Number);
            RespText.AppendHeader(bytes, ':', timeUs(version));
            RespText.AppendHeader(bytes, ':', version.WorldLine.Number);
            RespText.AppendHeader(bytes, ':', command.Place);
            AppendBulks(bytes, command.Others.Any(hidden.Contains) ? [command.Arguments[0]] : command.Arguments);
        }
        RespText.AppendHeader(bytes, ':', earlier.Number);
        return [.. bytes];
    }

    /// <summary>The shards that had slots.</summary>
    /// <param name="owners">Each with its address: null if it has left, empty of this one.</param>
    public static byte[] Owners(IReadOnlyList<(ShardId Shard, string? Address)> owners)
    {
        var bytes = new List<byte>();
        RespText.AppendHeader(bytes, '*', owners.Count);
        foreach ((ShardId shard, string? address) in owners)
        {
            RespText.AppendHeader(bytes, '*', 2);
            RespText.AppendHeader(bytes, ':', shard.Number);
            if (address is null) { bytes.AddRange("$-1\r\n"u8); }
            else { RespText.AppendBulk(bytes, Encoding.ASCII.GetBytes(address)); }
        }
        return [.. bytes];
    }

    /// <summary>The keys that were named.</summary>
    /// <param name="told">The version up to which these are all.</param>
    /// <param name="keys">The keys.</param>
    public static byte[] Changed(VersionNumber told, IReadOnlyCollection<StoreKey> keys)
    {
        var bytes = new List<byte>();
        RespText.AppendHeader(bytes, '*', 2);
        RespText.AppendHeader(bytes, ':', told.Number);
        AppendBulks(bytes, [.. keys.Select(k => k.Name)]);
        return [.. bytes];
    }

    /// <summary>Commands that were done.</summary>
    /// <param name="leftOut">How many are left out.</param>
    /// <param name="commands">The others: their names, and their arguments.</param>
    public static byte[] Commands(long leftOut, IReadOnlyCollection<IReadOnlyList<byte[]>> commands)
    {
        var bytes = new List<byte>();
        RespText.AppendHeader(bytes, '*', 2);
        RespText.AppendHeader(bytes, ':', leftOut);
        RespText.AppendHeader(bytes, '*', commands.Count);
        foreach (IReadOnlyList<byte[]> command in commands) { AppendBulks(bytes, command); }
        return [.. bytes];
    }

    private static void AppendBulks(List<byte> bytes, IReadOnlyList<byte[]> texts)
    {
        RespText.AppendHeader(bytes, '*', texts.Count);
        foreach (byte[] text in texts) { RespText.AppendBulk(bytes, text); }
    }
}

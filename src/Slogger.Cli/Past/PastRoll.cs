// All shards of a cluster at the end of one version, with all that they had, and then at the end of a later one.
using System.Text;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Redis.Connections;

namespace Slogger.Cli.Past;

/// <summary>Goes forward. One caller at a time.</summary>
internal sealed class PastRoll : IAsyncDisposable
{
    private const string Command = "DPR.ROLL";
    private static readonly TimeSpan ConnectMax = TimeSpan.FromSeconds(5);

    private readonly List<Part> _parts = [];
    private readonly TextWriter _progress;

    private PastRoll(long first, TextWriter progress) => (First, _progress) = (first, progress);

    /// <summary>The version with which it begins.</summary>
    public long First { get; }

    /// <summary>Where all shards stand.</summary>
    public PastInstant At { get; private set; } = new(0, default);

    /// <summary>The first version behind that at whose end something may differ from here; null: there is none.</summary>
    public long? Next { get; private set; }

    /// <summary>Begins.</summary>
    /// <param name="past">The cluster.</param>
    /// <param name="from">The first version that is wanted; they stand nowhere yet.</param>
    /// <param name="to">The last, which all shards have closed by themselves.</param>
    /// <param name="progress">Where it is told how far they are.</param>
    /// <exception cref="ProxyUnreachableException">A shard could not be asked, or has refused.</exception>
    public static async Task<PastRoll> OpenAsync(PastCluster past, long from, long to, TextWriter progress)
    {
        var roll = new PastRoll(from, progress);
        try
        {
            foreach ((long shard, string address) in await past.OwnersOfAllAsync(from, to).ConfigureAwait(false))
            {
                var part = new Part(shard, address, await past.Shards.AtAsync(address).ConfigureAwait(false));
                part.Name = (await part.AskAsync("BEGIN", "FROM", PastCluster.Text(from), "TO", PastCluster.Text(to)).ConfigureAwait(false))
                    .Text;
                roll._parts.Add(part);
            }
            return roll;
        }
        catch
        {
            await roll.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>Brings all shards to the first version at or above one that all of them have closed by themselves.</summary>
    /// <param name="version">Not before the one where they stand.</param>
    /// <exception cref="ProxyUnreachableException">A shard could not be asked, or has refused.</exception>
    public async Task MoveToAsync(long version)
    {
        Stand[] stands;
        // A shard that has not closed it by itself gives one above. It rises with each question, and so ends.
        for (long asked = version; ; asked = stands.Max(s => s.Version))
        {
            stands = await BringAsync(asked).ConfigureAwait(false);
            if (stands.All(s => s.Version == stands[0].Version)) { break; }
        }
        At = new(stands[0].Version, PastCluster.TimeOf(stands[0].TimeUs));
        Next = stands.Where(s => s.Next != 0).Select(s => (long?)s.Next).Min();
    }

    /// <summary>Has all shards run a script that reads.</summary>
    /// <returns>Their replies; null of one that has no slots there.</returns>
    /// <exception cref="ProxyUnreachableException">A shard could not be asked, or has refused.</exception>
    public Task<ProxyReply[]> EvalAsync(string script, string argument) =>
        Task.WhenAll(_parts.Select(p => p.AskAsync("EVAL", p.Name, script, argument)));

    /// <summary>What was done since they were asked last: how many commands are left out, and the newest of each shard.</summary>
    /// <exception cref="ProxyUnreachableException">A shard could not be asked, or has refused.</exception>
    public async Task<(long LeftOut, IReadOnlyList<FoundEffect> Commands)> CommandsAsync()
    {
        ProxyReply[] replies = await Task.WhenAll(_parts.Select(p => p.AskAsync("COMMANDS", p.Name))).ConfigureAwait(false);
        return (replies.Sum(r => r.Items[0].Number),
            [.. replies.SelectMany(r => r.Items[1].Items).Select(c => new FoundEffect(null, [.. c.Items.Select(a => a.Text)]))]);
    }

    /// <summary>Lets processes of this machine read what the shards have.</summary>
    /// <returns>The shards, and their Unix sockets.</returns>
    /// <exception cref="ProxyUnreachableException">A shard has it elsewhere, could not be asked, or has refused.</exception>
    public async Task<IReadOnlyList<(long Shard, string Socket)>> OpenToReadersAsync()
    {
        List<(long, string)> sockets = [];
        foreach (Part part in _parts)
        {
            ProxyReply opened = await part.AskAsync("OPEN", part.Name).ConfigureAwait(false);
            string socket = opened.Items[0].Text;
            if (!await IsHereAsync(socket, opened.Items[1].Text).ConfigureAwait(false))
            {
                throw new ProxyUnreachableException($"{part.Address} shows the past at {socket}, which cannot be reached from here",
                    "run this command on the machine of all the cluster's proxies, as their user");
            }
            sockets.Add((part.Shard, socket));
        }
        return sockets;
    }

    // Another machine may have another server there.
    private static async Task<bool> IsHereAsync(string socket, string server)
    {
        try
        {
            await using RedisConnection there = await RedisConnection.ConnectOnceAsync(RedisEndpoint.Unix(socket), ConnectMax, default)
                .ConfigureAwait(false);
            return (await there.InfoAsync("server").ConfigureAwait(false)).GetValueOrDefault("run_id") == server;
        }
        catch (RedisException)
        {
            return false;
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (Part part in _parts)
        {
            // It would be given up a minute later.
            try { await part.AskAsync("END", part.Name).ConfigureAwait(false); } catch (ProxyUnreachableException) { }
        }
    }

    // A question lasts a second at most, so that nobody waits for so long for one shard that another one is given up.
    private async Task<Stand[]> BringAsync(long version)
    {
        for (bool isTold = false; ; isTold = true)
        {
            ProxyReply[] replies = await Task.WhenAll(_parts.Select(p => p.AskAsync("TO", p.Name, PastCluster.Text(version))))
                .ConfigureAwait(false);
            Stand[] stands = [.. replies.Select(r => new Stand(r.Items[0].Number == 1, r.Items[1].Number, r.Items[2].Number,
                r.Items[3].Number, r.Items[4].Number, r.Items[5].Number))];
            if (stands.All(s => s.IsThere)) { return stands; }
            if (!isTold) { continue; }
            string done = ConsoleText.Bytes(stands.Sum(s => s.Done)), all = ConsoleText.Bytes(stands.Sum(s => s.All));
            await _progress.WriteLineAsync($"loads, {done} of {all}").ConfigureAwait(false);
        }
    }

    private readonly record struct Stand(bool IsThere, long Version, long TimeUs, long Next, long Done, long All);

    private sealed class Part(long shard, string address, ProxyConnection proxy)
    {
        public long Shard => shard;

        public string Address => address;

        public string Name { get; set; } = "";

        public async Task<ProxyReply> AskAsync(params string[] words)
        {
            ProxyReply reply = await proxy.CallAsync([Encoding.UTF8.GetBytes(Command), .. words.Select(Encoding.UTF8.GetBytes)])
                .ConfigureAwait(false);
            return reply.IsError ? throw PastCluster.Refused(reply, $"{address}: ") : reply;
        }
    }
}

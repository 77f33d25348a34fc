// The whole data of a shard at one version after the other, for scripts that read; or at one version, for commands that may read any key.
// A redis-server beside the shard's own loads the checkpoint below the first, and goes forward by the log. The live store is asked for
// nothing but who may.
//
// There is one at a time, so that the machine needs memory for one more copy of the data. It does something only when it is asked, for some
// seconds at most; after a minute of silence it ends.
//
// It has the keys of the slots that the shard had at the version at which it stands, whatever else was in its store while slots moved.
using System.Buffers.Text;
using System.Security.Cryptography;
using System.Text;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Supervision;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Past;

/// <summary>Rolls through the past of a shard. Any thread; one question after the other.</summary>
internal sealed class ShardRoll : IPastRoll
{
    private const string Folder = "roll";

    private static readonly string[] s_settings = ["maxmemory 0"];
    private static readonly TimeSpan SilentMax = TimeSpan.FromMinutes(1), BringMax = TimeSpan.FromSeconds(1),
        LoadMax = TimeSpan.FromSeconds(5);

    private readonly VersionLog _log;
    private readonly CheckpointStore _checkpoints;
    private readonly PastInstants _instants;
    private readonly RedisSupervisorOptions? _server;
    private readonly SemaphoreSlim _turn = new(1, 1);
    private readonly CancellationTokenSource _ending = new();
    private volatile Rolling? _rolling;
    private volatile bool _isCleared;   // of what a process before has left behind
    private long _lastUsed;

    public ShardRoll(ServeOptions options, VersionLog log, CheckpointStore checkpoints, PastInstants instants)
    {
        (_log, _checkpoints, _instants) = (log, checkpoints, instants);
        _server = options.RedisServerPath is null ? null : ScratchServer.In(Folder, options, s_settings);
    }

    /// <summary>The live store, which knows who may have all data; null: it has no users, and all may.</summary>
    public required Func<RedisEndpoint?> Live { get; init; }

    /// <summary>The offset from which it needs the log; <see cref="long.MaxValue"/>: there is none.</summary>
    public long HeldFrom => _rolling?.Store.Offset ?? long.MaxValue;

    private PastOwners Owners => _instants.Owners;

    private bool IsSilent => Environment.TickCount64 - Volatile.Read(ref _lastUsed) >= SilentMax.TotalMilliseconds;

    /// <inheritdoc />
    public Task<byte[]> BeginAsync(long from, long to, string user) => InTurnAsync(async () =>
    {
        RedisSupervisorOptions server = _server ?? throw PastAnswer.NoServer();
        await FreeAsync().ConfigureAwait(false);
        (IReadOnlyList<string> rules, string? why) = await RulesAsync(user, ReadRights.OfAllData).ConfigureAwait(false);
        if (why is not null) { return PastAnswer.Error(why); }
        VersionNumber last = await _instants.CommittedAsync(new(InstantBy.Version, to), _ending.Token).ConfigureAwait(false);
        if (from > last.Number) { throw new PastException($"version {from} is behind version {last}"); }
        await Owners.AwaitCertainAsync(last, _ending.Token).ConfigureAwait(false);
        _instants.RequireKnown(new(from));
        // What it had before it had slots is no matter.
        VersionNumber begin = Owners.HadAnyFrom(new(from)) is { } had && had <= last ? had
            : throw new PastException($"this shard had no slots from version {from} to version {last}", PastProblem.NotKept);
        Boundary end = _instants.HoldDetail(last), first = _instants.HoldDetail(begin);
        if (first.Version > end.Version) { throw new PastException($"version {first.Version} is behind version {end.Version}"); }
        if (_log.HasGap(first.Offset, end.Offset))
        {
            throw new PastException($"between versions {first.Version} and {end.Version} the log of this shard has a gap");
        }
        if (!Owners.HadAny(last)) { end = end with { Version = last }; }
        _rolling = await BeginAsync(server, SourcesOf(first, end, new(from)), end, rules).ConfigureAwait(false) with { OwnOf = new(from) };
        Touch();
        return RespText.Bulk(Encoding.ASCII.GetBytes(_rolling.Name));
    });

    /// <summary>What a command would have read that may read any key. All data at the version is loaded, if it is not there yet.</summary>
    /// <param name="read">The command.</param>
    /// <param name="version">The version at whose end it reads: a committed one.</param>
    public Task<byte[]> ReadAsync(PastRead read, VersionNumber version) => InTurnAsync(async () =>
    {
        RedisSupervisorOptions server = _server ?? throw PastAnswer.NoServer();
        (IReadOnlyList<string> rules, string? why) = await RulesAsync(read.User, ReadRights.OfAllData, read.Words)
            .ConfigureAwait(false);
        if (why is not null) { return PastAnswer.Error(why); }
        if (_rolling is not { } rolling || rolling.Of != version)
        {
            if (Rolling.CursorOf(read.Words) > 0) { return ForeignScan(); }
            // What is being loaded for somebody else is not thrown away.
            if (_rolling is { Of: not null, StandsAt: not null }) { await CloseAsync().ConfigureAwait(false); }
            await FreeAsync().ConfigureAwait(false);
            await Owners.AwaitCertainAsync(version, _ending.Token).ConfigureAwait(false);
            if (!Owners.HadAny(version))
            {
                throw new PastException($"this shard had no slots at version {version}: ask the others", PastProblem.NotKept);
            }
            PastPoint point = _instants.HoldExactly(version);
            RollingSources sources = new(_checkpoints.PathOf(point.Base), point.Base.Offset, point.OpenHistory(_log, _checkpoints),
                point.Target, Owners.OwnAt(version));
            // Its name is told to nobody.
            rolling = await BeginAsync(server, sources, point.End, rules).ConfigureAwait(false) with { Of = version };
            _rolling = rolling;
        }
        try
        {
            long since = Environment.TickCount64, endMs = _instants.TimeUsOf(rolling.End.Version) / 1000;
            while (rolling.StandsAt is null && Environment.TickCount64 - since < LoadMax.TotalMilliseconds)
            {
                Touch();
                bool isThere = await rolling.Store.BringAsync(rolling.Sources.End, endMs, BringMax, _ending.Token).ConfigureAwait(false);
                if (isThere) { rolling.StandsAt = version; }
            }
            if (rolling.StandsAt is null)
            {
                long done = rolling.Store.BytesDone, all = rolling.Store.BytesTo(rolling.Sources.End);
                return PastAnswer.Error($"SLOGGER LOADING {done} of {all} bytes of version {version} are there: ask again for this version");
            }
            if (rolling.IsForeign(read.Words)) { return ForeignScan(); }
            byte[] reply = await rolling.Store.RunAsync(read.Database, read.Protocol, rules, read.Words, _ending.Token)
                .ConfigureAwait(false);
            rolling.Note(read.Words, reply);
            Touch();
            return reply;
        }
        catch
        {
            await CloseAsync().ConfigureAwait(false);
            throw;
        }
    });

    /// <inheritdoc />
    public Task<byte[]> ToAsync(string name, long version) => OfAsync(name, async rolling =>
    {
        if (EndAtOrAbove(new(version), rolling) is not { } end)
        {
            return PastAnswer.Error($"ERR SLOGGER version {version} is behind the last that was asked for, which is {rolling.End.Version}");
        }
        if (end.Version < rolling.Aim)
        {
            return PastAnswer.Error($"ERR SLOGGER it was brought to version {rolling.Aim}, and goes forward only");
        }
        (rolling.Aim, rolling.StandsAt) = (end.Version, null);
        long endUs = _instants.TimeUsOf(end.Version);
        bool isThere = await BringAsync(rolling, end).ConfigureAwait(false);
        if (isThere) { rolling.StandsAt = end.Version; }
        long all = rolling.Store.BytesTo(end.Offset);
        return RespText.Integers(isThere ? 1 : 0, end.Version.Number, endUs, isThere ? NextOf(rolling) : 0,
            isThere ? all : Math.Min(all, rolling.Store.BytesDone), all);
    });

    /// <inheritdoc />
    public Task<byte[]> EvalAsync(string name, int database, int protocol, byte[] script, IReadOnlyList<byte[]> arguments) =>
        OfAsync(name, async rolling => rolling.StandsAt is not { } version
            ? PastAnswer.Error($"ERR SLOGGER it stands nowhere yet: bring it to a version ({RollCommand.Name} TO)")
            // Of a shard without slots nothing is asked.
            : !Owners.HadAny(version) ? [.. "$-1\r\n"u8] : await rolling.Store.RunAsync(database, protocol, rolling.Rules,
                ["EVAL_RO"u8.ToArray(), script, "0"u8.ToArray(), .. arguments], _ending.Token).ConfigureAwait(false));

    /// <inheritdoc />
    public Task<byte[]> CommandsAsync(string name) => OfAsync(name, rolling =>
        Task.FromResult(PastReplies.Commands(rolling.Store.LeftOut, rolling.Store.Told)));

    /// <inheritdoc />
    public Task<byte[]> OpenAsync(string name) => OfAsync(name, async rolling =>
    {
        string server = await rolling.Store.OpenToReadersAsync(_ending.Token).ConfigureAwait(false);
        var reply = new List<byte>();
        RespText.AppendHeader(reply, '*', 2);
        foreach (string text in (string[])[rolling.Server.SocketPath, server]) { RespText.AppendBulk(reply, Encoding.UTF8.GetBytes(text)); }
        return [.. reply];
    });

    /// <inheritdoc />
    public Task<byte[]> EndAsync(string name) => InTurnAsync(async () =>
    {
        if (_rolling?.Name == name) { await CloseAsync().ConfigureAwait(false); }
        return "+OK\r\n"u8.ToArray();
    });

    /// <summary>Ends what nobody has asked for a while, and at the first call what a process before has left behind. The control task; it
    /// waits for nothing.</summary>
    public void Keep()
    {
        bool isDue = !_isCleared || (_rolling is not null && IsSilent);
        if (isDue && _turn.Wait(0)) { _ = Task.Run(KeepAsync); }
    }

    /// <summary>Ends all of it.</summary>
    public async Task StopAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        await _turn.WaitAsync().ConfigureAwait(false);
        await CloseAsync().ConfigureAwait(false);
        _turn.Release();
    }

    private async Task KeepAsync()
    {
        try
        {
            if (_rolling is not null && IsSilent) { await CloseAsync().ConfigureAwait(false); }
            await ClearAsync().ConfigureAwait(false);
        }
        catch (Exception e) when (PastAnswer.WhyOf(e) is not null)
        {
            // It is tried again.
        }
        finally
        {
            _turn.Release();
        }
    }

    private Task<byte[]> InTurnAsync(Func<Task<byte[]>> answer) => PastAnswer.OfAsync(async () =>
    {
        await _turn.WaitAsync(_ending.Token).ConfigureAwait(false);
        try
        {
            return await answer().ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    });

    // What is silent is ended.
    private async Task FreeAsync()
    {
        if (_rolling is not null && !IsSilent)
        {
            throw new PastException("somebody looks through the whole past of this shard already, and there is memory for one only: try "
                + "again later");
        }
        await CloseAsync().ConfigureAwait(false);
        await ClearAsync().ConfigureAwait(false);
    }

    // Which commands a user may run, if it may run some; else why not.
    private async Task<(IReadOnlyList<string> Rules, string? Refusal)> RulesAsync(string user,
        params IEnumerable<IReadOnlyList<byte[]>> needed)
    {
        await using ReadRights rights = await ReadRights.OpenAsync(Live(), _ending.Token).ConfigureAwait(false);
        foreach (IReadOnlyList<byte[]> words in needed)
        {
            if (await rights.RefusalAsync(user, words, _ending.Token).ConfigureAwait(false) is { } why) { return ([], why); }
        }
        return (await rights.CommandRulesAsync(user, _ending.Token).ConfigureAwait(false), null);
    }

    private static byte[] ForeignScan() =>
        PastAnswer.Error("ERR SLOGGER this scan was begun in another copy of the data, which has ended: begin it anew");

    private void Touch() => Volatile.Write(ref _lastUsed, Environment.TickCount64);

    private Task<byte[]> OfAsync(string name, Func<Rolling, Task<byte[]>> answer) => InTurnAsync(async () =>
    {
        if (_rolling is not { } rolling || rolling.Name != name)
        {
            throw new PastException("nothing of that name goes through the past: it was given up, or nobody asked for a minute");
        }
        try
        {
            byte[] reply = await answer(rolling).ConfigureAwait(false);
            // Nobody else's question keeps it.
            Touch();
            return reply;
        }
        catch
        {
            // What it has is not known any more.
            await CloseAsync().ConfigureAwait(false);
            throw;
        }
    });

    private async Task<Rolling> BeginAsync(RedisSupervisorOptions how, RollingSources sources, Boundary end, IReadOnlyList<string> rules)
    {
        var server = new RedisSupervisor(how);
        try
        {
            if (await server.StartOrAdoptAsync(_ending.Token).ConfigureAwait(false) is SupervisedStart.Failed failed)
            {
                throw new PastException($"the redis-server that shows the past does not start: {failed.Message}");
            }
            // Clients come first.
            server.LowerPriority();
            RollingStore store = await RollingStore.OpenAsync(server.Endpoint, sources, _ending.Token).ConfigureAwait(false);
            return new(Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(16)), server, store, end, rules) { Sources = sources };
        }
        catch
        {
            (sources.History as IDisposable)?.Dispose();
            await EndServerAsync(server).ConfigureAwait(false);
            throw;
        }
    }

    // From the checkpoint below the first end, with the keys that this shard had at a version.
    private RollingSources SourcesOf(Boundary first, Boundary end, VersionNumber own)
    {
        Checkpoint checkpoint = _instants.Hold(first.Version).Base;
        return new(_checkpoints.PathOf(checkpoint), checkpoint.Offset, new LogHistory(_log), end.Offset, Owners.OwnAt(own));
    }

    // Through the versions in which this shard got slots, or lost some. Where it gets some it begins anew: what it has of them came before,
    // and was not its own yet.
    private async Task<bool> BringAsync(Rolling rolling, Boundary end)
    {
        while (Owners.NextLanding(rolling.OwnOf) is { } landing && landing <= end.Version)
        {
            Boundary there = _log.BoundaryAtOrBelow(landing) is { } exact && exact.Version == landing ? exact
                : _log.BoundariesFrom(landing).Append(end).First();
            if (!await BringToAsync(there).ConfigureAwait(false)) { return false; }
            if (Owners.GetsSome(landing))
            {
                RollingSources sources = SourcesOf(_instants.HoldDetail(landing), rolling.End, landing);
                (rolling.Sources.History as IDisposable)?.Dispose();
                rolling.Sources = sources;
                await rolling.Store.BeginAnewAsync(sources, _ending.Token).ConfigureAwait(false);
            }
            else if (Owners.OwnAt(landing) is { } own) { await rolling.Store.LeaveOutAsync(own, _ending.Token).ConfigureAwait(false); }
            rolling.OwnOf = landing;
        }
        return await BringToAsync(end).ConfigureAwait(false);

        Task<bool> BringToAsync(Boundary to) =>
            rolling.Store.BringAsync(to.Offset, _instants.TimeUsOf(to.Version) / 1000, BringMax, _ending.Token);
    }

    // The first end of a version, at or above one, that was closed by itself; null: it is behind the last.
    private Boundary? EndAtOrAbove(VersionNumber version, Rolling rolling)
    {
        Boundary last = rolling.End;
        if (version >= last.Version) { return version == last.Version ? last : null; }
        // Of nothing each version has the same.
        if (!Owners.HadAny(version))
        {
            return last with
            {
                Version = version, Offset = Math.Max(_log.BoundaryAtOrBelow(version)?.Offset ?? 0, rolling.Store.Offset),
            };
        }
        // Each of a run of empty versions is.
        if (_log.BoundaryAtOrBelow(version) is { } exact && exact.Version == version) { return exact; }
        return _log.BoundariesFrom(version).TakeWhile(end => end.Version < last.Version).Append(last).First();
    }

    // The first version behind it at whose end something may differ from here, by a command, an expiry or a move; 0: there is none.
    private long NextOf(Rolling rolling)
    {
        long next = NextChangeOf(rolling);
        return Owners.NextLanding(rolling.Aim) is { } landing && landing <= rolling.End.Version && (next == 0 || landing.Number < next)
            ? landing.Number : next;
    }

    private long NextChangeOf(Rolling rolling)
    {
        long? offset = rolling.Store.FindNext(_ending.Token), expiryMs = rolling.Store.NextExpiryMs;
        if (offset is null && expiryMs is null) { return 0; }
        (VersionNumber before, long beforeOffset) = (rolling.Aim, rolling.Store.Offset);
        foreach (Boundary end in _log.BoundariesFrom(before.Next).TakeWhile(e => e.Version < rolling.End.Version).Append(rolling.End))
        {
            if (HasExpired(end.Version))
            {
                return end.Offset > beforeOffset ? end.Version.Number : FirstExpired(before.Number + 1, end.Version.Number);
            }
            if (end.Offset >= offset) { return end.Version.Number; }
            (before, beforeOffset) = (end.Version, end.Offset);
        }
        return 0;

        bool HasExpired(VersionNumber version) => _instants.TimeUsOf(version) / 1000 >= expiryMs;

        // Of a run of empty versions.
        long FirstExpired(long least, long most)
        {
            while (least < most)
            {
                long middle = least + ((most - least) / 2);
                if (HasExpired(new(middle))) { most = middle; } else { least = middle + 1; }
            }
            return least;
        }
    }

    private async Task ClearAsync()
    {
        if (_isCleared) { return; }
        if (_server is not null) { await ScratchServer.EndLeftAsync(_server, _ending.Token).ConfigureAwait(false); }
        _isCleared = true;
    }

    private async Task CloseAsync()
    {
        if (_rolling is not { } rolling) { return; }
        _rolling = null;
        await rolling.Store.DisposeAsync().ConfigureAwait(false);
        (rolling.Sources.History as IDisposable)?.Dispose();
        await EndServerAsync(rolling.Server).ConfigureAwait(false);
    }

    private async Task EndServerAsync(RedisSupervisor server)
    {
        await using (server) { await ScratchServer.EndAsync(server, _server!).ConfigureAwait(false); }
    }

    private sealed record Rolling(string Name, RedisSupervisor Server, RollingStore Store, Boundary End, IReadOnlyList<string> Rules)
    {
        public required RollingSources Sources { get; set; }

        /// <summary>The version of which the slots are whose keys it has.</summary>
        public VersionNumber OwnOf { get; set; }

        // That this server has handed out: another one keeps its keys in another order.
        private readonly HashSet<ulong> _cursors = [];

        /// <summary>The version at which it stays, for commands that may read any key; null: it goes on.</summary>
        public VersionNumber? Of { get; init; }

        /// <summary>Whether a command is a SCAN that was begun elsewhere.</summary>
        public bool IsForeign(IReadOnlyList<byte[]> words) =>
            CursorOf(words) is { } cursor && cursor != 0 && !_cursors.Contains(cursor);

        /// <summary>Notes what a SCAN has replied.</summary>
        public void Note(IReadOnlyList<byte[]> words, ReadOnlySpan<byte> reply)
        {
            // *2, then the cursor as a bulk string.
            const string Head = "*2\r\n$";
            if (CursorOf(words) is null || !reply.StartsWith(Encoding.ASCII.GetBytes(Head))) { return; }
            ReadOnlySpan<byte> cursor = reply[(Head.Length + reply[Head.Length..].IndexOf((byte)'\n') + 1)..];
            if (Utf8Parser.TryParse(cursor, out ulong next, out _)) { _cursors.Add(next); }
        }

        /// <summary>The cursor of a SCAN; null: it is none.</summary>
        public static ulong? CursorOf(IReadOnlyList<byte[]> words) =>
            words.Count > 1 && Ascii.EqualsIgnoreCase(words[0], "SCAN") && Utf8Parser.TryParse(words[1], out ulong cursor, out int used)
            && used == words[1].Length ? cursor : null;

        /// <summary>The version to which it was brought last, or not yet wholly.</summary>
        public VersionNumber Aim { get; set; } = VersionNumber.Zero;

        /// <summary>The version at whose end it stands; null: it is on its way.</summary>
        public VersionNumber? StandsAt { get; set; }
    }
}

// Reads the past of a shard with a version log. An instant is the end of a version that is committed; the checkpoint below it and the log
// up to it have all values, and a redis-server beside the shard's own (the lens) shows those of the keys that are asked for. The live store
// is asked for nothing but who may read what.
//
// Nothing is made ready before somebody asks. What the last question needed is kept for a minute: the lens with its keys, the index of the
// checkpoint, and that of the commands on top of it.
using System.Runtime.CompilerServices;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;

namespace Slogger.Proxy.Past;

/// <summary>Reads the past. Any thread; one question after the other.</summary>
internal sealed class ShardPast : IPastReads
{
    /// <summary>How many keys are taken out of the past at once.</summary>
    private const int KeysAtOnce = 10_000;

    // Of an incremental snapshot.
    private const int TouchedMax = 5_000_000;

    private readonly VersionLog _log;
    private readonly PastInstants _instants;
    private readonly ShardSnapshots _snapshots;
    private readonly ShardRoll _roll;
    private readonly PastScan _scan;
    private readonly PastLens _lens;
    private readonly SemaphoreSlim _turn = new(1, 1);
    private readonly CancellationTokenSource _ending = new();
    private Task _keeping = Task.CompletedTask;

    /// <summary>Opens nothing yet.</summary>
    /// <param name="options">The process's options.</param>
    /// <param name="log">The log.</param>
    /// <param name="checkpoints">Its checkpoints.</param>
    /// <param name="instants">Its instants.</param>
    /// <param name="keys">The indexes of its segments; null: there are none.</param>
    public ShardPast(ServeOptions options, VersionLog log, CheckpointStore checkpoints, PastInstants instants, KeyIndexes? keys)
    {
        (_log, _instants) = (log, instants);
        _scan = new(log, keys, instants.HoldFrom);
        Touched = new(log, checkpoints, instants, _scan);
        _lens = new(options, log, checkpoints, instants, keys) { Live = () => Live!() };
        _snapshots = new(options, log, checkpoints, instants) { Live = () => Live!(), Past = this };
        _roll = new(options, log, checkpoints, instants) { Live = () => Live!() };
    }

    /// <summary>The live store, which knows who may read what; null: it has no users, and all may.</summary>
    public required Func<RedisEndpoint?> Live { get; init; }

    /// <summary>The world-line of a version.</summary>
    public required Func<VersionNumber, WorldLine> LineOf { get; init; }

    /// <summary>Whether what a recovery took back is in the log. Default: yes.</summary>
    public bool HasLost { get; init; } = true;

    /// <summary>Its instants.</summary>
    public PastInstants Instants => _instants;

    /// <summary>Which keys may differ between two of them.</summary>
    public TouchedKeys Touched { get; }

    /// <summary>Whether there is a program to show the past with.</summary>
    public bool HasServer => _lens.HasServer;

    /// <summary>The offset from which snapshots, and what rolls, need the log; <see cref="long.MaxValue"/>: there is none.</summary>
    public long HeldFrom => Math.Min(_snapshots.HeldFrom, _roll.HeldFrom);

    /// <inheritdoc />
    public IPastSnapshots Snapshots => _snapshots;

    /// <inheritdoc />
    public required IPastReset Reset { get; init; }

    /// <inheritdoc />
    public IPastRoll Roll => _roll;

    /// <inheritdoc />
    public Task<byte[]> FindAsync(Instant at) => PastAnswer.OfAsync(async () =>
    {
        VersionNumber version = await _instants.CommittedAsync(at, _ending.Token).ConfigureAwait(false);
        _instants.RequireKnown(version);
        if (!_instants.Owners.HadAny(version))
        {
            // It has nothing to show of it, whatever others have.
            return RespText.Integers(LineOf(version).Number, version.Number, _instants.TimeUsOf(version));
        }
        Boundary end = _instants.Hold(version).End;
        return RespText.Integers(end.WorldLine.Number, end.Version.Number, _instants.TimeUsOf(end.Version));
    });

    /// <inheritdoc />
    public Task<byte[]> ReadAsync(PastRead read) => PastAnswer.OfAsync(async () =>
    {
        _lens.RequireServer();
        VersionNumber version = await _instants.CommittedAsync(read.At, _ending.Token).ConfigureAwait(false);
        _instants.RequireKnown(version);
        byte[]? key = read.Keys.FirstOrDefault();
        if (key is not null && _instants.Owners.Elsewhere(key, version) is { } elsewhere) { return PastAnswer.Error(elsewhere); }
        // A time is that of the last version at or before it that is kept.
        if (read.At.By != InstantBy.Version)
        {
            VersionNumber wanted = version;
            version = _instants.Hold(wanted).End.Version;
            if (version != wanted && key is not null && _instants.Owners.Elsewhere(key, version) is not null)
            {
                throw new PastException($"of version {wanted} this shard has the state of {version}, when it did not have the key yet: ask "
                    + $"for version {version}", PastProblem.NotKept);
            }
        }
        else if (key is not null && !_instants.Owners.Has(key) && _instants.Hold(version).End.Version != version)
        {
            // Who asks has made sure of it at those only that have slots now.
            throw new PastException($"this shard, which had the key then, has not closed version {version} by itself: ask for "
                + $"version {_instants.Hold(version).End.Version}, which it has", PastProblem.NotClosed);
        }
        if (read.IsOfAnyKey) { return await _roll.ReadAsync(read, version).ConfigureAwait(false); }
        await _turn.WaitAsync(_ending.Token).ConfigureAwait(false);
        try
        {
            // As the live store would answer the same command.
            ReadRights rights = await _lens.RightsAsync(_ending.Token).ConfigureAwait(false);
            Task<string?> asking = rights.RefusalAsync(read.User, read.Words, _ending.Token);
            // Who may not read it makes nobody run a script, or make the past ready.
            bool isReady = !read.IsScript && _lens.IsReady;
            if (!isReady && await asking.ConfigureAwait(false) is { } refusal) { return PastAnswer.Error(refusal); }
            // Else both are asked at once: each takes a round trip.
            Task<byte[]> reading = LookAsync(read, version, rights);
            try
            {
                if (await asking.ConfigureAwait(false) is { } why) { return PastAnswer.Error(why); }
            }
            finally
            {
                await ((Task)reading).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            }
            return await reading.ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    });

    private async Task<byte[]> LookAsync(PastRead read, VersionNumber version, ReadRights rights)
    {
        (Lens lens, PastState state) = await _lens.AtAsync(version, _ending.Token).ConfigureAwait(false);
        IReadOnlyList<string>? scriptRules = null;
        if (read.IsScript)
        {
            // What it may run does not say by which right it may have the keys.
            StoreKey[] keys = [.. read.Keys.Select(k => new StoreKey(read.Database, k))];
            if ((await rights.UnreadableAsync(read.User, keys, _ending.Token).ConfigureAwait(false)).Count > 0)
            {
                return PastAnswer.Error($"NOPERM a script of the past needs the right to DUMP its keys, and {read.User} may not");
            }
            scriptRules = await rights.CommandRulesAsync(read.User, _ending.Token).ConfigureAwait(false);
        }
        return await lens.ReadAsync(state, read.Database, read.Protocol, read.Words, read.Keys, scriptRules, _ending.Token)
            .ConfigureAwait(false);
    }

    /// <inheritdoc />
    public Task<byte[]> OwnersAsync(long from, long to) => PastAnswer.OfAsync(async () =>
    {
        VersionNumber last = await _instants.CommittedAsync(new(InstantBy.Version, to), _ending.Token).ConfigureAwait(false);
        _instants.RequireKnown(new(from));
        return PastReplies.Owners(await _instants.Owners.InAsync(new(from), last, _ending.Token).ConfigureAwait(false));
    });

    /// <inheritdoc />
    public Task<byte[]> HistoryAsync(PastHistory asked) => InTurnAsync(asked.To, async last =>
    {
        // Whoever had the key behind the version before has done what is in this one.
        if (_instants.Owners.Elsewhere(asked.Key, last.Previous) is { } elsewhere) { return PastAnswer.Error(elsewhere); }
        ReadRights rights = await _lens.RightsAsync(_ending.Token).ConfigureAwait(false);
        PastMove? brought = _instants.Owners.BroughtBefore(asked.Key, last);
        Boundary beginning = _instants.Beginning();
        bool isWhole = brought is null || asked.From >= brought.Landed.Number
            || (asked.From is null && beginning.Version >= brought.Landed);
        Boundary first = isWhole ? FirstOf(asked.From, beginning) : _instants.HoldDetail(brought!.Landed);
        Boundary end = _instants.HoldLast(last, _instants.Owners.Elsewhere(asked.Key, last) is not null);
        RequireWhole(first, end);
        return await _scan.HistoryAsync(asked, rights, first, end, isWhole ? VersionNumber.Zero : brought!.Landed,
            b => _instants.TimeUsOf(b.Version), _ending.Token).ConfigureAwait(false);
    });

    /// <inheritdoc />
    public Task<byte[]> ChangedAsync(PastChanges asked) => InTurnAsync(asked.To, async last =>
    {
        ReadRights rights = await _lens.RightsAsync(_ending.Token).ConfigureAwait(false);
        if (asked.From > last.Number) { throw new PastException($"version {asked.From} is behind version {last}"); }
        _instants.RequireKnown(new(asked.From));
        // What it did before it had slots was not for clients.
        if (_instants.Owners.HadAnyFrom(new(asked.From)) is not { } from || from > last) { return PastReplies.Changed(new(asked.To), []); }
        Boundary end = _instants.HoldDetail(last), first = FirstOf(from.Number, _instants.Beginning());
        RequireWhole(first, end);
        return await _scan.ChangedAsync(asked, rights, first, end, _instants.Owners.OwnFrom(first.Version), _ending.Token)
            .ConfigureAwait(false);
    });

    /// <inheritdoc />
    public Task<byte[]> LostAsync(PastLost asked) => PastAnswer.OfAsync(async () =>
    {
        if (!HasLost) { throw new PastException("what a recovery took back is not kept of an embedded store", PastProblem.NotKept); }
        await _turn.WaitAsync(_ending.Token).ConfigureAwait(false);
        try
        {
            ReadRights rights = await _lens.RightsAsync(_ending.Token).ConfigureAwait(false);
            if (await rights.RefusalAsync(asked.User, ReadRights.OfAllData, _ending.Token).ConfigureAwait(false) is { } why)
            {
                return PastAnswer.Error(why);
            }
            var line = new WorldLine(asked.WorldLine);
            if (line > _log.WorldLine) { throw new PastException($"world-line {line} has not begun: this is {_log.WorldLine}"); }
            LostStretch lost = _log.Lost(line) ?? throw new PastException(
                $"what world-line {line} took back is not kept: it is the first, or that part of the log was deleted since, or "
                + "this shard was not there yet",
                PastProblem.NotKept);
            return LostEffects.Read(lost, asked, _instants.TimeUsOf, _ending.Token);
        }
        finally
        {
            _turn.Release();
        }
    });

    /// <summary>Asks another shard which keys clients have changed there behind a version, of those that this one had at the end of a
    /// second one.</summary>
    public Func<ShardId, VersionNumber, VersionNumber, CancellationToken, IAsyncEnumerable<StoreKey>>? TouchedElsewhere { get; init; }

    /// <summary>Which keys may differ between two ends of versions, of those that this shard had at the end of a third: whoever had them
    /// before, or has them since.</summary>
    /// <param name="first">The first end, or only its version, if this shard had no slots then.</param>
    /// <param name="last">The second.</param>
    /// <param name="at">The third.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="PastException">They cannot be told; the text says why.</exception>
    public async Task<IReadOnlySet<StoreKey>> TouchedAsync(Boundary first, Boundary last, VersionNumber at, CancellationToken stop)
    {
        PastOwners owners = _instants.Owners;
        var keys = new HashSet<StoreKey>();
        void Add(in StoreKey key)
        {
            keys.Add(key);
            if (keys.Count > TouchedMax) { throw new PastException($"more than {TouchedMax} keys may differ"); }
        }
        if (owners.OwnAt(first.Version) is null)
        {
            foreach (StoreKey key in Touched.Between(first, last, stop)) { Add(key); }
            return keys;
        }
        foreach (StoreKey key in Touched.For(owners.Shard, at, first.Version, last, stop, isOfAll: true)) { Add(key); }
        foreach (ShardId other in owners.TookPartBehind(first.Version))
        {
            await foreach (StoreKey key in TouchedElsewhere!(other, first.Version, at, stop).ConfigureAwait(false)) { Add(key); }
        }
        return keys;
    }

    /// <summary>Takes keys out as they were at the end of a version.</summary>
    /// <exception cref="PastException">That is not possible; the text says why.</exception>
    public async Task<IReadOnlyList<DumpedKey>> DumpAsync(VersionNumber version, IReadOnlyCollection<StoreKey> keys, CancellationToken stop)
    {
        _lens.RequireServer();
        _instants.HoldDetail(version);
        await _turn.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            (Lens lens, PastState state) = await _lens.AtAsync(version, _ending.Token).ConfigureAwait(false);
            return await lens.DumpAsync(state, keys, stop).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    }

    /// <summary>The same of however many keys, some at a time: as many as are not too much at once.</summary>
    public async IAsyncEnumerable<IReadOnlyList<DumpedKey>> DumpAllAsync(VersionNumber version, IEnumerable<StoreKey> keys,
        [EnumeratorCancellation] CancellationToken stop)
    {
        int most = KeysAtOnce;
        foreach (StoreKey[] some in keys.Chunk(KeysAtOnce))
        {
            for (int from = 0; from < some.Length;)
            {
                int count = Math.Min(most, some.Length - from);
                IReadOnlyList<DumpedKey> dumped;
                try
                {
                    dumped = await DumpAsync(version, some[from..(from + count)], stop).ConfigureAwait(false);
                }
                catch (PastException) when (count > 1)
                {
                    most = count / 2;
                    continue;
                }
                yield return dumped;
                from += count;
                most = Math.Min(KeysAtOnce, most + (most / 8) + 1);
            }
        }
    }

    /// <summary>Ends what has not been used for a while; at the first call, what a process before has left behind. That is not waited for.
    /// The control task.</summary>
    public void Keep()
    {
        _snapshots.Keep();
        _roll.Keep();
        if (_lens.IsDue && _keeping.IsCompleted) { _keeping = Task.Run(KeepAsync); }
    }

    private async Task KeepAsync()
    {
        await _turn.WaitAsync().ConfigureAwait(false);
        try
        {
            await _lens.KeepAsync().ConfigureAwait(false);
        }
        catch (Exception e) when (e is RedisException or IOException or UnauthorizedAccessException)
        {
            // Whoever asks next finds it, and begins anew.
        }
        finally
        {
            _turn.Release();
        }
    }

    /// <summary>Ends all of it.</summary>
    public async Task EndAsync()
    {
        await _snapshots.StopAsync().ConfigureAwait(false);
        await _roll.StopAsync().ConfigureAwait(false);
        await _ending.CancelAsync().ConfigureAwait(false);
        await _turn.WaitAsync().ConfigureAwait(false);
        await _lens.EndAsync().ConfigureAwait(false);
        _turn.Release();
    }

    // ---- What is read ----

    // Of what was done up to a version; null: now.
    private Task<byte[]> InTurnAsync(long? to, Func<VersionNumber, Task<byte[]>> answer) => PastAnswer.OfAsync(async () =>
    {
        Instant until = to is { } version ? new(InstantBy.Version, version) : new(InstantBy.Ago, 0);
        VersionNumber last = await _instants.CommittedAsync(until, _ending.Token).ConfigureAwait(false);
        _instants.RequireKnown(last);
        await _turn.WaitAsync(_ending.Token).ConfigureAwait(false);
        try
        {
            return await answer(last).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    });

    private Boundary FirstOf(long? behind, Boundary beginning) =>
        behind is { } version && version != beginning.Version.Number ? _instants.HoldDetail(new(version)) : beginning;

    private void RequireWhole(Boundary first, Boundary end)
    {
        if (first.Version > end.Version) { throw new PastException($"version {first.Version} is behind version {end.Version}"); }
        if (_log.HasGap(first.Offset, end.Offset))
        {
            throw new PastException($"between versions {first.Version} and {end.Version} the log of this shard has a gap");
        }
    }
}

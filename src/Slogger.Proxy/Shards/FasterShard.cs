// A shard whose store is FASTER, in this process. A version ends at a command of the engine, at its place on the shared upstream, where in
// mode log the marker is: a checkpoint begins there. The version is durable when that is on disk, and committed when the cut is recorded.
// FasterShard.Commits follows the checkpoints, FasterShard.Recovery opens the store and goes back to an earlier commit.
//
// Threads. Commands run on the front end's loop. One task, the keeper, ends checkpoints, notes what they stand for, deletes old ones and
// removes expired keys. Recoveries belong to the control task, and find the front end closed.
using System.Globalization;
using System.Text;
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commands;
using Slogger.Faster.Commits;
using Slogger.FrontEnd;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Embedded;
using Slogger.Proxy.Past;
using Slogger.Proxy.Peers;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

internal partial class FasterShard : VersionedShard, IKeptStates, IFasterPastHost
{
    /// <summary>How long the end waits for the front end: longer, and the store is left as it is.</summary>
    public TimeSpan FrontEndLimit { get; init; } = TimeSpan.FromSeconds(10);

    private const string NoPast = "the past is opened again: try again, and if it stays closed, the proxy's log says why";
    private const long CommitPollMicroseconds = 1_000, PastPauseMs = 10_000;
    private readonly FasterOptions _fasterOptions;
    private FasterStore? _faster;
    private CommandEngine? _engine;
    private EmbeddedConnector? _connector;
    private byte[]? _commandTable;
    private IReadOnlyList<CommitRecord> _found = [];
    private CommitHistory _history = null!;
    private KeptVersions _kept = null!;
    private StopNote? _stopped;
    private readonly FasterRollbacks _rollbacks;

    // The world-line whose state the store holds.
    private WorldLine _holds;

    // With --retention; null if it could not be opened again. While it follows another, there is another one.
    private volatile FasterPast? _past;
    private volatile FollowedPast? _followedPast;
    private readonly FollowedGrid _followedGrid;
    private readonly Lock _pastLock = new();
    private long _pastNotBeforeMs;
    private bool _hasPastEnded;
    private readonly ShardReset _reset;

    // As of the keeper's last look: the store may have ended when it is asked for.
    private volatile FasterStatistics? _statistics;

    public FasterShard(ServeOptions options, ILogger report)
        : base(options, report, new EmbeddedStore())
    {
        _fasterOptions = OptionsOf(options);
        _followedGrid = new(options.DataDirectory);
        _rollbacks = new(options.Shard, report, exit => Fail(exit));
        _reset = new(this, this, report);
    }

    /// <summary>The store, once it is open.</summary>
    protected FasterStore? Faster => _faster;

    // Also before it is open.
    private IReadOnlyList<CommitRecord> Commits => _faster?.Commits ?? _found;

    /// <summary>What its commits stand for.</summary>
    protected CommitHistory History => _history;

    /// <summary>There are no markers in a stream.</summary>
    public override string MarkerChannel => "";

    public override IStoreConnector Connector => _connector ?? throw new InvalidOperationException("The store is not open.");

    /// <inheritdoc />
    public override IPastReads? Past => Reads;

    /// <inheritdoc />
    public override string? PastProblem => _options.Retention == TimeSpan.Zero ? null : NoPast;

    private ShardPast? Reads => _past?.Reads ?? _followedPast?.Reads;

    internal override string ModeName => "faster";

    internal override string KeptName => "the store";

    internal override TimeSpan StopLimit => TimeSpan.FromSeconds(60);

    internal override string EmptyStoreName => "an empty store";

    // Whoever joins begins with an empty one, and of any other nothing depends on it.
    internal override long KeyCount => 0;

    internal override RedisEndpoint? Endpoint => null;

    internal override ShardOptions MachineOptions => new()
    {
        Shard = _options.Shard,
        Mode = CommitMode.Faster,
        RecordIntervalUs = RecorderOptions.IdleUsDefault,
        StrideMin = _options.FasterStride,
        HasPeers = Seat.HasPeers,
    };

    // It is neither somebody else's nor anywhere else: nobody has to be shut out.
    internal override void OnTaken()
    {
    }

    internal override long? MicrosecondsHeld(ShardMachine machine) =>
        machine.MarkerInFlight || WhyNoCommit() is not null ? CommitPollMicroseconds : null;

    // No marker that would be refused: each takes the open version further on.
    internal override bool MayClose => WhyNoCommit() is null;

    // Who only reads need not wait for a checkpoint, nor the disk for one that holds nothing new.
    internal override bool MayHaveChanged => _faster!.IsChanged;

    internal override MarkerToSend ToSend(in Marker marker)
    {
        _sent = marker;
        if (Versions.Machine is { Mode: ShardMode.Stopping }) { _connector!.IsEnding = true; }
        string line = marker.WorldLine.Number.ToString(CultureInfo.InvariantCulture), next =
            marker.Closed.Next.Number.ToString(CultureInfo.InvariantCulture);
        // Nothing was done in versions between the closed one and the next: to the store they are the next.
        byte[] command = Encoding.ASCII.GetBytes(
            $"*3\r\n$14\r\nSLOGGER.COMMIT\r\n${line.Length}\r\n{line}\r\n${next.Length}\r\n{next}\r\n");
        return new MarkerToSend(command, marker.Next.Number) { Accepts = (byte)'+' };
    }

    // A boundary's checkpoint is on disk already: that was the condition.
    internal override void Append(in ShardEffect effect)
    {
        if (effect.Kind == ShardEffectKind.AppendEmptyRun) { _kept.OnEmptyRun(effect.Boundary); }
    }

    internal override void RequestSync() => WakeKeeper();

    internal override void OnCommitted(WorldPoint point)
    {
        _kept.OnCommitted(point);
        WakeKeeper();
        _past?.Wake();
    }

    internal override HybridTimestamp? OpenKept()
    {
        DeleteVoid();
        ResetJob.Clear(this);
        SystemFileLayer.Instance.CreateDirectory(_fasterOptions.Directory);
        if (IsFollowing) { OpenStream(); }
        try
        {
            _found = FasterStore.CommitsIn(_fasterOptions);
            _history = new CommitHistory(_fasterOptions.Directory, () => Commits);
            _kept = new KeptVersions(this, line => Seat.LastValid(line, Recovery.Lines), Versions.OnDurable);
            _stopped = StopNote.Read(_fasterOptions.Directory);
        }
        catch (Exception e) when (e is InvalidDataException or UnauthorizedAccessException)
        {
            throw new RecoveryRefusedException($"shard {_options.Shard}: the embedded store cannot be used: {e.Message}");
        }
        if (IsFollowing) { return StreamLog.LastBoundary?.Time; }
        OpenPast();
        if (_history.All is not [.., var newest]) { return null; }
        return _stopped is { } note && note.Point.Version == newest.Last ? note.Time : EndOf(newest.Last);
    }

    // ---- The past ----

    private void OpenPast()
    {
        if (_options.Retention == TimeSpan.Zero) { return; }
        try
        {
            _past = OpenHistory();
        }
        catch (Exception e) when (e is LogException and not LogFencedException or IOException or UnauthorizedAccessException)
        {
            throw new RecoveryRefusedException($"shard {_options.Shard}: the past cannot be opened: {e.Message} To go on without what it "
                + $"holds, move {Path.Combine(_options.DataDirectory, FasterPast.Folder)} away.");
        }
    }

    // A process before may have taken over, and not come to this.
    private FasterPast OpenHistory()
    {
        FollowedStream.BecomeHistory(_options.DataDirectory);
        return FasterPast.Open(this, this, _options, _report);
    }

    internal override Task MaintainAsync(CancellationToken stop)
    {
        if (_options.Retention != TimeSpan.Zero) { KeepPast(); }
        return Task.CompletedTask;
    }

    private void KeepPast()
    {
        if (_past is { IsToBeOpened: true } failed)
        {
            Task ended = failed.EndAsync();
            // Its disk may be broken, and the store does not wait for that.
            if (!ended.IsCompleted) { return; }
            if (ended.Exception is { } e)
            {
                _report.Warn($"shard {_options.Shard}: who reads the past could not be ended in order: {e.InnerException?.Message}");
            }
            _past = null;
        }
        if (_past is null) { OpenPastAgain(); }
        _past?.Keep();
        _reset.Keep();
    }

    private void OpenPastAgain()
    {
        if (Environment.TickCount64 < _pastNotBeforeMs) { return; }
        lock (_pastLock)
        {
            if (_hasPastEnded) { return; }
            try
            {
                FasterPast past = OpenHistory();
                past.Start();
                _past = past;
            }
            catch (Exception e) when (e is LogException or IOException or UnauthorizedAccessException)
            {
                _pastNotBeforeMs = Environment.TickCount64 + PastPauseMs;
                _report.Warn($"shard {_options.Shard}: the past cannot be opened again, and that is tried later: {e.Message}");
            }
        }
    }

    // Nothing of it looks at the store any more.
    private async Task EndPastAsync()
    {
        lock (_pastLock) { _hasPastEnded = true; }
        if (_past is { } past) { await past.EndAsync().ConfigureAwait(false); }
    }

    IPastReset IFasterPastHost.Reset => _reset;

    FasterStore? IFasterPastHost.Store => Versions.IsAttached ? _faster : null;

    CommitHistory IFasterPastHost.States => _history;

    VersionGrid IFasterPastHost.Grid => _followedGrid.JoinedWith(Seat.Grid);

    VersionNumber IFasterPastHost.LastValid(WorldLine line) => Seat.LastValid(line, Recovery.Lines);

    HybridTimestamp IFasterPastHost.EndOf(VersionNumber version) => EndOf(version);

    // A version is closed when the clock has passed its end.
    private HybridTimestamp EndOf(VersionNumber version) => HybridTimestamp.Of(Seat.Grid.StartOf(version.Next), 0);

    internal override Task<byte[]> CommandsAsync(CancellationToken stop) => Task.FromResult(_commandTable!);

    // On the loop's thread, where all connections are. One who sends waits for it, as for a Redis.
    internal override Task DeliverAsync(PeerChannel peer, CancellationToken stop) => PeerMessages.DeliverAsync(
        peer,
        entries =>
        {
            var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            Access.Post(() =>
            {
                try
                {
                    for (int i = 0; i < entries.Count; i += 2) { _engine?.PublishHere(entries[i], entries[i + 1]); }
                    done.SetResult();
                }
                catch (Exception e) when (e is IOException or InvalidOperationException or ObjectDisposedException)
                {
                    // The store is being closed: the peer learns it by its connection.
                    done.SetException(e);
                }
            });
            return done.Task.WaitAsync(stop);
        },
        stop);

    private static unsafe byte[] CommandTable(CommandEngine engine)
    {
        using CommandConnection connection = engine.Connect();
        using var replies = new ReplyBuffer();
        ReadOnlySpan<byte> request = "*1\r\n$7\r\nCOMMAND\r\n"u8;
        fixed (byte* start = request) { connection.Execute(start, request.Length, replies); }
        return new ReadOnlySpan<byte>(replies.Start, (int)replies.Count).ToArray();
    }

    private static FasterOptions OptionsOf(ServeOptions options) => new()
    {
        Directory = Path.Combine(options.DataDirectory, DataDirectory.FasterDirectory),
        MemoryBytes = options.FasterMemoryBytes,
        IndexBytes = options.FasterIndexBytes,
        PageBits = System.Numerics.BitOperations.Log2((ulong)options.FasterPageBytes),
        SegmentBits = Math.Max(26, System.Numerics.BitOperations.Log2((ulong)options.FasterPageBytes)),
    };

    // ---- Status: in DPR.INFO and `slogger status`, and in INFO and CONFIG GET, where Redis's clients look ----

    internal override IEnumerable<(string Name, long Value)> KeptStatus()
    {
        long stride;
        lock (Versions.Lock) { stride = Versions.Machine?.Stride ?? _options.FasterStride; }
        yield return ("stride", stride);
        if (_statistics is { } state)
        {
            yield return ("keys", _engine!.KeyCount);
            yield return ("memory_bytes", state.LogBytes);
            yield return ("memory_live_bytes", state.LiveBytes);
            yield return ("memory_limit_bytes", state.LogBytesMax);
            yield return ("disk_bytes", state.DiskBytes);
            yield return ("commits_kept", state.Commits);
            yield return ("commit_last_ms", (long)state.LastCommit.TotalMilliseconds);
            yield return ("undone_bytes", state.UndoneBytes);
        }
        yield return ("commits_failed", _pacing.Failed);
        foreach ((string, long) line in (_past?.Status() ?? _followedPast?.Status() ?? []).Concat(_rollbacks.Status)) { yield return line; }
    }

    private EngineOptions EngineOptionsOf(FasterStore store) => new()
    {
        IsOutOfMemory = () => store.IsOutOfMemory,
        InfoFields = section => section == "memory" && _statistics is { } state
            ? [Field("used_memory", state.LogBytes), Field("used_memory_dataset", state.LiveBytes), Field("maxmemory", state.LogBytesMax)]
            : [],
        Settings = () => _statistics is { } state ? [Field("maxmemory", state.LogBytesMax)] : [],
    };

    private static KeyValuePair<string, string> Field(string name, long value) => new(name, value.ToString(CultureInfo.InvariantCulture));

    public override void Dispose()
    {
        base.Dispose();
        _work.Dispose();
    }
}

// A real shard over a store of the tests: a list of numbers, with a stream of what was done to it, as Redis has one. The store is a process
// of its own, that may outlive the shard's. What differs from LogShard is the store: the log, its order and its places are as there.
using System.Buffers.Binary;
using Microsoft.Extensions.Logging;
using Slogger.Core.Cuts;
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Shards;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Tests.Deterministic;

/// <summary>A rule that a test switches off.</summary>
internal enum ScheduleMutation
{
    None,

    /// <summary>What was appended is said to be durable before it is synced.</summary>
    ClaimBeforeSync,

    /// <summary>The disk forgets what it was told to sync.</summary>
    SyncForgets,

    /// <summary>A store that has lost something is taken for one that has not.</summary>
    LossOverlooked,

    /// <summary>A marker is counted at what was sent, not at where it is read.</summary>
    MarkerBeforeItsStream,

    /// <summary>Restored is less than up to the branch.</summary>
    RestoresTooLittle,
}

/// <summary>The store.</summary>
internal sealed class JournalStore
{
    private const int NumberBytes = 10;
    private readonly List<(long End, byte[] Record)> _stream = [];

    /// <summary>Names its history; empty: none.</summary>
    public string History { get; private set; } = "";

    /// <summary>What it holds, in order.</summary>
    public List<int> Numbers { get; private set; } = [];

    /// <summary>Where its stream ends.</summary>
    public long Offset { get; private set; }

    public void Add(int number)
    {
        Numbers.Add(number);
        byte[] record = new byte[NumberBytes];
        (record[0], record[1]) = ((byte)'N', NumberBytes);
        BinaryPrimitives.WriteInt32LittleEndian(record.AsSpan(2), number);
        Stream(record);
    }

    public void AddMarker(ReadOnlySpan<byte> payload)
    {
        byte[] record = new byte[2 + payload.Length];
        (record[0], record[1]) = ((byte)'M', (byte)record.Length);
        payload.CopyTo(record.AsSpan(2));
        Stream(record);
    }

    /// <summary>The record at an offset; null: the stream ends there.</summary>
    public byte[]? RecordAt(long offset) => _stream.Find(r => r.End > offset).Record;

    /// <summary>It is filled anew.</summary>
    public void Load(string history, long offset, List<int> numbers)
    {
        (History, Offset, Numbers) = (history, offset, numbers);
        _stream.Clear();
    }

    /// <summary>What a stretch of its stream leaves, from the beginning.</summary>
    public static List<int> Replay(ReadOnlySpan<byte> stream)
    {
        List<int> numbers = [];
        for (; stream.Length > 0; stream = stream[stream[1]..])
        {
            if (stream[0] == (byte)'N') { numbers.Add(BinaryPrimitives.ReadInt32LittleEndian(stream[2..])); }
        }
        return numbers;
    }

    private void Stream(byte[] record)
    {
        Offset += record.Length;
        _stream.Add((Offset, record));
    }
}

/// <summary>The shard. Schedule's thread: what the front end, the replication link and the syncing thread do.</summary>
internal sealed class JournalShard(ServeOptions options, ILogger report, Schedule world, VersionLogOptions log)
    : VersionedShard(options, report, new Place())
{
    private readonly TaskCompletionSource _caughtUp = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private VersionLog _log = null!;
    private long _readTo = -1;

    private sealed class Place : IStore
    {
        public bool IsSupervised => true;

        public string Name => "the journal";

        public bool HasEnded => false;

        public Task EnsureRunningAsync(CancellationToken stop) => Task.CompletedTask;

        public Task EndAsync(bool isKept) => Task.CompletedTask;
    }

    /// <summary>Whether clients can be served.</summary>
    public bool Serves => Versions.IsAttached && Versions.Machine is { MayForward: true };

    /// <summary>The last version that is closed.</summary>
    public Boundary Last
    {
        get
        {
            lock (Versions.Lock) { return Versions.Machine!.LastBoundary; }
        }
    }

    public bool IsSyncWanted { get; private set; }

    public bool HasMoreToRead => _readTo >= 0 && _readTo < world.Store.Offset;

    /// <summary>What the front end sent last, to be executed by the store.</summary>
    public byte[] Sent { get; private set; } = [];

    /// <summary>The process is gone: what of it still runs ends.</summary>
    public void Abandon() => Lifetime.Ending.Cancel();

    /// <summary>The replication link reads a record.</summary>
    public void Read()
    {
        byte[] record = world.Store.RecordAt(_readTo)!;
        _log.Append(record);
        _readTo += record.Length;
        if (record[0] == (byte)'N') { Versions.MarkChanged(); }
        lock (Versions.Lock)
        {
            if (record[0] == (byte)'M' && Marker.TryParse(record.AsSpan(2), out Marker marker))
            {
                Versions.Machine!.MarkerRead(marker, _readTo, 0, Versions.Effects);
            }
            Versions.Machine!.StreamRead(_readTo);
            Versions.Perform();
            if (Versions.Machine.Mode != ShardMode.CatchingUp) { _caughtUp.TrySetResult(); }
        }
    }

    /// <summary>The syncing thread makes durable what was appended.</summary>
    public void Sync()
    {
        IsSyncWanted = false;
        _log.Sync();
        if (_log.DurableBoundary is { } durable) { Versions.OnDurable(durable.Point); }
    }

    /// <summary>Behind each event: what a mutation does.</summary>
    public void Mutate()
    {
        if (world.Mutation == ScheduleMutation.ClaimBeforeSync && IsSyncWanted) { Versions.OnDurable(_log.LastBoundary!.Value.Point); }
    }

    // ---- What is asked of a store ----

    internal override string ModeName => "journal";

    internal override string KeptName => "the version log";

    internal override string EmptyStoreName => "an empty journal";

    internal override IEnumerable<(string Name, long Value)> KeptStatus() => [];

    public override IStoreConnector Connector => throw new NotSupportedException("no front end is run");

    internal override Task<byte[]> CommandsAsync(CancellationToken stop) => throw new NotSupportedException("no front end is run");

    internal override RedisEndpoint? Endpoint => null;

    internal override ShardOptions MachineOptions => new()
    {
        Shard = _options.Shard, RecordIntervalUs = RecorderOptions.IdleUsDefault, SyncIntervalUs = 5_000,
    };

    internal override long? MicrosecondsHeld(ShardMachine machine) => null;

    internal override bool MayClose => true;

    internal override MarkerToSend ToSend(in Marker marker)
    {
        Span<byte> payload = stackalloc byte[Marker.PayloadBytesMax];
        Sent = payload[..marker.Format(payload)].ToArray();
        if (world.Mutation == ScheduleMutation.MarkerBeforeItsStream && _readTo > Versions.Machine!.LastBoundary.Offset)
        {
            Versions.Machine.MarkerAnswered(marker, true, Versions.Effects);
            Versions.Machine.MarkerRead(marker, _readTo, 0, Versions.Effects);
            Versions.Perform();
        }
        return new(Sent, marker.Next.Number);
    }

    public override string MarkerChannel => "";

    internal override void Append(in ShardEffect effect)
    {
        if (effect.Kind == ShardEffectKind.AppendBoundary) { _log.AppendBoundary(effect.Boundary); }
        else { _log.AppendEmptyRun(effect.Boundary.Version, effect.Boundary.Time); }
    }

    internal override void RequestSync()
    {
        IsSyncWanted = true;
    }

    internal override void StartWorkers()
    {
    }

    internal override Task EndWorkersAsync() => Task.CompletedTask;

    private protected override IMetadataStore OpenMetadata() => world.Metadata();

    internal override void OnTaken()
    {
    }

    internal override HybridTimestamp? OpenKept()
    {
        _log = VersionLog.Open(log with { Shard = _options.Shard, Epoch = Seat.Epoch });
        return _log.LastBoundary?.Time;
    }

    internal override Task<bool> IsSameStoreAsync(CancellationToken stop) => Task.FromResult(true);

    internal override Task DetachAsync(CancellationToken stop) => Task.CompletedTask;

    internal override async Task<(StoreSituation Situation, string Text)> LookAsync(
        bool atStart, WorldLine current, CancellationToken stop)
    {
        await Site.LearnAsync(stop).ConfigureAwait(false);
        await world.StepAsync("look").ConfigureAwait(false);
        if (_log.IsEmpty || world.Store.History.Length == 0)
        {
            bool isOverlooked = world.Mutation == ScheduleMutation.LossOverlooked && !_log.IsEmpty;
            return (isOverlooked ? StoreSituation.Continues : StoreSituation.Empty, "");
        }
        bool continues = world.Store.History == _log.ReplicationId && world.Store.Offset >= _log.EndOffset;
        return (continues ? StoreSituation.Continues : StoreSituation.BehindKnownOrigin, "");
    }

    internal override long KeyCount => world.Store.Numbers.Count;

    private Boundary Base => new(_log.FirstWorldLine, _log.FirstVersion.Previous, _log.Origin.Offset, 0, default);

    internal override (Boundary? Last, Boundary? BelowBranch) Proved(WorldLine current)
    {
        if (_log.IsEmpty) { return (null, null); }
        _log.Sync();
        Boundary last = _log.DurableBoundary ?? Base;
        return (last, last.WorldLine < current ? BoundaryOf(Seat.LastValid(last.WorldLine, Recovery.Lines), current) : null);
    }

    internal override void RequireBase(VersionNumber version, WorldLine of)
    {
    }

    internal override Boundary? BoundaryOf(VersionNumber version, WorldLine of) =>
        _log.BoundaryAtOrBelow(version) is { } found ? found.Version == version ? found : null
        : version == Base.Version ? Base : null;

    internal override async Task<bool> ContinueAsync(Boundary last, WorldPoint recorded, CancellationToken stop)
    {
        long storeOffset = world.Store.Offset;
        await world.StepAsync("attach").ConfigureAwait(false);
        _readTo = _log.EndOffset;
        Versions.Run(last, recorded, _readTo, storeOffset);
        lock (Versions.Lock)
        {
            Versions.Machine!.StreamRead(_readTo);
            if (Versions.Machine.Mode != ShardMode.CatchingUp) { _caughtUp.TrySetResult(); }
        }
        await _caughtUp.Task.WaitAsync(stop).ConfigureAwait(false);
        return true;
    }

    internal override async Task<bool> BeginAsync(WorldPoint at, WorldPoint recorded, string what, bool goesOn, CancellationToken stop)
    {
        string history = world.NewHistory();
        _log.Begin(new(history, 0, 0), at.WorldLine, at.Version.Next);
        await world.StepAsync("begin").ConfigureAwait(false);
        world.Store.Load(history, 0, []);
        _readTo = 0;
        Versions.Run(new(at.WorldLine, at.Version, 0, 0, Now()), recorded, isRestarted: true);
        return true;
    }

    internal override async Task<bool> RestoreAsync(WorldLine line, Boundary branch, WorldLine current, CancellationToken stop)
    {
        string history = world.NewHistory();
        Boundary start = branch with { WorldLine = line };
        _log.BeginWorldLine(line, start, history);
        await world.StepAsync("restore").ConfigureAwait(false);
        List<int> numbers = JournalStore.Replay(Prefix(branch.Offset));
        if (world.Mutation == ScheduleMutation.RestoresTooLittle && numbers.Count > 0) { numbers.RemoveAt(numbers.Count - 1); }
        world.Store.Load(history, branch.Offset, numbers);
        await world.StepAsync("restored").ConfigureAwait(false);
        _readTo = branch.Offset;
        Versions.Run(start, start.Point, branch.Offset, branch.Offset);
        return true;
    }

    private byte[] Prefix(long offset)
    {
        byte[] bytes = new byte[offset];
        if (offset == 0) { return bytes; }
        using LogReader reader = _log.OpenReader(0);
        for (int had = 0; had < bytes.Length;)
        {
            int count = reader.Read(bytes.AsSpan(had));
            if (count == 0) { throw new InvalidDataException($"the log ends at {had}, before {offset}"); }
            had += count;
        }
        return bytes;
    }

    internal override Task<bool> BeginWithAsync(Boundary content, WorldPoint at, WorldLine current, string feed, CancellationToken stop) =>
        throw new NotSupportedException("nobody has asked for an older version");

    internal override TimeSpan StopLimit => TimeSpan.FromSeconds(10);
}

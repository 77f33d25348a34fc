// A shard with --commit bgsave: D-Redis as in the DPR paper, section 6. The boundary of a version is the BGSAVE itself, sent
// where in mode log the marker is sent: Redis forks at that place, so the file holds exactly what came before it. The version is
// durable when that file is kept, and committed when the cut is recorded. BgsaveShard.Saving follows the saves: the saving
// task; BgsaveShard.Recovery restores the store from a kept snapshot.
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

internal sealed partial class BgsaveShard(ServeOptions options, ILogger report, IRedisStore store,
    Func<RedisEndpoint, IStoreConnector> connectors)
    : RedisShard(options, report, store, connectors), IKeptStates
{
    private const long NotReadyMicroseconds = 20_000;
    private static readonly byte[] SaveCommand = "*1\r\n$6\r\nbGSAVE\r\n"u8.ToArray();
    private SnapshotStore _snapshots = null!;
    private KeptVersions _kept = null!;

    /// <summary>There are no markers in the stream.</summary>
    public override string MarkerChannel => "";

    internal override string ModeName => "bgsave";

    internal override string KeptName => "the snapshots";

    internal override TimeSpan StopLimit => TimeSpan.FromSeconds(60);

    internal override ShardOptions MachineOptions => new()
    {
        Shard = _options.Shard,
        Mode = CommitMode.Bgsave,
        RecordIntervalUs = RecorderOptions.IdleUsDefault,
    };

    // While a save runs, or would be refused, there is nothing to decide: the saving task ticks.
    internal override long? MicrosecondsHeld(ShardMachine machine) =>
        machine.MarkerInFlight || _ready is null ? NotReadyMicroseconds : null;

    internal override bool MayClose => _ready is not null;

    internal override MarkerToSend ToSend(in Marker marker)
    {
        // What is read of Redis from here on is compared with what was read last before this BGSAVE.
        _sent = new StartedSave(marker, _ready!);
        _ready = null;
        return new MarkerToSend(SaveCommand, marker.Next.Number) { Accepts = (byte)'+' };
    }

    public override void MarkerAnswered(bool counts)
    {
        lock (Versions.Lock)
        {
            base.MarkerAnswered(counts);
            // Not one that was given up meanwhile, since the store was lost.
            if (counts && Versions.Machine is { MarkerInFlight: true }) { _started = _sent; }
        }
        if (!counts) { OnRefused(); }
        WakeSaving();
    }

    public override void MarkerLost()
    {
        base.MarkerLost();
        WakeSaving();
    }

    // A boundary's snapshot is kept already: that was the condition.
    internal override void Append(in ShardEffect effect)
    {
        if (effect.Kind == ShardEffectKind.AppendEmptyRun) { _kept.OnEmptyRun(effect.Boundary); }
    }

    internal override void RequestSync() => WakeSaving();

    internal override void OnCommitted(WorldPoint point)
    {
        _kept.OnCommitted(point);
        WakeSaving();
    }

    internal override HybridTimestamp? OpenKept()
    {
        _snapshots = SnapshotStore.Open(Path.Combine(_options.DataDirectory, "bgsave"));
        _kept = new KeptVersions(this, line => Seat.LastValid(line, Recovery.Lines), Versions.OnDurable);
        _note = StoreNote.Read(_options.DataDirectory);
        return _snapshots.All.MaxBy(s => s.ClosedAt)?.Time;
    }

    internal override IEnumerable<(string Name, long Value)> KeptStatus()
    {
        var kept = _snapshots.All;
        long stride;
        lock (Versions.Lock) { stride = Versions.Machine?.Stride ?? 1; }
        yield return ("stride", stride);
        yield return ("log_bytes", kept.Sum(s => s.Bytes));
        yield return ("checkpoint_last_unix", kept.Count > 0 ? kept[^1].CreatedAt.ToUnixTimeSeconds() : 0);
        yield return ("checkpoint_last_bytes", kept.Count > 0 ? kept[^1].Bytes : 0);
        yield return ("saves_failed", Volatile.Read(ref _savesFailed));
    }

    public override void Dispose()
    {
        base.Dispose();
        _savesWanted.Dispose();
    }
}

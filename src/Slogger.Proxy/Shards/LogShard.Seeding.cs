// Copies of the store for a backup that has to be seeded: taken as a checkpoint is, kept under a name of its own for as long as they are sent, with the log from there on. Which version the
// copy can be brought to first (its floor) is known when that has ended behind it, durably. The control task makes them, when somebody has asked for one.
using Slogger.Core.Shipping;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Shipping;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    private static readonly TimeSpan FloorLimit = TimeSpan.FromSeconds(30);
    private const long CopyPauseUs = 2_000_000;
    private readonly Lock _seedLock = new();
    private SeedCopy? _copy;
    private SeedCopy? _seen;             // by the shipper
    private long _copyWanted = -1;       // the generation; -1: none
    private long _copyBegunAt = long.MaxValue;
    private long _nextCopy;              // not before, after one that failed: each costs Redis a whole dump

    private string SeedDirectory => Path.Combine(_options.DataDirectory, "copies");

    // The log is kept from here on while a copy is made or sent.
    private long SeededFrom
    {
        get
        {
            lock (_seedLock) { return Math.Min(_copy?.Seed.Base.Offset ?? long.MaxValue, _copyBegunAt); }
        }
    }

    SeedCopy? IShipperListener.CopyOf(long generation)
    {
        lock (_seedLock)
        {
            return _seen = _copy is { } copy && copy.Seed.Generation == generation && copy.IsPartOf(_log) ? copy : null;
        }
    }

    void IShipperListener.OnSeedWanted(long generation, string why)
    {
        lock (_seedLock)
        {
            // One that was offered is damaged. Not one that was made since.
            if (_copy is not null && _copy == _seen) { DropCopy(); }
            _copyWanted = generation;
        }
        Wake();
    }

    // What an earlier process was sending is sent on. Where nothing is shipped it would lie there for ever.
    private void FindCopy()
    {
        lock (_seedLock)
        {
            _copy = CopyRecord.Find(SeedDirectory);
            if (!Ships || IsFollowing) { DropCopy(); }
        }
    }

    private async Task MaintainSeedAsync(CancellationToken stop)
    {
        if (_shipper is not { } shipper) { return; }
        ShipperStatus status = shipper.Status;
        long wanted;
        lock (_seedLock)
        {
            bool isDone = _copy is { Seed: var sent } && status.State == ShipperState.Shipping
                && (status.Generation > sent.Generation || (status.Generation == sent.Generation && status.BackedUp >= sent.Base));
            bool isTooOld = _copy is { } old && status.End.Offset - old.Seed.Base.Offset > _options.Site.BackupBudgetBytes;
            if (isTooOld && status.State == ShipperState.AwaitsSeed) { _report.Warn($"shard {_options.Shard}: the copy that the backup is seeded with is given up, since as much of the log as --backup-budget has gathered behind it; another is made. Raise --backup-budget"); }
            if (isDone || isTooOld || (_copy is { } made && (!made.IsPartOf(_log) || (_copyWanted >= 0 && _copyWanted != made.Seed.Generation)))) { DropCopy(); }
            if (isDone) { _copyWanted = -1; }
            wanted = _copy is null ? _copyWanted : -1;
        }
        if (wanted >= 0 && IsOpen && status.State == ShipperState.AwaitsSeed && MonotonicMicroseconds() >= _nextCopy) { await MakeCopyAsync(wanted, stop).ConfigureAwait(false); }
    }

    private void DropCopy()
    {
        if (_copy is null) { return; }
        _copy = null;
        Directory.Delete(SeedDirectory, recursive: true);
    }

    private async Task MakeCopyAsync(long generation, CancellationToken stop)
    {
        await _checkpointing.WaitAsync(stop).ConfigureAwait(false);
        string temporary = _checkpoints.NewTemporaryPath();
        long began = MonotonicMicroseconds();
        bool isMade = false;
        try
        {
            LogIndex before = _log.End;
            StreamHistory history = ShardShipper.HistoryOf(_log);
            lock (_seedLock) { _copyBegunAt = before.Offset; }
            long offset;
            await using (RedisConnection control = await RedisConnection.ConnectAsync(_fence.Endpoint, cancellation: stop).ConfigureAwait(false))
            {
                CheckpointResult result = await QuickAttach.FetchAsync(control, temporary, _attachUndoFile, cancellation: stop).ConfigureAwait(false);
                if (result is CheckpointResult.Failed failed) { _report.Warn($"shard {_options.Shard}: no copy for the backup could be taken: {failed.Message}"); }
                if (result is not CheckpointResult.Fetched fetched || fetched.ReplicationId != _log.ReplicationId) { return; }
                offset = fetched.Offset;
            }
            // On a shard where nothing happens no version would end behind it.
            MarkChanged();
            if (await FloorAsync(before, offset, stop).ConfigureAwait(false) is not var (closed, floor) || history != ShardShipper.HistoryOf(_log)) { return; }
            string id = $"{_options.Shard}-{_seat.Epoch}-{offset}-{Guid.NewGuid():N}";
            Seed seed = new(id, generation, new FileInfo(temporary).Length, history, new(before.WorldLine, offset, closed), new(before.WorldLine, floor)) { Checksum = CheckpointStore.ChecksumOf(temporary) };
            lock (_seedLock)
            {
                DropCopy();
                Directory.CreateDirectory(SeedDirectory);
                string file = CopyRecord.PathOf(SeedDirectory, id);
                File.Move(temporary, file);
                CopyRecord.Write(SeedDirectory, seed);
                _copy = new(seed, file);
            }
            isMade = true;
            _report.Info($"shard {_options.Shard}: a copy of {seed.Bytes} bytes at offset {offset} is ready for the backup, which can be loaded there at version {floor}");
        }
        catch (Exception e) when (e is LogIOException { IsFatal: false } or IOException)
        {
            _report.Warn($"shard {_options.Shard}: no copy for the backup could be kept, and another is made later: {e.Message}");
        }
        finally
        {
            lock (_seedLock) { _copyBegunAt = long.MaxValue; }
            if (!isMade) { _nextCopy = MonotonicMicroseconds() + Math.Max(CopyPauseUs, MonotonicMicroseconds() - began); }
            File.Delete(temporary);
            _checkpointing.Release();
        }
    }

    // The first version that ends at or behind an offset, when that is durable, and the last one that ends before. Null: a world-line has begun, or the store is lost.
    private async Task<(Version Closed, Version Floor)?> FloorAsync(LogIndex before, long offset, CancellationToken stop)
    {
        long limit = MonotonicMicroseconds() + (long)FloorLimit.TotalMicroseconds;
        while (IsOpen && MonotonicMicroseconds() < limit && _log.WorldLine == before.WorldLine)
        {
            if (_log.DurableEnd.Closed > before.Closed && _log.FloorAt(offset, before.Closed) is { } found) { return found; }
            await Task.Delay(5, stop).ConfigureAwait(false);
        }
        return null;
    }
}

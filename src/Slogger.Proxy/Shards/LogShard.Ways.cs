// A backup's process that the log is shipped to: its shipper, what it asks of the shard, and the copy of the store that it is seeded with. A backup with another number of shards has several for one shard of the primary;
// each of them is a backup by itself, with a window, a budget and a lease of its own, and the shard waits for the last of them.
//
// Copies are taken as a checkpoint is, kept under a name of their own for as long as they are sent, with the log from there on. Which version a copy can be brought to first (its floor) is known when that has ended
// behind it, durably. The control task makes them, when somebody has asked for one.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Replication.Links;
using Slogger.Replication.Seeding;
using Slogger.Replication.Sending;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    private static readonly TimeSpan FloorLimit = TimeSpan.FromSeconds(30);
    private const long CopyPauseUs = 2_000_000;

    private sealed class BackupWay(LogShard shard, int number, IShipConnector connector, string copies) : IShipperListener
    {
        private readonly Lock _seedLock = new();
        private SeedCopy? _copy;
        private SeedCopy? _seen;             // by the shipper
        private long _copyWanted = -1;       // the generation; -1: none
        private long _copyBegunAt = long.MaxValue;
        private long _nextCopy;              // not before, after one that failed: each costs Redis a whole dump
        private volatile ShardShipper? _shipper;
        private long _keptFrom = long.MinValue;
        private volatile bool _holdsWrites;

        public string Target => connector.Target;

        /// <summary>Null: the log is not followed just now.</summary>
        public ShardShipper? Shipper => _shipper;

        /// <summary>Clients' writes wait for it.</summary>
        public bool HoldsWrites => _holdsWrites;

        /// <summary>The log is kept for it from here on. Before it has answered, all of it.</summary>
        public long KeptFrom => Math.Min(_shipper is { } shipper ? shipper.KeepFrom ?? long.MaxValue : _keptFrom, SeededFrom);

        // ---- Shipping ----

        public void Begin(Sender self, Func<ShipShape?> shape)
        {
            ReleaseWrites();
            connector.Shape = shape;
            _shipper = new(shard._log, shard._options.Shard, self, shard._options.Site.ToShipper(), connector, this, shard._report);
        }

        public async Task EndAsync()
        {
            if (_shipper is not { } shipper) { return; }
            _keptFrom = shipper.KeepFrom ?? long.MaxValue;
            _shipper = null;
            await shipper.DisposeAsync().ConfigureAwait(false);
        }

        public bool Attach()
        {
            if (_shipper is not { } shipper || !shipper.Attach()) { return false; }
            shard._report.Info($"shard {shard._options.Shard}: the backup at {Target} is wanted");
            return true;
        }

        WorldPoint IShipperListener.RecordedCut => shard.RecordedCut;

        void IShipperListener.HoldWrites(bool isHeld)
        {
            if (!isHeld)
            {
                shard._report.Info($"shard {shard._options.Shard}: the backup has caught up: writes go on");
                ReleaseWrites();
                return;
            }
            _holdsWrites = true;
            shard._report.Warn($"shard {shard._options.Shard}: writes of clients wait, since {OptionText.FormatSize(shard._options.Site.BackupBudgetBytes)} of the log are kept for the backup at {Target} (--backup-budget): "
                + "bring it back, or have it given up by --on-backup-lag detach");
        }

        private void ReleaseWrites()
        {
            if (!_holdsWrites) { return; }
            _holdsWrites = false;
            shard.OnHoldEnded();
        }

        void IShipperListener.OnReplied(ShipReply reply)
        {
            if (shard._right is not { } right) { return; }
            bool hasBegun;
            lock (shard._machineLock) { hasBegun = right.Granted(number, reply.EchoUs, LeaseClock.NowUs); }
            if (hasBegun) { shard.WakeWaiting(); }
        }

        void IShipperListener.OnWatermark(WorldPoint watermark) => shard.OnWatermark(watermark);

        void IShipperListener.OnShippingFailed(Exception e) => shard.OnShippingFailed(e);

        void IShipperListener.OnShippingDeposed(Sender by, bool isSite) => shard.OnShippingDeposed(by, isSite);

        // ---- Seeding ----

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
                return _seen = _copy is { } copy && copy.Seed.Generation == generation && copy.IsPartOf(shard._log) ? copy : null;
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
            shard.Wake();
        }

        // What an earlier process was sending is sent on.
        public void FindCopy()
        {
            lock (_seedLock) { _copy = CopyRecord.Find(copies); }
        }

        public async Task MaintainSeedAsync(CancellationToken stop)
        {
            if (_shipper is not { } shipper) { return; }
            ShipperStatus status = shipper.Status;
            long wanted;
            lock (_seedLock)
            {
                bool isDone = _copy is { Seed: var sent } && SeedOffer.IsDone(sent, status.State, status.Generation, status.BackedUp);
                bool isTooOld = _copy is { } old && status.End.Offset - old.Seed.Base.Offset > shard._options.Site.BackupBudgetBytes;
                if (isTooOld && status.State == ShipperState.AwaitsSeed) { shard._report.Warn($"shard {shard._options.Shard}: the copy that the backup is seeded with is given up, since as much of the log as --backup-budget has gathered behind it; another is made. Raise --backup-budget"); }
                if (isDone || isTooOld || (_copy is { } made && (!made.IsPartOf(shard._log) || (_copyWanted >= 0 && _copyWanted != made.Seed.Generation)))) { DropCopy(); }
                if (isDone) { _copyWanted = -1; }
                wanted = _copy is null ? _copyWanted : -1;
            }
            if (wanted >= 0 && shard.IsOpen && status.State == ShipperState.AwaitsSeed && shard.MonotonicMicroseconds() >= _nextCopy) { await MakeCopyAsync(wanted, stop).ConfigureAwait(false); }
        }

        private void DropCopy()
        {
            if (_copy is null) { return; }
            _copy = null;
            Directory.Delete(copies, recursive: true);
        }

        private async Task MakeCopyAsync(long generation, CancellationToken stop)
        {
            await shard._checkpointing.WaitAsync(stop).ConfigureAwait(false);
            VersionLog log = shard._log;
            string temporary = shard._checkpoints.NewTemporaryPath();
            long began = shard.MonotonicMicroseconds();
            bool isMade = false;
            try
            {
                LogIndex before = log.End;
                StreamHistory history = log.History;
                lock (_seedLock) { _copyBegunAt = before.Offset; }
                long offset;
                await using (RedisConnection control = await RedisConnection.ConnectAsync(shard._fence.Endpoint, cancellation: stop).ConfigureAwait(false))
                {
                    CheckpointResult result = await QuickAttach.FetchAsync(control, temporary, shard._attachUndoFile, cancellation: stop).ConfigureAwait(false);
                    if (result is CheckpointResult.Failed failed) { shard._report.Warn($"shard {shard._options.Shard}: no copy for the backup could be taken: {failed.Message}"); }
                    if (result is not CheckpointResult.Fetched fetched || fetched.ReplicationId != log.ReplicationId) { return; }
                    offset = fetched.Offset;
                }
                // On a shard where nothing happens no version would end behind it.
                shard.MarkChanged();
                if (await shard.FloorAsync(new(before.WorldLine, history), before.Closed, offset, stop).ConfigureAwait(false) is not var (closed, floor)) { return; }
                string id = $"{shard._options.Shard}-{shard._seat.Epoch}-{offset}-{Guid.NewGuid():N}";
                Seed seed = new(id, generation, new FileInfo(temporary).Length, history, new(before.WorldLine, offset, closed), new(before.WorldLine, floor)) { Checksum = CheckpointStore.ChecksumOf(temporary) };
                lock (_seedLock)
                {
                    DropCopy();
                    SystemFileLayer.Instance.CreateDirectory(copies);
                    string file = CopyRecord.PathOf(copies, id);
                    File.Move(temporary, file);
                    CopyRecord.Write(copies, seed);
                    _copy = new(seed, file);
                }
                isMade = true;
                shard._report.Info($"shard {shard._options.Shard}: a copy of {seed.Bytes} bytes at offset {offset} is ready for the backup, which can be loaded there at version {floor}");
            }
            catch (Exception e) when (e is LogIOException { IsFatal: false } or IOException)
            {
                shard._report.Warn($"shard {shard._options.Shard}: no copy for the backup could be kept, and another is made later: {e.Message}");
            }
            finally
            {
                lock (_seedLock) { _copyBegunAt = long.MaxValue; }
                if (!isMade) { _nextCopy = shard.MonotonicMicroseconds() + Math.Max(CopyPauseUs, shard.MonotonicMicroseconds() - began); }
                File.Delete(temporary);
                shard._checkpointing.Release();
            }
        }
    }

    // The first version that ends at or behind an offset, when that is durable, and the last one that ends before. Null: a world-line has begun, or the store is lost.
    private async Task<(Version Closed, Version Floor)?> FloorAsync(SeedTaken taken, Version closed, long offset, CancellationToken stop)
    {
        long limit = MonotonicMicroseconds() + (long)FloorLimit.TotalMicroseconds;
        while (IsOpen && MonotonicMicroseconds() < limit)
        {
            LogIndex durable = _log.DurableEnd;
            (Version Closed, Version Floor)? found = durable.Closed > closed ? _log.FloorAt(offset, closed) : null;
            switch (taken.Look(_log.History, durable, found?.Floor))
            {
                case SeedVerdict.Offered: return found;
                case SeedVerdict.Void: return null;
            }
            await Task.Delay(5, stop).ConfigureAwait(false);
        }
        return null;
    }
}

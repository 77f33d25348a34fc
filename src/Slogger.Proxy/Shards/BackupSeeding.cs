// The copy of the store that a process of the backup is seeded with. The control task makes it, when the backup has asked for one.
//
// A copy is a dump of Redis, as a checkpoint is. It is kept under a name of its own for as long as it is sent, and the log from there on
// with it. Which version a copy can be brought to first (its floor) is known when that version has ended behind it, durably.
//
// A node of a cohort gets a checkpoint. There is one always, also before the shard serves, which it may not do before another node has its
// log.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Replication;
using Slogger.Replication.Following;
using Slogger.Replication.Seeding;
using Slogger.Replication.Sending;

namespace Slogger.Proxy.Shards;

/// <summary>The seeding of one target. Any thread, if nothing else is said.</summary>
internal sealed class BackupSeeding
{
    private const long CopyPauseUs = 2_000_000;
    private static readonly TimeSpan FloorLimit = TimeSpan.FromSeconds(30);
    private readonly ServeOptions _options;
    private readonly VersionLog _log;
    private readonly RedisDumps _dumps;
    private readonly string _directory, _receiver;
    private readonly IShippingShard _shard;
    private readonly ILogger _report;
    private readonly CheckpointStore? _checkpoints;
    private readonly Lock _lock = new();
    private SeedCopy? _copy;
    private SeedCopy? _offered;             // to the shipper, last
    private long _wanted = -1;              // the generation; -1: none
    private long _begunAt = long.MaxValue;  // the offset at which the copy began that is being made
    private long _nextUs;                   // not before, after one that failed: each costs Redis a whole dump

    /// <summary>What an earlier process was sending is sent on.</summary>
    /// <param name="options">The shard's.</param>
    /// <param name="log">What goes on from copies.</param>
    /// <param name="dumps">What they are.</param>
    /// <param name="directory">Where the copy lies; of no other use.</param>
    /// <param name="receiver">Who is seeded, for people.</param>
    /// <param name="shard">Is asked, and told.</param>
    /// <param name="report">For people.</param>
    /// <param name="checkpoints">Of which the newest is the copy; null: it is a dump of its own.</param>
    public BackupSeeding(ServeOptions options, VersionLog log, RedisDumps dumps, string directory, string receiver, IShippingShard shard,
        ILogger report, CheckpointStore? checkpoints = null)
    {
        (_options, _log, _dumps, _directory, _receiver, _shard, _report) = (options, log, dumps, directory, receiver, shard, report);
        _checkpoints = checkpoints;
        _copy = CopyRecord.Find(directory);
    }

    /// <summary>Deletes copies that were being sent.</summary>
    public static void DeleteCopies(string directory)
    {
        if (Directory.Exists(directory)) { Directory.Delete(directory, recursive: true); }
    }

    /// <summary>The log is kept from here on while a copy is made or sent.</summary>
    public long NeededFrom
    {
        get
        {
            lock (_lock) { return Math.Min(_copy?.Seed.Base.Offset ?? long.MaxValue, _begunAt); }
        }
    }

    /// <summary>See <see cref="IShipperListener.CopyOf"/>.</summary>
    public SeedCopy? CopyOf(long generation)
    {
        lock (_lock)
        {
            return _offered = _copy is { } copy && copy.Seed.Generation == generation && copy.IsPartOf(_log) ? copy : null;
        }
    }

    /// <summary>See <see cref="IShipperListener.OnSeedWanted"/>.</summary>
    public void OnWanted(long generation)
    {
        lock (_lock)
        {
            // One that was offered is damaged. Not one that was made since.
            if (_copy is not null && _copy == _offered) { Drop(); }
            _wanted = generation;
        }
        _shard.Wake();
    }

    /// <summary>Makes a copy if one is wanted, and deletes one that is not needed any more. The control task.</summary>
    /// <param name="status">What the shipper does.</param>
    /// <param name="stop">Gives up.</param>
    public async Task KeepAsync(ShipperStatus status, CancellationToken stop)
    {
        long wanted;
        lock (_lock)
        {
            bool isDone = _copy is { Seed: var sent } && SeedOffer.IsDone(sent, status.State, status.Generation, status.BackedUp);
            bool isTooOld = _copy is { } old && status.End.Offset - old.Seed.Base.Offset > _options.Site.BackupBudgetBytes;
            if (isTooOld && status.State == ShipperState.AwaitsSeed)
            {
                _report.Warn($"shard {_options.Shard}: the copy that {_receiver} is seeded with is given up, since as much of the log as "
                    + "--backup-budget has gathered behind it; another is made. Raise --backup-budget");
            }
            bool isVoid = _copy is { } made && (!made.IsPartOf(_log) || (_wanted >= 0 && _wanted != made.Seed.Generation));
            if (isDone || isTooOld || isVoid) { Drop(); }
            if (isDone) { _wanted = -1; }
            wanted = _copy is null ? _wanted : -1;
        }
        if (wanted >= 0 && _checkpoints is not null && status.State == ShipperState.AwaitsSeed) { Take(_checkpoints, wanted); }
        else if (wanted >= 0 && _shard.IsOpen && status.State == ShipperState.AwaitsSeed && ShardClock.MonotonicUs() >= _nextUs)
        {
            await MakeAsync(wanted, stop).ConfigureAwait(false);
        }
    }

    // Under the lock.
    private void Drop()
    {
        if (_copy is null) { return; }
        _copy = null;
        Directory.Delete(_directory, recursive: true);
    }

    private async Task MakeAsync(long generation, CancellationToken stop)
    {
        await _dumps.TurnAsync(stop).ConfigureAwait(false);
        string temporary = _dumps.NewFile();
        long began = ShardClock.MonotonicUs();
        bool isMade = false;
        try
        {
            LogIndex before = _log.End;
            StreamHistory history = _log.History;
            lock (_lock) { _begunAt = before.Offset; }
            CheckpointResult result = await _dumps.FetchAsync(temporary, stop).ConfigureAwait(false);
            if (result is CheckpointResult.Failed failed)
            {
                _report.Warn($"shard {_options.Shard}: no copy for {_receiver} could be taken: {failed.Message}");
            }
            if (result is not CheckpointResult.Fetched fetched || fetched.ReplicationId != _log.ReplicationId) { return; }
            long offset = fetched.Offset;
            // On a shard where nothing happens no version would end behind it.
            _shard.MarkChanged();
            var taken = new SeedTaken(before.WorldLine, history);
            if (await FloorAsync(taken, before.Closed, offset, stop).ConfigureAwait(false) is not var (closed, floor)) { return; }
            string id = $"{_options.Shard}-{offset}-{Guid.NewGuid():N}";
            Seed seed = new(id, generation, new FileInfo(temporary).Length, history,
                before with { Offset = offset, Closed = closed }, new(before.WorldLine, floor))
            {
                Checksum = CheckpointStore.ChecksumOf(temporary),
            };
            Keep(seed, temporary);
            isMade = true;
            _report.Info($"shard {_options.Shard}: a copy of {seed.Bytes} bytes at offset {offset} is ready for {_receiver}, which can be "
                + $"loaded there at version {floor}");
        }
        catch (Exception e) when (e is LogIOException { IsFatal: false } or IOException)
        {
            _report.Warn($"shard {_options.Shard}: no copy for {_receiver} could be kept, and another is made later: {e.Message}");
        }
        finally
        {
            lock (_lock) { _begunAt = long.MaxValue; }
            if (!isMade) { _nextUs = ShardClock.MonotonicUs() + Math.Max(CopyPauseUs, ShardClock.MonotonicUs() - began); }
            File.Delete(temporary);
            _dumps.EndTurn();
        }
    }

    // A copy of the newest checkpoint. The log has all from there on.
    private void Take(CheckpointStore checkpoints, long generation)
    {
        string temporary = _dumps.NewFile();
        try
        {
            if (checkpoints.Latest(_log, _log.DurableOffset) is not { } from
                || LogPlaces.EndAtOrBelow(_log, from.Offset) is not var (closed, _)) { return; }
            var begins = _log.Lines.Begins;
            LogBranch line = begins.LastOrDefault(b => b.Offset < from.Offset, begins[0]);
            var at = new LogIndex(line.WorldLine, from.Offset, closed.Version) { Reign = line.Reign };
            SystemFileLayer.Instance.LinkOrCopy(checkpoints.PathOf(from), temporary);
            Keep(new($"{_options.Shard}-{from.Offset}-{Guid.NewGuid():N}", generation, from.Bytes, _log.History, at,
                new(at.WorldLine, closed.Version.Next)) { Checksum = from.Checksum }, temporary);
        }
        catch (Exception e) when (e is LogException or IOException)
        {
            _report.Warn($"shard {_options.Shard}: no checkpoint could be kept for {_receiver}, and it is tried again: {e.Message}");
        }
        finally
        {
            File.Delete(temporary);
        }
    }

    private void Keep(Seed seed, string temporary)
    {
        lock (_lock)
        {
            Drop();
            SystemFileLayer.Instance.CreateDirectory(_directory);
            string file = CopyRecord.PathOf(_directory, seed.Id);
            File.Move(temporary, file);
            CopyRecord.Write(_directory, seed);
            _copy = new(seed, file);
        }
    }

    // The first version that ends at or behind an offset, when that is durable, and the last one that ends before. Null: a world-line has
    // begun, or the store is lost.
    private async Task<(VersionNumber Closed, VersionNumber Floor)?> FloorAsync(SeedTaken taken, VersionNumber closed, long offset,
        CancellationToken stop)
    {
        long limit = ShardClock.MonotonicUs() + (long)FloorLimit.TotalMicroseconds;
        while (_shard.IsOpen && ShardClock.MonotonicUs() < limit)
        {
            LogIndex durable = _log.DurableEnd;
            (VersionNumber Closed, VersionNumber Floor)? found = durable.Closed > closed ? _log.FloorAt(offset, closed) : null;
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

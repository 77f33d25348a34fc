// What recovery is in mode log: the log proves boundaries and holds the stream, so a store on its history is continued where the
// log ends, and a lost one is restored from a checkpoint and the log's tail.
using Slogger.Core.Recovery;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    // Bytes gather meanwhile: fewer wake-ups, here and of Redis. A marker ends it: it is rarely as long.
    private static readonly TimeSpan ReadPause = TimeSpan.FromMilliseconds(4);
    private bool _cannotContinue;

    // The identity of a Redis that was promoted, while it is not in the log yet: nobody waits for that. A process that dies before it is
    // restores this Redis from the log: by the identity that the log has, it does not know that Redis is where the log ends.
    private string? _owedIdentity;

    private string? OwnReplicationId => _log.IsEmpty ? null : _owedIdentity ?? _log.ReplicationId;

    protected override bool IsOwnReplica(RedisFacts facts) =>
        OwnReplicationId is { } own && (facts.ReplicationId == own || File.Exists(_restoreUndoFile));

    internal override async Task<(StoreSituation Situation, string Text)> LookAsync(bool atStart, WorldLine current,
        CancellationToken stop)
    {
        await Site.LearnAsync(stop).ConfigureAwait(false);
        return await base.LookAsync(atStart, current, stop).ConfigureAwait(false);
    }

    protected override Task<StoreSituation> CompareAsync(RedisFacts facts, WorldLine current, CancellationToken stop) =>
        Task.FromResult(Compare(facts));

    private StoreSituation Compare(RedisFacts facts)
    {
        StoreSituation unknown = facts.KeyCount == 0 ? StoreSituation.Empty : StoreSituation.Foreign;
        if (IsNoted(facts) || IsNotedIn(ResetNote, facts) || Recovery.IsRestoredFeed(facts.ReplicationId) || Recovery.IsRestoredFeed(facts.SecondReplicationId))
        {
            return StoreSituation.BehindKnownOrigin;
        }
        if (OwnReplicationId is not { } own) { return unknown; }
        long end = _log.EndOffset;
        if (facts.ReplicationId == own)
        {
            return facts.Offset < end ? StoreSituation.BehindKnownOrigin
                : _cannotContinue ? StoreSituation.AheadWithGap
                : StoreSituation.Continues;
        }
        if (facts.SecondReplicationId == own)
        {
            // It branched off our history at its second offset: what lies beyond is unknown to us, and what we have beyond is lost there.
            bool continues = facts.SecondReplicationOffset >= end + 1 && !_cannotContinue;
            return continues ? StoreSituation.Continues : StoreSituation.BehindKnownOrigin;
        }
        return unknown;
    }

    // Before the log's first boundary, the base that it began with.
    internal override (Boundary? Last, Boundary? BelowBranch) Proved(WorldLine current)
    {
        if (_log.IsEmpty) { return (null, null); }
        lock (_logLock) { _log.Sync(); }
        Boundary last = _log.DurableBoundary ?? Base;
        return (last, last.WorldLine < current ? BoundaryOf(Seat.LastValid(last.WorldLine, Recovery.Lines), current) : null);
    }

    // What the log began with.
    private Boundary Base => LogPlaces.BaseOf(_log);

    internal override async Task DetachAsync(CancellationToken stop)
    {
        NoteIdentity();
        await EndShippingAsync().ConfigureAwait(false);
        if (_link is not { } link) { return; }
        link.Dispose();
        await link.Completion.WaitAsync(stop).ConfigureAwait(false);
    }

    // Attaches where the log ends.
    internal override async Task<bool> ContinueAsync(Boundary last, WorldPoint recorded, CancellationToken stop)
    {
        ReplicationLink link = NewLink();
        var request = new AttachRequest { ReplicationId = OwnReplicationId, Position = ScanTail(last), OnFull = OnFullSync.Refuse };
        AttachResult result = await link.AttachAsync(request, stop).ConfigureAwait(false);
        if (result is not AttachResult.Continued continued)
        {
            link.Dispose();
            var failed = (AttachResult.Failed)result;
            _cannotContinue = failed.Problem == RedisProblem.HistoryGone;
            if (!_cannotContinue) { await WaitOutAsync(failed.Problem, failed.Message, stop).ConfigureAwait(false); }
            return false;
        }
        _owedIdentity = continued.ReplicationId;
        // A site that takes over serves first (MaintainAsync): this is a new file of the log.
        if (!Recovery.IsTakingOver) { NoteIdentity(); }
        _marks.Reset(_log);
        _report.Info($"shard {_options.Shard}: continues world-line {last.WorldLine} at version {last.Version}; nothing was lost");
        Follow(link, last, recorded, continued.Offset, Math.Max(_facts!.Offset, continued.Offset));
        await CaughtUpAsync(link, stop).ConfigureAwait(false);
        ResumeUnlogged(storeGoesOn: true);
        return true;
    }

    private void ResumeUnlogged(bool storeGoesOn)
    {
        if (_unlogged.Resume(storeGoesOn)) { Lifetime.Wake(); }
    }

    private void NoteIdentity()
    {
        if (_owedIdentity is { } id) { lock (_logLock) { _log.SetReplicationId(id); } }
        _owedIdentity = null;
    }

    // Where the log ends: maybe inside a command, or a transaction, of which the database and the rest are to be continued.
    private StreamScanner ScanTail(Boundary last)
    {
        // Behind a gap that no boundary has followed yet, the stream begins anew.
        long from = _log.ContiguousFrom(last.Offset);
        var scanner = new StreamScanner(from, from == last.Offset ? last.Database : 0);
        if (from == _log.EndOffset) { return scanner; }
        using LogReader reader = _log.OpenReader(from);
        // Not of the heap of large objects: its memory would have to be fetched while clients wait.
        var buffer = new byte[1 << 16];
        while (scanner.Offset < _log.EndOffset)
        {
            int count = reader.Read(buffer);
            if (count == 0) { break; }
            int position = 0;
            while (position < count) { scanner.Next(buffer.AsSpan(0, count), ref position); }
        }
        return scanner;
    }

    // Until the stream has been read up to where the store stood at attaching, markers of before may still come.
    private async Task CaughtUpAsync(ReplicationLink link, CancellationToken stop)
    {
        while (true)
        {
            lock (Versions.Lock)
            {
                Versions.Machine!.StreamRead(link.Offset);
                if (Versions.Machine.Mode != Core.Shards.ShardMode.CatchingUp) { return; }
            }
            if (link.Completion.IsCompleted) { return; }
            await Task.Delay(1, stop).ConfigureAwait(false);
        }
    }

    // A new stretch of log on top of a fresh checkpoint of what the store holds.
    internal override async Task<bool> BeginAsync(WorldPoint at, WorldPoint recorded, string what, bool goesOn, CancellationToken stop)
    {
        _owedIdentity = null;
        string file = _checkpoints.NewTemporaryPath();
        ReplicationLink link = NewLink();
        AttachResult result;
        await using (RedisConnection control = await RedisConnection.ConnectAsync(
            _fence.Endpoint, cancellation: stop).ConfigureAwait(false))
        {
            var request = new AttachRequest { OnFull = OnFullSync.WithData, RdbFile = file };
            result = await QuickAttach.AttachAsync(control, link, request, _attachUndoFile, stop).ConfigureAwait(false);
        }
        if (result is not AttachResult.Full full)
        {
            link.Dispose();
            var failed = (AttachResult.Failed)result;
            await WaitOutAsync(failed.Problem, failed.Message, stop).ConfigureAwait(false);
            return false;
        }
        var origin = new StreamOrigin(full.ReplicationId, full.Offset, Database: 0);
        bool isGap = goesOn && _log.ReplicationId == full.ReplicationId && _log.EndOffset <= full.Offset;
        if (goesOn && !isGap)
        {
            // Another history by now: it is looked at anew.
            link.Dispose();
            File.Delete(file);
            return false;
        }
        lock (_logLock)
        {
            _checkpointer.Add(file, isGap ? _log.Origin : origin, full.ReplicationId, full.Offset, isGap ? _log.Reign : OwnReign,
                at.WorldLine);
            FailPoint.Pass(FailPoint.CheckpointKept);
            // What the log has is still needed: the cut of all shards may be in it.
            _indexes.ChangeHistory(
                () =>
                {
                    if (isGap) { _log.BeginGap(full.Offset); } else { _log.Begin(origin, at.WorldLine, at.Version.Next, OwnReign); }
                }, full.Offset, origin.Database);
        }
        FailPoint.Pass(FailPoint.HistoryBegun);
        _report.Info($"shard {_options.Shard}: {_store.Name} is taken over with {what}: world-line {at.WorldLine}, {full.RdbBytes} bytes");
        _marks.Reset(null);
        var start = new Boundary(at.WorldLine, at.Version, full.Offset, origin.Database, Now());
        Follow(link, start, recorded, full.Offset, full.Offset, isRestarted: true);
        return true;
    }

    // Exactly that version: the boundary below it is another state, unless nothing was done in between.
    internal override Boundary? BoundaryOf(VersionNumber version, WorldLine of) =>
        ReducedStates.At(_log, _checkpoints, version) is { } reduced ? reduced.Window.End with { Version = version }
        : _log.BoundaryAtOrBelow(version) is { } found ? found.Version == version ? found : null
        : version == Base.Version ? Base : null;

    // Before the log's first boundary its base is all there is.
    internal override void RequireBase(VersionNumber version, WorldLine of)
    {
        if (ReducedStates.At(_log, _checkpoints, version) is null)
        {
            BaseOf(_log.BoundaryAtOrBelow(version)?.Offset ?? _log.Origin.Offset);
        }
    }

    internal override async Task<bool> BeginWithAsync(Boundary content, WorldPoint at, WorldLine current, string feed,
        CancellationToken stop)
    {
        ReducedState? reduced = ReducedStates.At(_log, _checkpoints, content.Version);
        Checkpoint checkpoint = reduced?.Base ?? BaseOf(content.Offset);
        IHistorySource history = reduced?.OpenHistory(_log, _checkpoints) ?? (IHistorySource)new LogHistory(_log);
        using var _ = (IDisposable)history;
        var plan = new FeedPlan
        {
            BaseFile = _checkpoints.PathOf(checkpoint),
            BaseOffset = reduced?.BaseOffset ?? checkpoint.Offset,
            TargetOffset = reduced?.TargetOffset ?? content.Offset,
            History = history,
            ReplicationId = feed,
        };
        if (!await FeedAsync(plan, at, stop).ConfigureAwait(false)) { return false; }
        await ProbeAsync(stop).ConfigureAwait(false);
        return await BeginAsync(at, at, $"the content of version {content.Version}", goesOn: false, stop).ConfigureAwait(false);
    }

    private Checkpoint BaseOf(long offset) =>
        _checkpoints.Latest(_log, offset)
        ?? throw new RecoveryRefusedException($"shard {_options.Shard}: there is no checkpoint at or below offset {offset} in "
            + $"{Path.Combine(_options.DataDirectory, "checkpoints")}: it was removed. Bring it back, or start anew with "
            + "--seed from-redis.");

    internal override async Task<bool> RestoreAsync(WorldLine line, Boundary branch, WorldLine current, CancellationToken stop)
    {
        _owedIdentity = null;
        Checkpoint checkpoint = BaseOf(branch.Offset);
        string replid = FeedPlan.NewReplicationId();
        Boundary start = branch with { WorldLine = line };
        if (await RollBackAsync(start, stop).ConfigureAwait(false)) { return true; }
        if (_facts is { } facts && IsOnHistory(facts)) { NoteStore(facts); }
        BeginWorldLine(start, replid);
        using var history = new LogHistory(_log);
        var plan = new FeedPlan
        {
            BaseFile = _checkpoints.PathOf(checkpoint),
            BaseOffset = checkpoint.Offset,
            TargetOffset = branch.Offset,
            History = history,
            ReplicationId = replid,
        };
        if (!await FeedAsync(plan, start.Point, stop).ConfigureAwait(false)) { return false; }
        await ProbeAsync(stop).ConfigureAwait(false);
        ReplicationLink link = NewLink();
        var position = new StreamScanner(branch.Offset, branch.Database);
        var request = new AttachRequest { ReplicationId = replid, Position = position, OnFull = OnFullSync.Refuse };
        AttachResult attached = await link.AttachAsync(request, stop).ConfigureAwait(false);
        if (attached is not AttachResult.Continued continued)
        {
            link.Dispose();
            await Task.Delay(ShardRecovery.RetryDelay, stop).ConfigureAwait(false);
            return false;
        }
        FailPoint.Pass(FailPoint.Attached);
        lock (_logLock) { _log.SetReplicationId(continued.ReplicationId); }
        FailPoint.Pass(FailPoint.IdentityWritten);
        ForgetStore();
        GoOn(link, start, continued.Offset);
        return true;
    }

    // The store is at the branch, and the log goes on with it.
    private void GoOn(ReplicationLink link, Boundary start, long offset)
    {
        ResumeUnlogged(storeGoesOn: false);
        _marks.Reset(_log);
        Follow(link, start, start.Point, offset, offset);
    }

    // From now on what is above the branch is void. Until the store is there no start may continue with it: by the log's identity, or by
    // a note.
    private void BeginWorldLine(Boundary start, string replicationId)
    {
        lock (_logLock)
        {
            _indexes.ChangeHistory(() => _log.BeginWorldLine(start.WorldLine, start, replicationId), start.Offset, start.Database);
        }
        FailPoint.Pass(FailPoint.BranchWritten);
        _checkpoints.CarryForward(_log);
    }

    private void Follow(ReplicationLink link, Boundary start, WorldPoint recorded, long streamOffset, long storeOffset,
        bool isRestarted = false)
    {
        _link = link;
        _cannotContinue = false;
        // Where it is now was decided behind a reset.
        ForgetReset();
        Versions.Run(start, recorded, streamOffset, storeOffset, isRestarted);
        BeginShipping();
        _lead?.Begin();
        _keys.Begin(_log, streamOffset, link.CommandEnd == streamOffset ? link.Database : null);
        link.Start(this);
    }

    private ReplicationLink NewLink() =>
        new(new ReplicationLinkOptions { Endpoint = StoreAddress, Markers = _markers, ReadPause = ReadPause });
}

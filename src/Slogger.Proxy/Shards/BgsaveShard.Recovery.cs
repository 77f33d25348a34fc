// What recovery is in mode bgsave: what the log proves in mode log, the kept snapshots prove here. A store is the same as before
// if it is the same run of the same server and was brought to the current world-line: then nothing was lost. Any other is
// restored from the newest snapshot.
using Slogger.Core.Recovery;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Rdb;
using Slogger.Redis.Replication;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

internal sealed partial class BgsaveShard
{
    private StoreNote? _note;

    internal override string RefusalNote => " (In mode bgsave the kept snapshots stand for the version log.)";

    internal override (Boundary? Last, Boundary? BelowBranch) Proved(WorldLine current) => _kept.Proved(current);

    internal override Boundary? BoundaryOf(VersionNumber version, WorldLine of) => _kept.BoundaryOf(version, of);

    private bool IsKnown(RedisFacts facts)
    {
        HashSet<string> known = [.. _note?.ReplicationIds ?? [], .. _snapshots.All.Select(s => s.ReplicationId ?? "")];
        return known.Contains(facts.ReplicationId) || known.Contains(facts.SecondReplicationId);
    }

    protected override bool IsOwnReplica(RedisFacts facts) => IsKnown(facts) || File.Exists(_restoreUndoFile);

    protected override async Task<StoreSituation> CompareAsync(RedisFacts facts, WorldLine current, CancellationToken stop)
    {
        await CheckDirectoryAsync(stop).ConfigureAwait(false);
        if (_note is { } note && note.RunId == facts.RunId && note.WorldLine == current.Number) { return StoreSituation.Continues; }
        if (facts.KeyCount == 0) { return StoreSituation.Empty; }
        return IsKnown(facts) ? StoreSituation.BehindKnownOrigin : StoreSituation.Foreign;
    }

    internal override Task DetachAsync(CancellationToken stop)
    {
        lock (Versions.Lock)
        {
            _started = null;
            _ready = null;
        }
        return Task.CompletedTask;
    }

    // Mode bgsave needs the files that Redis writes.
    private async Task CheckDirectoryAsync(CancellationToken stop)
    {
        string directory;
        try
        {
            await using var watch = new SaveWatch(
                await RedisConnection.ConnectAsync(_fence.Endpoint, cancellation: stop).ConfigureAwait(false));
            directory = await watch.DirectoryAsync(stop).ConfigureAwait(false);
            await watch.LookAsync(stop).ConfigureAwait(false);
        }
        catch (RedisException e) when (e.Problem == RedisProblem.NoPermission)
        {
            throw new RecoveryRefusedException(
                $"shard {_options.Shard}: --commit bgsave needs CONFIG GET and INFO at {_store.Name}: {e.Message} Allow them to "
                    + "the proxy's user.");
        }
        try
        {
            // Redis answers nothing when its working directory was removed.
            if (directory.Length == 0) { throw new DirectoryNotFoundException("it was removed"); }
            _ = Directory.EnumerateFiles(directory).FirstOrDefault();
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            throw new RecoveryRefusedException(
                $"shard {_options.Shard}: {_store.Name} saves in {(directory.Length > 0 ? directory : "its working directory")}, which "
                + $"cannot be read from here ({e.Message}). "
                + "--commit bgsave needs a Redis on this machine, with a directory that the proxy's user can read; --commit log "
                + "works without.");
        }
    }

    internal override Task<bool> ContinueAsync(Boundary last, WorldPoint recorded, CancellationToken stop)
    {
        _report.Info($"shard {_options.Shard}: continues world-line {last.WorldLine} after version {last.Version}; nothing was lost");
        Follow(last, recorded);
        return Task.FromResult(true);
    }

    // A first snapshot of what the store holds, before anything is forwarded.
    internal override async Task<bool> BeginAsync(WorldPoint at, WorldPoint recorded, string what, bool goesOn, CancellationToken stop)
    {
        await GiveHistoryAsync(stop).ConfigureAwait(false);
        var start = new Boundary(at.WorldLine, at.Version, 0, 0, Now());
        await using (var control = await RedisConnection.ConnectAsync(_fence.Endpoint, cancellation: stop).ConfigureAwait(false))
        {
            await using var watch = new SaveWatch(
                await RedisConnection.ConnectAsync(_fence.Endpoint, cancellation: stop).ConfigureAwait(false));
            while (true)
            {
                if (await TrySaveAsync(control, watch, start, stop).ConfigureAwait(false) is not { } problem) { break; }
                _report.Warn($"shard {_options.Shard}: the first BGSAVE did not count: {problem}. It is tried again");
                await Task.Delay(FailurePauseMin, stop).ConfigureAwait(false);
            }
        }
        _report.Info($"shard {_options.Shard}: {_store.Name} is taken over with {what}: world-line {at.WorldLine}");
        Note(at.WorldLine);
        Follow(start, recorded);
        return true;
    }

    private async Task<string?> TrySaveAsync(RedisConnection control, SaveWatch watch, Boundary start, CancellationToken stop)
    {
        SaveBase? before;
        while ((before = await watch.BaseAsync(stop).ConfigureAwait(false)) is null)
        {
            await Task.Delay(NotReadyPeriod, stop).ConfigureAwait(false);
        }
        RedisReply reply = await control.CommandAsync(["BGSAVE"], stop).ConfigureAwait(false);
        if (reply.IsError)
        {
            if (RedisProblems.Classify(reply.Text) == RedisProblem.NoPermission)
            {
                throw new RecoveryRefusedException(
                    $"shard {_options.Shard}: --commit bgsave needs BGSAVE at {_store.Name}: {reply.Text}. Allow it to the proxy's user.");
            }
            return reply.Text;
        }
        SaveState state;
        while ((state = await watch.LookAsync(stop).ConfigureAwait(false)).InProgress)
        {
            await Task.Delay(PollMin, stop).ConfigureAwait(false);
        }
        string file = _snapshots.NewTemporaryPath();
        string? problem = await watch.KeepAsync(before, state, file, stop).ConfigureAwait(false);
        RdbInfo? info = null;
        problem ??= CheckFile(file, out info);
        if (problem is null) { _snapshots.Add(file, Describe(info!, start)); }
        return problem;
    }

    // Redis writes the identity of its stream into a dump only if it ever had a replica. By it a Redis that was restarted from
    // a dump is known again.
    private async Task GiveHistoryAsync(CancellationToken stop)
    {
        await using (RedisConnection control = await RedisConnection.ConnectAsync(
            _fence.Endpoint, cancellation: stop).ConfigureAwait(false))
        {
            using var link = new ReplicationLink(new ReplicationLinkOptions { Endpoint = StoreAddress });
            await QuickAttach.AttachAsync(control, link, new AttachRequest { OnFull = OnFullSync.WithoutData }, _attachUndoFile,
                stop).ConfigureAwait(false);
        }
        ProbeResult probe = await ProbeAsync(stop).ConfigureAwait(false);
        _replicationId = (probe.Facts ?? throw new RedisException(probe.Problem, probe.Message)).ReplicationId;
    }

    internal override void RequireBase(VersionNumber version, WorldLine of) => _snapshots.Verify(SnapshotOf(version, of));

    private Snapshot SnapshotOf(VersionNumber version, WorldLine current) =>
        _snapshots.Latest(current, line => Seat.LastValid(line, Recovery.Lines), version)?.Snapshot
        ?? throw new RecoveryRefusedException($"shard {_options.Shard}: no snapshot of version {version} is kept.");

    internal override async Task<bool> RestoreAsync(WorldLine line, Boundary branch, WorldLine current, CancellationToken stop)
    {
        return await RestoreAsync(branch with { WorldLine = line }, SnapshotOf(branch.Version, current), FeedPlan.NewReplicationId(),
            stop).ConfigureAwait(false);
    }

    internal override Task<bool> BeginWithAsync(Boundary content, WorldPoint at, WorldLine current, string feed, CancellationToken stop) =>
        RestoreAsync(new Boundary(at.WorldLine, at.Version, 0, 0, Now()), SnapshotOf(content.Version, current), feed, stop);

    private async Task<bool> RestoreAsync(Boundary start, Snapshot snapshot, string replid, CancellationToken stop)
    {
        // Should this be cut short, the next start knows what it finds. No run bears this name: it is not taken as restored.
        WriteNote("", 0, replid);
        FailPoint.Pass(FailPoint.NoteWritten);
        var plan = new FeedPlan
        {
            BaseFile = _snapshots.PathOf(snapshot),
            BaseOffset = snapshot.Offset,
            TargetOffset = snapshot.Offset,
            History = NoHistory.Instance,
            ReplicationId = replid,
        };
        if (!await FeedAsync(plan, start.Point, stop).ConfigureAwait(false)) { return false; }
        ProbeResult probe = await ProbeAsync(stop).ConfigureAwait(false);
        if (!probe.IsUsable || probe.Facts!.SecondReplicationId != replid) { return false; }
        // The branch in its own world-line: from it that one is recovered until it has closed a version.
        string file = _snapshots.NewTemporaryPath();
        SystemFileLayer.Instance.LinkOrCopy(_snapshots.PathOf(snapshot), file);
        _snapshots.Add(file, snapshot with
        {
            WorldLine = start.WorldLine.Number,
            Version = start.Version.Number,
            LastVersion = start.Version.Number,
            ClosedAt = start.Time.Bits,
        });
        FailPoint.Pass(FailPoint.SnapshotKept);
        Note(start.WorldLine);
        FailPoint.Pass(FailPoint.IdentityWritten);
        Follow(start, start.Point);
        return true;
    }

    // This run of the store holds the state of this world-line.
    private void Note(WorldLine line) => WriteNote(_facts!.RunId, line.Number, _facts.ReplicationId);

    private void WriteNote(string runId, long line, string replicationId)
    {
        _note = (_note ?? StoreNote.Unknown).With(replicationId) with { RunId = runId, WorldLine = line };
        _note.Write(_options.DataDirectory);
    }

    private void Follow(Boundary start, WorldPoint recorded)
    {
        _replicationId = _facts!.ReplicationId;
        Versions.Run(start, recorded, streamOffset: 0, storeOffset: 0);
        WakeSaving();
    }
}

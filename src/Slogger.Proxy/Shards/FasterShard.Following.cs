// An embedded store that follows, as a backup's. Beside it is the stream (FollowedStream), which it needs until it is a primary's; with
// --retention that becomes the history of the primary's then.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commands;
using Slogger.Faster.Commits;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Drills;
using Slogger.Proxy.Embedded;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

internal partial class FasterShard : IFasterHost
{
    private const string VoidName = "faster.void";

    // A stream of which no checkpoint can be written grows to so many budgets at most. Holds count to two (PrunePlan.HeldFrom).
    private const int BudgetsMax = 3;
    private volatile FollowedStream? _stream;   // while it follows

    private FollowedStream Stream => _stream ?? throw FollowsNobody();

    internal override VersionLog StreamLog => Stream.Log;

    internal override CheckpointStore StreamCheckpoints => Stream.Checkpoints;

    public override StreamGuard Guard => new StoreGuard(_faster!.RecordBytesMax);

    private FollowedFaster FollowedStore => (FollowedFaster)Follower.Followed;

    private void OpenStream()
    {
        FollowedStream stream = new(_options, _fasterOptions.Directory, Seat.Epoch, FollowedTailBytes);
        _stream = stream;
        if (_options.Retention == TimeSpan.Zero) { return; }
        _followedPast = new(this, _options, _report, stream, () => FollowedStore, () => _followedGrid.Grid, _checkpointing, _reset);
    }

    internal override void OnFollowedGrid(VersionGrid grid) => _followedGrid.NoteOrWarn(grid, _report, _options.Shard);

    internal override async Task FollowAsync(CancellationToken stop)
    {
        TrialFaster.Clear(_options.DataDirectory);
        var followed = new FollowedFaster(
            this, StreamLog, StreamCheckpoints, Intake!.WithLogAsync, _report, _options.Shard.ToString(),
            keepsPast: () => _followedPast is not null
                && StreamLog.EndOffset - StreamLog.StartOffset <= BudgetsMax * _options.LogBudgetBytes);
        await FollowAsync(followed, isPrimarys: false, stop).ConfigureAwait(false);
    }

    internal override async Task KeepFollowedAsync(CancellationToken stop)
    {
        if (Follower.IsPromoting) { return; }
        _followedPast?.Keep();
        // A drill needs what is there.
        if (!await _checkpointing.WaitAsync(TimeSpan.Zero, stop).ConfigureAwait(false)) { return; }
        try
        {
            await FollowedStore.TrimAsync(() => _statistics = _faster?.Statistics()).ConfigureAwait(false);
        }
        finally
        {
            _checkpointing.Release();
        }
    }

    // ---- The store (while nobody else changes where it stands) ----

    FasterStore IFasterHost.Store => _faster!;

    CommandEngine IFasterHost.Engine => _engine!;

    IReadOnlyList<CommitRecord> IFasterHost.Commits => Commits;

    FollowNotes IFasterHost.Notes => Stream.Notes;

    void IFasterHost.OpenToFollow(WorldPoint? commit)
    {
        CloseStore();
        Open(commit);
    }

    // In one step, so that no half of it is ever taken for a store.
    void IFasterHost.OpenEmptyToFollow(VersionNumber open)
    {
        // The past was of what is deleted.
        FollowedStream.DeleteHistory(_options.DataDirectory);
        CloseStore();
        DeleteVoid();
        Directory.Move(_fasterOptions.Directory, VoidPath);
        DeleteVoid();
        // Durable with the move, before anything is in it.
        SystemFileLayer.Instance.CreateDirectory(_fasterOptions.Directory);
        _found = [];
        _history = new CommitHistory(_fasterOptions.Directory, () => Commits);
        Stream.Notes.Forget();
        Open(null, open);
    }

    void IFasterHost.EnterAsFollowed(WorldLine line, VersionNumber branch, WorldPoint commit)
    {
        _history.Enter(line, branch, commit);
        _holds = line;
    }

    // ---- Taking over ----

    /// <inheritdoc />
    public override Task EnterAsync(WorldLine line, CancellationToken stop) =>
        Follower.WhereItStandsAsync(end => FollowedStore.SecureAsync(end, stop), stop);

    internal override async Task EndFollowingAsync()
    {
        if (_followedPast is { } past) { await past.EndAsync().ConfigureAwait(false); }
        await base.EndFollowingAsync().ConfigureAwait(false);
        await Task.Run(() =>
        {
            _stream?.Dispose();
            _followedPast = null;
            if (_options.Retention > TimeSpan.Zero) { OpenPastAgain(); }
            _stream = null;
            // If it is not the history yet, it is to become that.
            if (_options.Retention == TimeSpan.Zero || _past is not null) { DeleteStream(); }
        }).ConfigureAwait(false);
    }

    // The store is a primary's: what it followed by is of no use any more, and its place may be needed.
    private void DeleteStream()
    {
        try
        {
            FollowedStream.Delete(_options.DataDirectory, _fasterOptions.Directory);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            _report.Warn($"shard {_options.Shard}: the log that the store has followed by could not be deleted, and the next "
                + $"start tries again: {e.Message}");
        }
    }

    private void DeleteVoid()
    {
        if (Directory.Exists(VoidPath)) { Directory.Delete(VoidPath, recursive: true); }
    }

    private string VoidPath => Path.Combine(_options.DataDirectory, VoidName);

    // ---- Drills ----

    /// <inheritdoc />
    public override long? BaseBelow(long offset)
    {
        try
        {
            return FollowedStore.NoteBelow(offset) is { } note && Commits.FirstOrDefault(c => c.Point == note.Point) is { } commit
                && FasterStore.IsWhole(_fasterOptions, commit) ? note.Offset : null;
        }
        catch (IOException)
        {
            // It is being deleted, or its disk is broken.
            return null;
        }
    }

    // Readers wait for nothing, and the next version for the moment in which one ends at the store.
    internal override async Task<RestoreTrial> CompareAsync(CancellationToken stop)
    {
        if (await Follower.HoldStandingAsync(stop).ConfigureAwait(false) is not var (end, letGo))
        {
            return RestoreTrial.Impossible("the store stands at no version: it is loaded, or seeded");
        }
        FollowNote held;
        try
        {
            held = await FollowedStore.CommitAsync(end, letGo, stop).ConfigureAwait(false);
        }
        catch (IOException e)
        {
            return RestoreTrial.Impossible($"what the store holds could not be committed: {e.Message}");
        }
        finally
        {
            letGo();
        }
        return await TrialFaster.CompareAsync(_options.DataDirectory, _fasterOptions, StreamLog, StreamCheckpoints, Commits, end, held,
            FollowedStore.NoteBelow(held.Offset - 1), stop).ConfigureAwait(false);
    }
}

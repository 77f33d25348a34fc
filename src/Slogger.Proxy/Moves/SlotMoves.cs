// A shard's part in moves of slots: performs what ShardOwnership (Core) decides. It is told what the metadata says (SlotWatch), which
// versions are closed and committed (the shard); it tells the front end which slots to serve, and runs the copying and deleting.
//
// Life: OpenAsync when the store is there and of a world-line, CloseAsync when it is lost: what was under way for moves ends with
// it, and begins again from the table. In between one task writes the machine's steps to the metadata, in order.
//
// Locks: _gate guards the machine and all that is here. It may be taken while the shard's lock is held, so nothing of the shard is
// asked while it is held.
using System.Collections.Immutable;
using System.Threading.Channels;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Moves;

/// <summary>What moves need of the shard. Any thread.</summary>
internal interface IMovingShard
{
    /// <summary>The version open now, and its world-line.</summary>
    WorldPoint OpenPoint { get; }

    /// <summary>The store was written to past the front end: the open version is not empty.</summary>
    void MarkChanged();

    /// <summary>The same, and somebody waits until that is in a version.</summary>
    /// <param name="behind">The version is to be a later one than this.</param>
    /// <returns>The version that what was written until now is in, if it is in no earlier one. It, or the one that is wanted, is closed
    /// soon.</returns>
    WorldPoint CloseChanged(VersionNumber behind = default);

    /// <summary>Completes when all that the store has executed until now has been read in its replication stream.</summary>
    Task StreamReadAsync(CancellationToken stop);

    /// <summary>Completes when any node that may lead this shard next has all that was done in a version.</summary>
    Task AwaitMajorityAsync(WorldPoint version, CancellationToken stop);

    /// <summary>Where the store is.</summary>
    RedisEndpoint Endpoint { get; }

    /// <summary>Why its slots do not move; null: they do.</summary>
    string? KeepsSlots { get; }

    /// <summary>Whether it is being set back: what it has is changed past the front end.</summary>
    bool IsSetBack { get; }
}

/// <summary>The moves of one shard. Any thread.</summary>
internal sealed partial class SlotMoves(ClusterSeat seat, SlotWatch watch, ILogger report, IMovingShard shard) : IAsyncDisposable
{
    private static readonly TimeSpan RetryPause = TimeSpan.FromMilliseconds(200);
    private static readonly TimeSpan FreezeLimit = TimeSpan.FromSeconds(5);
    private const long WithholdMicroseconds = 1_000_000;
    private readonly Lock _gate = new();
    private readonly List<MoveEffect> _effects = [];
    private FrontEndLoop? _loop;
    private Work? _work;
    private ClusterSlots? _told;
    private TaskCompletionSource _tableRead = NewSignal();

    // A step of which it is not known whether the metadata has made it, or yet will. At most one write is on its way.
    private MoveChange? _inDoubt;

    /// <summary>Whether slots are about to leave.</summary>
    public bool IsFreezing
    {
        get
        {
            lock (_gate) { return _work is { Freezes.Count: > 0 }; }
        }
    }

    /// <summary>Connections to this shard's store that were given up.</summary>
    public GivenUpConnections GivenUp { get; } = new();

    /// <summary>What is under way in one world-line, between the store's coming and its loss.</summary>
    private sealed class Work(ShardOwnership ownership, WorldLine line)
    {
        public ShardOwnership Ownership => ownership;
        public WorldLine Line => line;
        public CancellationTokenSource Life { get; } = new();
        public Channel<MoveChange> Writes { get; } = System.Threading.Channels.Channel.CreateUnbounded<MoveChange>();
        public List<Task> Tasks { get; } = [];
        public Dictionary<MoveId, (Task Task, CancellationTokenSource Stop)> Imports { get; } = [];
        public Dictionary<MoveId, TaskCompletionSource<MapRevision>> Freezes { get; } = [];
        public HashSet<MoveId> Renounced { get; } = [];     // since the last freeze, by this process
    }

    // ---- Life ----

    /// <summary>The front end is there.</summary>
    public void Attach(FrontEndLoop loop)
    {
        lock (_gate) { _loop = loop; }
        watch.Looked = OnLooked;
    }

    /// <summary>The store is there, in a world-line. Before the front end is opened.</summary>
    public async Task OpenAsync(WorldLine line, CancellationToken stop)
    {
        // Written later, a step of before would change a row that has been read again: the next ones rest on its fate.
        if (_inDoubt is { } change)
        {
            await seat.RetryAsync(() => seat.Metadata.ChangeMoveAsync(seat.Cluster, change, stop), stop).ConfigureAwait(false);
            _inDoubt = null;
        }
        await seat.RetryAsync(() => watch.LookAsync(stop), stop).ConfigureAwait(false);
        lock (_gate)
        {
            _work = new Work(new ShardOwnership(seat.Shard, new(seat.Epoch), line), line);
            _work.Tasks.Add(WriteAsync(_work));
            _told = null;
        }
        OnLooked();
    }

    /// <summary>The shard is a backup's: nothing moves, and readers are sent to the shard that has their keys. Before the front end is
    /// opened.</summary>
    public void Follow()
    {
        lock (_gate) { Tell(); }
    }

    /// <summary>The store is lost, or the proxy stops: returns when nothing is done any more.</summary>
    public async Task CloseAsync()
    {
        Work? work;
        lock (_gate) { (work, _work) = (_work, null); }
        if (work is null) { return; }
        work.Writes.Writer.TryComplete();
        await work.Life.CancelAsync().ConfigureAwait(false);
        Task[] tasks;
        lock (_gate) { tasks = [.. work.Tasks]; }
        await Task.WhenAll(tasks).ConfigureAwait(false);
        work.Life.Dispose();
    }

    public async ValueTask DisposeAsync() => await CloseAsync().ConfigureAwait(false);

    // ---- What is heard ----

    /// <summary>A version of this shard is closed.</summary>
    public void OnBoundary(WorldPoint closed) => Do(work => work.Ownership.BoundaryClosed(closed, _effects));

    /// <summary>The cut was recorded.</summary>
    public void OnCut(WorldPoint cut) => Do(work => work.Ownership.CutRecorded(cut, _effects));

    private void OnLooked()
    {
        TaskCompletionSource read;
        lock (_gate)
        {
            if (_work is { } work)
            {
                work.Ownership.Read(watch.Table, _effects);
                foreach ((MoveId move, TaskCompletionSource<MapRevision> freeze) in work.Freezes)
                {
                    // Of another process, which owns the shard since, the renunciation says nothing of what this one's store has.
                    if (work.Renounced.Contains(move) && Row(move) is { State: MoveState.Leaving } row)
                    {
                        freeze.TrySetResult(row.Changed);
                    }
                }
                Perform(work);
            }
            Tell();
            (read, _tableRead) = (_tableRead, NewSignal());
        }
        read.SetResult();
    }

    /// <summary>The metadata is asked at once.</summary>
    public Task LookAsync(CancellationToken stop) => seat.RetryAsync(() => watch.LookAsync(stop), stop);

    private void Do(Action<Work> input)
    {
        lock (_gate)
        {
            if (_work is not { } work) { return; }
            input(work);
            Perform(work);
        }
    }

    // ---- What the front end is told: under the gate ----

    // Without work: a backup's, where nothing moves.
    private ClusterSlots ViewNow() => _work is { } work ? watch.View with { Served = work.Ownership.Served } : watch.View;

    private void Tell()
    {
        if (_loop is not { } loop || (_work is null && seat.FollowedSite is null)) { return; }
        ClusterSlots view = ViewNow();
        if (view == _told) { return; }
        _told = view;
        loop.Post(() => loop.UseSlots(view, watch.Commands));
    }

    // ---- Effects: under the gate ----

    private void Perform(Work work)
    {
        if (_effects.Count == 0) { return; }
        foreach (MoveEffect effect in _effects.ToArray())
        {
            switch (effect.Kind)
            {
                case MoveEffectKind.Write:
                    work.Writes.Writer.TryWrite(effect.Change);
                    break;
                case MoveEffectKind.Withhold:
                    Start(work, stop => WithholdAsync(work, effect.Move, effect.Attempt, stop));
                    break;
                case MoveEffectKind.Import:
                    var ending = CancellationTokenSource.CreateLinkedTokenSource(work.Life.Token);
                    work.Imports[effect.Move.Id] =
                        (Start(work, _ => new MoveImport(this, effect.Move, work.Line, () => shard.Endpoint).RunAsync(ending.Token)),
                            ending);
                    break;
                case MoveEffectKind.Discard:
                    Start(work, stop => DiscardAsync(work, effect.Move, stop));
                    break;
            }
        }
        _effects.Clear();
        Tell();
    }

    private Task Start(Work work, Func<CancellationToken, Task> run)
    {
        Task task = Task.Run(
            async () =>
            {
                try
                {
                    await run(work.Life.Token).ConfigureAwait(false);
                }
                catch (OperationCanceledException)
                {
                    // As asked.
                }
                catch (Exception e) when (e is MetadataException)
                {
                    report.Error($"shard {seat.Shard}: {e.Message} Moves of slots rest until the proxy is started again.");
                }
            },
            CancellationToken.None);
        work.Tasks.RemoveAll(t => t.IsCompleted);
        work.Tasks.Add(task);
        return task;
    }

    private async Task WriteAsync(Work work)
    {
        await foreach (MoveChange change in work.Writes.Reader.ReadAllAsync().ConfigureAwait(false))
        {
            while (!work.Life.IsCancellationRequested)
            {
                try
                {
                    // Not given up half-way: what became of it would not be known.
                    _inDoubt = change;
                    ChangeOutcome outcome = await seat.Metadata.ChangeMoveAsync(
                        seat.Cluster, change, CancellationToken.None).ConfigureAwait(false);
                    _inDoubt = null;
                    if (outcome == ChangeOutcome.Deposed)
                    {
                        report.Error($"shard {seat.Shard}: move {change.Move.Number}: another process owns this shard");
                    }
                    else if (change.Next == MoveState.Leaving)
                    {
                        lock (_gate) { work.Renounced.Add(change.Move); }
                    }
                    await watch.LookAsync(CancellationToken.None).ConfigureAwait(false);
                    break;
                }
                catch (MetadataUnavailableException)
                {
                    // The recorder tells.
                    await Task.Delay(RetryPause, CancellationToken.None).ConfigureAwait(false);
                }
                catch (MetadataException e)
                {
                    report.Error($"shard {seat.Shard}: {e.Message} Moves of slots rest until the proxy is started again.");
                    return;
                }
            }
        }
    }

    private async Task DiscardAsync(Work work, SlotMove move, CancellationToken stop)
    {
        (Task Task, CancellationTokenSource Stop) import;
        bool imports;
        lock (_gate) { imports = work.Imports.Remove(move.Id, out import); }
        if (imports)
        {
            await import.Stop.CancelAsync().ConfigureAwait(false);
            await import.Task.ConfigureAwait(false);
            import.Stop.Dispose();
        }
        while (true)
        {
            try
            {
                await using KeyStore keys = await KeyStore.ConnectAsync(shard.Endpoint, GivenUp, stop).ConfigureAwait(false);
                long deleted = await keys.PurgeAsync(KeysOf(move.Slots), stop).ConfigureAwait(false);
                report.Info($"move {move.Id.Number}: {deleted} keys of {TextOf(move.Slots)}, which are shard "
                    + $"{(move.State == MoveState.Landed ? move.To : move.From)}'s, are deleted here");
                break;
            }
            catch (RedisException e)
            {
                report.Warn($"move {move.Id.Number}: deleting keys of {TextOf(move.Slots)} goes on later: {e.Message}");
                await Task.Delay(RetryPause, stop).ConfigureAwait(false);
            }
        }
        FailPoint.Pass(FailPoint.MoveDiscarded);
        WorldPoint open = shard.CloseChanged();
        Do(w => w.Ownership.Discarded(move.Id, open));
    }

    // ---- The rest is for those that copy ----

    /// <summary>A move's row, as last read in this world-line; null: there is none.</summary>
    public SlotMove? RowOf(MoveId move)
    {
        lock (_gate) { return Row(move); }
    }

    /// <summary>The slots of a move; none if it is over.</summary>
    public ImmutableArray<SlotRange> SlotsOf(MoveId move) => RowOf(move)?.Slots ?? [];

    /// <summary>Whether a key is in one of some slots.</summary>
    public Func<byte[], bool> KeysOf(ImmutableArray<SlotRange> slots) => KeyStore.IsIn(seat.Partitions, slots);

    /// <summary>Some slots, for people.</summary>
    public string TextOf(ImmutableArray<SlotRange> slots) => $"{seat.Partitions.Noun} {string.Join(',', slots)}";

    public void Warn(string message) => report.Warn($"shard {seat.Shard}: {message}");

    public void Info(string message) => report.Info($"shard {seat.Shard}: {message}");

    private SlotMove? Row(MoveId move) => _work?.Ownership.Table?.Moves.FirstOrDefault(m => m.Id == move);

    private static TaskCompletionSource NewSignal() => new(TaskCreationOptions.RunContinuationsAsynchronously);
}

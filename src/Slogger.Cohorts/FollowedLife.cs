// One life of a node's log, from a copy to the next: performs what Follower (Core) decides. The node's thread, if nothing else is said; the
// log is synced, the copy written out, and the store brought on, by tasks of their own.
using System.Buffers;
using System.Diagnostics;
using System.Threading.Channels;
using Slogger.Core.Cohorts;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Replication.Following;
using Slogger.Replication.Links;
using Slogger.Replication.Receiving;
using Slogger.Replication.Seeding;

namespace Slogger.Cohorts;

/// <summary>What follows a leader.</summary>
internal sealed class FollowedLife : IAsyncDisposable
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(100);
    private readonly CohortNode _node;
    private readonly IFollowingShard _shard;
    private readonly VersionLog _log;
    private readonly StreamDisk _disk;
    private readonly Follower _machine;
    private readonly ILogger _report;
    private readonly List<ReceiverEffect> _effects = [];
    private readonly Channel<WorldPoint> _targets = Channel.CreateBounded<WorldPoint>(
        new BoundedChannelOptions(1) { FullMode = BoundedChannelFullMode.DropOldest, SingleReader = true });
    private readonly Channel<SyncTicket> _syncs = Channel.CreateUnbounded<SyncTicket>(new() { SingleReader = true });
    private readonly CancellationTokenSource _stop = new();
    private readonly Thread _syncing;
    private readonly Task _applying;
    private Task _copying = Task.CompletedTask;
    private readonly ReadAge _age;              // under its own lock
    private long _currentUs = -1;
    private IReplyLink? _link;
    private ShipMessage _message;
    private volatile bool _isOver;
    private volatile string? _problem;

    /// <summary>Begins with what the disk holds.</summary>
    /// <param name="node">The node.</param>
    /// <param name="options">The process's.</param>
    /// <param name="shard">Whose log and store they are.</param>
    /// <param name="bad">A copy that came whole, and was not what it should be; null: none.</param>
    /// <param name="isAnew">Whether what the log holds is of no use.</param>
    /// <param name="report">For people.</param>
    public FollowedLife(CohortNode node, ServeOptions options, IFollowingShard shard, string? bad, bool isAnew, ILogger report)
    {
        (_node, _shard, _log, _report, BadCopy) = (node, shard, shard.Log, report, bad);
        _age = new(shard.Applied, CohortNode.NowUs);
        _disk = StreamDisk.Open(options.DataDirectory, shard.Log, shard.Checkpoints, shard.Guard, StreamDisk.DatabaseOf);
        SeedPart part = _disk.Part;
        long generation = _disk.Seed?.Generation ?? 0;
        bool hasLog = !_log.IsEmpty && part.Seed is null && !isAnew;
        _machine = new(hasLog
            ? new()
            {
                Shard = options.Shard, Generation = generation, History = _log.History, Lines = _log.Lines, Applied = shard.Applied,
                Floor = _disk.Seed?.Floor ?? default,
            }
            : new() { Shard = options.Shard, Generation = part.Seed is null ? generation + 1 : generation, Copy = part, BadCopy = bad });
        _machine.Begin(_effects);
        _syncing = new Thread(Sync) { Name = "cohort sync", IsBackground = true };
        _syncing.Start();
        _applying = Task.Run(ApplyAsync);
        Perform();
    }

    /// <summary>Whether there is a log; else it is being copied.</summary>
    public bool HasLog => _machine.HasLog;

    /// <summary>A copy that came whole, and was not what it should be; null: none.</summary>
    public string? BadCopy { get; }

    /// <summary>The last version that is known to be committed.</summary>
    public LogIndex Commit => _machine.Commit;

    /// <summary>The store shows all that had been committed at this time, by the node's clock; null: nothing is known. Any
    /// thread.</summary>
    public long? CurrentUs => Volatile.Read(ref _currentUs) is >= 0 and var at ? at : null;

    /// <summary>Why the store cannot be brought on; null: it can. Any thread.</summary>
    public string? Problem => _problem;

    /// <summary>See <see cref="Follower.Learns"/>.</summary>
    public void SetLearns(bool learns) => _machine.Learns = learns;

    /// <summary>The leader has said something.</summary>
    public void Received(in ShipMessage message, IReplyLink link)
    {
        if (_isOver) { return; }
        (_link, _message) = (link, message);
        _machine.Received(message.Request, _effects);
        if (message.Request is ShipRequest.Piece piece) { Aged(a => a.Told(piece.Durable.Point, piece.HeardUs, CohortNode.NowUs)); }
        Perform();
        _message = default;
    }

    /// <summary>Nothing is received any more: the log is another's.</summary>
    public void StopReceiving()
    {
        _isOver = true;
        _syncs.Writer.TryComplete();
        _syncing.Join();
    }

    /// <summary>The copy is whole: the log begins with it. Any thread, when this is disposed.</summary>
    /// <returns>The copy, if it is damaged; null: the log has begun.</returns>
    public async Task<string?> BeginLogAsync(CancellationToken stop)
    {
        Seed seed = _disk.Seed!;
        while (!stop.IsCancellationRequested)
        {
            try
            {
                bool isGood = await _shard.RenewAsync(_disk.Begin, stop).ConfigureAwait(false);
                if (isGood) { _report.Info($"the log begins with a copy of {seed.Bytes} bytes, at {seed.Base}"); }
                else { _report.Error("the copy of the leader's store is damaged (its checksum is another one), and is made anew"); }
                return isGood ? null : seed.Id;
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException or LogIOException { IsFatal: false })
            {
                _report.Error($"the log cannot begin, and it is tried again: {e.Message}");
            }
            await Task.Delay(RetryDelay, stop).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
        return null;
    }

    public async ValueTask DisposeAsync()
    {
        _isOver = true;
        _syncs.Writer.TryComplete();
        await _stop.CancelAsync().ConfigureAwait(false);
        await _applying.ConfigureAwait(false);
        await _copying.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        _syncing.Join();
        _disk.Dispose();
        _stop.Dispose();
    }

    private void Perform()
    {
        for (int i = 0; i < _effects.Count; i++) { Perform(_effects[i]); }
        _effects.Clear();
    }

    private void Perform(ReceiverEffect effect)
    {
        switch (effect)
        {
            case ReceiverEffect.Reply reply: _link?.Reply(reply.Message with { SentUs = CohortNode.NowUs }); break;
            case ReceiverEffect.Append append: Append(append.Piece); break;
            case ReceiverEffect.Rewind rewind: Rewind(rewind.To); break;
            case ReceiverEffect.Sync sync: _syncs.Writer.TryWrite(sync.Ticket); break;
            case ReceiverEffect.Apply apply: _targets.Writer.TryWrite(apply.To); break;
            case ReceiverEffect.Learned: _node.OnLearned(); break;
            case ReceiverEffect.Reseed reseed: _node.BeginAnew(this, reseed.Why); break;
            case ReceiverEffect.WriteCopy copy: WriteCopy(copy.Chunk); break;
            case ReceiverEffect.SyncCopy sync: _copying = SyncCopyAsync(_copying, sync.Ticket); break;
            case ReceiverEffect.Copied: _node.OnCopied(this); break;
            default: throw new UnreachableException();
        }
    }

    private void Append(ShipRequest.Piece piece)
    {
        if (piece.IsBranch)
        {
            ReceivedLog.Begin(_log, piece.To.Line, piece.To.Closed, piece.To.Offset);
            return;
        }
        int length = (int)_message.Bytes.Length;
        if (_message.Bytes.IsSingleSegment)
        {
            ReceivedLog.Append(_log, piece.From, _message.Bytes.FirstSpan, _message.Ends);
            return;
        }
        byte[] bytes = ArrayPool<byte>.Shared.Rent(length);
        _message.Bytes.CopyTo(bytes);
        ReceivedLog.Append(_log, piece.From, bytes.AsSpan(0, length), _message.Ends);
        ArrayPool<byte>.Shared.Return(bytes);
    }

    private void Rewind(LogIndex? to)
    {
        if (to is { } end) { _log.RewindTo(end); }
        else { _log.Rewind(); }
        _machine.Rewound(_log.Lines, _effects);
    }

    private void Sync()
    {
        try
        {
            while (_syncs.Reader.WaitToReadAsync().AsTask().GetAwaiter().GetResult())
            {
                if (!_syncs.Reader.TryRead(out SyncTicket ticket)) { continue; }
                _log.Sync();
                _node.Post(() =>
                {
                    if (_isOver) { return; }
                    _machine.Synced(ticket.Log, _effects);
                    Perform();
                });
            }
        }
        catch (LogException e)
        {
            _shard.OnIntakeFailed(e.Message);
        }
        catch (ObjectDisposedException)
        {
            // It has ended.
        }
    }

    // ---- A copy ----

    private void WriteCopy(in SeedChunk chunk)
    {
        try
        {
            _disk.Write(chunk, _message.Bytes);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or LogIOException { IsFatal: false })
        {
            OnCopyRefused(e);
        }
    }

    private async Task SyncCopyAsync(Task before, SeedTicket ticket)
    {
        await before.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        try
        {
            await Task.Run(_disk.Sync).ConfigureAwait(false);
            _node.Post(() =>
            {
                if (_isOver) { return; }
                _machine.CopySynced(ticket, _effects);
                Perform();
            });
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            await Task.Delay(RetryDelay, _stop.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            _node.Post(() =>
            {
                if (_isOver) { return; }
                OnCopyRefused(e);
                Perform();
            });
        }
    }

    private void OnCopyRefused(Exception e)
    {
        _report.Error($"the copy of the leader's store cannot be written, and is tried again: {e.Message}");
        _disk.Rewind();
        _machine.CopyRefused(_disk.Part, _effects);
    }

    // ---- The store ----

    private async Task ApplyAsync()
    {
        try
        {
            await foreach (WorldPoint told in _targets.Reader.ReadAllAsync(_stop.Token).ConfigureAwait(false))
            {
                WorldPoint to = told;
                while (!await BroughtAsync(to).ConfigureAwait(false))
                {
                    await Task.Delay(RetryDelay, _stop.Token).ConfigureAwait(false);
                    // Whatever hindered it may not concern a later one.
                    if (_targets.Reader.TryRead(out WorldPoint later)) { to = later; }
                }
            }
        }
        catch (OperationCanceledException)
        {
            // Stopping.
        }
    }

    private void Aged(Action<ReadAge> what)
    {
        lock (_age)
        {
            what(_age);
            Volatile.Write(ref _currentUs, _age.CurrentUs ?? -1);
        }
    }

    private async Task<bool> BroughtAsync(WorldPoint to)
    {
        try
        {
            // Before the first version has ended the log's own beginning is a place to go to.
            Boundary end = _log.BoundaryAtOrBelow(to.Version)
                ?? (to.Version == _log.FirstVersion.Previous ? LogPlaces.BaseOf(_log) : null as Boundary?)
                ?? throw new LogHistoryChangedException($"The log does not hold the end of version {to.Version}, which is to be applied.");
            await _shard.BringToAsync(end with { WorldLine = to.WorldLine, Version = to.Version }, _stop.Token).ConfigureAwait(false);
            _problem = null;
            Aged(a => a.Shown(to));
            return true;
        }
        catch (Exception e) when (e is not OperationCanceledException || !_stop.IsCancellationRequested)
        {
            if (e.Message != _problem) { _report.Warn($"the store could not be brought to version {to.Version}, and it is tried again: {e.Message}"); }
            _problem = e.Message;
            return false;
        }
    }
}

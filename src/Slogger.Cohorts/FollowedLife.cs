// One life of a node's log, from a copy to the next: performs what Follower (Core) decides. The node's thread, if nothing else is said.
// What takes time others do: the log is synced (LogSyncer), the copy too (CopyIntake), and the store is brought on (StoreMover).
using System.Buffers;
using System.Diagnostics;
using Slogger.Core.Cohorts;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Proxy.Shards;
using Slogger.Replication.Following;
using Slogger.Replication.Links;
using Slogger.Replication.Receiving;
using Slogger.Replication.Seeding;

namespace Slogger.Cohorts;

/// <summary>What follows a leader.</summary>
internal sealed class FollowedLife : IAsyncDisposable
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(100);
    private readonly FollowedLives _lives;
    private readonly NodeThread _thread;
    private readonly IFollowingShard _shard;
    private readonly VersionLog _log;
    private readonly StreamDisk _disk;
    private readonly Follower _machine;
    private readonly ILogger _report;
    private readonly List<ReceiverEffect> _effects = [];
    private readonly CancellationTokenSource _stop = new();
    private readonly LogSyncer _syncer;
    private readonly StoreMover _mover;
    private readonly CopyIntake _copy;
    private readonly ReadAge _age;              // under its own lock
    private (VersionNumber Version, long Offset) _end;      // the last one that was asked for
    private long _currentUs = -1;
    private IReplyLink? _link;
    private ShipMessage _message;
    private volatile bool _isOver;

    /// <summary>Begins with what the disk holds.</summary>
    /// <param name="lives">Are told how it goes on.</param>
    /// <param name="thread">Its thread.</param>
    /// <param name="options">The process's.</param>
    /// <param name="shard">Whose log and store they are.</param>
    /// <param name="bad">A copy that came whole, and was not what it should be; null: none.</param>
    /// <param name="isAnew">Whether what the log holds is of no use.</param>
    /// <param name="report">For people.</param>
    public FollowedLife(FollowedLives lives, NodeThread thread, ServeOptions options, IFollowingShard shard, string? bad, bool isAnew,
        ILogger report)
    {
        (_lives, _thread, _shard, _log, _report, BadCopy) = (lives, thread, shard, shard.Log, report, bad);
        _age = new(shard.Applied, CohortNode.NowUs);
        _disk = StreamDisk.Open(options.DataDirectory, shard.Log, shard.Checkpoints, shard.Guard, StreamDisk.DatabaseOf);
        SeedPart part = _disk.Part;
        long generation = _disk.Seed?.Generation ?? 0;
        bool hasLog = !_log.IsEmpty && part.Seed is null && !isAnew;
        _machine = new(hasLog
            ? new()
            {
                Shard = options.Shard, Generation = generation, History = _log.History, Lines = _log.Lines, Applied = shard.Applied,
                Floor = _disk.Seed?.Floor ?? default, EndOf = shard.Seat.HasPeers ? EndOf : null,
            }
            : new() { Shard = options.Shard, Generation = part.Seed is null ? generation + 1 : generation, Copy = part, BadCopy = bad });
        _syncer = new(_log, _ => Post(OnSynced), e => shard.OnIntakeFailed(e.Message));
        _mover = new(_log, shard, $"shard {options.Shard}", report, OnArrived);
        _copy = new(_disk, () => _machine, $"shard {options.Shard}", report, PostAsync);
        if (hasLog) { _syncer.Start(_stop.Token); }
        _mover.Begin();
        _machine.Begin(_effects);
        Perform();
        _copy.Show();
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
    public string? Problem => _mover.Problem;

    /// <summary>See <see cref="Follower.Ballot"/>.</summary>
    public void SetBallot(in Ballot ballot) => _machine.Ballot = ballot;

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
        _stop.Cancel();
        _syncer.Join();
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
        StopReceiving();
        await _mover.DisposeAsync().ConfigureAwait(false);
        await _copy.EndAsync().ConfigureAwait(false);
        _syncer.Dispose();
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
            case ReceiverEffect.Sync: _syncer.Request(); break;
            case ReceiverEffect.Apply apply: _mover.Go(apply.To); break;
            case ReceiverEffect.Learned: _lives.OnLearned(); break;
            case ReceiverEffect.Reseed reseed: _lives.BeginAnew(this, reseed.Why); break;
            case ReceiverEffect.WriteCopy copy: _copy.Write(copy.Chunk, _message.Bytes, _effects); break;
            case ReceiverEffect.SyncCopy sync: _copy.Sync(sync.Ticket, OnFailed, _stop.Token); break;
            case ReceiverEffect.Copied: _lives.OnCopied(this); break;
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

    private void OnSynced(List<ReceiverEffect> effects)
    {
        if (_machine.HasLog) { _machine.Synced(_log.DurableClosed, effects); }
    }

    // Asked for again and again, while the metadata is away.
    private long EndOf(VersionNumber version)
    {
        if (_end.Version != version || version == default)
        {
            _end = (version, (_log.BoundaryAtOrBelow(version) ?? LogPlaces.BaseOf(_log)).Offset);
        }
        return _end.Offset;
    }

    private ValueTask OnArrived(WorldPoint at, TimeSpan took)
    {
        Aged(a => a.Shown(at));
        return ValueTask.CompletedTask;
    }

    private void Aged(Action<ReadAge> what)
    {
        lock (_age)
        {
            what(_age);
            Volatile.Write(ref _currentUs, _age.CurrentUs ?? -1);
        }
    }

    private void OnFailed(Exception e) => _shard.OnIntakeFailed(e is LogException ? e.Message : e.ToString());

    private ValueTask PostAsync(Action<List<ReceiverEffect>> input)
    {
        Post(input);
        return ValueTask.CompletedTask;
    }

    private void Post(Action<List<ReceiverEffect>> input) => _thread.Post(() =>
    {
        if (_isOver) { return; }
        input(_effects);
        Perform();
    });
}

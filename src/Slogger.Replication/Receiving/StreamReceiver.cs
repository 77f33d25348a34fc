// Receives one stream at the backup: performs what Core's Receiver decides, on the log of the stream. Links, SQL and the syncing thread
// bring what they have to a strand, which has the machine and the log. It never waits for any of them: only for the disk, where a
// world-line begins.
using System.Buffers;
using System.Diagnostics;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sessions;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Replication.Following;
using Slogger.Replication.Links;
using Slogger.Replication.Seeding;

namespace Slogger.Replication.Receiving;

/// <summary>Who performs what a stream's receiver asks of the backup. One call at a time, but for <see cref="OnFailed"/>, on the thread of
/// whoever has brought something: what takes time is done elsewhere.</summary>
internal interface IStreamOwner
{
    /// <summary>Tell the watermark service.</summary>
    void Report(WatermarkReport report);

    /// <summary>Bring the store to exactly the end of this version, and say so (<see cref="StreamReceiver.Applied"/>).</summary>
    void Apply(WorldPoint to);

    /// <summary>Answer the failover.</summary>
    void Final(FinalReport report);

    /// <summary>The shard can be opened as a primary's.</summary>
    void Open(SiteEpoch number);

    /// <summary>This life of the stream is over: it has to be seeded anew. Said again until the receiver has been stopped.</summary>
    void OnReseed(string why);

    /// <summary>All of the copy that the stream is seeded with is here, durably.</summary>
    void OnCopied();

    /// <summary>The receiver cannot go on: it takes nothing any more, and has ended its calls. Any thread, once.</summary>
    void OnFailed(string why);
}

/// <summary>Where replies to a stream's shipper go. Any thread.</summary>
internal interface IReplyLink
{
    /// <summary>Sends, now or later; never waits. A link that is broken, or does not keep up, drops it.</summary>
    void Reply(ShipReply reply);
}

/// <summary>The receiver of one stream.</summary>
internal sealed class StreamReceiver : IAsyncDisposable
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(200);

    private readonly StreamDisk _disk;
    private readonly VersionLog _log;
    private readonly IMetadataStore _metadata;
    private readonly string _cluster;
    private readonly IStreamOwner _owner;
    private readonly ILogger _report;
    private readonly ReceiverStart _start;
    private Receiver _machine;
    private readonly CopyIntake _copy;
    private readonly Strand _strand;
    private readonly Timer _ticking;
    private readonly Queue<Kept> _kept = new();
    private readonly List<ReceiverEffect> _effects = [];
    private readonly CancellationTokenSource _stopping = new();
    private readonly CancellationToken _stop;
    private IReplyLink? _link;
    private ShipReply? _owed;       // an answer that says all that is known: one is enough for all that has come
    private ShipMessage _message;
    private volatile bool _hasFailed;
    private volatile string? _refusal;
    private int _failures;
    private long _bytesReceived;
    private long _heardAt;
    private Told? _told;
    private Task _syncing = Task.CompletedTask, _syncingBefore = Task.CompletedTask, _noting = Task.CompletedTask, _counting =
        Task.CompletedTask;

    /// <summary>A piece that waits for its turn.</summary>
    private readonly record struct Kept(ShipRequest.Piece Piece, byte[] Bytes, VersionEnd[] Ends);

    private sealed record Told(WorldPoint Watermark);

    /// <summary>Begins with what the log and SQL hold.</summary>
    /// <param name="disk">The stream's log, of this process alone; if that is not of the life that counts, it is being seeded.</param>
    /// <param name="start">What it begins with (<see cref="StreamLife"/>).</param>
    /// <param name="metadata">The backup's SQL.</param>
    /// <param name="cluster">The cluster.</param>
    /// <param name="owner">Performs what is not the log's.</param>
    /// <param name="report">For people.</param>
    public StreamReceiver(StreamDisk disk, ReceiverStart start, IMetadataStore metadata, string cluster, IStreamOwner owner, ILogger report)
    {
        (_disk, _log, _start, _metadata, _cluster, _owner, _report) = (disk, disk.Log, start, metadata, cluster, owner, report);
        _stop = _stopping.Token;
        _machine = new(start);
        _strand = new(Take, Answer);
        _copy = new(disk, () => _machine, $"stream {start.Stream}", report, input => PostAsync(() => input(_effects)));
        if (IsSeeded) { _disk.Guard?.Restart(_log); }
        else { _disk.Rewind(); }
        _machine.Begin(_effects);
        _copy.Show();
        // Time is an input, too, and the first one begins what is due now.
        _ticking = new(static o => ((StreamReceiver)o!)._strand.Post(static () => { }), this, TimeSpan.Zero,
            TimeSpan.FromMicroseconds(start.ReportUs));
    }

    /// <summary>Whether there is a log to go on with; else the stream is being seeded.</summary>
    public bool IsSeeded => _start.History is not null;

    /// <summary>How far the copy is that the stream is being seeded with; null: there is none (yet). For status.</summary>
    public SeedProgress? Seeding => _copy.Progress;

    /// <summary>The newest recorded cut that the stream holds durably. For status.</summary>
    public WorldPoint Held => IsSeeded ? _log.HeldCut : default;

    /// <summary>The watermark, as this process was told. For status.</summary>
    public WorldPoint Watermark => Volatile.Read(ref _told)?.Watermark ?? default;

    /// <summary>How long its shipper has said nothing; null: it never has. For status.</summary>
    public TimeSpan? Silence => Volatile.Read(ref _heardAt) is > 0 and long at ? Stopwatch.GetElapsedTime(at) : null;

    /// <summary>Why nothing of its shipper is taken any more: it has sent what cannot be followed here. What was taken before stays, and
    /// can be taken over. Null: all is taken.</summary>
    public string? Refusal => _refusal;

    /// <summary>Bytes of the stream that have come, what came twice included. For status.</summary>
    public long BytesReceived => Interlocked.Read(ref _bytesReceived);

    /// <summary>A message has come over a link, to which replies go from now on. Returns when it was taken: then its bytes may be used
    /// again.</summary>
    /// <exception cref="OperationCanceledException">It was not: the receiver has stopped, or failed.</exception>
    public async ValueTask ReceivedAsync(ShipMessage message, IReplyLink link)
    {
        Volatile.Write(ref _heardAt, Stopwatch.GetTimestamp());
        var taken = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        await PostAsync(() =>
        {
            // Its bytes are its sender's until this has been said, whatever becomes of it: nobody looks at them later.
            bool isTaken = false;
            try
            {
                if (IsOver || _refusal is not null) { return; }
                if (link != _link) { Answer(); }
                (_link, _message) = (link, message);
                Interlocked.Add(ref _bytesReceived, message.Bytes.Length);
                _machine.Received(message.Request, _effects);
                Perform();
                isTaken = true;
            }
            finally
            {
                _message = default;
                taken.SetResult(isTaken);
            }
        }).ConfigureAwait(false);
        if (!await taken.Task.ConfigureAwait(false)) { throw new OperationCanceledException("The receiver has stopped."); }
    }

    /// <summary>The watermark service says how far the backup may go.</summary>
    public ValueTask WatermarkToldAsync(WorldPoint watermark) => PostAsync(() =>
    {
        if (watermark > Watermark) { Volatile.Write(ref _told, new(watermark)); }
        _machine.WatermarkTold(watermark, _effects);
    });

    /// <summary>The store is where it was to be brought.</summary>
    public ValueTask AppliedAsync(WorldPoint at) => PostAsync(() => _machine.Applied(at, _effects));

    /// <summary>A failover has taken this site epoch, in SQL.</summary>
    public ValueTask FreezeAsync(SiteEpoch number) => PostAsync(() => _machine.Freeze(number, _effects));

    /// <summary>The failover is decided, in SQL.</summary>
    public ValueTask DecidedAsync(SiteEpoch number, WorldPoint final, bool isWord = false) =>
        PostAsync(() => _machine.Decided(number, final, _effects, isWord));

    /// <summary>Has something done to the log while nothing is appended.</summary>
    /// <exception cref="OperationCanceledException">It was not: the receiver has stopped, or failed.</exception>
    public async Task WithLogAsync(Action change)
    {
        var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await PostAsync(() =>
        {
            if (IsOver)
            {
                done.SetCanceled(CancellationToken.None);
                return;
            }
            try
            {
                change();
                done.SetResult();
            }
            catch (Exception e)
            {
                done.SetException(e);
            }
        }).ConfigureAwait(false);
        await done.Task.ConfigureAwait(false);
    }

    /// <summary>Stops. The log is its owner's to close.</summary>
    public async ValueTask DisposeAsync()
    {
        await _stopping.CancelAsync().ConfigureAwait(false);
        await _ticking.DisposeAsync().ConfigureAwait(false);
        await _strand.DrainAsync().ConfigureAwait(false);
        await _syncing.ConfigureAwait(false);
        await _syncingBefore.ConfigureAwait(false);
        await _noting.ConfigureAwait(false);
        await _counting.ConfigureAwait(false);
        await _copy.EndAsync().ConfigureAwait(false);
        Forget();
        _stopping.Dispose();
    }

    private bool IsOver => _stop.IsCancellationRequested || _hasFailed;

    private ValueTask PostAsync(Action input)
    {
        if (IsOver) { return ValueTask.FromException(new OperationCanceledException("The receiver has stopped.", _stop)); }
        _strand.Post(input);
        return ValueTask.CompletedTask;
    }

    // An input that comes too late is run as well, since somebody may wait for it; nothing of it is performed.
    private void Take(Action input)
    {
        try
        {
            input();
            if (!IsOver)
            {
                _machine.Tick((long)Stopwatch.GetElapsedTime(0).TotalMicroseconds, _effects);
                Perform();
            }
        }
        catch (Exception e)
        {
            Fail(e);
        }
        _effects.Clear();
    }

    private void Answer()
    {
        if (_owed is { } owed) { _link?.Reply(owed); }
        _owed = null;
    }

    private void Reply(ShipReply reply)
    {
        if (reply.Kind == ShipReplyKind.Ack)
        {
            _owed = reply;
            return;
        }
        Answer();
        _link?.Reply(reply);
    }

    // A broken invariant, or a disk that failed: whoever runs it decides, and nothing more is taken.
    private void Fail(Exception e)
    {
        if (_stop.IsCancellationRequested || Interlocked.Exchange(ref _failures, 1) != 0) { return; }
        _hasFailed = true;
        _owner.OnFailed(e is LogException or MetadataException ? e.Message : e.ToString());
    }

    private void Perform()
    {
        // What is performed may add to them.
        for (int i = 0; i < _effects.Count; i++) { Perform(_effects[i]); }
        _effects.Clear();
    }

    private void Perform(ReceiverEffect effect)
    {
        switch (effect)
        {
            case ReceiverEffect.Reply reply: Reply(reply.Message); break;
            case ReceiverEffect.Reseed reseed: _owner.OnReseed(reseed.Why); break;
            case ReceiverEffect.WriteCopy copy: _copy.Write(copy.Chunk, _message.Bytes, _effects); break;
            case ReceiverEffect.SyncCopy sync: _copy.Sync(sync.Ticket, Fail, _stop); break;
            case ReceiverEffect.Copied: _owner.OnCopied(); break;
            // One at a time: who is not answered says hello again.
            case ReceiverEffect.NoteSender note when _noting.IsCompleted: _noting = NoteAsync(note.Sender); break;
            case ReceiverEffect.NoteSender: break;
            case ReceiverEffect.Count: _counting = CountAsync(); break;
            case ReceiverEffect.Keep keep: Keep(keep.Piece); break;
            case ReceiverEffect.Append append: Append(append.Piece); break;
            case ReceiverEffect.Forget: Forget(); break;
            case ReceiverEffect.NoteCut note: _log.AppendHeldCut(note.Cut); break;
            case ReceiverEffect.Sync sync: _syncing = SyncAsync(sync.Ticket); break;
            case ReceiverEffect.Report report: _owner.Report(report.Message); break;
            case ReceiverEffect.Apply apply: _owner.Apply(apply.To); break;
            case ReceiverEffect.Final final: _owner.Final(final.Message); break;
            case ReceiverEffect.Void branch:
                Begin(new(_log.Reign, branch.Branch.WorldLine), branch.Branch.At.Version, null);
                _machine.Voided(_effects);
                break;
            case ReceiverEffect.Open open: _owner.Open(open.Number); break;
            default: throw new UnreachableException();
        }
    }

    private void Keep(ShipRequest.Piece piece)
    {
        byte[] bytes = ArrayPool<byte>.Shared.Rent((int)Math.Max(1, _message.Bytes.Length));
        _message.Bytes.CopyTo(bytes);
        _kept.Enqueue(new(piece, bytes, [.. _message.Ends]));
    }

    private void Append(ShipRequest.Piece piece)
    {
        Kept kept = _kept.Dequeue();
        if (kept.Piece != piece) { throw new UnreachableException($"{piece} is to be appended, {kept.Piece} was kept."); }
        if (piece.IsBranch) { Begin(piece.To.Line, piece.To.Closed, piece.To.Offset); }
        else if (IsFollowable(kept)) { Append(kept); }
        ArrayPool<byte>.Shared.Return(kept.Bytes);
    }

    private bool IsFollowable(in Kept kept)
    {
        if (_disk.Guard is not { } guard) { return true; }
        try
        {
            guard.Look(kept.Bytes.AsSpan(0, (int)kept.Piece.DataBytes));
            return true;
        }
        catch (UnfollowableException e)
        {
            Refuse(e);
            return false;
        }
    }

    // The log stays as it is: the machine begins anew with that, as in a process that is started again, and no message of a shipper reaches
    // it.
    private void Refuse(UnfollowableException e)
    {
        _effects.Clear();
        Forget();
        _log.Sync();
        _syncingBefore = _syncing;
        _machine = new(_start with { Log = _log.DurableEnd, Held = _log.HeldCut, Windows = _log.Windows, Applied = _machine.At });
        _refusal = e.Message;
        if (e.IsOver) { _owner.OnReseed(_refusal); }
        else { _report.Error($"stream {_machine.Stream}: nothing is received any more, and the site stays at what it holds: {_refusal}"); }
    }

    private void Append(in Kept kept)
    {
        ReadOnlySpan<byte> bytes = kept.Bytes.AsSpan(0, (int)kept.Piece.DataBytes);
        if (kept.Piece.Window is { } window) { ReceivedLog.AppendPart(_log, kept.Piece, window, bytes, kept.Ends); }
        else { ReceivedLog.Append(_log, kept.Piece.From, bytes, kept.Ends); }
    }

    private void Begin(LogLine line, VersionNumber version, long? offset)
    {
        ReceivedLog.Begin(_log, line, version, offset);
        _disk.Guard?.Restart(_log);
    }

    private void Forget()
    {
        foreach (Kept kept in _kept) { ArrayPool<byte>.Shared.Return(kept.Bytes); }
        _kept.Clear();
    }

    private async Task SyncAsync(SyncTicket ticket)
    {
        try
        {
            // Where there is nothing to write a sync says at once whether the log still works.
            if (_log.IsSynced) { _log.Sync(); }
            else { await Task.Run(_log.Sync, CancellationToken.None).ConfigureAwait(false); }
            await PostAsync(() => _machine.Synced(ticket, _effects)).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // Stopping.
        }
        catch (Exception e)
        {
            Fail(e);
        }
    }

    // If SQL cannot say whether it was noted, the sender says hello again.
    private async Task NoteAsync(Sender sender)
    {
        try
        {
            Sender? newest = null;
            SiteAnswer answer = await _metadata.ChangeSiteAsync(
                _cluster,
                site =>
                {
                    // Somebody else's stream: what he may not admit any more is none of this process's business.
                    if (site.Streams[_machine.Stream.Number].Owner != _start.Owner)
                    {
                        return new(null, $"stream {_machine.Stream} is received by another process");
                    }
                    (SiteState after, newest) = site.Admit(_machine.Stream, sender);
                    return new(after, null);
                },
                _stop).ConfigureAwait(false);
            if (answer.Error is { } error) { Fail(new MetadataException(error)); }
            if (newest is { } known) { await PostAsync(() => _machine.SenderNoted(sender, known, _effects)).ConfigureAwait(false); }
        }
        catch (OperationCanceledException)
        {
            // Stopping.
        }
        catch (MetadataException e)
        {
            _report.Warn($"stream {_machine.Stream}: shipper {sender} has to wait, since the metadata cannot note it: {e.Message}");
        }
    }

    // Said once: until SQL has it, it is tried again.
    private async Task CountAsync()
    {
        while (!_stop.IsCancellationRequested)
        {
            try
            {
                await _metadata.ChangeSiteAsync(_cluster, site => new(site.Count(_machine.Stream, _machine.Generation), null),
                    _stop).ConfigureAwait(false);
                return;
            }
            catch (OperationCanceledException)
            {
                return;
            }
            catch (MetadataUnavailableException)
            {
                await Task.Delay(RetryDelay, _stop).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            }
            catch (MetadataException e)
            {
                Fail(e);
                return;
            }
        }
    }
}

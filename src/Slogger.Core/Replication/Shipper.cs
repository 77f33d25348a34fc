// The primary's half of shipping (the paper's PSA, section 5.2): which piece of a shard's log goes to the backup next, and with what. It
// holds nothing that has to survive: all of it is built anew from the receiver's answer.
//
// The log is sent as soon as it has arrived from the store, before it is durable here, so that the way to the backup hides the sync. Each
// message says how far it *is* durable here, and the receiver takes nothing into its own log before that: a crash of this shard may have it
// go on with other versions than were sent. So what the backup's log holds never has to be taken back but by a world-line that begins.
//
// To a backup that is far behind windows are sent, each in place of the stretch of the log that it stands for (OutgoingWindows).
//
// To a follower of the shard's cohort the same is sent, and "durable" is what the cohort has committed. A follower takes pieces in at once.
// Its log may hold what no majority had, of a leader before: it says through which lines its log has passed, and is told up to where it is
// this one's. All above it rewinds before anything is sent to it.
//
// Contract with the caller
// - Calls are serialised; the log is told of in order: Appended and Branched as it goes on, Synced when it is durable.
// - While WindowWanted is not null it is answered by Made or NotMade, in time.
// - Effects are performed in order. Tick comes when UsToNextTick is over, and after Appended, Synced and CutRecorded.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>What a shipper is doing.</summary>
public enum ShipperState : byte
{
    /// <summary>It has no connection.</summary>
    Away,

    /// <summary>It awaits the receiver's answer to its hello.</summary>
    Greeting,

    /// <summary>It ships.</summary>
    Shipping,

    /// <summary>The backup has to be seeded first; it asks now and then whether it has been.</summary>
    AwaitsSeed,

    /// <summary>The backup was given up.</summary>
    Detached,

    /// <summary>It is not the shard's shipper any more.</summary>
    Deposed,
}

/// <summary>Ships one shard's log. Not thread-safe. Source: the paper, sections 5.2 and 5.5; design, section 10.</summary>
public sealed class Shipper
{
    private readonly ShardId _stream;
    private readonly Sender _self;
    private readonly StreamHistory _history;
    private readonly ShipperOptions _options;
    private readonly ShipMutation _mutation;
    private readonly List<LogBranch> _branches;
    private long _start;               // what lies below is not kept for the backup
    private readonly long _began;      // where the log ended when this began
    private bool _hasAnswered;         // the receiver has said where it is
    private readonly SentPieces _pieces = new();
    private LogIndex _end;             // of the log: what has arrived
    private LogIndex _durable;         // here
    private LogIndex _sent;            // the paper's sent-spec
    private LogIndex _received;        // the paper's sent-acked
    private LogIndex _backedUp;        // the paper's b-commit
    private WorldPoint _cut;
    private WorldPoint _cutSent;
    private LogIndex _durableSent;
    private bool _owesDurable;         // a cut was sent, and what it covers could not be taken in yet
    private LogIndex _backTo;          // where a nack has had it go back to, and when
    private long _backUs = long.MinValue / 2;
    private long _sentUs;
    private long _progressUs;
    private readonly OutgoingWindows _windows;
    private bool _isConnected;
    private bool _isHeld;
    private bool _isWarned;

    /// <summary>Begins, without a connection.</summary>
    /// <param name="stream">The shard.</param>
    /// <param name="self">This process of it, under this site's epoch.</param>
    /// <param name="history">The history of its log.</param>
    /// <param name="branches">The world-lines that have begun in it, in order.</param>
    /// <param name="start">The first offset that it still holds.</param>
    /// <param name="end">Up to where the log goes; all of it is durable.</param>
    /// <param name="cut">The recorded cut.</param>
    /// <param name="options">Bounds.</param>
    public Shipper(ShardId stream, Sender self, StreamHistory history, IEnumerable<LogBranch> branches, long start, LogIndex end,
        WorldPoint cut, ShipperOptions options)
        : this(stream, self, history, branches, start, end, cut, options, ShipMutation.None)
    {
    }

    internal Shipper(
        ShardId stream, Sender self, StreamHistory history, IEnumerable<LogBranch> branches, long start, LogIndex end, WorldPoint cut,
            ShipperOptions options, ShipMutation mutation)
    {
        (_stream, _self, _history, _options, _mutation) = (stream, self, history, options, mutation);
        _branches = [.. branches];
        _windows = new(options, mutation);
        (_start, _end, _durable, _cut, _began) = (start, end, end, cut, end.Offset);
    }

    /// <summary>To a follower of a cohort: where the log's own beginning is, as the beginning of its first line.</summary>
    public LogBranch First { get; init; }

    /// <summary>Of a cohort's log: what that has committed when this begins. Else all that was given as the end.</summary>
    public LogIndex Committed { init => _durable = value; }

    /// <summary>See <see cref="ShipRequest.Piece.HeardUs"/>: as of when it was last said what is durable.</summary>
    public long HeardUs { get; set; }

    /// <summary>To a follower of a cohort: whether it votes from now on (<see cref="ShipRequest.Piece.Admits"/>).</summary>
    public bool Admits { get; set; }

    /// <summary>What it is doing.</summary>
    public ShipperState State { get; private set; }

    /// <summary>Which life of the stream it ships to.</summary>
    public long Generation { get; private set; }

    /// <summary>Up to where the receiver has the log, as far as is known here; from here on it is sent again after a loss.</summary>
    public LogIndex Received => _received;

    /// <summary>Up to where the backup has the log durable.</summary>
    public LogIndex BackedUp => _backedUp;

    /// <summary>Bytes that are on their way to the receiver.</summary>
    public long WindowUsed => _pieces.Bytes;

    /// <summary>Bytes of the log that are kept for the backup, as far as they count. Before it has answered nobody knows what it needs of
    /// what there was: that does not.</summary>
    public long Kept => KeepFrom is { } from ? _end.Offset - (_hasAnswered ? from : Math.Max(from, _began)) : 0;

    /// <summary>The windows that may yet be sent, or sent again.</summary>
    public IReadOnlyList<ShipWindow> Windows => _windows.Made;

    /// <summary>Bytes of the log in whose place windows have arrived, less what was left of them.</summary>
    public long BytesSpared => _windows.BytesSpared;

    /// <summary>Whether the receiver is so far behind that windows are sent, as far as it takes them.</summary>
    public bool SendsWindows => State == ShipperState.Shipping && _windows.AreSent;

    // Nothing can be sent before the receiver has said that it has more.
    private bool IsFull => _pieces.Count >= _options.PiecesMax || _pieces.Bytes >= _options.WindowBytes;

    /// <summary>Whether something is to be sent when more is durable here. Else what is durable goes with the next cut.</summary>
    public bool AwaitsSync => _owesDurable || _options.DurableUs != long.MaxValue;

    /// <summary>A window is wanted that begins where this ends, and ends at or below the version; null: none is.</summary>
    public (LogIndex From, VersionNumber Below)? WindowWanted =>
        State == ShipperState.Shipping ? _windows.WantedAt(_sent, _end) : null;

    /// <summary>What the backup as a whole has durable, and will never lose: what a commit of scope `backup` waits for.</summary>
    public WorldPoint Watermark { get; private set; }

    /// <summary>The log is needed from this offset on; null: nothing of it is. What is not durable at the backup may not be trimmed, nor
    /// what a seed that is being sent begins at (the driver's business).</summary>
    public long? KeepFrom => State switch
    {
        ShipperState.Detached or ShipperState.Deposed or ShipperState.AwaitsSeed => null,
        // Before the first answer: all that there is.
        _ => Math.Max(_start, _backedUp.Line < _end.Line && BranchAfter(_backedUp.Line) is { } branch
            ? Math.Min(branch.Offset, _backedUp.Offset) : _backedUp.Offset),
    };

    /// <summary>The log goes up to here now, durable or not.</summary>
    public void Appended(LogIndex end) => _end = LogIndex.Max(_end, end);

    /// <summary>The log is durable up to here.</summary>
    public void Synced(LogIndex durable) => _durable = LogIndex.Max(_durable, durable);

    /// <summary>A line has begun in the log, durably: what it held above is void.</summary>
    public void Branched(LogBranch branch)
    {
        if (_branches.Count > 0 && _branches[^1].Line >= branch.Line) return;
        _branches.Add(branch);
        _start = Math.Min(_start, branch.Offset);
        Appended(branch.Index);
        Synced(branch.Index);
    }

    /// <summary>The cut in SQL has moved on.</summary>
    public void CutRecorded(WorldPoint cut)
    {
        if (cut <= _cut) return;
        _cut = cut;
        _windows.CutRecorded(cut);
    }

    /// <summary>The window that was wanted is made.</summary>
    public void Made(in ShipWindow window)
    {
        if (window.From == WindowWanted?.From) _windows.Add(window);
    }

    /// <summary>None is made that begins below an offset: up to there the log is sent as it is.</summary>
    /// <param name="from">Where one was wanted.</param>
    /// <param name="until">Above that.</param>
    public void NotMade(LogIndex from, long until)
    {
        if (from == WindowWanted?.From) _windows.NoneBelow(until);
    }

    /// <summary>There is a connection to the receiver, a new one.</summary>
    public void Connected(long nowUs, List<ShipperEffect> effects)
    {
        _isConnected = true;
        if (State is not (ShipperState.Deposed or ShipperState.Detached)) Greet(nowUs, effects);
    }

    /// <summary>The connection is gone. What was sent may have arrived.</summary>
    public void Disconnected()
    {
        _isConnected = false;
        _windows.Clear();
        if (State is ShipperState.Greeting or ShipperState.Shipping) State = ShipperState.Away;
    }

    /// <summary>The backup, given up before, is wanted again.</summary>
    public void Attach(long nowUs, List<ShipperEffect> effects)
    {
        if (State != ShipperState.Detached) return;
        State = ShipperState.Away;
        // What has come since was not kept for it either.
        _start = _durable.Offset;
        if (_isConnected) Greet(nowUs, effects);
    }

    /// <summary>Microseconds until time alone has something sent, if nothing else happens; 0 or less for at once.
    /// <see cref="long.MaxValue"/>: it never has.</summary>
    public long UsToNextTick(long nowUs)
    {
        if (State is ShipperState.Greeting or ShipperState.AwaitsSeed) return _sentUs + _options.ResendUs - nowUs;
        if (State != ShipperState.Shipping) return long.MaxValue;
        long sinceUs = nowUs - _sentUs, waitUs = (Durable > _durableSent ? Math.Min(_options.DurableUs, _options.HeartbeatUs)
            : _options.HeartbeatUs) - sinceUs;
        return _pieces.Count == 0 ? waitUs : Math.Min(waitUs, _progressUs + _options.ResendUs - nowUs);
    }

    /// <summary>Time passes, or there is more to send.</summary>
    public void Tick(long nowUs, IShippedLog log, List<ShipperEffect> effects)
    {
        WatchBudget(effects);
        _windows.Look(_durable.Offset - Math.Max(_received.Offset, _sent.Offset));
        if (SendsWindows) _windows.Extend(_sent.Point, Watermark, _cut);
        switch (State)
        {
            case ShipperState.Greeting or ShipperState.AwaitsSeed when _isConnected && nowUs - _sentUs >= _options.ResendUs:
                Greet(nowUs, effects);
                break;
            case ShipperState.Shipping:
                if (_pieces.Count > 0 && nowUs - _progressUs >= _options.ResendUs) GoBack(_received, nowUs);
                Ship(nowUs, log, effects);
                break;
        }
    }

    /// <summary>The receiver says something.</summary>
    /// <returns>Whether something may have to be sent because of it: a tick is due.</returns>
    public bool Replied(ShipReply reply, long nowUs, List<ShipperEffect> effects)
    {
        (ShipperState state, LogIndex sent, bool wasFull, int before) = (State, _sent, IsFull, effects.Count);
        Take(reply, nowUs, effects);
        return effects.Count > before || State != state || _sent != sent || wasFull || SendsWindows;
    }

    private void Take(ShipReply reply, long nowUs, List<ShipperEffect> effects)
    {
        if (State is ShipperState.Deposed or ShipperState.Detached) return;
        if (reply.Newest > _self)
        {
            Depose(reply.Newest, effects);
            return;
        }

        bool isGreeting = State is ShipperState.Greeting or ShipperState.AwaitsSeed;
        switch (reply.Kind)
        {
            case ShipReplyKind.NeedsSeed:
                if (!isGreeting && (State != ShipperState.Shipping || reply.Generation != Generation)) break;
                Generation = reply.Generation;
                AwaitSeed(reply.Ask is { } ask ? new ShipperEffect.Copy(ask)
                    : SeedFor("the backup has no log of this shard's history, or of what it was seeded with none that counts"), effects);
                break;
            case ShipReplyKind.WhoAreYou:
                if (State == ShipperState.Shipping) Greet(nowUs, effects);
                break;
            case ShipReplyKind.Welcome when isGreeting:
                Welcome(reply, nowUs, effects);
                break;
            case ShipReplyKind.Ack or ShipReplyKind.Nack when State == ShipperState.Shipping && reply.Generation == Generation:
                Learn(reply);
                LogIndex back = reply.Window is { } part && !_windows.Made.Contains(part) ? part.From : reply.Received;
                bool isInLog = reply.Window is null && _mutation != ShipMutation.PlaceInLogIsInWindow;
                // One that was overtaken misses what the receiver has by now, and what the log may no longer hold.
                if (isInLog && back >= _backedUp && _windows.DropAround(back)) GoBack(back, nowUs);
                Acknowledged(back, nowUs);
                if (reply.Kind == ShipReplyKind.Nack && back >= _backedUp && _mutation != ShipMutation.ResendForgotten
                    && (back != _backTo || nowUs - _backUs >= _options.ResendUs)) GoBack(back, nowUs);
                break;
        }
    }

    private void Greet(long nowUs, List<ShipperEffect> effects)
    {
        if (State != ShipperState.AwaitsSeed) State = ShipperState.Greeting;
        _sentUs = nowUs;
        effects.Add(new ShipperEffect.Send(new ShipRequest.Hello(_stream, _self, _history)));
    }

    private void Welcome(ShipReply reply, long nowUs, List<ShipperEffect> effects)
    {
        LogIndex at = reply.Received;
        Generation = reply.Generation;
        if (reply.Lines is { } theirs)
        {
            // A follower's: what lies above the last place at which the two agree, no majority had.
            if (Lines.AgreesWith(theirs) is not { } agreed)
            {
                AwaitSeed(SeedFor($"its log ends at {theirs.End}, and has nothing in common with this one ({_end})"), effects);
                return;
            }
            if (agreed != theirs.End)
            {
                effects.Add(new ShipperEffect.Send(new ShipRequest.Rewind(_stream, _self, agreed)));
                return;
            }
        }
        // A log that goes further than this one, in its own line or in one that this log does not know, is of another history.
        bool isKnown = at.Line == _end.Line ? at <= _end : at.Line < _end.Line && BranchAfter(at.Line) is not null;
        if (!isKnown)
        {
            AwaitSeed(SeedFor($"the backup's log ends at {at}, where this shard's never was ({_end})"), effects);
            return;
        }

        if (_branches.Count >= LogBranch.KeptMax && at.Line < _branches[0].Line)
        {
            AwaitSeed(SeedFor($"the backup's log ends at {at}, more than {LogBranch.KeptMax} world-lines ago"), effects);
            return;
        }

        if (at.Offset < _start)
        {
            AwaitSeed(SeedFor($"the log is kept from offset {_start} on, and the backup's ends at {at}"), effects);
            return;
        }

        if (_options.AtBudget == BudgetChoice.Detach && _end.Offset - at.Offset >= _options.BudgetBytes)
        {
            AwaitSeed(SeedFor($"the backup's log ends at {at}, further behind {_end} than the log is kept for it"), effects);
            return;
        }

        (State, _hasAnswered) = (ShipperState.Shipping, true);
        (_cutSent, _durableSent, _backTo) = (default, default, default);
        _backedUp = reply.Durable;
        Learn(reply);
        _windows.Welcomed(Watermark);
        if (_mutation != ShipMutation.ResendForgotten || _sent < at) GoBack(at, nowUs);
    }

    private void AwaitSeed(ShipperEffect by, List<ShipperEffect> effects)
    {
        State = ShipperState.AwaitsSeed;
        _windows.Clear();
        if (_isHeld) effects.Add(new ShipperEffect.HoldWrites(_isHeld = false));
        effects.Add(by);
    }

    private ShipperEffect.Seed SeedFor(string why) => new(Generation, why);

    private void Depose(Sender by, List<ShipperEffect> effects)
    {
        State = ShipperState.Deposed;
        effects.Add(by.Site > _self.Site ? new ShipperEffect.SiteDeposed(by) : new ShipperEffect.ShardTaken(by));
    }

    private void Learn(ShipReply reply)
    {
        _backedUp = LogIndex.Max(_backedUp, reply.Durable);
        if (reply.Watermark > Watermark) Watermark = reply.Watermark;
        _windows.AreTaken = reply.TakesWindows;
    }

    private void Acknowledged(LogIndex received, long nowUs)
    {
        if (received <= _received) return;
        (_received, _progressUs) = (received, nowUs);
        _windows.Arrived(received);
        _pieces.Arrived(received);
        // What an earlier connection had sent has arrived after all.
        if (received > _sent) GoBack(received, nowUs);
    }

    /// <summary>All beyond is sent again, and the cut with it. What the receiver has already it passes over.</summary>
    private void GoBack(LogIndex to, long nowUs)
    {
        (_sent, _received, _backTo, _cutSent) = (to, to, to, default);
        (_progressUs, _backUs) = (nowUs, nowUs);
        _windows.GoBack(to);
        _pieces.GoBack(to);
    }

    private void Ship(long nowUs, IShippedLog log, List<ShipperEffect> effects)
    {
        bool isSaid = false;
        while (!IsFull)
        {
            LogIndex from = _sent;
            if (WindowWanted is not null) break;
            ShipWindow? window = _windows.At(from);
            if ((window is { } part ? _windows.EndOfPart(part, from) : EndOfNext(log)) is not { } to)
            {
                AwaitSeed(SeedFor($"the log no longer reaches back to {from}, where the backup's ends"), effects);
                return;
            }

            if (to == from || (window is null && MayWait(from, to, nowUs))) break;
            if (_pieces.Count == 0) _progressUs = nowUs;
            Send(from, to, nowUs, effects, window);
            (isSaid, _sent) = (true, to);
        }

        // Idle shards speak too: the watermark is the least of what is known of all streams. What is durable here is news only with a cut:
        // until then the receiver could not count it, and it takes in both at once.
        bool isNews = Cut > _cutSent || (_owesDurable && _pieces.Confirm(Durable) >= _cutSent.Version)
            || (Durable > _durableSent && nowUs - _sentUs >= _options.DurableUs);
        if (!isSaid && (isNews || nowUs - _sentUs >= _options.HeartbeatUs)) Send(_sent, _sent, nowUs, effects);
    }

    // Ends of versions behind nothing new, and few bytes, are of no use before there is a cut; they go with that.
    private bool MayWait(in LogIndex from, in LogIndex to, long nowUs) =>
        to.Offset - from.Offset < _options.FewBytes && to.Line == from.Line && Cut <= _cutSent
            && nowUs - _sentUs < _options.HeartbeatUs;

    private LogIndex Durable => _mutation == ShipMutation.EndIsDurable ? _end : _durable;

    private WorldPoint Cut => _mutation == ShipMutation.OwnDurableIsCut ? _durable.Point : _windows.CutToName ?? _cut;

    private void Send(LogIndex from, LogIndex to, long nowUs, List<ShipperEffect> effects, ShipWindow? window = null)
    {
        (_sentUs, _cutSent, _durableSent) = (nowUs, Cut, Durable);
        _windows.CutNamed();
        ShipRequest.Piece piece = new(_stream, _self, from, to, Durable, _cutSent, _options.WantsEcho ? nowUs : 0)
        {
            Admits = Admits, HeardUs = HeardUs, Window = window,
        };
        if (!piece.IsHeartbeat) _pieces.Add(to, piece.DataBytes);
        _owesDurable = _pieces.Confirm(Durable) < _cutSent.Version;
        effects.Add(new ShipperEffect.Send(piece));
    }

    /// <summary>The end of the piece that follows what was sent; that itself if there is none, null if the log has been trimmed.</summary>
    private LogIndex? EndOfNext(IShippedLog log)
    {
        int bytesMax = _windows.PieceBytesAt(_sent);
        // What is durable here the receiver takes in at once; together with what is not it would wait for that.
        if (_sent.Line == _end.Line) return _sent < _end
            ? log.EndOfPiece(_sent, _sent < _durable ? _durable : _end, bytesMax) : _sent;
        // Nothing that a later line has made void is sent any more; what it keeps of this one is, and then its beginning.
        if (BranchAfter(_sent.Line) is not { } branch) return null;
        if (_sent.Offset <= branch.Offset && _sent.Closed < branch.Version)
        {
            LogIndex limit = _sent with { Offset = branch.Offset, Closed = branch.Version };
            if (log.EndOfPiece(_sent, limit, bytesMax) is not { } kept) return null;
            if (kept != _sent) return kept;
        }

        return branch.Index;
    }

    // Of a log that has passed through more lines than it remembers, those that it remembers.
    private LogLines Lines => new(_branches.Count >= LogBranch.KeptMax ? [.. _branches] : [First, .. _branches], _end);

    // The next line that is to be told of. One whose beginning is void is not: a world-line may branch off below the record of the reign
    // in which it begins.
    private LogBranch? BranchAfter(LogLine line)
    {
        foreach (LogBranch b in _branches)
            if (b.Line > line && _branches.TrueForAll(other => b.IsKeptBy(other))) return b;
        return null;
    }

    private void WatchBudget(List<ShipperEffect> effects)
    {
        if (KeepFrom is null) return;
        long kept = Kept;
        bool isNear = kept >= _options.BudgetBytes * _options.WarnPercent / 100, isOver = kept >= _options.BudgetBytes;
        if (isNear && !_isWarned) effects.Add(new ShipperEffect.Warn(kept));
        _isWarned = isNear;
        if (isOver && _options.AtBudget == BudgetChoice.Detach)
        {
            State = ShipperState.Detached;
            _windows.Clear();
            _start = _durable.Offset;
            effects.Add(new ShipperEffect.Detached());
        }
        else if (isOver ? !_isHeld : _isHeld && !isNear)
        {
            // Once held they are let go on only well below: else each message would let a few through.
            effects.Add(new ShipperEffect.HoldWrites(_isHeld = isOver));
        }
    }
}

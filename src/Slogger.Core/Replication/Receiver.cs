// The backup's half of shipping (the paper's BSA, section 5.3), for one stream: what goes into the backup's log, what of it counts, and how
// far the store may follow.
//
// Pieces are taken in order, and wait in memory until the sender says that they are durable at the primary (`Durable`): so the log here is
// at any time a beginning of the primary's, whoever owns the shard there, and nothing of it has to be taken back but by a world-line that
// begins. A later process of the primary may go on otherwise than an earlier one has sent; what is still in memory is forgotten when it
// says hello.
//
// What counts is not how far the log goes, but the newest *recorded cut* that it reaches: a recovery of the primary may go back behind
// anything else (I4). Each cut that the log has come to is noted in it, in order with the rest, and counts when the note is durable. So all
// that was ever reported is known again after a crash of every backup process at once, when the primary cannot be asked any more.
//
// What has to be durable, and where:
// - the log's bytes, ends of versions and world-lines, and the notes of cuts (the last one is enough: restated in each new file's header);
// - in SQL (SiteState): the newest sender, before it is answered, so that one that was deposed is refused for good (I6); the stream's
// generation; the site epoch, which a failover raises before it asks for final reports, so that a receiver that starts is frozen as the one
// before was. Not: pieces in memory, cuts that the log does not reach yet, the watermark and what the store has of it. All that is told
// again, or less is known for a moment.
//
// Contract with the caller: calls are serialised, effects performed in order. The log is this process's alone: who opens it shuts out all
// before.
using Slogger.Core.Identities;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>Receives one stream. Not thread-safe. Source: the paper, sections 5.3, 5.5 and 5.6; design, section 10.</summary>
public sealed class Receiver : ICopyReceiver
{
    private readonly ReceiverStart _start;
    private readonly ShipMutation _mutation;
    private readonly StagedPieces _staged = new();
    private readonly HeldCuts _ahead = new();
    private readonly SeedReceiver? _seeding;
    private LogWindows _windows;
    private Sender _newest;
    private Sender? _current;          // whose pieces are taken
    private SiteEpoch _site;
    private bool _isFrozen;
    private bool _isFinalDue;
    private LogIndex _received;
    private LogIndex _confirmed;       // durable at the primary
    private LogIndex _appended;
    private LogIndex _durable;
    private WorldPoint _noted;
    private WorldPoint _held;
    private WorldPoint _watermark;
    private WorldPoint _applyTo;
    private WorldPoint _applied;
    private WorldPoint? _final;
    private long _echoUs;
    private long _echoNextUs;
    private bool _isSyncing;
    private bool _isCounted;
    private (int Pieces, long Bytes) _unanswered;
    private long _reportedUs = long.MinValue / 2;

    /// <summary>Begins with what the log and SQL hold.</summary>
    public Receiver(ReceiverStart start)
        : this(start, ShipMutation.None)
    {
    }

    internal Receiver(ReceiverStart start, ShipMutation mutation)
    {
        (_start, _mutation) = (start, mutation);
        // Who has ruled under an older site epoch hears that there is a newer one.
        _newest = start.Newest.Site < start.Site ? new(start.Site, 0, 0) : start.Newest;
        (_site, _isFrozen) = Is(ShipMutation.FreezeForgotten) ? (default, false) : (start.Site, start.IsFrozen);
        _received = _appended = _durable = start.Log;
        _noted = _held = start.Held;
        _windows = start.Windows;
        _applyTo = _applied = _watermark = start.Applied;
        if (!IsSeeded) _seeding = new(start.Generation, start.Copy, start.BadCopy, start.CopySyncBytes, mutation);
    }

    /// <summary>The primary's shard.</summary>
    public ShardId Stream => _start.Stream;

    /// <summary>Which life of the stream.</summary>
    public long Generation => _start.Generation;

    /// <summary>Whether there is a log to go on with.</summary>
    public bool IsSeeded => _start.History is not null;

    /// <summary>Whether nothing is received any more, since a failover is under way.</summary>
    public bool IsFrozen => _isFrozen;

    /// <summary>Up to where the log is durable.</summary>
    public LogIndex Durable => _durable;

    /// <summary>The newest recorded cut that this stream holds durably.</summary>
    public WorldPoint Held => _held;

    /// <summary>Where the store is.</summary>
    public WorldPoint At => _applied;

    /// <inheritdoc />
    public (Seed Of, long HasBytes)? Copy => _seeding is { Seed: { } seed } seeding ? (seed, seeding.HasBytes) : null;

    /// <inheritdoc />
    public void Begin(List<ReceiverEffect> effects) => _seeding?.SyncIfDue(effects);

    /// <inheritdoc />
    public void CopySynced(in SeedTicket ticket, List<ReceiverEffect> effects) => _seeding?.Synced(ticket, effects);

    /// <inheritdoc />
    public void CopyRefused(in SeedPart part, List<ReceiverEffect> effects) => _seeding?.Refused(part, effects);

    /// <summary>The stream's shipper says something.</summary>
    public void Received(ShipRequest request, List<ReceiverEffect> effects)
    {
        switch (request)
        {
            case ShipRequest.Hello hello: Greeted(hello, effects); break;
            case ShipRequest.Piece piece: Take(piece, effects); break;
            case ShipRequest.WantsSeed wanted: GiveUp(wanted, effects); break;
            case ShipRequest.Copied copied: TakeCopy(copied, effects); break;
        }
    }

    /// <summary>SQL has noted a sender, or knows of a newer one.</summary>
    /// <param name="sender">Which.</param>
    /// <param name="newest">The newest one that it knows of: this one, if it is that.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void SenderNoted(Sender sender, Sender newest, List<ReceiverEffect> effects)
    {
        if (newest > _newest) _newest = newest;
        if (_newest.Site > _site) _site = _newest.Site;
        if (sender < _newest || _isFrozen)
        {
            effects.Add(Say(ShipReplyKind.NotLeader));
            return;
        }

        Accept(sender, effects);
    }

    /// <summary>A sync has ended.</summary>
    public void Synced(in SyncTicket ticket, List<ReceiverEffect> effects)
    {
        _isSyncing = false;
        _durable = LogIndex.Max(_durable, ticket.Log);
        if (ticket.Of == _current) _echoUs = Math.Max(_echoUs, ticket.EchoUs);
        Hold(ticket.Cut, effects);
        SyncIfDue(effects);
        if (_isFrozen) FinishFreeze(effects);
        else if (_current is not null) effects.Add(Say(ShipReplyKind.Ack));
    }

    /// <summary>The watermark service says how far the backup may go.</summary>
    public void WatermarkTold(WorldPoint watermark, List<ReceiverEffect> effects)
    {
        // Between the final report and the decision nobody may go on: the decision could lie below.
        if (_isFrozen) return;
        if (watermark > _watermark)
        {
            _watermark = watermark;
            // Somebody at the primary may wait for just that.
            if (_current is not null) effects.Add(Say(ShipReplyKind.Ack));
        }

        // From a time at which an earlier generation counted, or of one that counts without this stream: it will be told again.
        if ((watermark > _held && !Is(ShipMutation.HeldByReceipt)) || watermark < _start.Floor || _windows.Hides(watermark)) return;
        if (!_start.Counts && !_isCounted) effects.Add(new ReceiverEffect.Count());
        _isCounted = true;
        ApplyUpTo(watermark, effects);
    }

    /// <summary>The store is where it was to be brought.</summary>
    public void Applied(WorldPoint at, List<ReceiverEffect> effects)
    {
        if (at > _applied) _applied = at;
        if (_final is not { } final || _applied != final) return;
        if (Is(ShipMutation.OpensBeforeVoid)) Voided(effects);
        effects.Add(new ReceiverEffect.Void(new(_site.FirstWorldLine, Is(ShipMutation.NothingVoided) ? _durable.Point : final)));
    }

    /// <summary>Time passes.</summary>
    public void Tick(long nowUs, List<ReceiverEffect> effects)
    {
        if (_isFrozen || nowUs - _reportedUs < _start.ReportUs) return;
        _reportedUs = nowUs;
        Report(effects);
    }

    // ---- Failover ----

    /// <summary>A failover has taken this site epoch, in SQL. It is answered with the final report, each time that it asks.</summary>
    public void Freeze(SiteEpoch number, List<ReceiverEffect> effects)
    {
        if (number < _site || !IsSeeded) return;
        (_site, _isFrozen, _isFinalDue) = (number, true, true);
        if (_newest.Site < number) _newest = new(number, 0, 0);
        Drop(effects);
        _current = null;
        SyncIfDue(effects);
        FinishFreeze(effects);
    }

    /// <summary>The failover is decided, in SQL: the store goes to exactly the final watermark, and what lies above is void.</summary>
    /// <param name="number">The failover.</param>
    /// <param name="final">The final watermark.</param>
    /// <param name="effects">Receives what is to be done.</param>
    /// <param name="isWord">Whether a manager says so, and SQL was not read here. A manager may say it to a receiver that was deposed
    /// before, and holds less: that does nothing.</param>
    /// <exception cref="BrokenInvariantException">I4: this stream does not hold it, or its store is beyond it.</exception>
    public void Decided(SiteEpoch number, WorldPoint final, List<ReceiverEffect> effects, bool isWord = false)
    {
        if (number != _site || _final == final || (isWord && (final > _held || _windows.Hides(final)))) return;
        if (final > _held) throw new BrokenInvariantException($"I4: stream {Stream} holds {_held}, the final watermark is {final}");
        if (_windows.Hides(final)) throw new BrokenInvariantException(
            $"I4: stream {Stream} has windows from {_windows.Base} to {_windows.From}, the final watermark is {final}");
        if (final < _applied) throw new BrokenInvariantException(
            $"I4: stream {Stream} is applied up to {_applied}, the final watermark is {final}");
        (_isFrozen, _final) = (true, final);
        ApplyUpTo(final, effects);
        if (_applied == final) Applied(final, effects);
    }

    /// <summary>The new world-line has begun in the log.</summary>
    public void Voided(List<ReceiverEffect> effects) => effects.Add(new ReceiverEffect.Open(_site));

    private void FinishFreeze(List<ReceiverEffect> effects)
    {
        if (!_isFinalDue || _isSyncing) return;
        _isFinalDue = false;
        FinalReport report = new(_site, Stream, Generation, _start.Owner, _held);
        // A watermark that has passed the windows was told: nobody asks for what came before.
        bool isPassed = !HidesCuts || _watermark >= _windows.From;
        effects.Add(new ReceiverEffect.Final(isPassed ? report : report with { Held = _windows.Base, Behind = (_windows.From, _held) }));
        if (Is(ShipMutation.FrozenGoesOn)) (_isFrozen, _site, _newest) = (false, default, default);
    }

    // ---- Who ships ----

    private void Greeted(ShipRequest.Hello hello, List<ReceiverEffect> effects)
    {
        Sender sender = hello.Sender;
        if (IsOlder(sender) && !Is(ShipMutation.OlderSenderAccepted)) effects.Add(Say(ShipReplyKind.NotLeader));
        else if (hello.History != _start.History)
            NeedSeed($"the primary's log is of another history ({hello.History.ReplicationId} from {hello.History.Offset} on)", effects);
        else if (sender == _current)
        {
            // Whoever connects anew does not know what the rest of a window was.
            if (_staged.Partial is not null) Drop(effects);
            effects.Add(Say(ShipReplyKind.Welcome));
        }
        else if (Is(ShipMutation.SenderNotRecorded) || Is(ShipMutation.OlderSenderAccepted)) Accept(sender, effects);
        else effects.Add(new ReceiverEffect.NoteSender(sender));
    }

    private bool IsOlder(Sender sender) => sender < _newest || sender.Site < _site || _isFrozen;

    // What there is of the stream is of no use to its shipper. While there is nothing it is being seeded.
    private void NeedSeed(string why, List<ReceiverEffect> effects)
    {
        effects.Add(Say(ShipReplyKind.NeedsSeed));
        if (IsSeeded) effects.Add(new ReceiverEffect.Reseed(why));
    }

    private void GiveUp(ShipRequest.WantsSeed wanted, List<ReceiverEffect> effects)
    {
        if (IsOlder(wanted.Sender)) effects.Add(Say(ShipReplyKind.NotLeader));
        else if (wanted.Generation == Generation && IsSeeded) effects.Add(new ReceiverEffect.Reseed("the primary cannot go on with it"));
    }

    private void TakeCopy(ShipRequest.Copied copied, List<ReceiverEffect> effects)
    {
        if (IsOlder(copied.Sender))
        {
            effects.Add(Say(ShipReplyKind.NotLeader));
            return;
        }

        if (_seeding is not { } seeding) return;
        seeding.Take(copied.Chunk, effects);
        effects.Add(Say(ShipReplyKind.NeedsSeed));
    }

    private void Accept(Sender sender, List<ReceiverEffect> effects)
    {
        if (_newest < sender) _newest = sender;
        if (_site < sender.Site) _site = sender.Site;
        if (_current != sender && !Is(ShipMutation.StagedOutlivesSender)) Drop(effects);
        // By another clock.
        if (_current != sender) _echoUs = _echoNextUs = 0;
        _current = sender;
        effects.Add(Say(ShipReplyKind.Welcome));
    }

    private void Drop(List<ReceiverEffect> effects)
    {
        if (!_staged.IsEmpty) effects.Add(new ReceiverEffect.Forget());
        _staged.Clear();
        (_received, _confirmed) = (_appended, default);
    }

    // ---- What is shipped ----

    private void Take(ShipRequest.Piece piece, List<ReceiverEffect> effects)
    {
        if (piece.Sender != _current)
        {
            bool isOlder = piece.Sender < _newest || _isFrozen;
            effects.Add(Say(isOlder ? ShipReplyKind.NotLeader : ShipReplyKind.WhoAreYou));
            return;
        }

        if (piece.IsBranch && piece.To.Offset < _start.Base && piece.From == _received && !Is(ShipMutation.BehindSeedAccepted))
        {
            // The primary has gone back behind the seed, which no cut had come to yet: what it holds is void.
            if (_start.Counts || _isCounted)
                throw new BrokenInvariantException(
                    $"I4: stream {Stream} counts, and world-line {piece.To.WorldLine} begins at {piece.To}, before its seed at "
                        + $"{_start.Base}");
            NeedSeed($"world-line {piece.To.WorldLine} keeps less than what it was seeded with", effects);
            return;
        }

        // The rest of a window is not coming: what there is of it is no part of anything. What went before it is in the log already.
        bool isOther = _staged.Partial is { } partial && !piece.IsHeartbeat && piece.Window != partial && piece.To > partial.From;
        if (isOther && !Is(ShipMutation.PartOfWindowStays)) Drop(effects);
        bool isNext = (piece.From == _received && IsNextOf(piece))
            || (Is(ShipMutation.GapsAccepted) && piece.From > _received && !piece.IsBranch);
        bool isMissed = piece.IsHeartbeat ? piece.From > _received : !isNext && piece.To > _received;
        if (isNext && !piece.IsHeartbeat)
        {
            isMissed = !_staged.HasRoom(piece, _start.StagedBytesMax);
            if (!isMissed) Stage(piece, effects);
        }

        _confirmed = LogIndex.Max(_confirmed, piece.Durable);
        _echoNextUs = Math.Max(_echoNextUs, piece.SentUs);
        _ahead.Heard(piece.Cut);
        TakeIn(effects);
        if (Is(ShipMutation.HeldByReceipt)) Hold(piece.Cut, effects);
        SyncIfDue(effects);
        if (!isMissed && !piece.IsBranch && MayWait(piece)) return;
        effects.Add(Say(isMissed ? ShipReplyKind.Nack : ShipReplyKind.Ack));
    }

    // What a sync will say is not said before: nobody waits for it, but for room after many bytes.
    private bool MayWait(ShipRequest.Piece piece)
    {
        if (piece.From.Offset != piece.To.Offset) _unanswered = (_unanswered.Pieces + 1, _unanswered.Bytes + piece.DataBytes);
        return _isSyncing && _unanswered.Pieces < _start.UnansweredPiecesMax && _unanswered.Bytes < _start.UnansweredBytesMax;
    }

    // Of a window what follows is the rest of it, from its beginning on.
    private bool IsNextOf(ShipRequest.Piece piece) =>
        piece.Window is not { } window ? _staged.Partial is null || Is(ShipMutation.PartOfWindowStays)
        : _staged.Partial is { } partial ? window == partial : piece.From == window.From && TakesWindows;

    // Of the windows before, no recorded cut is asked for any more.
    private bool TakesWindows => _start.TakesWindows && (_start.Counts || _isCounted) && !_isFrozen
        && (_windows.From == default || _watermark >= _windows.From || Is(ShipMutation.WindowsFollowWindows));

    private bool HidesCuts => _windows is { HasStretch: true, From: var from } && from != default && _held >= from
        && !Is(ShipMutation.WindowsNotTold);

    private void Stage(ShipRequest.Piece piece, List<ReceiverEffect> effects)
    {
        _staged.Add(piece);
        _received = piece.To;
        effects.Add(new ReceiverEffect.Keep(piece));
    }

    // What is durable at the primary goes into the log, and with it the newest cut that it reaches.
    private void TakeIn(List<ReceiverEffect> effects)
    {
        // Of a window a part ends at an offset of its own: where the window ends says what is durable.
        while (_staged.TryPeek(out ShipRequest.Piece? piece)
            && ((piece.Window?.To ?? piece.To) <= _confirmed || Is(ShipMutation.AppendsUnconfirmed)))
        {
            if (piece.Window is { } part && part == _staged.Partial && !Is(ShipMutation.WindowTakenInParts)) break;
            _staged.RemoveFirst();
            if (piece.Window?.From == piece.From) _windows = _windows.Began(_noted);
            if (piece.Window?.To == piece.To) _windows = _windows.Ended(piece.To.Point, piece.To.Offset);
            if (piece.IsBranch) _windows = _windows.BackTo(piece.To.Point, piece.To.Offset);
            if (piece.IsBranch && piece.To.Closed < _noted.Version)
                throw new BrokenInvariantException(
                    $"I4: stream {Stream} holds the recorded cut {_noted}, and world-line {piece.To.WorldLine} begins at {piece.To}");
            _appended = piece.To;
            effects.Add(new ReceiverEffect.Append(piece));
        }

        // With its windows a stretch ends, and not with a part of one that is still to come.
        if (_staged.Partial is not null) return;
        if (_ahead.Reached(_appended.Point, _noted, Is(ShipMutation.HeldWithoutWorldLine)) is not { } cut) return;
        // Before that the seed holds what belongs to later versions.
        if (cut < _start.Floor && !Is(ShipMutation.SeedCountsAtOnce)) return;
        // No version ends inside of a window.
        if (cut < _windows.End && !Is(ShipMutation.CutInsideWindow)) return;
        _noted = cut;
        _windows = _windows.Noted(cut);
        effects.Add(new ReceiverEffect.NoteCut(cut));
    }

    private void SyncIfDue(List<ReceiverEffect> effects)
    {
        if (Is(ShipMutation.AckBeforeSync))
        {
            _durable = _appended;
            Hold(_noted, effects);
        }

        // A lease is granted only by who has the log: with each message it is touched.
        if (_isSyncing || (_appended == _durable && _noted == _held && _echoNextUs <= _echoUs)) return;
        _isSyncing = true;
        effects.Add(new ReceiverEffect.Sync(new(_appended, _noted, _current, _echoNextUs)));
    }

    private void Hold(WorldPoint cut, List<ReceiverEffect> effects)
    {
        if (cut <= _held) return;
        _held = cut;
        if (_isFrozen) return;
        Report(effects);
        if (Is(ShipMutation.AppliesBeforeWatermark)) ApplyUpTo(cut, effects);
    }

    private void Report(List<ReceiverEffect> effects)
    {
        // What windows hide is not asked for by the watermark: it is above them, or stays below what this stream holds.
        WorldPoint floor = HidesCuts && _windows.From > _start.Floor ? _windows.From : _start.Floor;
        if (_held.WorldLine.Number > 0) effects.Add(new ReceiverEffect.Report(new(Stream, Generation, floor, _held)));
    }

    private void ApplyUpTo(WorldPoint to, List<ReceiverEffect> effects)
    {
        if (to <= _applyTo) return;
        _applyTo = to;
        effects.Add(new ReceiverEffect.Apply(to));
    }

    private ReceiverEffect.Reply Say(ShipReplyKind kind)
    {
        _unanswered = default;
        return new(new(kind, Stream, Generation, _received, _durable, _held, _watermark,
            kind is ShipReplyKind.Ack or ShipReplyKind.Nack ? _echoUs : 0, _newest)
        {
            Ask = kind == ShipReplyKind.NeedsSeed ? _seeding?.Ask : null, TakesWindows = TakesWindows, Window = _staged.Partial,
        });
    }

    private bool Is(ShipMutation mutation) => _mutation == mutation;
}

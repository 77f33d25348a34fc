// The way there: bytes of a client are cut into requests, and each run of ordinary ones goes on in one piece.
using System.Globalization;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.FrontEnd.Transports;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private const int LargeRequestBytes = 256 << 10;
    /// <summary>A request that must be looked at as a whole may be as long.</summary>
    public const int SpecialRequestBytes = 64 << 20;
    private const int DedicatedOutLimitBytes = 1 << 20;
    private const int SmallInputBytes = 1 << 10;

    private bool IsStreaming => _large is not null;

    // Ordinary requests may take the shared upstream only when nothing of this client is under way elsewhere.
    private bool TakesShared =>
        Shared is not null && (_pins & ~Pins.Auth) == 0 && !IsStreaming && (Dedicated is null || Dedicated.InFlight == 0)
            && !_loop.IsPaused && !_sharing.IsAvoided(_loop.Now);

    // Who has not given the password that Redis wants may send little: a request that is too large is not waited for.
    private bool MayGoOnWithoutPassword(byte* p)
    {
        if (CommandScanner.ClassifyUnauthenticated(p, _input.Tail) is not { } tooMuch) { return true; }
        if (_sharing.IsUndecided && !_loop.Probe.IsSharingKnown)
        {
            Wait(Waiting.Store);
            return false;
        }
        _sharing.Decide(_loop.Sharing);
        if (Shared is not null || !_loop.Probe.NeedsPassword) { return true; }
        Refuse(tooMuch, thenClose: true);
        return false;
    }

    // Passes over ordinary requests, at most so many; 0: as many as there are.
    private byte* ScanOrdinary(byte* p, byte* end, int most, out int count, out ScanStop stop, out byte value, out bool mayWrite)
    {
        count = -most;
        byte* next = _loop.Slots is { } slots
            ? CommandScanner.ScanRun(p, end, slots.Table, SlotsNow, LargeRequestBytes, ref count, out stop, out value, out mayWrite)
            : CommandScanner.ScanRun(p, end, _loop.Catalog.Special, LargeRequestBytes, ref count, out stop, out value, out mayWrite);
        // The scanner counts up, and stops at 0.
        count += most;
        return next;
    }

    // Whose keys it passes: a transaction's are all in one slot.
    private int SlotsNow => (_pins & Pins.Multi) == 0 ? SlotTable.Owned : _transaction.Slot;

    // The hot path: bytes are received where they will be sent from, right behind those of other clients.
    private void ReadForShared(Upstream shared)
    {
        if (_loop.Sharing.IsFull || shared.HasLargeReplies || _loop.IsFollower)
        {
            // How much it has to send is known when there is room, and how much of it may be sent is counted.
            ReadForDedicated();
            return;
        }
        int kept = (int)_input.Count;
        byte* start = shared.ReserveOut(kept + ReadBytes);
        if (kept > 0) { Buffer.MemoryCopy(_input.Head, start, kept, kept); }
        int got = _channel.Receive(start + kept, ReadBytes);
        if (got <= 0)
        {
            if (got != Channel.WouldBlock) { OnEnd(broken: got == Channel.Broken); }
            return;
        }
        if (_loop.IsVersionDue)
        {
            // The marker will be written where this was received.
            _input.Append(start + kept, got);
            ProcessInput();
            return;
        }
        byte* end = start + kept + got;
        byte* next = ScanOrdinary(start, end, BatchLeft, out int count, out ScanStop stop, out _, out bool mayWrite);
        if (kept > 0) { _input.Clear(ReadBytes); }
        if (next < end) { _input.Append(next, (nint)(end - next)); }
        if (count > 0)
        {
            _lastRequest.Keep(start);
            shared.CommitOut((nint)(next - start));
            shared.Expect(this, count, ReplyKind.Plain, basis: _loop.Replies.OfShared(start, next, mayWrite));
            _loop.Sharing.IsDirty = true;
            _loop.Sharing.FlushIfFull(shared);
        }
        if (stop != ScanStop.NeedMore) { ProcessInput(); }
        if (_loop.Sharing.IsFull && _waiting == Waiting.Nothing && !IsClosed) { Wait(Waiting.Room); }
    }

    private void ReadForDedicated()
    {
        _input.Reserve(ReadBytes);
        int got = _channel.Receive(_input.Tail, ReadBytes);
        if (got <= 0)
        {
            if (got != Channel.WouldBlock) { OnEnd(broken: got == Channel.Broken); }
            return;
        }
        _input.Commit(got);
        if (IsInputTaken()) { ProcessInput(); }
    }

    private LongInput _longInput;

    /// <summary>What of requests is here, and cannot go on yet.</summary>
    public nint InputBytes => _input.Count;

    // To be kept where it is, and not copied with each piece.
    private bool IsInputLong => _input.Count >= LongInput.BytesMin;

    // False: this client was closed for what clients have sent and cannot go on yet.
    private bool IsInputTaken()
    {
        if (!_longInput.IsDue(_input.Count)) { return true; }
        _loop.Clients.LimitInputs();
        return !IsClosed;
    }

    // Everything but the hot path: looks at what is in the input until it is used up or something must be waited for.
    private void ProcessInput()
    {
        Gather();
        IsForwarding = true;
        ProcessRequests();
        IsForwarding = false;
        Dedicated?.FlushForwarded();
        EndGathering();
    }

    // What the replies to requests rest on that were written to an upstream.
    private ReplyBasis BasisOn(Upstream upstream, byte* p, byte* end, bool mayWrite) => upstream.Exclusive is null
        ? _loop.Replies.OfShared(p, end, mayWrite) : _loop.Replies.OfDedicated(p, end, mayWrite);

    /// <summary>What was received is being forwarded: its upstream may wait for the rest of it, and send all as one piece.</summary>
    public bool IsForwarding { get; private set; }

    private void ProcessRequests()
    {
        if (_end.HasQuit) { _input.Free(); }
        bool isLong = IsInputLong && !IsStreaming && (_pins & Pins.Raw) == 0;
        if (isLong && _longInput.IsStillIncomplete(_input.Head, _input.Tail)) { return; }
        while (_input.Count > 0 && _waiting == Waiting.Nothing && !IsClosed && !_end.IsWhenSent)
        {
            if (_large is { } large)
            {
                if (!Stream(large)) { return; }
                continue;
            }
            if ((_pins & Pins.Raw) != 0)
            {
                Dedicated!.Write(_input.Head, _input.Count);
                _input.Clear(ReadBytes);
                return;
            }
            byte* p = _input.Head;
            // In a transaction the last request of its batch is looked at by itself.
            int limit = BatchLeft > 1 && (_pins & Pins.Multi) != 0 ? BatchLeft - 1 : BatchLeft;
            if (IsHeldUp) { limit = 1; }
            if (_loop.Shard.Hold != Hold.None)
            {
                if (_loop.Held.IsHeld(p, _input.Tail))
                {
                    Wait(Waiting.Held);
                    return;
                }
                limit = 1;
            }
            if (Shared is { HasLargeReplies: true } slow && (limit == 0 || limit > slow.RoomForReplies)) { limit = slow.RoomForReplies; }
            if (Shared is null && (_pins & Pins.Auth) == 0 && !MayGoOnWithoutPassword(p)) { return; }
            byte* next = ScanOrdinary(p, _input.Tail, limit, out int count, out ScanStop stop, out byte value, out bool mayWrite);
            if (count > 0 && _loop.IsFollower && !(ReadsHere && !mayWrite && CohortCommands.IsFresh(_loop.Cohort!)))
            {
                next = ScanOrdinary(p, _input.Tail, 1, out count, out stop, out value, out mayWrite);
                _requestBytes = ScanOne();
                if (CohortCommands.SendOn(this, CommandKind.Ordinary) is { } sent)
                {
                    if (!sent) { return; }
                    continue;
                }
            }
            if (next > p)
            {
                if (count > 0)
                {
                    if (LeavesTransactionOpen)
                    {
                        _requestBytes = next - p;
                        if (!DiscardTransaction()) { return; }
                        continue;
                    }
                    if (AnswerWithNotice((nint)(next - p), CommandKind.Ordinary)) { continue; }
                    Upstream? upstream = Route(needsDedicated: false);
                    if (upstream is null) { return; }
                    _lastRequest.Keep(p, next - p);
                    upstream.Write(p, (nint)(next - p));
                    bool isQueued = (_pins & Pins.Multi) != 0 && !_transaction.MayBeRefused;
                    upstream.Expect(this, count, ReplyKind.Plain, basis: isQueued ? ReplyBasis.None : BasisOn(upstream, p, next, mayWrite));
                }
                _input.Consume((nint)(next - p));
                if (Dedicated is { OutBytes: > DedicatedOutLimitBytes })
                {
                    Wait(Waiting.Room);
                    return;
                }
                continue;
            }
            switch (stop)
            {
                case ScanStop.NeedMore:
                    return;
                case ScanStop.Inline:
                    if (!ConvertInline()) { return; }
                    break;
                case ScanStop.Large:
                    if (!(StartDropping() ?? SendOnLarge() ?? HandleLargeKeys() ?? StartStream())) { return; }
                    break;
                case ScanStop.Slot:
                    if (!HandleKeys()) { return; }
                    break;
                case ScanStop.Malformed:
                    Refuse(CommandScanner.Classify(p, _input.Tail), thenClose: true);
                    return;
                case ScanStop.Special:
                    if (!HandleSpecial((CommandKind)value)) { return; }
                    break;
            }
        }
    }

    /// <summary>Finds the upstream for the next request, or begins to wait and returns null.</summary>
    public Upstream? Route(bool needsDedicated, bool viewMatters = true)
    {
        if (_lostLogin)
        {
            Wait(Waiting.Verdict);
            return null;
        }
        if (!_loop.Shard.IsOpen || (_sharing.IsUndecided && Dedicated is null && !_loop.Probe.IsSharingKnown))
        {
            Wait(Waiting.Store);
            return null;
        }
        if (_sharing.IsUndecided && _loop.Probe.IsSharingKnown) { _sharing.Decide(_loop.Sharing); }
        bool mayForward = _loop.Boundary.MayForward();
        // On no upstream: what is given to one counts as under way.
        if (_loop.Gate.IsShut)
        {
            Wait(Waiting.Room);
            return null;
        }
        if (!needsDedicated && TakesShared && !Shared!.IsClosed)
        {
            if (_loop.Sharing.IsFull || !mayForward)
            {
                Wait(Waiting.Room);
                return null;
            }
            if (Shared.ViewsInFlight > 0 || Shared.Db != Db || Shared.Protocol != Protocol)
            {
                Wait(Waiting.View);
                return null;
            }
            return Shared;
        }
        if (_sharing.InFlight > 0)
        {
            Wait(Waiting.Drain);
            return null;
        }
        if (Dedicated is null)
        {
            try
            {
                Dedicated = _sharing.User is null ? _loop.Spares.Take(this) ?? new Upstream(_loop, this) : _loop.Upstreams.LogInAgain(this);
            }
            catch (System.Net.Sockets.SocketException e) when (e.SocketErrorCode == System.Net.Sockets.SocketError.WouldBlock)
            {
                _loop.Upstreams.WarnOfFullQueue();
                OnRefused("-ERR SLOGGER Redis has too many new connections to accept (tcp-backlog): try again\r\n"u8);
                return null;
            }
            catch (System.Net.Sockets.SocketException e)
            {
                _loop.Shard.Warn($"cannot connect to {_loop.Store}: {e.Message}");
                if (!IsKept && !HasDoneNothing)
                {
                    CloseWhenSent();
                    return null;
                }
                // The shard may not know yet that the store is lost: it finds out, and opens again when it knows.
                _loop.Shard.StoreUnreachable(e.Message);
                Wait(Waiting.Store);
                return null;
            }
            if (Dedicated is { Channel.HasSocket: true } own && Descriptors.AreScarce(own.Channel.Socket))
            {
                OnRefused(TooMany);
                return null;
            }
        }
        Upstream dedicated = Dedicated;
        dedicated.LastUsedMicroseconds = _loop.Now;
        if (dedicated.ViewsInFlight > 0)
        {
            Wait(Waiting.View);
            return null;
        }
        // In a transaction, or subscribed, the connection has this client's view, and would not take another.
        if (viewMatters && (_pins & (Pins.Multi | Pins.Raw)) == 0 && !dedicated.IsSubscribed)
        {
            if (dedicated.ViewError is { } error)
            {
                dedicated.ViewError = null;
                if (Refuse(Encoding.Latin1.GetString(error.AsSpan(1).TrimEnd("\r\n"u8)))) { _input.Consume((nint)ScanOne()); }
                return null;
            }
            if (dedicated.ChangeView(Db, Protocol))
            {
                Wait(Waiting.View);
                return null;
            }
        }
        EnsureName(dedicated);
        return dedicated;
    }

    // The length of the one whole request at the head of the input.
    private long ScanOne() => Math.Max(1, CommandScanner.ReadArguments(_input.Head, _input.Tail, _loop.Arguments));

    // Gives an upstream this client's name, if it is the client's own.
    private void EnsureName(Upstream upstream)
    {
        if (upstream.Exclusive is not null && !ReferenceEquals(upstream.Name, Name) && (_pins & Pins.Multi) == 0 && !upstream.IsSubscribed)
        {
            _loop.CountInternal("client|setname");
            RespText.WriteRequest(upstream, "cLIENT"u8, "SETNAME"u8.ToArray(), Name ?? []);
            // No effect on data: no version boundary waits for it, nor it for one.
            upstream.Expect(null, 1, ReplyKind.Dropped, inexact: true);
            upstream.Name = Name;
        }
    }

    // Rewrites the lines at the head of the input as arrays of bulk strings.
    private bool ConvertInline()
    {
        var requests = new List<byte>();
        var input = new ReadOnlySpan<byte>(_input.Head, (int)_input.Count);
        if (InlineLines.Convert(input, requests, out int consumed) is { } problem)
        {
            Refuse(problem, thenClose: true);
            return false;
        }
        if (consumed == 0) { return false; }
        byte[] rest = input[consumed..].ToArray();
        _input.Clear(ReadBytes);
        _input.Append(System.Runtime.InteropServices.CollectionsMarshal.AsSpan(requests));
        _input.Append(rest);
        return true;
    }

    // ---- Keys of a shard among several ----

    private ClientSlots? _slots;

    /// <summary>The slots that it uses. Only among several shards.</summary>
    public ClientSlots Slots => _slots ??= new(_loop, this);

    /// <summary>Other slots are served than before.</summary>
    public void OnSlotsChanged(ShardSlots slots) => _slots?.OnChanged(slots);

    /// <summary>A slot's owner is known, or it is served again.</summary>
    public void OnSlotKnown()
    {
        if (!IsClosed && _waiting == Waiting.Slot) { EndWait(); }
    }

    /// <summary>Whether something of this client's may be under way at the store that touches a slot which is not served any more,
    /// or that will be followed by such.</summary>
    /// <param name="slots">The slots; null: there is one shard.</param>
    /// <param name="mustEnd">It blocks, and has to be ended.</param>
    public bool HoldsUp(ShardSlots? slots, out bool mustEnd)
    {
        mustEnd = false;
        if (Dedicated is not { InFlight: > 0 } dedicated) { return false; }
        if (dedicated.BlockingInFlight == 0) { return true; }
        // What was sent behind something that blocks has been looked at already, and may be for any slot.
        mustEnd = dedicated.InFlight > 1 || (slots is not null && !Slots.ServesWhatBlocks(slots));
        return mustEnd;
    }

    // The whole ordinary request at the head of the input, which the scan did not pass.
    private bool HandleKeys()
    {
        _requestBytes = ScanOne();
        if (AnswerWithNotice((nint)_requestBytes, CommandKind.Ordinary)) { return true; }
        if (_loop.IsFollower && CohortCommands.SendOn(this, CommandKind.Ordinary) is { } sent) { return sent; }
        return Slots.IsServed(CommandKind.Ordinary) is { } done ? done : Forward(needsDedicated: false);
    }

    // At a follower nothing is streamed before it is known to be a read: null.
    private bool? SendOnLarge()
    {
        if (!_loop.IsFollower) { return null; }
        _requestBytes = CommandScanner.ReadArguments(_input.Head, _input.Tail, _loop.Arguments);
        return _requestBytes switch
        {
            < 0 => null,
            > 0 => CohortCommands.SendOn(this, CommandKind.Ordinary),
            _ => _input.Count > SpecialRequestBytes
                && Refuse("ERR Protocol error: request too large for a node that does not lead", thenClose: true),
        };
    }

    // A request too large to be kept is streamed as soon as its keys are known to be this shard's: null. What has keys further
    // on, and what is for others, is waited for.
    private bool? HandleLargeKeys()
    {
        if (_loop.Slots is not { } slots) { return null; }
        _requestBytes = CommandScanner.ReadArguments(_input.Head, _input.Tail, _loop.Arguments);
        // Malformed further on: Redis says what is wrong with it.
        if (_requestBytes < 0) { return null; }
        if (_requestBytes > 0) { return Slots.IsServed(CommandKind.Ordinary); }
        if (ArgumentCount >= 2 && slots.Keys.HasOneKey(Argument(0)) && slots.Partitions.Of(Argument(1)) is var slot
            && slots.Table.Owns(slot))
        {
            Slots.NoteQueued(slot);
            return null;
        }
        return _input.Count > SpecialRequestBytes
            && Refuse("ERR Protocol error: request too large for a shard that may not have its keys", thenClose: true);
    }

    // ---- Replies of the proxy's own ----

    // Answers with an error, in order: false while replies are owed that come first.
    private bool Refuse(string error, bool thenClose = false)
    {
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        Deliver(Encoding.Latin1.GetBytes($"-{error}\r\n"));
        CountLocal();
        if (thenClose && !IsClosed) { CloseWhenSent(); }
        return true;
    }
}

// A connection from the front end to Redis: either the shared one, which carries the ordinary commands of all clients, or
// a dedicated one, which carries everything of one client that needs a connection of its own. Replies are matched to
// requests first in, first out. Used by the loop's thread only.
using System.Runtime.CompilerServices;
using Slogger.FrontEnd.Transports;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Upstream : IChannelOwner
{
    private const int OutKeepBytes = 1 << 16;
    private readonly FrontEndLoop _loop;
    private ExpectedQueue _expected = new();
    private NativeBuffer _out;

    // What was written while a version boundary is on its way: sent after it.
    private NativeBuffer _held;
    private bool _connected;

    public Upstream(FrontEndLoop loop, Client? exclusive, bool isSpare = false, bool isControl = false)
    {
        IsControl = isControl;
        _loop = loop;
        IsSpare = isSpare;
        Exclusive = exclusive;
        Channel = loop.Store.Connect(loop.Poller, mayMark: exclusive is null && !isSpare);
        Channel.Owner = this;
        _connected = false;
        loop.Poller.Watch(Channel, read: false, write: true);
        LastUsedMicroseconds = loop.Now;
        if (loop.Shard.IsFenced) { Expect(null, 1, ReplyKind.Answers, inexact: true); }
        loop.Directory.Add(this);
    }

    public Channel Channel { get; }

    /// <summary>Whose this is; <c>null</c> for the shared upstream.</summary>
    public Client? Exclusive { get; private set; }

    /// <summary>Connected ahead of need, for the next client that needs one of its own.</summary>
    public bool IsSpare { get; private set; }

    /// <summary>Carries markers where nobody shares; see <see cref="MarkerCarrier"/>.</summary>
    public bool IsControl { get; }

    public bool IsClosed { get; private set; }

    public bool IsConnected => _connected;

    /// <summary>Where Redis sees it come from; <c>null</c> when that is not known, or tells nothing.</summary>
    public string? Address { get; set; }

    /// <summary>Redis's id of it; 0 when not asked for.</summary>
    public long RedisId { get; set; }

    /// <summary>The id was asked for and has not come yet.</summary>
    public bool IsIdAwaited { get; set; }

    /// <summary>Who it is to Redis; <c>null</c> when not asked for, or not told.</summary>
    public ClientLine? Line { get; set; }

    /// <summary>Redis has told who it is, or never will.</summary>
    public bool IsIdentified { get; set; }

    /// <summary>The database that the next command sent would run in; -1 when only a reply will tell.</summary>
    public int Db { get; set; }

    /// <summary>The protocol that the next command sent would be answered in; 0 when only a reply will tell.</summary>
    public int Protocol { get; set; } = 2;

    /// <summary>The name that Redis knows this connection by.</summary>
    public byte[]? Name { get; set; }

    /// <summary>Entries not yet answered.</summary>
    public int InFlight => _expected.Count;

    /// <summary>A place behind all that has been given to it; see <see cref="HasAnswered"/>.</summary>
    public long Mark => _answered + InFlight;

    /// <summary>Whether all before a place has been answered.</summary>
    public bool HasAnswered(long mark) => IsClosed || _answered >= mark;

    private long _answered;

    /// <summary>Exact entries not yet answered: what a version boundary waits for.</summary>
    public int ExactInFlight { get; private set; }

    /// <summary>Blocking commands not yet answered.</summary>
    public int BlockingInFlight { get; private set; }

    public nint OutBytes => _out.Count + _held.Count;

    /// <summary>Bytes pass both ways without being matched.</summary>
    public bool IsRaw { get; set; }

    public long LastUsedMicroseconds { get; set; }

    /// <summary>It is being closed because nothing needs it.</summary>
    public bool WasIdle { get; set; }

    /// <summary>How many clients use this shared upstream.</summary>
    public int ClientCount { get; set; }

    /// <summary>Replies to changes of view that have not come yet.</summary>
    public int ViewsInFlight { get; private set; }

    /// <summary>The error with which the last change of view was refused, until somebody has dealt with it.</summary>
    public byte[]? ViewError { get; set; }

    /// <summary>Connected, and owes nothing.</summary>
    public bool IsReady => _connected && !IsClosed && InFlight == 0;

    /// <summary>Gives a spare to its client.</summary>
    public void Assign(Client client)
    {
        Exclusive = client;
        IsSpare = false;
    }

    /// <summary>Changes database and protocol. Until the replies have come nothing else may be sent: were the change
    /// refused, because a script is busy for example, what follows would run in the wrong place.</summary>
    /// <returns>Whether there was anything to change.</returns>
    public bool ChangeView(int db, int protocol)
    {
        bool changes = false;
        if (Protocol != protocol)
        {
            Write(InternalRequest.Hello(protocol), inexact: true);
            _loop.CountInternal("hello");
            Protocol = protocol;
            ExpectView();
            changes = true;
        }
        if (Db != db)
        {
            Write(InternalRequest.Select(db), inexact: true);
            _loop.CountInternal("select");
            Db = db;
            ExpectView();
            changes = true;
        }
        return changes;
    }

    private void ExpectView()
    {
        ViewsInFlight++;
        // It has no effect on data: no version boundary waits for it.
        Expect(null, 1, ReplyKind.View, inexact: true);
    }

    /// <summary>Room at the end of the send buffer for so many bytes, to receive into.</summary>
    public byte* ReserveOut(int bytes)
    {
        _out.Reserve(bytes);
        return _out.Tail;
    }

    /// <summary>Bytes written at the reserved place are to be sent.</summary>
    public void CommitOut(nint bytes) => _out.Commit(bytes);

    /// <summary>Adds bytes to be sent; on a dedicated upstream at once when possible. What <see cref="Expect"/> will be
    /// told to be inexact, or blocking, runs at a time that nobody knows anyway: it need not wait for a version boundary,
    /// unless something before it does. So what a client sends next on another connection does not overtake it.</summary>
    public void Write(byte* bytes, nint count, bool inexact = false)
    {
        if (Exclusive is not null && _loop.Gate.HoldsDedicated && (_held.Count > 0 || _loop.Gate.HoldsInexact || !(inexact
            || BlockingInFlight > 0)))
        {
            if (_held.Count == 0) { _loop.Upstreams.Held.Add(this); }
            _loop.Gate.NoteHeld();
            _held.Append(bytes, count);
            return;
        }
        if (Exclusive is not null && _connected && _out.Count == 0 && !(Exclusive.IsForwarding && count <= CopyBytesMax))
        {
            int sent = Channel.Send(bytes, (int)Math.Min(count, int.MaxValue));
            if (sent == count) { return; }
            if (sent > 0)
            {
                bytes += sent;
                count -= sent;
            }
        }
        _out.Append(bytes, count);
        if (Exclusive is not { IsForwarding: true }) { ScheduleFlush(); }
    }

    /// <summary>All that its client has sent so far was written.</summary>
    public void FlushForwarded()
    {
        if (_out.Count > 0) { Flush(); }
    }

    // Copying so much would cost more than sending it apart.
    private const int CopyBytesMax = 16 << 10;

    public void Write(ReadOnlySpan<byte> bytes, bool inexact = false)
    {
        fixed (byte* p = bytes) { Write(p, bytes.Length, inexact); }
    }

    /// <summary>Expects replies for what was just written.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void Expect(Client? client, int count, ReplyKind kind, bool blocking = false, bool inexact = false, ReplyBasis basis = default)
    {
        ref Expected e = ref _expected.Add();
        e.Client = client;
        e.Count = count;
        e.Kind = kind;
        e.Version = (Exclusive is null && !IsSpare ? _loop.Gate.Open : _loop.Gate.OpenForDedicated).Number;
        if (Exclusive is not null || IsSpare)
        {
            if (blocking)
            {
                BlockingInFlight++;
                _loop.Gate.NoteBlocking();
            }
            inexact |= BlockingInFlight > 0;
            if (!inexact) { CountExact(); }
        }
        e.Inexact = inexact;
        e.Blocking = blocking;
        e.IsWriting = false;
        if (_loop.Replies.IsOn) { NoteUse(ref e, basis, ofProxy: client is null && kind != ReplyKind.Plain); }
        _unanswered += count;
        client?.OnForwarded(this, count, kind, e.Version, inexact);
    }

    // Of what replies will rest on.
    private void NoteUse(ref Expected e, ReplyBasis basis, bool ofProxy)
    {
        HeldReplies replies = _loop.Replies;
        e.Use = ofProxy ? DataUse.None : basis.Use;
        e.RestsOn = basis.Version;
        if (e.Blocking) { replies.OnBlocking(); }
        if (e.Use != DataUse.Writes || e.Blocking) { return; }
        if (Exclusive is null)
        {
            if (basis == ReplyBasis.Unknown) { replies.OnUnknownShared(); }
            return;
        }
        e.IsWriting = true;
        replies.OnWriting();
    }

    /// <summary>Expects a reply to what was just written that a handler looks at.</summary>
    public void Expect(Client client, ReplyHandler handler, ReplyKind kind = ReplyKind.Handled, int count = 1, bool blocking = false,
        bool inexact = false, ReplyBasis basis = default)
    {
        Expect(client, count, kind, blocking, inexact, basis);
        _expected.Last.Handler = handler;
    }

    /// <summary>The connection was reset: it is like a new one.</summary>
    public void BecomeNew()
    {
        Db = 0;
        Protocol = 2;
        Name = null;
        IsMonitor = false;
        MayInvalidate = false;
        ForgetSubscriptions();
    }

    /// <summary>The request expected last, sent piece by piece, is now sent to its end: only from here on can it run.</summary>
    public void FinishStreaming()
    {
        // Refused, and answered, before its end.
        if (InFlight == 0) { return; }
        ref Expected e = ref _expected.Last;
        e.Version = _loop.Gate.OpenForDedicated.Number;
        if (BlockingInFlight == 0)
        {
            e.Inexact = false;
            CountExact();
        }
        Exclusive!.OnForwarded(this, 1, e.Kind, e.Version, e.Inexact);
    }

    /// <summary>Expects the reply of a request that will be sent piece by piece; see <see cref="FinishStreaming"/>.</summary>
    public void ExpectStreaming(Client client)
    {
        Expect(null, 1, ReplyKind.Plain, inexact: true);
        _expected.Last.Client = client;
    }

    // A boundary that waits for what is in flight must not wait for what waits for it.
    private void CountExact()
    {
        if (Exclusive is not null && _loop.Gate.HoldsDedicated)
        {
            _heldExact++;
            return;
        }
        ExactInFlight++;
        _loop.Gate.ExactInFlight++;
    }

    private int _heldExact;

    /// <summary>What was in flight exactly, and has not come back in time, is known by two bounds only.</summary>
    public void GiveUpExactness()
    {
        _loop.Gate.ExactInFlight -= ExactInFlight;
        for (int i = 0; i < _expected.Count; i++)
        {
            ref Expected e = ref _expected[i];
            if (!e.Inexact)
            {
                e.Inexact = true;
                Exclusive?.OnExactnessLost();
            }
        }
        ExactInFlight = _heldExact = 0;
    }

    public void ScheduleFlush()
    {
        if (!_connected || IsClosed) { return; }
        if (Exclusive is null && !IsSpare && !IsControl)
        {
            _loop.Sharing.IsDirty = true;
        }
        else
        {
            Flush();
        }
    }

    /// <summary>The version boundary has passed: what was held is sent.</summary>
    public void ReleaseHeld()
    {
        if (IsClosed) { return; }
        ExactInFlight += _heldExact;
        _loop.Gate.ExactInFlight += _heldExact;
        _heldExact = 0;
        nint count = _held.Count;
        Write(_held.Head, count);
        NoteBlockingSent();
        _held.Clear(OutKeepBytes);
        if (IsClosed) { return; }
        EndIfSent();
        _loop.Upstreams.OnDrained(this);
    }

    /// <summary>Sends what is waiting to be sent.</summary>
    public void Flush()
    {
        if (!_connected || IsClosed) { return; }
        if (_out.Count > 0) { NoteBlockingSent(); }
        while (_out.Count > 0)
        {
            int sent = Channel.Send(_out.Head, (int)Math.Min(_out.Count, 1 << 20));
            if (sent == Channel.WouldBlock)
            {
                _loop.Poller.Watch(Channel, read: true, write: true);
                return;
            }
            if (sent < 0)
            {
                // What Redis had answered before is still to be read: the end of the stream will tell.
                _loop.Poller.Watch(Channel, read: true, write: false);
                return;
            }
            _out.Consume(sent);
        }
        if (Exclusive is not null && _out.Capacity > 0) { _out.Clear(OutKeepBytes); }
        if (Channel.WantsWrite)
        {
            _loop.Poller.Watch(Channel, read: WantsRead, write: false);
        }
        EndIfSent();
        _loop.Upstreams.OnDrained(this);
    }

    // What was expected when it could not be sent yet is at the store only from here on.
    private void NoteBlockingSent()
    {
        if (BlockingInFlight > 0) { _loop.Replies.OnBlockingSent(); }
    }

    private bool WantsRead => !_isReadingHeld && !IsClientFull;

    // What is published to a subscriber of the embedded store comes whether it is read or not: it waits at the client, whose bounds end it.
    private bool IsClientFull => Exclusive is { IsOutputFull: true } && !(IsSubscribed && Channel is LocalChannel);

    private bool _isReadingHeld;

    /// <summary>Has replies wait at the socket, or no longer.</summary>
    public void HoldReading(bool hold)
    {
        _isReadingHeld = hold;
        UpdateReading();
    }

    /// <summary>The client's output has room again, or no longer.</summary>
    public void UpdateReading()
    {
        if (_connected && !IsClosed) { _loop.Poller.Watch(Channel, WantsRead, Channel.WantsWrite); }
    }

    public void OnWritable(Channel channel)
    {
        if (!_connected)
        {
            if (!FinishConnect()) { return; }
        }
        Flush();
    }
}

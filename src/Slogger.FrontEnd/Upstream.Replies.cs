// The way back: bytes from Redis are cut into replies and given to whom they belong, in order.
using System.Buffers.Text;
using Slogger.FrontEnd.Transports;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Upstream
{
    private const int CaptureLimitBytes = 64 << 20;
    private ReplyState _state;
    private NativeBuffer _rest;
    private NativeBuffer _capture;
    private bool _capturingPush;
    private bool _inPush;

    /// <summary>Channels, patterns and shard channels that this connection is subscribed to, as Redis counts them.</summary>
    public int Channels { get; private set; }

    public int Patterns { get; private set; }

    public int ShardChannels { get; private set; }

    /// <summary>The connection was reset, and with it all subscriptions, without a word.</summary>
    public void ForgetSubscriptions() => Channels = Patterns = ShardChannels = 0;

    public bool IsSubscribed => Channels + Patterns + ShardChannels > 0;

    /// <summary>Invalidations of client-side caching come between replies.</summary>
    public bool MayInvalidate { get; set; }

    /// <summary>Lines of MONITOR come between replies.</summary>
    public bool IsMonitor { get; set; }

    // Bounded per turn, so that one upstream with much to say does not keep the others waiting.
    private const int ReadsPerTurn = 4;

    public void OnReadable(Channel channel)
    {
        if (channel is LocalChannel local)
        {
            ReadLocal(local);
            return;
        }
        for (int i = 0; i < ReadsPerTurn && !IsClosed; i++)
        {
            byte* buffer = _loop.ReceiveBuffer;
            nint kept = _rest.Count;
            if (kept > 0)
            {
                Buffer.MemoryCopy(_rest.Head, buffer, FrontEndLoop.ReceiveBufferBytes, kept);
                _rest.Clear(0);
            }
            int room = FrontEndLoop.ReceiveBufferBytes - (int)kept;
            int got = Channel.Receive(buffer + kept, room);
            if (got <= 0)
            {
                if (kept > 0) { _rest.Append(buffer, kept); }
                if (got != Channel.WouldBlock) { Close("Redis closed the connection"); }
                return;
            }
            _loop.Replies.OnRead();
            byte* end = buffer + kept + got;
            byte* consumed;
            long before = _unanswered;
            try
            {
                consumed = Take(buffer, end);
            }
            catch (InvalidDataException e)
            {
                Close(e.Message);
                return;
            }
            if (IsClosed) { return; }
            if (Exclusive is null) { LearnReplyBytes(got, before - _unanswered); }
            if (consumed < end) { _rest.Append(consumed, (nint)(end - consumed)); }
            if (got < room || (Exclusive is not null && Exclusive.IsOutputFull)) { return; }
        }
    }

    // Whole replies, read where the store has written them.
    private void ReadLocal(LocalChannel local)
    {
        for (int i = 0; i < ReadsPerTurn && local.TryTake(out byte* start, out byte* end); i++)
        {
            _loop.Replies.OnRead();
            byte* read = end;
            try
            {
                read = Take(start, end);
            }
            catch (InvalidDataException e)
            {
                Close(e.Message);
            }
            local.GiveBack(read);
            if (IsClosed || read < end || IsClientFull) { return; }
        }
        if (local.HasEnded) { Close("the store ended the connection"); }
    }

    // ---- What the shared upstream awaits ----

    // Redis does what it has read before it writes what it owes: whatever is asked for there lies in its memory, and everybody else waits
    // behind it.
    private const long UnansweredMax = 16 << 10, AwaitedBytesMax = 64 << 20, AlwaysAllowed = 64;
    private long _unanswered;
    private long _replyBytes = 1;   // how large replies were lately
    private bool _awaitedMuch;

    /// <summary>More replies are awaited than may lie in Redis at a time. Who waits for room then is woken when they have come.</summary>
    public bool AwaitsMuch()
    {
        bool awaitsMuch = Awaits(UnansweredMax, AwaitedBytesMax);
        _awaitedMuch |= awaitsMuch;
        return awaitsMuch;
    }

    /// <summary>Replies were so large lately that their number alone is no bound.</summary>
    public bool HasLargeReplies => _replyBytes > AwaitedBytesMax / UnansweredMax;

    /// <summary>How many more requests may be sent at once; at least one.</summary>
    public int RoomForReplies => (int)Math.Max(1, Math.Max(AlwaysAllowed, AwaitedBytesMax / _replyBytes) - _unanswered);

    private bool Awaits(long number, long bytes) =>
        _unanswered > AlwaysAllowed && (_unanswered > number || _unanswered * _replyBytes > bytes);

    // Large ones are noticed at once, and forgotten slowly.
    private void LearnReplyBytes(int received, long answered)
    {
        long each = received / Math.Max(answered, 1);
        _replyBytes = each >= _replyBytes ? each : _replyBytes - ((_replyBytes - each) / 8);
        if (!_awaitedMuch || Awaits(UnansweredMax / 2, AwaitedBytesMax / 2)) { return; }
        _awaitedMuch = false;
        _loop.WakeFullClients();
    }

    // What Redis has written at once the client is sent at once, though it is looked at reply by reply.
    private byte* Take(byte* p, byte* end)
    {
        try
        {
            return IsRaw ? PassRaw(p, end) : Process(p, end);
        }
        finally
        {
            _loop.Replies.End();
            Exclusive?.EndGathering();
        }
    }

    private byte* PassRaw(byte* p, byte* end)
    {
        _loop.Replies.BeginAny();
        Exclusive!.Deliver(p, (nint)(end - p));
        return end;
    }

    private byte* Process(byte* p, byte* end)
    {
        while (p < end)
        {
            if (Exclusive is not null && (_inPush || (_state.IsBetweenReplies && MayPush(*p))))
            {
                byte* after = ProcessPush(p, end);
                if (IsClosed || after == null) { return end; }
                if (after == p)
                {
                    if (_inPush || !_pushDeclined) { return p; }
                    _pushDeclined = false;
                }
                else
                {
                    p = after;
                    continue;
                }
            }
            if (_expected.IsEmpty)
            {
                throw new InvalidDataException("Redis sent a reply that nobody had asked for.");
            }
            ref Expected e = ref _expected.First;
            if (e.Kind == ReplyKind.Plain)
            {
                // Where pushes may come between replies each reply is looked at by itself.
                int wanted = IsSubscribed || IsMonitor || MayInvalidate || e.Client is { IsSkipping: true } ? 1 : e.Count;
                int remaining = wanted;
                byte* q = ReplyScanner.Consume(p, end, ref _state, ref remaining);
                if (q < end) { Exclusive?.Gather(); }
                Client? client = e.Client;
                _loop.Replies.Begin(this, e);
                int answered = wanted - remaining;
                e.Count -= answered;
                _unanswered -= answered;
                bool inexact = e.Inexact;
                long version = e.Version;
                if (e.Count == 0) { Pop(ref e); }
                if (client is not null)
                {
                    if (answered > 0) { client.OnAnswered(this, answered, ReplyKind.Plain, version, inexact); }
                    if (q > p) { client.Deliver(p, (nint)(q - p)); }
                    if (IsClosed) { return end; }
                    if (answered > 0)
                    {
                        if (client.IsSkipping) { client.EndSkip(); }
                        client.AfterReply(this);
                    }
                    if (IsClosed) { return end; }
                }
                p = q;
                if (remaining > 0) { return p; }
            }
            else
            {
                int one = 1;
                byte* q = ReplyScanner.Consume(p, end, ref _state, ref one);
                if (q < end) { Exclusive?.Gather(); }
                bool whole = one == 0 && _capture.Count == 0;
                if (!whole && q > p)
                {
                    if (_capture.Count + (q - p) > CaptureLimitBytes)
                    {
                        throw new InvalidDataException(
                            $"Redis sent a reply of more than {CaptureLimitBytes >> 20} MB to a command that is answered with less.");
                    }
                    _capture.Append(p, (nint)(q - p));
                }
                if (one > 0) { return q; }
                Expected entry = e;
                _unanswered--;
                Pop(ref e);
                var reply = whole
                    ? new ReadOnlySpan<byte>(p, (int)(q - p))
                    : new ReadOnlySpan<byte>(_capture.Head, (int)_capture.Count);
                Handle(entry, reply);
                _capture.Clear(0);
                if (IsClosed) { return end; }
                p = q;
            }
        }
        return p;
    }

    private void Pop(ref Expected e)
    {
        if ((Exclusive is not null || IsSpare) && !e.Inexact)
        {
            ExactInFlight--;
            _loop.Gate.ExactInFlight--;
        }
        if (e.IsWriting) { _loop.Replies.OnWritten(); }
        if (e.Blocking)
        {
            BlockingInFlight--;
            if (_loop.Replies.IsOn) { _loop.Replies.OnUnblocked(); }
        }
        _answered++;
        e.Client = null;
        if (e.Handler is not null) { e.Handler = null; }
        _expected.RemoveFirst();
        if (_expected.IsEmpty) { _unanswered = 0; }
    }

    private void Handle(in Expected e, ReadOnlySpan<byte> reply)
    {
        bool failed = reply[0] == (byte)'-';
        _loop.Replies.Begin(this, e);
        if (failed && e.Client is null && Exclusive is { } refused && reply.StartsWith("-ERR max number of clients"u8))
        {
            // Before anything of the client's own: with that the error is simply its reply.
            refused.OnRefused(reply);
        }
        switch (e.Kind)
        {
            case ReplyKind.Dropped:
                Exclusive?.AfterOwnReply();
                return;
            case ReplyKind.View:
                ViewsInFlight--;
                if (failed)
                {
                    // Where it stands now is not known: the next change of view says both.
                    Db = -1;
                    Protocol = 0;
                    ViewError ??= reply.ToArray();
                }
                LearnReplyProtocol(reply);
                if (ViewsInFlight == 0) { _loop.Upstreams.OnViewChanged(this); }
                return;
            case ReplyKind.Hello:
                LearnReplyProtocol(reply);
                break;
            case ReplyKind.Reset when !failed:
                ReplyProtocol = 2;
                break;
            case ReplyKind.Control:
                _loop.Carrier.OnControlReply(this, reply);
                return;
            case ReplyKind.Answers:
                _loop.Upstreams.OnAnswers(this);
                Exclusive?.AfterOwnReply();
                return;
            case ReplyKind.Greeting:
                _loop.Probe.OnGreeting(this, reply);
                return;
            case ReplyKind.OwnId:
                _loop.Directory.OnId(this, reply);
                Exclusive?.AfterOwnReply();
                return;
            case ReplyKind.OwnLogin:
                if (failed) { Exclusive?.OnRefused("-ERR SLOGGER Redis does not take the proxy's login any more: log in again\r\n"u8); }
                Exclusive?.AfterOwnReply();
                return;
            case ReplyKind.OwnInfo:
                _loop.Directory.OnOwnInfo(this, reply);
                return;
            case ReplyKind.Settings:
                _loop.Settings.OnReply(reply);
                return;
            case ReplyKind.Facts:
                _loop.Facts.OnReply(reply);
                return;
            case ReplyKind.Commands:
                _loop.Catalog.OnCommands(reply);
                return;
            case ReplyKind.CommandNames:
                _loop.Upstreams.OnCommandNames(this, reply);
                return;
            case ReplyKind.CommandCount:
                _loop.Catalog.OnCount(reply);
                return;
            case ReplyKind.Marker:
                _loop.Carrier.OnReply(this, reply);
                return;
            case ReplyKind.Monitor:
                IsMonitor |= !failed;
                break;
        }
        if (e.Client is { } client)
        {
            if (e.Kind != ReplyKind.Conditional || !KeyWrite.IsUndone(reply))
            {
                client.OnAnswered(this, 1, e.Kind, e.Version, e.Inexact);
            }
            bool skipping = client.IsSkipping;
            client.OnHandled(this, e, reply);
            // A change of the mode says itself what comes next.
            if (skipping && e.Kind != ReplyKind.ReplyMode) { client.EndSkip(); }
            if (!client.IsClosed) { client.AfterReply(this); }
        }
    }

    // Frames that answer no request: messages, invalidations, lines of MONITOR. Confirmations of (un)subscribing are
    // pushes in RESP3 and arrays in RESP2; here they are the answers of an expected entry, one or more each.
    private bool MayPush(byte first) => first switch
    {
        (byte)'>' => true,
        (byte)'*' when ReplyProtocol == 3 => false,
        (byte)'*' => IsSubscribed
            || (!_expected.IsEmpty && _expected.First.Kind is ReplyKind.Subscribe or ReplyKind.Unsubscribe),
        (byte)'+' => IsMonitor,
        _ => false,
    };

    /// <summary>The protocol in which Redis writes now: it changes with a reply, where <see cref="Protocol"/> does with a
    /// request.</summary>
    public int ReplyProtocol { get; set; } = 2;

    // HELLO is answered in the protocol that it has chosen; SELECT tells nothing.
    private void LearnReplyProtocol(ReadOnlySpan<byte> reply) => ReplyProtocol = reply[0] switch
    {
        (byte)'%' => 3,
        (byte)'*' => 2,
        _ => ReplyProtocol,
    };

    private bool _pushDeclined;

    // Returns the first byte not consumed; p itself when more bytes are needed or, with _pushDeclined, when the frame is
    // an ordinary reply after all; null when the upstream was closed.
    private byte* ProcessPush(byte* p, byte* end)
    {
        if (!_inPush)
        {
            if (*p == (byte)'+')
            {
                PushKind line = PushScanner.ClassifyLine(p, end);
                if (line == PushKind.Incomplete) { return p; }
                if (line == PushKind.Other)
                {
                    _pushDeclined = true;
                    return p;
                }
                _capturingPush = true;
            }
            else
            {
                PushKind kind = PushScanner.Classify(p, end);
                if (kind == PushKind.Incomplete) { return p; }
                if (kind == PushKind.Other && *p == (byte)'*')
                {
                    _pushDeclined = true;
                    return p;
                }
                _capturingPush = kind == PushKind.Confirmation;
            }
            _inPush = true;
        }
        int one = 1;
        byte* q = ReplyScanner.Consume(p, end, ref _state, ref one);
        _loop.Replies.BeginAny();
        if (q < end) { Exclusive!.Gather(); }
        if (_capturingPush)
        {
            _capture.Append(p, (nint)(q - p));
        }
        else if (q > p)
        {
            Exclusive!.DeliverPush(p, (nint)(q - p));
        }
        if (IsClosed) { return null; }
        if (one > 0)
        {
            // Only an incomplete header is left.
            return q;
        }
        _inPush = false;
        if (_capturingPush)
        {
            _capturingPush = false;
            var frame = new ReadOnlySpan<byte>(_capture.Head, (int)_capture.Count);
            if (frame[0] == (byte)'+')
            {
                MonitorLines.Deliver(_loop, Exclusive!, frame);
            }
            else
            {
                Exclusive!.DeliverPush(_capture.Head, _capture.Count);
                if (!IsClosed) { OnConfirmation(frame); }
            }
            _capture.Clear(0);
        }
        return IsClosed ? null : q;
    }

    private void OnConfirmation(ReadOnlySpan<byte> frame)
    {
        // The frame ends ":<count>\r\n"; the count is of channels and patterns, or of shard channels.
        int colon = frame.LastIndexOf((byte)':');
        if (colon < 0 || !Utf8Parser.TryParse(frame[(colon + 1)..], out int count, out _)) { return; }
        int at = frame.IndexOf((byte)'$');
        at += frame[at..].IndexOf((byte)'\n') + 1;
        ReadOnlySpan<byte> name = frame[at..];
        if (name[0] == (byte)'s' && (name.StartsWith("ss"u8) || name.StartsWith("sun"u8))) { ShardChannels = count; }
        else if (name[0] == (byte)'p') { Patterns = count - Channels; }
        else { Channels = count - Patterns; }

        if (_expected.IsEmpty) { return; }
        ref Expected e = ref _expected.First;
        if (e.Kind is not (ReplyKind.Subscribe or ReplyKind.Unsubscribe)) { return; }
        bool isUn = name.StartsWith("un"u8) || name.StartsWith("pun"u8) || name.StartsWith("sun"u8);
        if (isUn != (e.Kind == ReplyKind.Unsubscribe)) { return; }
        if (e.Count <= 0)
        {
            // "From everything": as many confirmations as there were subscriptions, at least one. How many are left is
            // in the counts.
            int left = name[0] == (byte)'s' ? ShardChannels : name[0] == (byte)'p' ? Patterns : Channels;
            if (left > 0) { return; }
            e.Count = 1;
        }
        if (--e.Count == 0)
        {
            Client client = Exclusive!;
            bool inexact = e.Inexact;
            long version = e.Version;
            Pop(ref e);
            client.OnConfirmed();
            if (client.IsSkipping) { client.EndSkip(); }
            client.OnAnswered(this, 1, ReplyKind.Subscribe, version, inexact);
            client.AfterReply(this);
        }
    }
}

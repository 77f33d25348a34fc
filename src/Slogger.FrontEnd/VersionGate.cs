// The loop's side of the version grid: which version is open, and how a boundary comes between the requests of one version
// and the next. The shared upstream carries the marker itself, so there each request's side is known by position. What
// dedicated upstreams have in flight is awaited before the marker is sent, and what they are given until it is answered
// is held back: then nothing on them runs near the marker.
//
// Among other shards a boundary has to be punctual: nothing that was received after the version's end may be in it. So before
// anything is forwarded, and after it was received, the clock is asked; from the end of a version until its marker is
// written nothing is forwarded at all. A boundary that cannot be made then (the marker before it is still on its way) is not made
// late: the version stays open until the end of a later one. (Design, section 3: the clock is read after the receive.)

namespace Slogger.FrontEnd;

/// <summary>The decision to close a version now: the marker's two arguments.</summary>
internal readonly record struct MarkerToSend(byte[] Command, long NextOpen)
{
    /// <summary>How a reply begins that says it was done: an integer, or a status.</summary>
    public byte Accepts { get; init; } = (byte)':';
}

/// <summary>What the loop needs of the shard. Called by the loop's thread.</summary>
internal interface IVersionSource
{
    /// <summary>Whether versions are closed at all.</summary>
    bool IsVersioned { get; }

    /// <summary>Whether a version may only be closed at its very end, since other shards close the same one. Never changes.</summary>
    bool IsPunctual { get; }

    /// <summary>The version that requests forwarded now belong to.</summary>
    long OpenVersion { get; }

    /// <summary>Microseconds until <see cref="Tick"/> should be called again; negative for never. If punctual: until the next
    /// end of a version that is still ahead.</summary>
    long MicrosecondsToNextTick();

    /// <summary>Microseconds until replies of the open version may be given out; 0 or less for at once.</summary>
    long MicrosecondsToReplies();

    /// <summary>Whether only a marker can close the open version, whatever is forwarded in it.</summary>
    bool NeedsMarker => false;

    /// <summary>Asks whether a version is to be closed now.</summary>
    /// <param name="busy">Whether anything was forwarded, or was in flight, since the last boundary.</param>
    /// <param name="inFlight">Whether something of it is in flight now, and perhaps not executed yet.</param>
    MarkerToSend? Tick(bool busy, bool inFlight);

    /// <summary>The marker was answered: with an integer, or with something else.</summary>
    void MarkerAnswered(bool counts);

    /// <summary>The connection died with the marker on it, and it is executed by now, or never will be; or it was not sent at all.</summary>
    void MarkerLost();
}

/// <summary>The state of the boundary under way. Used by the loop's thread.</summary>
internal sealed class VersionGate(FrontEndLoop loop, IVersionSource source)
{
    private const long DrainLimitMicroseconds = 20_000;
    private const long NoCarrierMicroseconds = 1_000;
    private MarkerToSend? _pending;
    private long _pendingSince;
    private bool _inFlight;
    private byte _accepts;
    private bool _busy;
    private readonly bool _isPunctual = source.IsPunctual;
    private long _deadline;

    /// <summary>The version of what is forwarded now on the shared upstream.</summary>
    public long Open
    {
        get;
        private set
        {
            if (field == value) { return; }
            field = value;
            long wait = source.MicrosecondsToReplies();
            RepliesHeldUntil = wait > 0 ? FrontEndLoop.Microseconds() + wait : 0;
        }
    } = source.OpenVersion;

    /// <summary>Until then, by the loop's clock, no reply is read: it could be of the version that has just been opened, which
    /// other machines' clocks may not have come to (design, section 3). Replies of the version before wait as well.</summary>
    public long RepliesHeldUntil { get; private set; }

    /// <summary>The version of what is forwarded now on a dedicated upstream: while that is held, the next.</summary>
    public long OpenForDedicated => _isHolding ? _pendingNext : Open;

    /// <summary>The version that has certainly been opened at Redis.</summary>
    public long Answered { get; private set; } = source.OpenVersion;

    /// <summary>Dedicated upstreams hold back what they are given.</summary>
    public bool Holding => _isHolding || IsShut;

    private bool _isHolding;

    /// <summary>Nothing is forwarded at all: see <see cref="FrontEndLoop.HoldAsync"/>.</summary>
    public bool IsShut { get; private set; }

    /// <summary>Whether there are other shards, which close the same versions.</summary>
    public bool IsPunctual => _isPunctual;

    /// <summary>They hold back even what runs at a time that nobody knows.</summary>
    public bool HoldsInexact => (_isHolding && _isPunctual) || IsShut;

    /// <summary>The version that is open has ended, and its marker is still to be sent.</summary>
    public bool IsDue => IsShut || IsEndDue;

    private bool IsEndDue => _isPunctual && (_pending is not null || (!_inFlight && FrontEndLoop.Microseconds() >= _deadline));

    /// <summary>Asked after something was received, before it is forwarded on the shared upstream. False: not before the marker
    /// is sent; see <see cref="FrontEndLoop.WaitForRoom"/>.</summary>
    public bool MayForward()
    {
        if (IsShut) { return false; }
        if (!IsEndDue) { return true; }
        Turn(FrontEndLoop.Microseconds());
        return _pending is null;
    }

    /// <summary>Exact entries not yet answered on all dedicated upstreams.</summary>
    public int DedicatedExactInFlight { get; set; }

    /// <summary>A marker was sent and is not answered. Or never will be: then it stays so until <see cref="Restart"/>.</summary>
    public bool IsMarkerInFlight => _inFlight;

    /// <summary>What follows the marker on the shared upstream waits for its reply: a blocking request was sent since on a
    /// dedicated one, and Redis, busy with the marker, would look at what follows it first.</summary>
    public bool HoldsShared => _inFlight && _blockingSent;

    /// <summary>A blocking request is sent.</summary>
    public void OnBlockingSent() => _blockingSent = true;

    private bool _blockingSent;
    private long _pendingNext;

    public bool IsVersioned => source.IsVersioned;

    /// <summary>Something was forwarded: the version is not empty.</summary>
    public void MarkBusy() => _busy = true;

    /// <summary>Microseconds until the gate has something to do; negative for never.</summary>
    public long MicrosecondsToNextTurn(long now)
    {
        if (_pending is not null)
        {
            return Math.Max(0, _pendingSince + DrainLimitMicroseconds - now);
        }
        if (_inFlight || !source.IsVersioned) { return -1; }
        long next = _isPunctual ? Math.Max(0, _deadline - now) : source.MicrosecondsToNextTick();
        // Nothing to send it on: no use in asking all the time.
        return next >= 0 && next < NoCarrierMicroseconds && !loop.CanSendMarker ? NoCarrierMicroseconds : next;
    }

    /// <summary>Does what is due. Called once in each turn of the loop.</summary>
    public void Turn(long now)
    {
        if (!source.IsVersioned || _inFlight) { return; }
        if (_pending is null)
        {
            if (_isPunctual ? now < _deadline : source.MicrosecondsToNextTick() > 0) { return; }
            bool inFlight = loop.AnythingInFlight, busy = _busy || inFlight;
            if ((busy || loop.IsPaused || source.NeedsMarker) && !loop.CanSendMarker)
            {
                Arm();
                return;
            }
            _pending = source.Tick(busy, inFlight);
            if (_pending is null)
            {
                Open = Answered = source.OpenVersion;
                Arm();
                return;
            }
            _pendingNext = _pending.Value.NextOpen;
            _pendingSince = now;
            _isHolding = true;
        }
        if (DedicatedExactInFlight > 0)
        {
            if (now - _pendingSince < DrainLimitMicroseconds) { return; }
            loop.GiveUpExactness();
        }
        if (!loop.CanSendMarker)
        {
            Abandon();
            return;
        }
        loop.SendMarker(_pending.Value.Command);
        _accepts = _pending.Value.Accepts;
        _pending = null;
        _inFlight = true;
        _busy = _blockingSent = false;
        Open = _pendingNext;
        if (_isPunctual) { loop.WakeFullClients(); }
    }

    /// <summary>A version is wanted before its time.</summary>
    public void OnFastForward() => Arm();

    // What was not closed at its end stays open until the next.
    private void Arm()
    {
        if (!_isPunctual) { return; }
        // Read first: however long the thread is kept from going on, the deadline is not after the version's end.
        long now = FrontEndLoop.Microseconds();
        long wait = source.MicrosecondsToNextTick();
        _deadline = wait < 0 ? long.MaxValue : now + wait;
    }

    public void OnMarkerReply(byte first)
    {
        bool counts = first == _accepts;
        _inFlight = false;
        source.MarkerAnswered(counts);
        if (counts) { Answered = Open; } else { _busy = true; }
        Release();
    }

    /// <summary>The upstream that carries markers died. A marker on it may be executed yet: it is lost when the store opens again, and until
    /// then nothing that is held is sent.</summary>
    public void OnMarkerUpstreamClosed()
    {
        _busy = true;
        if (_inFlight) { return; }
        if (_pending is not null) { Abandon(); }
        else { Release(); }
    }

    /// <summary>The store opens, and nothing is executed any more of what a connection before has carried. A recovery may have opened another version.</summary>
    public void Restart()
    {
        if (_inFlight || _pending is not null) { source.MarkerLost(); }
        _inFlight = false;
        _pending = null;
        _busy = true;
        Open = Answered = source.OpenVersion;
        Release();
    }

    private void Abandon()
    {
        _pending = null;
        _busy = true;
        Open = Math.Max(Open, _pendingNext);
        source.MarkerLost();
        Release();
    }

    private void Release()
    {
        if (_isHolding)
        {
            _isHolding = false;
            LetGo();
        }
        Arm();
    }

    /// <summary>Nothing is forwarded from now on, or everything again.</summary>
    public void Shut(bool isShut)
    {
        if (isShut == IsShut) { return; }
        IsShut = isShut;
        if (!_isHolding) { LetGo(); }
    }

    private void LetGo()
    {
        if (IsShut) { return; }
        // What was held back runs from here on: the version that it belongs to is not empty.
        _busy |= loop.HeldUpstreams.Count > 0;
        loop.ReleaseHeldUpstreams();
        loop.WakeFullClients();
    }
}

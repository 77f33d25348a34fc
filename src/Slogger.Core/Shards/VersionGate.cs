// The boundary between the requests of one version and those of the next, as the front end keeps it. It decides when a version may be
// closed, what has to wait for the marker, and in which version a request is. Pure: driven by the front end's loop in the product, and by
// the simulator.
//
// Contract with the caller
// - The caller asks for the next step after each call that returns nothing, performs it, and asks again until there is nothing to do. A
//   step is performed before anything else is forwarded or read.
// - The shared upstream carries the marker itself, so there each request's version is known by its position: Open when it is written. What
// dedicated upstreams have in flight is awaited before the marker is sent, and what they are given until it is answered is held back: it is
// of OpenForDedicated.
//   So nothing runs on them near the marker.
// - What cannot be ordered so (what blocks, and what was in flight for too long) has two bounds: Answered when it is forwarded, Open when
//   its reply comes.
// - Before a request is forwarded on the shared upstream, and after it was received, the clock is compared with EndsUs: one field, whatever
//   the state.
// - A marker that was on a connection when that broke may be executed yet. What is held stays held until Restart: then it is executed, or
//   never will be.
// - Before RepliesHeldUntilUs no reply is read.
//
// Among other shards a boundary is punctual: nothing that was received after the version's end may be in it. From the end of a version
// until its marker is written nothing is forwarded at all. A boundary that cannot be made at its end (no connection, the marker before it
// still on its way) is not made late: the version stays open until the end of a later one. (Design, section 3: the clock is read after the
// receive.)

using Slogger.Core.Versions;
namespace Slogger.Core.Shards;

/// <summary>What is to be done.</summary>
public enum GateStepKind : byte
{
    /// <summary>Nothing, until something happens or <see cref="VersionGate.UsToNextTurn"/> is over.</summary>
    Rest,

    /// <summary>Have the shard close the open version (<see cref="ShardMachine.Tick"/>), with what the step says of it. Then tell
    /// <see cref="VersionGate.Closing"/> if that takes a marker, else <see cref="VersionGate.Passed"/>.</summary>
    Close,

    /// <summary>What dedicated upstreams have in flight is known by two bounds only: it does not count in
    /// <see cref="VersionGate.ExactInFlight"/> any more.</summary>
    GiveUpExactness,

    /// <summary>Write the marker that the shard has given, before anything else is forwarded.</summary>
    SendMarker,

    /// <summary>Tell the shard that its marker was not sent, or will not be executed any more
    /// (<see cref="ShardMachine.MarkerLost"/>).</summary>
    LoseMarker,

    /// <summary>Ask the shard from when on replies of the open version may be given out, and tell
    /// <see cref="VersionGate.HoldReplies"/>.</summary>
    AskReplies,

    /// <summary>What dedicated upstreams hold back is sent, and who waits tries again.</summary>
    Release,

    /// <summary>Who waits for the marker to be sent tries again.</summary>
    Resume,

    /// <summary>Read the clock, then ask the shard when the open version ends, and tell <see cref="VersionGate.EndsAt"/>. In this order:
    /// however long that takes, the end is not put later than it is.</summary>
    AskEnd,
}

/// <summary>A step, and what it is done with.</summary>
/// <param name="Kind">What is done.</param>
/// <param name="IsBusy">Close: whether anything was forwarded, or was in flight, since the last boundary.</param>
/// <param name="IsInFlight">Close: whether something of it is in flight now, and perhaps not executed yet.</param>
public readonly record struct GateStep(GateStepKind Kind, bool IsBusy = false, bool IsInFlight = false);

/// <summary>The front end, when a version is to be closed.</summary>
/// <param name="CanSendMarker">Whether there is a connection that a marker can be sent on, and may be.</param>
/// <param name="IsPaused">Whether clients' requests wait in the store, where nobody sees them.</param>
/// <param name="NeedsMarker">Whether only a marker can close the open version, whatever was forwarded in it.</param>
/// <param name="IsInFlight">Whether the shared upstream owes replies.</param>
public readonly record struct GateView(bool CanSendMarker, bool IsPaused, bool NeedsMarker, bool IsInFlight);

/// <summary>Deliberate faults for the tests of the tests; see ShardMutation.</summary>
internal enum VersionGateMutation
{
    None,

    /// <summary>Replies of a version leave although a clock may not have come to it.</summary>
    RepliesNotHeld,

    /// <summary>Dedicated upstreams send what they are given while a marker is on its way.</summary>
    DedicatedNotHeld,

    /// <summary>The marker is sent although dedicated upstreams have requests in flight.</summary>
    NotDrained,

    /// <summary>Requests are forwarded on the shared upstream although the version has ended and its marker is not sent yet.</summary>
    EndIgnored,

    /// <summary>The version of the shared upstream moves on when the marker is answered.</summary>
    OpenMovesAtAnswer,

    /// <summary>What dedicated upstreams hold back counts to the version that ends.</summary>
    HeldIsOfBefore,

    /// <summary>What was held back does not make the version busy in which it is sent.</summary>
    HeldIsNotBusy,

    /// <summary>The lower bound of what blocks moves on when the marker is sent.</summary>
    AnsweredAtSend,

    /// <summary>A marker that the store has refused counts as answered.</summary>
    RefusedCounts,

    /// <summary>What is held is let go when the connection breaks, while the marker on it may be executed yet.</summary>
    ReleasedAtLoss,

    /// <summary>A version that could not be closed at its end is closed as soon as it can be.</summary>
    ClosedLate,
}

/// <summary>How a gate works.</summary>
public sealed record VersionGateOptions
{
    /// <summary>Whether versions are closed at all.</summary>
    public required bool IsVersioned { get; init; }

    /// <summary>Whether a version may only be closed at its very end, since other shards close the same one.</summary>
    public required bool IsPunctual { get; init; }

    /// <summary>How long the marker waits for what dedicated upstreams have in flight, in microseconds. Until then nothing is forwarded, so
    /// it is short; what takes longer commits later, and is uncertain after a recovery.</summary>
    public long DrainUs { get; init; } = 20_000;

    /// <summary>How often it is tried again to close a version where there is no connection for the marker, in microseconds.</summary>
    public long NoCarrierUs { get; init; } = 1_000;
}

/// <summary>The boundary under way. One thread. All times are of a monotonic clock, in microseconds.</summary>
public sealed class VersionGate
{
    private readonly VersionGateOptions _options;
    private readonly VersionGateMutation _mutation;
    private VersionNumber _next;            // of the marker: what is forwarded behind it
    private bool _isClosing;          // the shard has given a marker, which waits to be sent
    private bool _isHolding;
    private bool _isTurn;             // a version may be closed, or its marker sent
    private bool _hasGivenUp, _isBusy, _hasHeld, _blockingSent, _heldBefore, _closesInFlight;
    private bool _owesLoss, _owesReplies, _owesRelease, _owesResume, _owesEnd;
    private long _nowUs, _closingSinceUs, _endUs;

    /// <summary>Nothing is known of versions before <see cref="Restart"/>.</summary>
    public VersionGate(VersionGateOptions options) : this(options, VersionGateMutation.None)
    {
    }

    internal VersionGate(VersionGateOptions options, VersionGateMutation mutation)
    {
        (_options, _mutation) = (options, mutation);
        NoteEnd();
    }

    // ---- What is forwarded ----

    /// <summary>Whether versions are closed at all.</summary>
    public bool IsVersioned => _options.IsVersioned;

    /// <summary>Whether there are other shards, which close the same versions.</summary>
    public bool IsPunctual => _options.IsPunctual;

    /// <summary>The version of what is forwarded now on the shared upstream, and the upper bound of a reply that comes now.</summary>
    public VersionNumber Open { get; private set; }

    /// <summary>The version of what is given to a dedicated upstream now: while that is held, the next.</summary>
    public VersionNumber OpenForDedicated => _isHolding && _mutation != VersionGateMutation.HeldIsOfBefore ? _next : Open;

    /// <summary>The version that has certainly been opened at the store: the lower bound of what blocks.</summary>
    public VersionNumber Answered { get; private set; }

    /// <summary>From then on nothing is forwarded on the shared upstream before <see cref="BeginTurn"/>, and the steps that follow, have
    /// moved it: <see cref="long.MinValue"/> if nothing may be, <see cref="long.MaxValue"/> if everything may.</summary>
    public long EndsUs { get; private set; }

    /// <summary>Dedicated upstreams hold back what they are given.</summary>
    public bool HoldsDedicated => (_isHolding && _mutation != VersionGateMutation.DedicatedNotHeld) || IsShut;

    /// <summary>They hold back even what runs at a time that nobody knows.</summary>
    public bool HoldsInexact => HoldsDedicated && (IsPunctual || IsShut);

    /// <summary>What follows the marker on the shared upstream waits for its reply: a blocking request was sent since on a dedicated one,
    /// and the store, busy with the marker, would look at what follows it first.</summary>
    public bool HoldsShared => IsMarkerInFlight && _blockingSent;

    /// <summary>Nothing is forwarded at all: see <see cref="Shut"/>.</summary>
    public bool IsShut { get; private set; }

    /// <summary>A marker was sent and is not answered. Or never will be: then it stays so until <see cref="Restart"/>.</summary>
    public bool IsMarkerInFlight { get; private set; }

    /// <summary>Whether anything was forwarded since the last boundary.</summary>
    public bool IsBusy => _isBusy;

    /// <summary>Before that no reply is read: it could be of the version that has just been opened, which other machines' clocks may not
    /// have come to. Replies of the version before wait as well.</summary>
    public long RepliesHeldUntilUs { get; private set; }

    /// <summary>Requests that dedicated upstreams have sent and not seen answered, and that are known to be of one version.</summary>
    public int ExactInFlight { get; set; }

    /// <summary>Something was forwarded: the version is not empty.</summary>
    public void MarkBusy() => _isBusy = true;

    /// <summary>A dedicated upstream holds back what it was given.</summary>
    public void NoteHeld() => _hasHeld = true;

    /// <summary>A blocking request is sent.</summary>
    public void NoteBlocking() => _blockingSent = true;

    // ---- The boundary ----

    /// <summary>Whether the end of the open version is to be asked for before each turn: a shard alone is bound to no end, and what it
    /// waits for changes.</summary>
    public bool AsksAtTurns => IsVersioned && !IsPunctual && !_isClosing && !IsMarkerInFlight;

    /// <summary>Microseconds until a turn has something to do; negative for never.</summary>
    /// <param name="nowUs">The clock.</param>
    /// <param name="canSendMarker">As in <see cref="GateView"/>.</param>
    public long UsToNextTurn(long nowUs, bool canSendMarker)
    {
        if (_isClosing) return Math.Max(0, _closingSinceUs + _options.DrainUs - nowUs);
        if (IsMarkerInFlight || !IsVersioned) return -1;
        long waitUs = Math.Max(0, _endUs - nowUs);
        // Nothing to send it on: no use in asking all the time.
        return waitUs < _options.NoCarrierUs && !canSendMarker ? _options.NoCarrierUs : waitUs;
    }

    /// <summary>The caller may close a version now, and send its marker. Nothing is forwarded between this and the last step.</summary>
    /// <returns>False: there is nothing to do.</returns>
    public bool BeginTurn(long nowUs)
    {
        if (!IsVersioned || IsMarkerInFlight || (!_isClosing && nowUs < _endUs)) return false;
        _nowUs = nowUs;
        return _isTurn = true;
    }

    /// <summary>The next step.</summary>
    /// <param name="view">The front end; only looked at in a turn.</param>
    public GateStep Next(in GateView view)
    {
        if (Take(ref _owesLoss)) return new(GateStepKind.LoseMarker);
        if (Take(ref _owesReplies)) return new(GateStepKind.AskReplies);
        if (Take(ref _owesRelease) && !IsShut)
        {
            // What was held back runs from here on: the version that it belongs to is not empty.
            if (Take(ref _hasHeld) && _mutation != VersionGateMutation.HeldIsNotBusy) _isBusy = true;
            return new(GateStepKind.Release);
        }

        if (Take(ref _owesResume)) return new(GateStepKind.Resume);
        if (Take(ref _owesEnd)) return new(GateStepKind.AskEnd);
        if (!_isTurn) return new(GateStepKind.Rest);
        return _isClosing ? Send(view) : Close(view);
    }

    /// <summary>When the open version ends. Of a punctual gate: the next end that is still ahead.</summary>
    public void EndsAt(long endUs)
    {
        _endUs = endUs;
        NoteEnd();
    }

    /// <summary>A version is wanted before its time.</summary>
    public void AskForEnd() => _owesEnd = IsPunctual;

    /// <summary>The shard closes the open version, with a marker.</summary>
    /// <param name="next">The version of what is forwarded behind the marker.</param>
    public void Closing(VersionNumber next)
    {
        (_next, _closingSinceUs) = (next, _nowUs);
        (_isClosing, _isHolding, _isTurn, _hasGivenUp) = (true, true, true, false);
        NoteEnd();
    }

    /// <summary>There was nothing to close, or it took no marker.</summary>
    /// <param name="open">The version that is open now.</param>
    public void Passed(VersionNumber open)
    {
        // Versions have passed: the shard has found that nothing was changed. What was forwarded has been answered.
        if (open > Open && !_closesInFlight) _isBusy = false;
        OpenVersion(open);
        Answered = open;
        AskForEnd();
    }

    /// <summary>No reply is read for so long; 0 or less: none is held.</summary>
    public void HoldReplies(long nowUs, long waitUs)
    {
        _heldBefore = nowUs < RepliesHeldUntilUs;
        RepliesHeldUntilUs = waitUs <= 0 || _mutation == VersionGateMutation.RepliesNotHeld ? 0 : nowUs + waitUs;
    }

    /// <summary>The marker was answered, and the shard knows.</summary>
    /// <param name="counts">Whether the store has done it.</param>
    public void MarkerAnswered(bool counts)
    {
        IsMarkerInFlight = false;
        if (_mutation == VersionGateMutation.OpenMovesAtAnswer) OpenVersion(_next);
        if (counts || _mutation == VersionGateMutation.RefusedCounts) Answered = Open;
        Release();
    }

    /// <summary>The upstream that carries markers ended.</summary>
    public void CarrierClosed()
    {
        _isBusy = true;
        if (IsMarkerInFlight && _mutation != VersionGateMutation.ReleasedAtLoss) return;
        if (_isClosing) Abandon();
        else Release();
    }

    /// <summary>The store opens, and nothing is executed any more of what a connection before has carried.</summary>
    /// <param name="open">The version that is open: a recovery may have opened another.</param>
    public void Restart(VersionNumber open)
    {
        _owesLoss = IsMarkerInFlight || _isClosing;
        IsMarkerInFlight = _isClosing = false;
        _isBusy = true;
        OpenVersion(open);
        Answered = open;
        Release();
    }

    /// <summary>Nothing is forwarded from now on, or everything again. For moments in which nothing is under way at the store.</summary>
    public void Shut(bool isShut)
    {
        if (isShut == IsShut) return;
        IsShut = isShut;
        NoteEnd();
        if (!_isHolding) _owesRelease = true;
    }

    private GateStep Close(in GateView view)
    {
        _isTurn = false;
        // Versions that are shorter than the clocks' error: were another opened now, replies would be held for ever.
        if (_heldBefore && _endUs <= RepliesHeldUntilUs)
        {
            AskForEnd();
            return Next(view);
        }

        bool isInFlight = view.IsInFlight || ExactInFlight > 0, isBusy = _isBusy || isInFlight;
        if ((isBusy || view.IsPaused || view.NeedsMarker) && !view.CanSendMarker)
        {
            // What was not closed at its end stays open until the next.
            if (_mutation != VersionGateMutation.ClosedLate) AskForEnd();
            return Next(view);
        }

        _closesInFlight = isInFlight;
        return new(GateStepKind.Close, isBusy, isInFlight);
    }

    private GateStep Send(in GateView view)
    {
        if (ExactInFlight > 0 && !_hasGivenUp && _mutation != VersionGateMutation.NotDrained)
        {
            _isTurn = _hasGivenUp = _nowUs - _closingSinceUs >= _options.DrainUs;
            return new(_hasGivenUp ? GateStepKind.GiveUpExactness : GateStepKind.Rest);
        }

        _isTurn = false;
        if (!view.CanSendMarker)
        {
            Abandon();
            return Next(view);
        }

        _isClosing = _isBusy = _blockingSent = false;
        IsMarkerInFlight = _owesResume = true;
        if (_mutation != VersionGateMutation.OpenMovesAtAnswer) OpenVersion(_next);
        if (_mutation == VersionGateMutation.AnsweredAtSend) Answered = Open;
        NoteEnd();
        return new(GateStepKind.SendMarker);
    }

    private void Abandon()
    {
        _isClosing = false;
        _isBusy = _owesLoss = true;
        OpenVersion(VersionNumber.Max(Open, _next));
        Release();
    }

    private void Release()
    {
        _owesRelease |= _isHolding;
        _isHolding = false;
        AskForEnd();
        NoteEnd();
    }

    private void OpenVersion(VersionNumber open)
    {
        _owesReplies |= Open != open;
        Open = open;
    }

    private void NoteEnd()
    {
        bool waits = _isClosing && IsPunctual && _mutation != VersionGateMutation.EndIgnored;
        EndsUs = IsShut || waits ? long.MinValue : IsPunctual && !IsMarkerInFlight && !_isClosing ? _endUs : long.MaxValue;
    }

    private static bool Take(ref bool owed)
    {
        bool was = owed;
        owed = false;
        return was;
    }
}

// The loop's side of the version grid: performs what Core's VersionGate decides, one step after the other. What it asks of the shard is
// here, too.
using Slogger.Core.Shards;
using Slogger.Core.Versions;

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

    /// <summary>Whether versions may pass unseen for as long as nothing is forwarded: nobody waits for one, and none holds anything that is
    /// not kept. When that changes the source calls <see cref="VersionBoundary.Disturb"/>.</summary>
    bool MayRest => false;

    /// <summary>Asks whether a version is to be closed now.</summary>
    /// <param name="busy">Whether anything was forwarded, or was in flight, since the last boundary.</param>
    /// <param name="inFlight">Whether something of it is in flight now, and perhaps not executed yet.</param>
    MarkerToSend? Tick(bool busy, bool inFlight);

    /// <summary>The first tick after a rest, with nothing forwarded since. Versions that had ended before something changed pass without
    /// it.</summary>
    MarkerToSend? Pass() => Tick(busy: false, inFlight: false);

    /// <summary>The marker was answered: with an integer, or with something else.</summary>
    void MarkerAnswered(bool counts);

    /// <summary>The connection died with the marker on it, and it is executed by now, or never will be; or it was not sent at
    /// all.</summary>
    void MarkerLost();
}

/// <summary>Performs the steps of the gate. Used by the loop's thread.</summary>
internal sealed class VersionBoundary(FrontEndLoop loop, IVersionSource source, VersionGate gate)
{
    private MarkerToSend _marker;
    private int _mayDisturb;     // any thread
    private bool _onlyPasses;

    /// <summary>Whether versions pass unseen until something happens, as <see cref="MicrosecondsToNextTurn"/> has found.</summary>
    public bool Rests { get; private set; }

    /// <summary>Asked after something was received, before it is forwarded on the shared upstream. False: not before the marker
    /// is sent; see <see cref="FrontEndLoop.WaitForRoom"/>.</summary>
    public bool MayForward()
    {
        if (!loop.IsVersionDue) { return true; }
        if (!gate.IsShut) { Turn(FrontEndLoop.Microseconds()); }
        return gate.EndsUs != long.MinValue;
    }

    /// <summary>Microseconds until there is something to do; negative for never.</summary>
    public long MicrosecondsToNextTurn(long now)
    {
        if (gate.AsksAtTurns) { AskEnd(); }
        if (!gate.IsBusy && loop.MayRest && BeginRest()) { return -1; }
        return gate.UsToNextTurn(now, loop.CanSendMarker);
    }

    // What disturbs is set before Disturb looks, so it is seen here or there.
    private bool BeginRest()
    {
        Interlocked.Exchange(ref _mayDisturb, 1);
        Rests = source.MayRest;
        if (!Rests) { Volatile.Write(ref _mayDisturb, 0); }
        return Rests;
    }

    /// <summary>There is a reason not to rest any more. Any thread; to be called when the reason is there.</summary>
    public void Disturb()
    {
        if (Interlocked.Exchange(ref _mayDisturb, 0) != 0) { loop.Poller.Wake(); }
    }

    /// <summary>The loop has slept. Versions that ended meanwhile are passed before anything is forwarded: they were empty. What has woken
    /// it is of the version that is open now.</summary>
    public void Wake(long now)
    {
        if (!Rests) { return; }
        Rests = false;
        Volatile.Write(ref _mayDisturb, 0);
        _onlyPasses = true;
        Turn(now);
        _onlyPasses = false;
    }

    /// <summary>Does what is due. Called once in each turn of the loop.</summary>
    public void Turn(long now)
    {
        if (gate.AsksAtTurns)
        {
            AskEnd();
            // An end that has come is said to be at the moment of the asking, which is later than the turn's beginning.
            now = FrontEndLoop.Microseconds();
        }
        if (gate.BeginTurn(now)) { Perform(new(loop.CanSendMarker, loop.IsPaused, source.NeedsMarker, loop.IsInFlightOnShared)); }
    }

    /// <summary>A version is wanted before its time.</summary>
    public void OnFastForward()
    {
        gate.AskForEnd();
        Perform();
    }

    public void OnMarkerReply(byte first)
    {
        bool counts = first == _marker.Accepts;
        source.MarkerAnswered(counts);
        gate.MarkerAnswered(counts);
        Perform();
    }

    /// <summary>The upstream that carries markers ended.</summary>
    public void OnCarrierClosed()
    {
        gate.CarrierClosed();
        Perform();
    }

    /// <summary>The store opens, and nothing is executed any more of what a connection before has carried.</summary>
    public void Restart()
    {
        gate.Restart(new VersionNumber(source.OpenVersion));
        Perform();
    }

    /// <summary>Nothing is forwarded from now on, or everything again.</summary>
    public void Shut(bool isShut)
    {
        gate.Shut(isShut);
        Perform();
    }

    private void Perform(in GateView view = default)
    {
        while (true)
        {
            GateStep step = gate.Next(view);
            switch (step.Kind)
            {
                case GateStepKind.Rest:
                    return;
                case GateStepKind.Close:
                    Close(step);
                    break;
                case GateStepKind.GiveUpExactness:
                    loop.Upstreams.GiveUpExactness();
                    break;
                case GateStepKind.SendMarker:
                    loop.SendMarker(_marker.Command);
                    break;
                case GateStepKind.LoseMarker:
                    source.MarkerLost();
                    break;
                case GateStepKind.AskReplies:
                    long wait = source.MicrosecondsToReplies();
                    gate.HoldReplies(FrontEndLoop.Microseconds(), wait);
                    break;
                case GateStepKind.Release:
                    loop.Upstreams.ReleaseHeld();
                    loop.WakeFullClients();
                    break;
                case GateStepKind.Resume:
                    loop.WakeFullClients();
                    break;
                case GateStepKind.AskEnd:
                    AskEnd();
                    break;
            }
        }
    }

    private void Close(in GateStep step)
    {
        if ((_onlyPasses && !step.IsBusy ? source.Pass() : source.Tick(step.IsBusy, step.IsInFlight)) is { } marker)
        {
            _marker = marker;
            gate.Closing(new VersionNumber(marker.NextOpen));
        }
        else
        {
            gate.Passed(new VersionNumber(source.OpenVersion));
        }
    }

    private void AskEnd()
    {
        long now = FrontEndLoop.Microseconds(), wait = source.MicrosecondsToNextTick();
        gate.EndsAt(wait < 0 ? long.MaxValue : now + wait);
    }
}

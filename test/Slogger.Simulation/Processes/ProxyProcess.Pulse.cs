// A proxy's heart-beat in the metadata, as the product's ClusterPulse: it learns how the grid stands (the real GridFollower), and that its
// shard is to leave. And the ordered end of a process: nothing more is forwarded, the last version is closed and recorded.
using Slogger.Core.Lifecycle;
using Slogger.Core.Membership;
using Slogger.Core.Shards;
using Slogger.Core.Sites;
using Slogger.Core.Versions;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess
{
    public const long BeatPeriodUs = 3 * Cluster.IntervalUs;
    public const long GridGraceUs = 3 * Cluster.IntervalUs;
    private const int MembershipTries = 12;

    private GridFollower _grid = null!;
    private bool _isStopping;
    private bool _isStopped;
    private bool _isLeaving;
    private readonly Leaver _leaver;

    private IEnumerable<bool> LearnGridAtStart()
    {
        while (true)
        {
            SqlCall read = Ask("grid", () => Cluster.Sql.ReadGrid(Shard, 0, Epoch));
            while (!read.IsDone) yield return true;
            if (read.Result is GridView view)
            {
                _grid = new(view, GridGraceUs, _settings.Grid);
                yield break;
            }

            if (read.Result is false) Die("deposed before it began");
            if (IsDead) yield break;
        }
    }

    private IEnumerable<bool> PulseTask()
    {
        while (!IsDead)
        {
            long nextUs = Cluster.NowUs + BeatPeriodUs;
            SqlCall look = Ask("beat", () => Cluster.Sql.Beat(Shard));
            while (!look.IsDone) yield return true;
            if (look.Result is SqlBeat beat)
            {
                _hold.SiteIs(beat.Site);
                if (beat.Site.Role == SiteRole.Deposed)
                {
                    Cluster.Count("site deposed by its beat");
                    Die("another site is the primary");
                    yield break;
                }

                if (beat.Epoch == Epoch)
                {
                    if (beat.State == MemberState.Leaving)
                        foreach (bool step in LeaveCluster()) yield return step;
                    foreach (bool step in FollowGrid(beat.ChangeUs)) yield return step;
                    foreach (bool step in NoteHeld(beat.Site.HandOver.Number)) yield return step;
                }
                else if (Cluster.Dice(16))
                {
                    // Beats of the product are many versions apart: mostly a deposed owner hears of it in another way first.
                    Cluster.Count("deposed by its beat");
                    Die("deposed");
                    yield break;
                }
            }

            while (Cluster.NowUs < nextUs) yield return true;
        }
    }

    // In a switch-over: nothing is under way, and all that was ever done here is in durable versions (the real OperationHold).
    private IEnumerable<bool> NoteHeld(long number)
    {
        if (_hold.Of(number) is not { } hold || !IsOpen || _isSuspect || _machine is not { } machine) yield break;
        bool isQuiet = _sessions.TrueForAll(l => l.InFlight == 0) && _plains.TrueForAll(l => l is { ExactInFlight: 0, BlockedInFlight: 0 });
        if (isQuiet) _hold.Quiet(hold, new(machine.WorldLine, machine.OpenVersion));
        if (_hold.Look(hold, machine.Durable) is not { } held) yield break;
        SqlCall note = Ask("held", () => Cluster.Sql.NoteHeld(Shard, number, held, Epoch));
        while (!note.IsDone) yield return true;
    }

    private IEnumerable<bool> FollowGrid(long proposedUs)
    {
        GridStep next = _grid.Beat(proposedUs);
        while (next.Kind == GridStepKind.Read)
        {
            long agreedUs = next.ChangeUs;
            SqlCall read = Ask(agreedUs > 0 ? "agree" : "grid", () => Cluster.Sql.ReadGrid(Shard, agreedUs, Epoch));
            while (!read.IsDone) yield return true;
            if (read.Result is not GridView view) yield break;
            if (_grid.Learned(view) && !(Is(SimMutation.GridNotLearned) && Shard == 0)) _machine?.GridChanged(view.Grid, view.ValidUntilUs);
            next = _grid.Next(Now().Microseconds);
        }

        if (next.Kind != GridStepKind.Settle) yield break;
        SqlCall settle = Ask("settle", () => Cluster.Sql.SettleInterval(next.ChangeUs, next.GivesUp));
        while (!settle.IsDone) yield return true;
    }

    // ---- The ordered end ----

    /// <summary>Commits what was done, and ends. Only what serves can be stopped so; anything else is killed.</summary>
    public bool Stop()
    {
        if (!_isOpen || _isStopping || _isSuspect || IsDead || _machine is not { } machine) return false;
        ShutFrontEnd();
        BeginToStop(machine);
        return true;
    }

    private void BeginToStop(ShardMachine machine)
    {
        _isStopping = true;
        machine.Stopping();
        // The open version ends now, not at its time.
        AskForEnd();
        Start(StopTask());
    }

    private IEnumerable<bool> StopTask()
    {
        long limitUs = Cluster.NowUs + (60 * Cluster.IntervalUs);
        while (!_isStopped && Cluster.NowUs < limitUs) yield return true;
        if (_isStopped)
            foreach (bool step in EndMembership()) yield return step;
        Cluster.Count(_isStopped ? "stopped in order" : "could not stop in time");
        // A store that the proxy supervises ends with it.
        if (_isStopped && !IsDead && Cluster.Settings.Faults && _host.Store.Admits(Epoch) && Cluster.Dice(2)) _host.Store.Die();
        Die(_isStopped ? "stopped" : "its last version could not be committed in time");
    }

    // The last version is durable, and in SQL: all that was answered is.
    private IEnumerable<bool> EndMembership()
    {
        for (int n = 0; n < MembershipTries && _leaver.MayEnd(_machine) && !IsDead; n++)
        {
            SqlCall end = Ask("end", () => Cluster.Sql.EndMembership(Shard, Epoch));
            while (!end.IsDone) yield return true;
            if (end.Result is not null) yield break;
        }
    }

    private IEnumerable<bool> LeaveCluster()
    {
        if (Is(SimMutation.LeavesAtOnce))
        {
            SqlCall end = Ask("end", () => Cluster.Sql.EndMembership(Shard, Epoch));
            while (!end.IsDone) yield return true;
            if (end.Result is true) Die("has left at once");
            yield break;
        }

        if (!_isLeaving)
        {
            if (!_isOpen || _isStopping || _isSuspect) yield break;
            _isLeaving = true;
            ShutFrontEnd();
        }

        // While it counts no cut falls into a version that was open beyond its time.
        if (!_isStopping && !_isSuspect && _machine is { } machine && _leaver.Look(machine)) BeginToStop(machine);
    }
}

// The command that has the backup take over: the real machine. It may die at any step; then somebody gives the command again, or there are
// two.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Sites;

internal sealed class FailoverProcess : SiteProcess
{
    private const long AskAgainUs = 2 * Cluster.IntervalUs;

    private readonly bool _begins;
    private Failover? _failover;

    /// <param name="site">The site.</param>
    /// <param name="name">A name.</param>
    /// <param name="begins">False: it only goes on with one that was begun.</param>
    public FailoverProcess(BackupSite site, string name, bool begins)
        : base(site, name)
    {
        _begins = begins;
        Start(Run());
    }

    public void Hear(FinalReport report) => Post(() => _failover?.Reported(report, Site.NowUs));

    public void HearReady(SiteEpoch number, ReadyStream ready) => Post(() => _failover?.Ready(number, ready));

    public override void Die(string why)
    {
        base.Die(why);
        Site.Managers.Remove(this);
    }

    private IEnumerable<bool> Run()
    {
        while (_failover is null)
        {
            SqlCall look = Ask("look", Site.Sql.Look);
            while (!look.IsDone) yield return true;
            if (look.Result is SiteState state) _failover = new(state, Site.LeaseWaitUs, Site.Mutation);
        }

        while (true)
        {
            FailoverStep step = _failover.Next(Site.NowUs);
            if (Site.IsTraced) Site.Note($"{Name}: {step}");
            SqlCall? call = null;
            switch (step)
            {
                case FailoverStep.Take when !_begins:
                    Die("there is nothing to go on with");
                    yield break;
                case FailoverStep.Take:
                    call = Ask("take site", () => Site.Sql.Take([]));
                    break;
                case FailoverStep.TellDeposed tell:
                    Site.TellDeposed(tell.Number);
                    continue;
                case FailoverStep.AskFinals ask:
                    foreach (ShardId s in ask.Of)
                        foreach (BackupProcess p in Site.Processes)
                            if (p.Has(s.Number)) Site.Wires.PostNear(() => p.HearFreeze(ask.Number, s.Number));
                    break;
                case FailoverStep.Decide decide:
                    call = Ask("decide", () => Site.Sql.Decide(decide.Number, decide.Final));
                    break;
                case FailoverStep.AskReady ask:
                    foreach (BackupProcess p in Site.Processes) Site.Wires.PostNear(() => p.HearFinal(ask.Number, ask.Final, this));
                    break;
                case FailoverStep.Open open:
                    call = Ask("open all", () => Site.Sql.Open(open.Number, open.Streams));
                    Site.Count("opened by the manager");
                    break;
                case FailoverStep.Done:
                    foreach (BackupProcess p in Site.Processes) Site.Wires.PostNear(p.HearServe);
                    Die($"{step}");
                    yield break;
                case FailoverStep.Refused:
                    Die($"{step}");
                    yield break;
            }

            if (call is not null)
            {
                while (!call.IsDone) yield return true;
                if (call.Result is SiteChange change)
                {
                    if (change.After is null)
                    {
                        Site.OnRefused(change.Error!);
                        Die(change.Error!);
                        yield break;
                    }

                    _failover.Read(change.After);
                }
                else if (call.Result is SiteState state)
                {
                    _failover.Read(state);
                }

                continue;
            }

            long nextUs = Site.NowUs + AskAgainUs;
            while (Site.NowUs < nextUs && _failover.Next(Site.NowUs).GetType() == step.GetType()) yield return true;
            if (_failover.Next(Site.NowUs) is FailoverStep.Open) continue;
            SqlCall look = Ask("look", Site.Sql.Look);
            while (!look.IsDone) yield return true;
            if (look.Result is SiteState now) _failover.Read(now);
        }
    }
}

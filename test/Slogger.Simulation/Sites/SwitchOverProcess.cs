// The command that has the sites change roles: the real machine, between two SQLs. It may die at any step; then another one goes on, or
// there are two.
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Sites;

internal sealed class SwitchOverProcess : SiteProcess
{
    private readonly SwitchOver _manager;

    public SwitchOverProcess(BackupSite site, string name, long deadlineUs)
        : base(site, name)
    {
        _manager = new(deadlineUs, site.Mutation);
        Start(Run());
    }

    public override void Die(string why)
    {
        base.Die(why);
        Site.Switchers.Remove(this);
    }

    private SqlCall AskPrimary(string what, Func<object> apply)
    {
        SqlCall call = new(this, what, apply);
        Site.Primary.Calls.Add(call);
        return call;
    }

    private IEnumerable<bool> Run()
    {
        Sql primary = Site.Primary.Sql;
        while (!IsDead)
        {
            SqlCall look = AskPrimary("look at site", primary.LookAtSite), other = Ask("look", Site.Sql.Look);
            while (!look.IsDone || !other.IsDone) yield return true;
            if (look.Result is not ValueTuple<SiteState, WorldPoint?[], WorldPoint> seen) continue;
            WorldPoint watermark = Site.Services.FirstOrDefault(s => s.IsRunning)?.Current ?? default;
            SwitchOverStep step = _manager.Next(seen.Item1, (SiteState?)other.Result, new(seen.Item2, seen.Item3, watermark), Site.NowUs);
            if (Site.IsTraced) Site.Note($"{Name}: {step}");
            Site.Count($"switch-over: {step.GetType().Name}");
            SqlCall? call = step switch
            {
                SwitchOverStep.Hold hold => AskPrimary("hold", () => primary.Hold(hold.After)),
                SwitchOverStep.Offer offer => AskPrimary("offer", () => primary.Offer(offer.Number, offer.Cut)),
                SwitchOverStep.Resume resume => AskPrimary("resume", () => primary.Resume(resume.Number, resume.IsCalledOff)),
                SwitchOverStep.Depose depose => AskPrimary("depose", () => primary.DeposedBy(depose.By)),
                SwitchOverStep.Take take => Ask("take offered", () => Site.Sql.TakeOffered(take.Number)),
                SwitchOverStep.CallOff callOff => Ask("call off", () => Site.Sql.CallOff(callOff.Number)),
                _ => null,
            };
            if (step is SwitchOverStep.Done)
            {
                Die($"{step}");
                yield break;
            }

            while (call is { IsDone: false }) yield return true;
            yield return true;
        }
    }
}

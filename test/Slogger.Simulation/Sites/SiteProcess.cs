// A process at the backup: as those of the cluster, with an SQL of its own and an inbox.
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Sites;

internal abstract class SiteProcess(BackupSite site, string name) : Process(site.Primary, name)
{
    private const int InboxMax = 200;

    private readonly Queue<Action> _inbox = new();

    protected BackupSite Site => site;

    protected new SqlCall Ask(string what, Func<object> apply)
    {
        SqlCall call = new(this, what, apply);
        site.Calls.Add(call);
        return call;
    }

    /// <summary>Something has arrived; it is looked at when the process runs.</summary>
    protected void Post(Action message)
    {
        if (!IsDead && _inbox.Count < InboxMax) _inbox.Enqueue(message);
    }

    /// <summary>Its connections broke while it slept: nothing of what had arrived is left.</summary>
    public void ForgetInbox() => _inbox.Clear();

    /// <summary>Some of what has arrived, and a step of each task.</summary>
    public virtual void Turn(int messages)
    {
        for (; messages > 0 && IsRunning && _inbox.TryDequeue(out Action? message); messages--) message();
        StepTasks();
    }
}

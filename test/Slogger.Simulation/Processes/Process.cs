// A process of the cluster: it takes steps while it lives and is not paused, and asks SQL over a network that loses requests,
// answers, or has them arrive after the caller has given up.
namespace Slogger.Simulation.Processes;

/// <summary>A request to SQL. A result of null says that SQL could not be reached, or did not answer in time: whether it was
/// done is not known.</summary>
internal sealed class SqlCall(Process caller, string what, Func<object> apply)
{
    /// <summary>What is asked for, in a word.</summary>
    public string What => what;

    public Process Caller => caller;

    public Func<object> Apply => apply;

    /// <summary>Applied; the answer is on its way.</summary>
    public object? Answer { get; set; }

    public bool IsDone { get; private set; }

    public object? Result { get; private set; }

    /// <summary>It arrives after this many events at the earliest; its caller has given up.</summary>
    public long LateUntil { get; set; }

    public void Complete(object? result)
    {
        if (IsDone) return;
        (IsDone, Result) = (true, result);
    }
}

internal abstract class Process(Cluster cluster, string name)
{
    private readonly List<IEnumerator<bool>> _tasks = [];

    protected Cluster Cluster => cluster;

    public string Name => name;

    public bool IsDead { get; private set; }

    /// <summary>It does nothing before this many events.</summary>
    public long PausedUntil { get; set; }

    /// <summary>SQL cannot be reached before this many events.</summary>
    public long CutOffUntil { get; set; }

    public bool IsRunning => !IsDead && PausedUntil <= cluster.Tick;

    public int TaskCount => _tasks.Count;

    public virtual void Die(string why)
    {
        if (IsDead) return;
        IsDead = true;
        if (cluster.IsTraced) cluster.Note($"{name} ends: {why}");
    }

    /// <summary>Has something done step by step: each yield ends a step.</summary>
    protected void Start(IEnumerable<bool> task) => _tasks.Add(task.GetEnumerator());

    /// <summary>The same, and its first step is done at once.</summary>
    protected void StartAtOnce(IEnumerable<bool> task)
    {
        IEnumerator<bool> started = task.GetEnumerator();
        if (started.MoveNext()) _tasks.Add(started);
    }

    /// <summary>One step of one task.</summary>
    public void StepTask(Random random)
    {
        if (IsRunning && _tasks.Count > 0) Step(random.Next(_tasks.Count));
    }

    public void StepTasks()
    {
        for (int i = 0; i < _tasks.Count && IsRunning; i++) Step(i);
    }

    protected SqlCall Ask(string what, Func<object> apply)
    {
        SqlCall call = new(this, what, apply);
        cluster.Calls.Add(call);
        return call;
    }

    private void Step(int i)
    {
        if (!_tasks[i].MoveNext()) _tasks.RemoveAt(i);
    }
}

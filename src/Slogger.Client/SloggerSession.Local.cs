// Operations that an application executes by itself, on a shard in its own process: see ILocalWork.
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Client;

public sealed partial class SloggerSession
{
    private ILocalWork? _local;

    /// <summary>Vs: what is executed now is of no earlier version. What another thread is answered at this moment need not count.</summary>
    internal Version AtLeast => _machine.AtLeast;

    /// <summary>Rises when the session has seen something new.</summary>
    internal long Learned => _machine.Learned;

    /// <summary>Takes operations in that are executed past it. Once, before anything is done.</summary>
    internal void Join(ILocalWork local)
    {
        lock (_gate)
        {
            _local = local;
            GoOnLocally();
        }
    }

    /// <summary>Takes in what was executed.</summary>
    /// <returns>The last operation's number.</returns>
    internal Sequence TakeIn()
    {
        lock (_gate)
        {
            Settle();
            CheckWaiters();
            return _machine.Begun;
        }
    }

    /// <summary>Tells the shard in this process what was seen at others.</summary>
    /// <param name="tell">Does so, and says whether the shard has taken it in.</param>
    /// <param name="learned">What <see cref="Learned"/> was when it was told last; then, if it was told, what it is now.</param>
    internal bool TryTellDependencies(Func<ReadOnlyMemory<Dependency>, bool> tell, ref long learned)
    {
        lock (_gate)
        {
            Settle();
            if (!tell(_machine.DependenciesSince(_local!.Shard, learned))) { return false; }
            learned = _machine.Learned;
            return true;
        }
    }

    /// <summary>Throws if the session cannot be used: after a rollback that has not been taken in, or at its end.</summary>
    internal void ThrowIfClosed()
    {
        lock (_gate)
        {
            if (_closed is { } why) { throw why; }
        }
    }

    private void GoOnLocally()
    {
        if (_closed is null) { _local?.GoOn(_machine.WorldLine); }
    }

    // Under the lock, before the machine is told or asked anything.
    private void Settle()
    {
        if (_local is not { } local) { return; }
        foreach (LocalRun run in local.Take(out WorldLine line)) { _machine.OnExecutedHere(local.Shard, line, run.Count, run.Version); }
    }
}

// Every process that the bench has started and not yet seen end, so that all are stopped at the end, also on Ctrl-C.
namespace Slogger.Bench.Host;

internal static class ProcessRegistry
{
    private static readonly Lock s_lock = new();
    private static readonly List<ManagedProcess> s_children = [];
    private static readonly HashSet<int> s_transient = [];
    private static readonly HashSet<int> s_adopted = [];
    private static bool s_closed;

    /// <summary>Whether the run is being interrupted.</summary>
    public static bool IsClosed
    {
        get
        {
            lock (s_lock) { return s_closed; }
        }
    }

    /// <summary>From now on nothing is started: the run is being interrupted.</summary>
    public static void Close()
    {
        lock (s_lock)
        {
            s_closed = true;
        }
    }

    /// <exception cref="OperationCanceledException">The run is being interrupted.</exception>
    public static void ThrowIfClosed()
    {
        lock (s_lock)
        {
            if (s_closed)
            {
                throw new OperationCanceledException("interrupted");
            }
        }
    }

    public static void Add(ManagedProcess child)
    {
        lock (s_lock)
        {
            s_children.Add(child);
        }
    }

    public static void Remove(ManagedProcess child)
    {
        lock (s_lock)
        {
            s_children.Remove(child);
        }
    }

    public static void AddTransient(int pid)
    {
        lock (s_lock)
        {
            s_transient.Add(pid);
        }
    }

    public static void RemoveTransient(int pid)
    {
        lock (s_lock)
        {
            s_transient.Remove(pid);
        }
    }

    /// <summary>A process that a child of ours has started and that survives it (a supervised redis-server).</summary>
    public static void Adopt(int pid)
    {
        lock (s_lock)
        {
            s_adopted.Add(pid);
        }
    }

    /// <summary>It was stopped: its pid may now belong to anybody.</summary>
    public static void Disown(int pid)
    {
        lock (s_lock)
        {
            s_adopted.Remove(pid);
        }
    }

    /// <summary>Stops everything, last started first: proxies before the servers behind them.</summary>
    public static void StopAll()
    {
        ManagedProcess[] children;
        int[] others;
        lock (s_lock)
        {
            children = [.. s_children.AsEnumerable().Reverse()];
            others = [.. s_transient, .. s_adopted];
            s_transient.Clear();
            s_adopted.Clear();
        }

        foreach (ManagedProcess child in children)
        {
            child.Thaw();
        }

        foreach (ManagedProcess child in children)
        {
            child.Stop(TimeSpan.FromSeconds(5));
        }

        foreach (int pid in others)
        {
            _ = Native.Kill(pid, Native.SigKill);
        }
    }
}

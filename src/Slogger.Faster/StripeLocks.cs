// Locks that all keys share. FASTER's own protection is not enough for keys and values of any length: two threads that add records to one
// bucket of the index can spoil each other's, and so the log. Whoever changes a record holds the lock of its bucket; whoever holds all of
// them sees the store between two changes. That is how a version ends at one place of the log, and how a rollback begins at one moment.
namespace Slogger.Faster;

internal sealed class StripeLocks
{
    private readonly Lock[] _locks;

    public StripeLocks(int count)
    {
        _locks = new Lock[count];
        for (int i = 0; i < count; i++) _locks[i] = new();
    }

    /// <summary>Which lock a key has, by FASTER's hash of it: no bucket's keys have two.</summary>
    public int Of(long hash) => (int)(hash & (_locks.Length - 1));

    public void Enter(int stripe) => _locks[stripe].Enter();

    public void Exit(int stripe) => _locks[stripe].Exit();

    /// <summary>Takes several, whose numbers are sorted first, so that nobody waits for one who waits for him.</summary>
    public void EnterAll(Span<int> stripes)
    {
        stripes.Sort();
        foreach (int stripe in stripes) _locks[stripe].Enter();
    }

    public void ExitAll(ReadOnlySpan<int> stripes)
    {
        foreach (int stripe in stripes) _locks[stripe].Exit();
    }

    /// <summary>Does something while nobody changes a record. It must be short.</summary>
    public void Alone(Action action)
    {
        foreach (Lock stripe in _locks) stripe.Enter();
        try
        {
            action();
        }
        finally
        {
            foreach (Lock stripe in _locks) stripe.Exit();
        }
    }
}

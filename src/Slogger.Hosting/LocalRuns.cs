// What a session has executed on the shard in this process, by version, until the session takes it in; and whether it may execute more.
//
// One word is the lock of it. Who holds it takes no other but a key's; the session takes it while it has its own, and so does who closes
// the store. So when a session is told of a rollback, what it has executed is known, and nothing more is executed in the old world-line;
// and nothing is under way in a store that is closed.
using System.Runtime.CompilerServices;
using Slogger.Client;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Hosting;

/// <summary>The operations of one session that were executed here. For an operation: <see cref="Begin"/>, then what is "under the lock",
/// then <see cref="Exit"/>.</summary>
/// <param name="shard">The shard in this process.</param>
/// <param name="session">Whose operations they are.</param>
internal sealed class LocalRuns(ShardId shard, SessionId session) : ILocalWork
{
    // Versions that are counted apart until the session takes them in, which it does when one begins.
    private const int RunsMax = 8;

    // Who holds _busy.
    private const int Nobody = 0, Caller = 1, Other = 2;
    private readonly LocalRun[] _taken = new LocalRun[RunsMax];

    // Under _busy.
    private readonly LocalRun[] _runs = new LocalRun[RunsMax];
    private int _busy;
    private int _runCount;
    private WorldLine _line;        // of what is executed; 0: nothing is
    private WorldLine _runsOf;      // of what was
    private bool _hasLeft;          // the store: for good

    ShardId ILocalWork.Shard => shard;

    /// <summary>The world-line of what is executed; 0: nothing may be. Under the lock.</summary>
    public WorldLine Line => _line;

    /// <summary>Whether the session has to take in what was executed before there is more. Under the lock.</summary>
    public bool IsFull => _runCount == RunsMax;

    /// <summary>For an operation.</summary>
    /// <exception cref="InvalidOperationException">Another thread is in one.</exception>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void Begin()
    {
        if (Interlocked.CompareExchange(ref _busy, Caller, Nobody) != Nobody) { BeginWhenFree(); }
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void Exit() => Volatile.Write(ref _busy, Nobody);

    /// <summary>One more operation was executed. Under the lock.</summary>
    /// <returns>Whether a version has begun.</returns>
    public bool Count(WorldLine line, VersionNumber version)
    {
        _runsOf = line;
        if (_runCount > 0 && _runs[_runCount - 1] is { } last && last.Version == version)
        {
            _runs[_runCount - 1] = new(last.Count + 1, version);
            return false;
        }

        _runs[_runCount++] = new(1, version);
        return _runCount > 1;
    }

    /// <summary>Why nothing can be executed, outside the lock.</summary>
    public (WorldLine Line, bool IsFull, bool HasLeft) Look()
    {
        Enter();
        (WorldLine, bool, bool) state = (_line, IsFull, _hasLeft);
        Exit();
        return state;
    }

    /// <summary>Nothing is executed any more, and nothing is under way. Any thread, any number of times.</summary>
    /// <returns>Whether that is new.</returns>
    public bool Leave()
    {
        Enter();
        bool hadLeft = _hasLeft;
        _hasLeft = true;
        _line = default;
        Exit();
        return !hadLeft;
    }

    /// <inheritdoc />
    public ReadOnlySpan<LocalRun> Take(out WorldLine line)
    {
        // Nothing is under way, and nothing was done.
        if (Volatile.Read(ref _busy) == Nobody && Volatile.Read(ref _runCount) == 0)
        {
            line = default;
            return default;
        }

        Enter();
        int count = _runCount;
        line = _runsOf;
        _runs.AsSpan(0, count).CopyTo(_taken);
        _runCount = 0;
        Exit();
        return _taken.AsSpan(0, count);
    }

    /// <inheritdoc />
    public void GoOn(WorldLine? line)
    {
        Enter();
        if (!_hasLeft) { _line = line ?? default; }
        Exit();
    }

    private void BeginWhenFree()
    {
        var wait = default(SpinWait);
        for (int holder; (holder = Interlocked.CompareExchange(ref _busy, Caller, Nobody)) != Nobody; wait.SpinOnce())
        {
            if (holder == Caller)
            {
                throw new InvalidOperationException($"Session {session} is used by two threads at once: open a session for each.");
            }
        }
    }

    // To look at what is counted, and to change it.
    private void Enter()
    {
        var wait = default(SpinWait);
        while (Interlocked.CompareExchange(ref _busy, Other, Nobody) != Nobody) { wait.SpinOnce(); }
    }
}

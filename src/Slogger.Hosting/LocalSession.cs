// A session over all shards (Slogger.Client's) of an application that hosts one of them (DPR, section 5: co-location). Keys of that one are
// worked on here, on the calling thread, at once; all others go out through the client, and are pending meanwhile: the session goes on with
// what is here, and its committed prefix has exceptions (relaxed DPR).
//
// What an operation here has to keep to is asked at its very moment (LocalConnection): the store is in the session's world-line, and its
// open version is none before what the session has seen. What was executed is counted here, by version, and taken in by the session when
// anything depends on it (ILocalWork): so an operation costs little more than the store's own.
//
// One word is the lock of what is counted. Who holds it takes no other but a key's; the session takes it while it has its own, and so does
// who closes the store. So when a session is told of a rollback, what it has executed is known, and nothing more is executed in the old
// world-line; and nothing is under way in a store that is closed.
using System.Runtime.CompilerServices;
using Slogger.Client;
using Slogger.Client.Wire;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commands;
using Slogger.Proxy.Embedded;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Hosting;

/// <summary>A session whose operations on keys of the shard in this process are executed on the calling thread. For one thread at a time,
/// and after an <c>await</c> it may be another. Two at once are told so by an <see cref="InvalidOperationException"/>: open a session for
/// each.</summary>
public sealed partial class LocalSession : ILocalWork, IAsyncDisposable
{
    // Versions that are counted apart until the session takes them in, which it does when one begins.
    private const int RunsMax = 8;

    // Who holds _busy.
    private const int Nobody = 0, Caller = 1, Other = 2;
    private readonly ILocalPort _port;
    private readonly SloggerClient _client;
    private readonly LocalConnection _store;
    private readonly TimeSpan _giveUpAfter;
    private readonly bool _needsDependencies;
    private readonly LocalRun[] _taken = new LocalRun[RunsMax];

    // Under _busy.
    private readonly LocalRun[] _runs = new LocalRun[RunsMax];
    private int _busy;
    private int _runCount;
    private WorldLine _line;        // of what is executed; 0: nothing is
    private WorldLine _runsOf;      // of what was
    private bool _hasLeft;          // the store: for good

    // How much of what was seen elsewhere the shard was told: exact and hybrid.
    private long _told;

    internal LocalSession(ILocalPort port, SloggerClient client, SloggerSession session, TimeSpan giveUpAfter)
    {
        (_port, _client, Remote, _giveUpAfter) = (port, client, session, giveUpAfter);
        _needsDependencies = port.NeedsDependencies;
        _store = port.Connect();
        session.Join(this);
    }

    /// <summary>The shard in this process.</summary>
    public ShardId Shard => _port.Shard;

    /// <summary>The same session, for everything that goes over the network: any command, on any shard, and transactions. Such an operation
    /// follows what was executed here before it was started. One on a key of this process's shard takes the long way, too.</summary>
    public SloggerSession Remote { get; }

    /// <summary>Its name, unique for ever.</summary>
    public SessionId Id => Remote.Id;

    /// <summary>The timeline that it lives in.</summary>
    public WorldLine WorldLine => Remote.WorldLine;

    /// <summary>The number of the last operation that was executed here or sent.</summary>
    public Sequence Last => Remote.LastSent;

    /// <inheritdoc cref="SloggerSession.CommittedUpTo"/>
    public Sequence CommittedUpTo
    {
        get
        {
            TakeIn();
            return Remote.CommittedUpTo;
        }
    }

    /// <inheritdoc cref="SloggerSession.Exceptions"/>
    public IReadOnlyList<ExceptionRange> Exceptions => Remote.Exceptions;

    /// <inheritdoc cref="SloggerSession.Rollback"/>
    public RollbackException? Rollback => Remote.Rollback;

    ShardId ILocalWork.Shard => _port.Shard;

    /// <summary>Called when it was closed.</summary>
    internal Action<LocalSession> Closed { get; init; } = static _ => { };

    /// <inheritdoc cref="SloggerSession.WaitForCommitAsync(CancellationToken)"/>
    public Task WaitForCommitAsync(CancellationToken cancellation = default) => Remote.WaitForCommitAsync(cancellation);

    /// <inheritdoc cref="SloggerSession.WaitForCommitAsync(Sequence, CancellationToken)"/>
    public Task WaitForCommitAsync(Sequence upTo, CancellationToken cancellation = default) =>
        Remote.WaitForCommitAsync(upTo, cancellation);

    /// <inheritdoc cref="SloggerSession.CommitsAsync"/>
    public IAsyncEnumerable<CommitProgress> CommitsAsync(CancellationToken cancellation = default) => Remote.CommitsAsync(cancellation);

    /// <inheritdoc cref="SloggerSession.Resume"/>
    public void Resume(RollbackException rollback) => Remote.Resume(rollback);

    /// <summary>Closes the session. What was executed stays. An operation under way, on another thread, is awaited.</summary>
    public async ValueTask DisposeAsync()
    {
        await Remote.DisposeAsync().ConfigureAwait(false);
        Leave();
        Closed(this);
    }

    /// <summary>Nothing is done in the store any more, and nothing is under way. Any thread, any number of times.</summary>
    internal void Leave()
    {
        Enter();
        bool hadLeft = _hasLeft;
        _hasLeft = true;
        _line = default;
        Exit();
        if (!hadLeft) { _store.Dispose(); }
    }

    ReadOnlySpan<LocalRun> ILocalWork.Take(out WorldLine line)
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

    void ILocalWork.GoOn(WorldLine? line)
    {
        Enter();
        if (!_hasLeft) { _line = line ?? default; }
        Exit();
    }

    // For an operation.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private void Begin()
    {
        if (Interlocked.CompareExchange(ref _busy, Caller, Nobody) != Nobody) { BeginWhenFree(); }
    }

    private void BeginWhenFree()
    {
        var wait = default(SpinWait);
        for (int holder; (holder = Interlocked.CompareExchange(ref _busy, Caller, Nobody)) != Nobody; wait.SpinOnce())
        {
            if (holder == Caller)
            {
                throw new InvalidOperationException($"Session {Id} is used by two threads at once: open a session for each.");
            }
        }
    }

    // To look at what is counted, and to change it.
    private void Enter()
    {
        var wait = default(SpinWait);
        while (Interlocked.CompareExchange(ref _busy, Other, Nobody) != Nobody) { wait.SpinOnce(); }
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private void Exit() => Volatile.Write(ref _busy, Nobody);

    // Under _busy. True: a version has begun.
    private bool Count(WorldLine line, Version version)
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

    // What is committed is told on this occasion: who works only here hears of no answers.
    private Sequence TakeIn()
    {
        Sequence last = Remote.TakeIn();
        _client.OnCommitted(_port.Committed);
        return last;
    }

    // Something stands in the way of an operation: does what can be done about it.
    // Returns whether a moment has to pass before it is tried again.
    private bool MustPause(ref LocalWait wait)
    {
        Remote.ThrowIfClosed();
        Version atLeast = Remote.AtLeast;
        Enter();
        (WorldLine line, bool isFull, bool hasLeft) = (_line, _runCount == RunsMax, _hasLeft);
        Exit();
        if (hasLeft)
        {
            throw new ShardUnreachableException($"Shard {Shard}, in this process, has ended: see its log. The operation was not "
                + "executed.", null);
        }
        if (isFull)
        {
            TakeIn();
            return false;
        }

        // It was told of a rollback just now.
        if (line.Number == 0) { return false; }
        var terms = new LocalTerms(line, atLeast);
        if (HasNews && Remote.TryTellDependencies(d => _port.Tell(terms, d.Span), ref _told)) { return false; }

        if (_port.WhyNot(new BatchHeader(Id, line, atLeast, Sequence.None, 1, default)) is { } why)
        {
            RefusedException refused = RefusedException.Of(why);
            // All sessions of the client learn of it, this one too.
            _client.OnRollback(refused.Branch ?? throw refused);
            return false;
        }

        if (wait.Elapsed > _giveUpAfter)
            throw new ShardUnreachableException($"Shard {Shard}, in this process, has not served world-line {line} from version {atLeast} "
                + $"on for {_giveUpAfter.TotalSeconds:0.#} s: a recovery is under way (see its log). The operation was not executed.", null);
        return true;
    }

    private bool HasNews => _needsDependencies && Remote.Learned != Volatile.Read(ref _told);
}

/// <summary>How long an operation has been held up.</summary>
internal struct LocalWait
{
    private const int YieldsMax = 20;
    private long _since;
    private int _pauses;

    public readonly TimeSpan Elapsed => _since == 0 ? TimeSpan.Zero : System.Diagnostics.Stopwatch.GetElapsedTime(_since);

    public void Pause()
    {
        if (!MaySleep()) { Thread.Yield(); }
        else { Thread.Sleep(1); }
    }

    /// <summary>One more pause: whether it may take a millisecond.</summary>
    public bool MaySleep()
    {
        if (_since == 0) { _since = System.Diagnostics.Stopwatch.GetTimestamp(); }
        return _pauses++ >= YieldsMax;
    }
}

// A session over all shards (Slogger.Client's) of an application that hosts one of them (DPR, section 5: co-location). Keys of that one are
// worked on here, on the calling thread, at once; all others go out through the client, and are pending meanwhile: the session goes on with
// what is here, and its committed prefix has exceptions (relaxed DPR).
//
// What an operation here has to keep to is asked at its very moment (LocalConnection): the store is in the session's world-line, and its
// open version is none before what the session has seen. What was executed is counted by version (LocalRuns), and taken in by the
// session when anything depends on it: so an operation costs little more than the store's own.
using System.Runtime.CompilerServices;
using Slogger.Client;
using Slogger.Client.Wire;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commands;
using Slogger.Proxy.Embedded;

namespace Slogger.Hosting;

/// <summary>A session whose operations on keys of the shard in this process are executed on the calling thread. For one thread at a time,
/// and after an <c>await</c> it may be another. Two at once are told so by an <see cref="InvalidOperationException"/>: open a session for
/// each.</summary>
public sealed class LocalSession : IAsyncDisposable
{
    private const int FirstReadBytes = 256;
    private readonly ILocalPort _port;
    private readonly SloggerClient _client;
    private readonly LocalConnection _store;
    private readonly TimeSpan _giveUpAfter;
    private readonly bool _needsDependencies;
    private readonly LocalRuns _runs;

    // How much of what was seen elsewhere the shard was told: exact and hybrid.
    private long _told;

    internal LocalSession(ILocalPort port, SloggerClient client, SloggerSession session, TimeSpan giveUpAfter)
    {
        (_port, _client, Remote, _giveUpAfter) = (port, client, session, giveUpAfter);
        _needsDependencies = port.NeedsDependencies;
        _store = port.Connect();
        _runs = new(port.Shard, session.Id);
        session.Join(_runs);
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
    public SequenceNumber Last => Remote.LastSent;

    /// <inheritdoc cref="SloggerSession.CommittedUpTo"/>
    public SequenceNumber CommittedUpTo
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

    /// <summary>Called when it was closed.</summary>
    internal Action<LocalSession> Closed { get; init; } = static _ => { };

    /// <inheritdoc cref="SloggerSession.WaitForCommitAsync(CancellationToken)"/>
    public Task WaitForCommitAsync(CancellationToken cancellation = default) => Remote.WaitForCommitAsync(cancellation);

    /// <inheritdoc cref="SloggerSession.WaitForCommitAsync(SequenceNumber, CancellationToken)"/>
    public Task WaitForCommitAsync(SequenceNumber upTo, CancellationToken cancellation = default) =>
        Remote.WaitForCommitAsync(upTo, cancellation);

    /// <inheritdoc cref="SloggerSession.CommitsAsync"/>
    public IAsyncEnumerable<CommitProgress> CommitsAsync(CancellationToken cancellation = default) => Remote.CommitsAsync(cancellation);

    /// <inheritdoc cref="SloggerSession.Resume"/>
    public void Resume(RollbackException rollback) => Remote.Resume(rollback);

    /// <summary>Whether a key is of the shard in this process.</summary>
    public bool IsLocal(ReadOnlySpan<byte> key) => _port.Owns(key);

    /// <summary>Reads a value of the shard in this process.</summary>
    /// <param name="key">Its key.</param>
    /// <param name="into">Where it goes; of a longer one the beginning.</param>
    /// <param name="length">The value's length in bytes, which may be more than there was room for; 0 if there is none.</param>
    /// <param name="version">The version that the operation belongs to.</param>
    /// <returns>Whether there is one.</returns>
    /// <exception cref="KeyElsewhereException">The key is another shard's.</exception>
    /// <exception cref="RollbackException">The session was rolled back.</exception>
    /// <exception cref="ShardUnreachableException">The shard did not serve for too long, or has ended. The operation was not
    /// executed.</exception>
    /// <exception cref="ObjectDisposedException">The session is closed.</exception>
    /// <exception cref="InvalidOperationException">Another thread uses the session at this moment.</exception>
    public bool TryGet(ReadOnlySpan<byte> key, Span<byte> into, out int length, out VersionNumber version)
    {
        var get = new GetOperation { Into = into };
        LocalResult result = Do(key, ref get, out _);
        (length, version) = (result.Length, result.Version);
        return result.Found;
    }

    /// <summary>Sets a value of the shard in this process. Exceptions as for <see cref="TryGet"/>, and:</summary>
    /// <param name="key">Its key.</param>
    /// <param name="value">The value.</param>
    /// <param name="expiry">How long it is there; null: for ever.</param>
    /// <returns>The version that the operation belongs to.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The expiry is less than a millisecond.</exception>
    /// <exception cref="ArgumentException">The key has more than 64 KB, the value more than 16 MB, or both together more than a page of the
    /// store's log.</exception>
    /// <exception cref="RedisErrorException">The store's memory is used up.</exception>
    public VersionNumber Set(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, TimeSpan? expiry = null) =>
        SetHere(key, value, After(expiry, nameof(expiry)), out _).Version;

    /// <summary>Deletes a key of the shard in this process. Exceptions as for <see cref="Set"/>.</summary>
    /// <returns>Whether it was there.</returns>
    public bool Delete(ReadOnlySpan<byte> key, out VersionNumber version)
    {
        LocalResult result = DeleteHere(key, out _);
        version = result.Version;
        return result.Found;
    }

    /// <summary>Adds to a number of the shard in this process, which is 0 if there is none. Exceptions as for <see cref="Set"/>; also where
    /// the value is no whole number, or the sum has no room.</summary>
    /// <returns>The sum.</returns>
    public long Increment(ReadOnlySpan<byte> key, long by, out VersionNumber version)
    {
        LocalResult result = IncrementHere(key, by, out _);
        version = result.Version;
        return result.Number;
    }

    /// <summary>Whether a key of the shard in this process is there. Exceptions as for <see cref="TryGet"/>.</summary>
    public bool Exists(ReadOnlySpan<byte> key, out VersionNumber version) => TryGetExpiry(key, out _, out version);

    /// <summary>When a key of the shard in this process expires. Exceptions as for <see cref="TryGet"/>.</summary>
    /// <param name="key">The key.</param>
    /// <param name="expiry">When; null: never, or it is not there.</param>
    /// <param name="version">The version that the operation belongs to.</param>
    /// <returns>Whether it is there.</returns>
    public bool TryGetExpiry(ReadOnlySpan<byte> key, out DateTimeOffset? expiry, out VersionNumber version)
    {
        var look = default(LookOperation);
        LocalResult result = Do(key, ref look, out _);
        expiry = result.Number == 0 ? null
            : DateTimeOffset.FromUnixTimeMilliseconds(Math.Min(result.Number, DateTimeOffset.MaxValue.ToUnixTimeMilliseconds()));
        version = result.Version;
        return result.Found;
    }

    /// <summary>Has a key of the shard in this process expire. Exceptions as for <see cref="Set"/>.</summary>
    /// <param name="key">The key.</param>
    /// <param name="after">After how long; null: never.</param>
    /// <param name="version">The version that the operation belongs to.</param>
    /// <returns>Whether it is there.</returns>
    public bool Expire(ReadOnlySpan<byte> key, TimeSpan? after, out VersionNumber version)
    {
        var expire = new ExpireOperation { ExpiryMs = After(after, nameof(after)) };
        _store.Throttle();
        LocalResult result = Do(key, ref expire, out _);
        version = result.Version;
        return result.Found;
    }

    /// <summary>Reads a value, wherever it is. Its number is that of the operation if nobody else uses the session, or else of a later
    /// one.</summary>
    /// <exception cref="SloggerException">As for <see cref="TryGet"/> and <see cref="SloggerSession.GetBytesAsync"/>.</exception>
    public async ValueTask<Result<byte[]?>> GetAsync(ReadOnlyMemory<byte> key, CancellationToken cancellation = default)
    {
        if (!IsLocal(key.Span)) { return await Remote.GetBytesAsync(key, cancellation: cancellation).ConfigureAwait(false); }
        await AdmittedAsync(cancellation).ConfigureAwait(false);
        for (byte[] value = new byte[FirstReadBytes]; ;)
        {
            LocalResult result = GetHere(key.Span, value, out WorldLine line);
            if (result.Length <= value.Length) { return Told(result.Found ? value[..result.Length] : null, result, line); }
            value = new byte[result.Length];
        }
    }

    /// <summary>Sets a value, wherever it is. As <see cref="GetAsync"/>.</summary>
    /// <returns>True.</returns>
    public async ValueTask<Result<bool>> SetAsync(
        ReadOnlyMemory<byte> key, ReadOnlyMemory<byte> value, CancellationToken cancellation = default)
    {
        if (!IsLocal(key.Span)) { return await Remote.SetAsync(key, value, cancellation: cancellation).ConfigureAwait(false); }
        await AdmittedAsync(cancellation).ConfigureAwait(false);
        LocalResult result = SetHere(key.Span, value.Span, 0, out WorldLine line);
        return Told(true, result, line);
    }

    /// <summary>Deletes a key, wherever it is. As <see cref="GetAsync"/>.</summary>
    /// <returns>Whether it was there.</returns>
    public async ValueTask<Result<bool>> DeleteAsync(ReadOnlyMemory<byte> key, CancellationToken cancellation = default)
    {
        if (!IsLocal(key.Span)) { return await Remote.DeleteAsync(key, cancellation: cancellation).ConfigureAwait(false); }
        await AdmittedAsync(cancellation).ConfigureAwait(false);
        LocalResult result = DeleteHere(key.Span, out WorldLine line);
        return Told(result.Found, result, line);
    }

    /// <summary>Adds to a number, wherever it is. As <see cref="GetAsync"/>.</summary>
    /// <returns>The sum.</returns>
    public async ValueTask<Result<long>> IncrementAsync(ReadOnlyMemory<byte> key, long by = 1, CancellationToken cancellation = default)
    {
        if (!IsLocal(key.Span)) { return await Remote.IncrementAsync(key, by, cancellation: cancellation).ConfigureAwait(false); }
        await AdmittedAsync(cancellation).ConfigureAwait(false);
        LocalResult result = IncrementHere(key.Span, by, out WorldLine line);
        return Told(result.Number, result, line);
    }

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
        if (_runs.Leave()) { _store.Dispose(); }
    }

    private Result<T> Told<T>(T value, in LocalResult result, WorldLine line) => new(value, Remote.TakeIn(), Shard, result.Version, line);

    private LocalResult SetHere(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long expiryMs, out WorldLine line)
    {
        var set = new SetOperation { Value = value, ExpiryMs = expiryMs };
        _store.Throttle();
        return Do(key, ref set, out line);
    }

    private LocalResult DeleteHere(ReadOnlySpan<byte> key, out WorldLine line)
    {
        var delete = default(DeleteOperation);
        _store.Throttle();
        return Do(key, ref delete, out line);
    }

    private LocalResult IncrementHere(ReadOnlySpan<byte> key, long by, out WorldLine line)
    {
        var increment = new IncrementOperation { By = by };
        _store.Throttle();
        return Do(key, ref increment, out line);
    }

    private LocalResult GetHere(ReadOnlySpan<byte> key, Span<byte> into, out WorldLine line)
    {
        var get = new GetOperation { Into = into };
        return Do(key, ref get, out line);
    }

    private LocalResult Do<T>(ReadOnlySpan<byte> key, ref T operation, out WorldLine line)
        where T : struct, ILocalOperation, allows ref struct
    {
        if (!_port.Owns(key)) { throw new KeyElsewhereException(Shard); }
        LocalResult result;
        for (var wait = default(LocalWait); !TryDo(key, ref operation, out result, out line);)
        {
            if (MustPause(ref wait)) { wait.Pause(); }
        }

        if (result.Error != LocalError.None) { throw Failed(result.Error); }
        return result;
    }

    // False: something stands in the way, and nothing was done.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private bool TryDo<T>(ReadOnlySpan<byte> key, ref T operation, out LocalResult result, out WorldLine line)
        where T : struct, ILocalOperation, allows ref struct
    {
        bool begins;
        _runs.Begin();
        try
        {
            line = _runs.Line;
            if (line.Number == 0 || _runs.IsFull || HasNews || !operation.TryDo(_store, new(line, Remote.AtLeast), key, out result))
            {
                result = default;
                return false;
            }

            begins = _runs.Count(line, result.Version);
        }
        finally
        {
            _runs.Exit();
        }

        if (begins) { TakeIn(); }
        return true;
    }

    // So that a recovery holds up no thread: what follows has seldom to wait, and then for moments.
    private async ValueTask AdmittedAsync(CancellationToken cancellation)
    {
        cancellation.ThrowIfCancellationRequested();
        for (var wait = default(LocalWait); !IsAdmitted();)
        {
            if (!MustPause(ref wait)) { continue; }
            if (wait.MaySleep()) { await Task.Delay(1, cancellation).ConfigureAwait(false); }
            else { await Task.Yield(); }
        }
    }

    private bool IsAdmitted()
    {
        _runs.Begin();
        bool isAdmitted = _runs.Line.Number != 0 && !_runs.IsFull && !HasNews && _store.Admits(new(_runs.Line, Remote.AtLeast));
        _runs.Exit();
        return isAdmitted;
    }

    // In Redis's words.
    private RedisErrorException Failed(LocalError error) => new(
        error switch
        {
            LocalError.NotANumber => "ERR value is not an integer or out of range",
            LocalError.Overflow => "ERR increment or decrement would overflow",
            _ => "OOM command not allowed when used memory > 'maxmemory'.",
        },
        Remote.TakeIn());

    private static long After(TimeSpan? time, string name)
    {
        if (time is not { } after) { return 0; }
        if (after < TimeSpan.FromMilliseconds(1))
        {
            throw new ArgumentOutOfRangeException(name, after, "A key expires after a millisecond or more, or never (null). To remove it "
                + "at once, delete it.");
        }
        return DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() + (long)after.TotalMilliseconds;
    }

    // What is committed is told on this occasion: who works only here hears of no answers.
    private SequenceNumber TakeIn()
    {
        SequenceNumber last = Remote.TakeIn();
        _client.OnCommitted(_port.Committed);
        return last;
    }

    // Something stands in the way of an operation: does what can be done about it.
    // Returns whether a moment has to pass before it is tried again.
    private bool MustPause(ref LocalWait wait)
    {
        Remote.ThrowIfClosed();
        VersionNumber atLeast = Remote.AtLeast;
        (WorldLine line, bool isFull, bool hasLeft) = _runs.Look();
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

        if (_port.WhyNot(new BatchHeader(Id, line, atLeast, SequenceNumber.None, 1, default)) is { } why)
        {
            RefusedException refused = RefusedException.Of(why);
            // All sessions of the client learn of it, this one too.
            _client.OnRollback(refused.Branch ?? throw refused);
            return false;
        }

        if (wait.Elapsed > _giveUpAfter)
            throw new ShardUnreachableException($"Shard {Shard}, in this process, has not served world-line {line} from version {atLeast} "
                + $"on for {_giveUpAfter.TotalSeconds:0.#} s: a recovery is under way (see its log). The operation was not executed.",
                null);
        return true;
    }

    private bool HasNews => _needsDependencies && Remote.Learned != Volatile.Read(ref _told);
}

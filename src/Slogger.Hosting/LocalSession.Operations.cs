// What can be done with keys: those of the shard in this process at once, over spans, with nothing allocated; those of any shard
// asynchronously.
using System.Runtime.CompilerServices;
using Slogger.Client;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commands;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Hosting;

public sealed partial class LocalSession
{
    private const int FirstReadBytes = 256;

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
    public bool TryGet(ReadOnlySpan<byte> key, Span<byte> into, out int length, out Version version)
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
    public Version Set(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, TimeSpan? expiry = null) =>
        SetHere(key, value, After(expiry, nameof(expiry)), out _).Version;

    /// <summary>Deletes a key of the shard in this process. Exceptions as for <see cref="Set"/>.</summary>
    /// <returns>Whether it was there.</returns>
    public bool Delete(ReadOnlySpan<byte> key, out Version version)
    {
        LocalResult result = DeleteHere(key, out _);
        version = result.Version;
        return result.Found;
    }

    /// <summary>Adds to a number of the shard in this process, which is 0 if there is none. Exceptions as for <see cref="Set"/>; also where
    /// the value is no whole number, or the sum has no room.</summary>
    /// <returns>The sum.</returns>
    public long Increment(ReadOnlySpan<byte> key, long by, out Version version)
    {
        LocalResult result = IncrementHere(key, by, out _);
        version = result.Version;
        return result.Number;
    }

    /// <summary>Whether a key of the shard in this process is there. Exceptions as for <see cref="TryGet"/>.</summary>
    public bool Exists(ReadOnlySpan<byte> key, out Version version) => TryGetExpiry(key, out _, out version);

    /// <summary>When a key of the shard in this process expires. Exceptions as for <see cref="TryGet"/>.</summary>
    /// <param name="key">The key.</param>
    /// <param name="expiry">When; null: never, or it is not there.</param>
    /// <param name="version">The version that the operation belongs to.</param>
    /// <returns>Whether it is there.</returns>
    public bool TryGetExpiry(ReadOnlySpan<byte> key, out DateTimeOffset? expiry, out Version version)
    {
        var look = default(LookOperation);
        LocalResult result = Do(key, ref look, out _);
        expiry = result.Number == 0 ? null : DateTimeOffset.FromUnixTimeMilliseconds(Math.Min(result.Number, DateTimeOffset.MaxValue.ToUnixTimeMilliseconds()));
        version = result.Version;
        return result.Found;
    }

    /// <summary>Has a key of the shard in this process expire. Exceptions as for <see cref="Set"/>.</summary>
    /// <param name="key">The key.</param>
    /// <param name="after">After how long; null: never.</param>
    /// <param name="version">The version that the operation belongs to.</param>
    /// <returns>Whether it is there.</returns>
    public bool Expire(ReadOnlySpan<byte> key, TimeSpan? after, out Version version)
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
        where T : struct, IOperation, allows ref struct
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
        where T : struct, IOperation, allows ref struct
    {
        bool begins;
        Begin();
        try
        {
            line = _line;
            if (line.Number == 0 || _runCount == RunsMax || HasNews || !operation.TryDo(_store, new(line, Remote.AtLeast), key, out result))
            {
                result = default;
                return false;
            }

            begins = Count(line, result.Version);
        }
        finally
        {
            Exit();
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
        Begin();
        bool isAdmitted = _line.Number != 0 && _runCount < RunsMax && !HasNews && _store.Admits(new(_line, Remote.AtLeast));
        Exit();
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

    // Values, so that each gets code of its own and nothing is allocated.
    private interface IOperation
    {
        bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result);
    }

    private ref struct GetOperation : IOperation
    {
        public Span<byte> Into;

        public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
            store.Get(terms, key, Into, out result);
    }

    private ref struct SetOperation : IOperation
    {
        public ReadOnlySpan<byte> Value;
        public long ExpiryMs;

        public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
            store.Set(terms, key, Value, ExpiryMs, out result);
    }

    private struct DeleteOperation : IOperation
    {
        public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
            store.Delete(terms, key, out result);
    }

    private struct IncrementOperation : IOperation
    {
        public long By;

        public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
            store.Increment(terms, key, By, out result);
    }

    private struct LookOperation : IOperation
    {
        public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
            store.Look(terms, key, out result);
    }

    private struct ExpireOperation : IOperation
    {
        public long ExpiryMs;

        public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
            store.Expire(terms, key, ExpiryMs, out result);
    }
}

// What is done with a key of the shard in this process, and how long it had to wait.
using Slogger.Faster.Commands;

namespace Slogger.Hosting;

/// <summary>An operation. They are values, so that each gets code of its own and nothing is allocated.</summary>
internal interface ILocalOperation
{
    bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result);
}

internal ref struct GetOperation : ILocalOperation
{
    public Span<byte> Into;

    public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
        store.Get(terms, key, Into, out result);
}

internal ref struct SetOperation : ILocalOperation
{
    public ReadOnlySpan<byte> Value;
    public long ExpiryMs;

    public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
        store.Set(terms, key, Value, ExpiryMs, out result);
}

internal struct DeleteOperation : ILocalOperation
{
    public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
        store.Delete(terms, key, out result);
}

internal struct IncrementOperation : ILocalOperation
{
    public long By;

    public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
        store.Increment(terms, key, By, out result);
}

internal struct LookOperation : ILocalOperation
{
    public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
        store.Look(terms, key, out result);
}

internal struct ExpireOperation : ILocalOperation
{
    public long ExpiryMs;

    public readonly bool TryDo(LocalConnection store, in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result) =>
        store.Expire(terms, key, ExpiryMs, out result);
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

// What a run of multiplexers has seen, counted by everybody in it.
using System.Collections.Concurrent;
using System.Globalization;

namespace Slogger.Integration.Tests.Multiplexer;

internal sealed class MultiplexerTally
{
    private readonly ConcurrentDictionary<string, int> _failures = new(StringComparer.Ordinal);
    private long _answered, _committed, _published, _received, _doubled;

    /// <summary>Nothing has been harmed yet in this round, and what was harmed before works again.</summary>
    public volatile bool IsCalm;

    /// <summary>Replies that were looked at.</summary>
    public long Answered => Interlocked.Read(ref _answered);

    /// <summary>Writes that were told to be committed.</summary>
    public long Committed => Interlocked.Read(ref _committed);

    /// <summary>Messages that came more than once to one subscription.</summary>
    public long Doubled => Interlocked.Read(ref _doubled);

    /// <summary>Calls that ended with an exception.</summary>
    public long Failures => _failures.Values.Sum(v => (long)v);

    public void CountAnswer() => Interlocked.Increment(ref _answered);

    public void CountCommits(int count) => Interlocked.Add(ref _committed, count);

    public void CountPublished() => Interlocked.Increment(ref _published);

    public void CountReceived(bool isDoubled)
    {
        Interlocked.Increment(ref _received);
        if (isDoubled) { Interlocked.Increment(ref _doubled); }
    }

    public void CountFailure(Exception e)
    {
        string text = e is StackExchange.Redis.RedisServerException ? e.Message : "";
        _failures.AddOrUpdate($"{e.GetType().Name} {text[..Math.Min(40, text.Length)]}".Trim(), 1, (_, count) => count + 1);
    }

    /// <inheritdoc />
    public override string ToString() => string.Create(CultureInfo.InvariantCulture,
        $"{Answered} replies, {Failures} calls failed "
            + $"({string.Join(", ", _failures.OrderByDescending(f => f.Value).Select(f => $"{f.Value} {f.Key}"))}), {Committed} writes "
            + $"committed and found, {Interlocked.Read(ref _published)} messages published, {Interlocked.Read(ref _received)} received, "
            + $"{Doubled} of them again");
}

// Where the time of a recovery goes: told in the log when it is over.
using System.Diagnostics;
using System.Globalization;
using System.Text;

namespace Slogger.Proxy.Shards;

/// <summary>How long each stage took of something that happens one after the other. For one task.</summary>
internal sealed class StageTimes
{
    private readonly StringBuilder _text = new();
    private long _last;

    /// <summary>It begins, anew.</summary>
    public void Begin()
    {
        _text.Clear();
        _last = Stopwatch.GetTimestamp();
    }

    /// <summary>A stage has ended. Those that come again are told again.</summary>
    public void Passed(string stage)
    {
        _text.Append(CultureInfo.InvariantCulture,
            $"{(_text.Length == 0 ? "" : ", ")}{stage} {(long)Stopwatch.GetElapsedTime(_last).TotalMilliseconds}");
        _last = Stopwatch.GetTimestamp();
    }

    /// <summary>As in "metadata 3, store 20".</summary>
    public override string ToString() => _text.ToString();
}

// Redis counts the commands of everybody alike. What this process has sent of its own accord is counted here, before it is sent, by the names that INFO commandstats has: the front end takes that off what clients
// are shown. Bulk work (RedisBatch, PipelineAsync) is not counted: recoveries and moves show.
//
// When Redis begins to count anew, it must be known of each command whether that was before or after. Of one that is on its way at that moment it cannot be known: so who has Redis begin anew takes a mark before,
// and does it again if the mark does not hold.
namespace Slogger.Redis.Connections;

/// <summary>How often this process has used which command of its own accord. Any thread.</summary>
public sealed class CommandCounts
{
    private static readonly HashSet<string> s_containers = new(StringComparer.OrdinalIgnoreCase)
    {
        "ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "FUNCTION", "LATENCY", "MEMORY", "MODULE", "OBJECT", "PUBSUB", "SCRIPT", "SLOWLOG", "XGROUP", "XINFO",
    };

    private readonly Lock _gate = new();
    private readonly Dictionary<string, long> _counts = [];
    private readonly Dictionary<string, long> _onTheWay = [];
    private long _sent;

    /// <summary>The commands, as <c>ping</c> or <c>config|get</c>, and how often each was used.</summary>
    public IReadOnlyList<KeyValuePair<string, long>> All
    {
        get
        {
            lock (_gate) { return [.. _counts]; }
        }
    }

    /// <summary>How often a command was used.</summary>
    /// <param name="name">As <c>ping</c> or <c>config|get</c>.</param>
    public long Of(string name)
    {
        lock (_gate) { return _counts.GetValueOrDefault(name); }
    }

    /// <summary>A command is about to be sent, and nobody will say when it has been answered.</summary>
    /// <param name="name">As <c>ping</c> or <c>config|get</c>.</param>
    public void Add(string name)
    {
        lock (_gate) { Count(name); }
    }

    /// <summary>What to give to <see cref="TryClear"/>; null while a command is on its way.</summary>
    public long? Mark()
    {
        lock (_gate) { return _onTheWay.Count == 0 ? _sent : null; }
    }

    /// <summary>Redis has begun to count anew, after the mark was taken. False, and nothing is changed, if a command may have been on its way then: have Redis begin anew once more.</summary>
    /// <param name="mark">Of <see cref="Mark"/>.</param>
    public bool TryClear(long? mark)
    {
        lock (_gate)
        {
            if (mark != _sent) { return false; }
            _counts.Clear();
            return true;
        }
    }

    /// <summary>Redis counts anew; of what is on its way it is not known on which side it falls, and it is taken for counted: clients are not to be shown it.</summary>
    public void Clear()
    {
        lock (_gate)
        {
            _counts.Clear();
            foreach ((string name, long number) in _onTheWay) { _counts[name] = number; }
        }
    }

    /// <summary>A command is about to be sent; dispose of what is returned when it has been answered, or never will be.</summary>
    internal Sending Send(params ReadOnlySpan<string> words)
    {
        string name = (words.Length > 1 && s_containers.Contains(words[0]) ? words[0] + "|" + words[1] : words[0]).ToLowerInvariant();
        lock (_gate)
        {
            Count(name);
            _onTheWay[name] = _onTheWay.GetValueOrDefault(name) + 1;
        }
        return new Sending(this, name);
    }

    private void Count(string name)
    {
        _counts[name] = _counts.GetValueOrDefault(name) + 1;
        _sent++;
    }

    /// <summary>A command that is on its way.</summary>
    internal readonly struct Sending(CommandCounts counts, string name) : IDisposable
    {
        public void Dispose()
        {
            lock (counts._gate)
            {
                if (--counts._onTheWay[name] == 0) { counts._onTheWay.Remove(name); }
            }
        }
    }
}

// Redis counts the commands of everybody alike. What this process has sent of its own accord is counted here, before it is sent, by the
// names that INFO commandstats has: the front end takes that off what clients are shown. Bulk work (RedisBatch, PipelineAsync) is not
// counted: recoveries and moves show.
//
// When Redis begins to count anew, it must be known of each command whether that was before or after. Of one that is on its way then it
// cannot be known, and it is taken for after: clients are not shown it. Who has Redis begin anew takes a mark before, and does it again
// while anything is on its way.
namespace Slogger.Resp;

/// <summary>How often this process has used which command of its own accord. Any thread.</summary>
public sealed class CommandCounts
{
    private static readonly HashSet<string> s_containers = new(StringComparer.OrdinalIgnoreCase)
    {
        "ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "FUNCTION", "LATENCY", "MEMORY", "MODULE", "OBJECT", "PUBSUB", "SCRIPT",
            "SLOWLOG", "XGROUP", "XINFO",
    };

    private readonly Lock _gate = new();
    private readonly Dictionary<string, long> _sent = [];      // by name, ever
    private readonly Dictionary<string, long> _onTheWay = [];  // of these
    private readonly Dictionary<string, long> _before = [];    // of these: before Redis began to count anew
    private long _sentInAll;

    /// <summary>The commands, as <c>ping</c> or <c>config|get</c>, and how often each was used since Redis counts.</summary>
    public IReadOnlyList<KeyValuePair<string, long>> All
    {
        get
        {
            lock (_gate) { return [.. _sent.Keys.Select(n => KeyValuePair.Create(n, OfName(n))).Where(c => c.Value > 0)]; }
        }
    }

    /// <summary>How often a command was used since Redis counts.</summary>
    /// <param name="name">As <c>ping</c> or <c>config|get</c>.</param>
    public long Of(string name)
    {
        lock (_gate) { return OfName(name); }
    }

    /// <summary>A command is about to be sent, and nobody will say when it has been answered.</summary>
    /// <param name="name">As <c>ping</c> or <c>config|get</c>.</param>
    public void Add(string name)
    {
        lock (_gate) { Count(name); }
    }

    /// <summary>What to give to <see cref="Clear"/>. To be taken before Redis is told to count anew.</summary>
    public Mark TakeMark()
    {
        lock (_gate)
        {
            var done = new Dictionary<string, long>(_sent);
            foreach ((string name, long number) in _onTheWay) { done[name] -= number; }
            return new(_sentInAll, _onTheWay.Count == 0, done);
        }
    }

    /// <summary>Redis has begun to count anew, after the mark was taken: what had been done by then counts no more.</summary>
    /// <returns>Whether that is exact. False: a command may have been on its way when Redis began. It counts, so that one too many may be
    /// taken off what clients are shown; have Redis begin anew once more.</returns>
    public bool Clear(Mark mark)
    {
        ArgumentNullException.ThrowIfNull(mark);
        lock (_gate)
        {
            foreach ((string name, long number) in mark.Done) { _before[name] = Math.Max(_before.GetValueOrDefault(name), number); }
            return mark.IsQuiet && mark.SentInAll == _sentInAll;
        }
    }

    /// <summary>A command is about to be sent; dispose of what is returned when it has been answered, or never will be.</summary>
    public Sending Send(params ReadOnlySpan<string> words)
    {
        string name = (words.Length > 1 && s_containers.Contains(words[0]) ? words[0] + "|" + words[1] : words[0]).ToLowerInvariant();
        lock (_gate)
        {
            Count(name);
            _onTheWay[name] = _onTheWay.GetValueOrDefault(name) + 1;
        }
        return new Sending(this, name);
    }

    private long OfName(string name) => _sent.GetValueOrDefault(name) - _before.GetValueOrDefault(name);

    private void Count(string name)
    {
        _sent[name] = _sent.GetValueOrDefault(name) + 1;
        _sentInAll++;
    }

    /// <summary>What had been sent at a moment, and which of it had been answered.</summary>
    public sealed class Mark
    {
        internal Mark(long sentInAll, bool isQuiet, Dictionary<string, long> done) =>
            (SentInAll, IsQuiet, Done) = (sentInAll, isQuiet, done);

        internal long SentInAll { get; }

        internal bool IsQuiet { get; }

        internal Dictionary<string, long> Done { get; }
    }

    /// <summary>A command that is on its way.</summary>
    public readonly struct Sending(CommandCounts counts, string name) : IDisposable
    {
        /// <inheritdoc />
        public void Dispose()
        {
            lock (counts._gate)
            {
                if (--counts._onTheWay[name] == 0) { counts._onTheWay.Remove(name); }
            }
        }
    }
}

// The take-over of one stream's shard, in the process that has received it (the paper, section 5.6), from when its log and its store are at
// the final watermark, and the new world-line has begun in the log, until the store is a primary's.
//
// Order: the world-line is entered in the store; then the process says that the stream is ready, and begins to promote the store; SQL opens
// the stream, by the manager's word or, if that is silent, by this process's; when all streams are open the site is the primary; only then,
// and when nobody promotes it any more, the store is handed over.
//
// Why: whoever opens the shard as a primary's, this process or the next one, finds what the store holds by the world-line that it has
// entered; so nothing opens it before. A store that is handed over takes clients' operations: before the site is the primary these could be
// void, since another stream may have yet to be opened, or given to another process.
//
// Contract with the caller: calls are serialised; each step is performed before the next one is asked for, but for what is only begun. What
// became of a step is said before that; what fails is done again. Nothing is remembered: a process that starts begins again with the first
// step.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sites;

/// <summary>What comes next.</summary>
public abstract record TakeoverStep
{
    private TakeoverStep()
    {
    }

    /// <summary>Have the store enter this world-line, durably; then <see cref="StreamTakeover.Entered"/>.</summary>
    public sealed record Enter(WorldLine Line) : TakeoverStep;

    /// <summary>Tell whoever asks that the stream is ready.</summary>
    public sealed record Ready : TakeoverStep;

    /// <summary>Begin to make the store a primary's; when that has ended, well or not, <see cref="StreamTakeover.Promoted"/>.</summary>
    public sealed record Promote : TakeoverStep;

    /// <summary>Wait until something is said, or until then. Microseconds; <see cref="long.MaxValue"/>: for as long as it
    /// takes.</summary>
    public sealed record Await(long UntilUs) : TakeoverStep;

    /// <summary>Have SQL open the stream (<see cref="SiteState"/>.Open); then <see cref="StreamTakeover.SiteIs"/> or
    /// <see cref="StreamTakeover.Refused"/>.</summary>
    public sealed record Open(SiteEpoch Number) : TakeoverStep;

    /// <summary>Read the site in SQL; then <see cref="StreamTakeover.SiteIs"/>.</summary>
    public sealed record Look : TakeoverStep;

    /// <summary>Hand the store over: it is over.</summary>
    public sealed record HandOver(SiteState Site) : TakeoverStep;

    /// <summary>It comes to nothing: the shard is not this process's any more. End, for good.</summary>
    public sealed record Over(string Why) : TakeoverStep;
}

/// <summary>Takes one stream's shard over. Not thread-safe. Source: the paper, section 5.6; design, section 10.</summary>
public sealed class StreamTakeover
{
    /// <summary>The manager has all shards opened at once. One that says nothing for so long may have died.</summary>
    public const long ManagerLimitUs = 250_000;

    /// <summary>How often SQL is read while other streams are not open yet.</summary>
    public const long LookUs = 50_000;

    private readonly ShardId _stream;
    private readonly long _owner;
    private readonly SiteEpoch _number;
    private readonly long _managerLimitUs;
    private readonly long _lookUs;
    private readonly ShipMutation _mutation;
    private bool _hasEntered;
    private bool _isReady;
    private bool _isPromoting;
    private bool _isPromoted;
    private SiteState? _site;
    private long _actUs;
    private string? _refusal;

    /// <summary>Begins.</summary>
    /// <param name="stream">Which.</param>
    /// <param name="owner">The process's epoch as its receiver.</param>
    /// <param name="number">The failover.</param>
    public StreamTakeover(ShardId stream, long owner, SiteEpoch number)
        : this(stream, owner, number, ManagerLimitUs, LookUs, ShipMutation.None)
    {
    }

    internal StreamTakeover(ShardId stream, long owner, SiteEpoch number, long managerLimitUs, long lookUs, ShipMutation mutation) =>
        (_stream, _owner, _number, _managerLimitUs, _lookUs, _mutation) = (stream, owner, number, managerLimitUs, lookUs, mutation);

    /// <summary>The store has entered the world-line.</summary>
    public void Entered() => _hasEntered = true;

    /// <summary>Nobody promotes the store any more. Whoever opens the shard looks at what the store is.</summary>
    public void Promoted() => _isPromoted = true;

    /// <summary>SQL was read or written: what it says now.</summary>
    public void SiteIs(SiteState site, long nowUs) => (_site, _actUs) = (site, nowUs + _lookUs);

    /// <summary>SQL has refused to open the stream.</summary>
    public void Refused(string why) => _refusal = why;

    /// <summary>What is to be done next.</summary>
    public TakeoverStep Next(long nowUs)
    {
        if (_refusal is { } refusal) return new TakeoverStep.Over(refusal);
        if (!_hasEntered && _site is null && Is(ShipMutation.OpensBeforeReady)) return new TakeoverStep.Open(_number);
        if (!_hasEntered && (_isReady || !Is(ShipMutation.ReadyBeforeEntered)))
            return new TakeoverStep.Enter(_number.FirstWorldLine);
        if (!_isReady)
        {
            (_isReady, _actUs) = (true, nowUs + _managerLimitUs);
            return new TakeoverStep.Ready();
        }

        if (!_isPromoting)
        {
            _isPromoting = true;
            return new TakeoverStep.Promote();
        }

        bool isOpen = false;
        if (_site is { } site)
        {
            // Deposed since; and what is a primary under a later epoch has come to that without this stream.
            if (site.Epoch != _number && !Is(ShipMutation.AnyPrimaryTakes))
                return new TakeoverStep.Over($"failover {_number} is over: the site is in epoch {site.Epoch}");
            if (_stream.Number < site.Streams.Length)
            {
                StreamState stream = site.Streams[_stream.Number];
                if (stream.Owner != _owner && !Is(ShipMutation.DeposedHandsOver))
                    return new TakeoverStep.Over($"another process has taken it (owner {stream.Owner}, this one is {_owner})");
                isOpen = stream.IsOpen;
            }

            bool isPrimary = site.Role is SiteRole.Primary or SiteRole.HandingOver;
            if (isPrimary || (isOpen && Is(ShipMutation.HandsOverEarly)))
            {
                return _isPromoted || Is(ShipMutation.PromotionNotAwaited) ? new TakeoverStep.HandOver(site)
                    : new TakeoverStep.Await(long.MaxValue);
            }
        }

        if (nowUs < _actUs) return new TakeoverStep.Await(_actUs);
        return isOpen ? new TakeoverStep.Look() : new TakeoverStep.Open(_number);
    }

    private bool Is(ShipMutation mutation) => _mutation == mutation;
}

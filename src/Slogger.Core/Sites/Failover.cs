// A failover, as its manager performs it (the paper, section 5.6): the command, or any process that goes on with one that was begun. It may
// die at any step; SQL says how far it came (SiteState), and what was not written down is asked for again.
//
// Order: the epoch is taken; every receiver accepts nothing from then on, and says for good what it holds; when all have, and no site lease
// can be left, the newest cut that all hold is the final watermark: recorded, with the new world-line; each shard goes to exactly that and
// makes void what lies above, and says that it is ready (StreamTakeover); all that are ready SQL opens at once.
//
// What was ever told to anybody as watermark lies at or below the final one: it was the least of what the streams held at some time, and
// none of them ever holds less. Only a report that was made after the freeze, for this failover, says so: after an earlier one its receiver
// may have gone on, and told others.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sites;

/// <summary>What comes next.</summary>
public abstract record FailoverStep
{
    private FailoverStep()
    {
    }

    /// <summary>Have SQL take the epoch (<see cref="SiteState.Take(ImmutableArray{int})"/>).</summary>
    public sealed record Take : FailoverStep;

    /// <summary>SQL has taken the epoch: ask the other site's SQL to note that it is deposed (<see cref="SiteState.DeposedBy"/>), without
    /// waiting for an answer. Not before: the epoch may be refused, and then nobody would serve.</summary>
    public sealed record TellDeposed(SiteEpoch Number) : FailoverStep;

    /// <summary>Have these streams' receivers freeze and report (<see cref="Receiver.Freeze"/>); again after a while.</summary>
    public sealed record AskFinals(SiteEpoch Number, ImmutableArray<ShardId> Of) : FailoverStep;

    /// <summary>Wait until then: a primary that is cut off may still hold a lease. Microseconds.</summary>
    public sealed record AwaitLease(long UntilUs) : FailoverStep;

    /// <summary>Have SQL decide (<see cref="SiteState.Decide"/>), and in the same transaction begin the world-line of the epoch
    /// (<see cref="SiteEpoch.FirstWorldLine"/>) at that version: the cut, and what each shard is recorded to have durable.</summary>
    public sealed record Decide(SiteEpoch Number, WorldPoint Final) : FailoverStep;

    /// <summary>It is decided: tell the processes (<see cref="Receiver.Decided"/>), and ask which of these streams are ready
    /// (<see cref="Failover.Ready"/>); again after a while, and after another look at SQL, since a process that hears nothing has its
    /// stream opened by itself.</summary>
    public sealed record AskReady(SiteEpoch Number, WorldPoint Final, ImmutableArray<ShardId> Of) : FailoverStep;

    /// <summary>Have SQL open these streams (<see cref="SiteState"/>.Open), all of them in one transaction.</summary>
    public sealed record Open(SiteEpoch Number, ImmutableArray<ReadyStream> Streams) : FailoverStep;

    /// <summary>The site is the primary.</summary>
    public sealed record Done : FailoverStep;

    /// <summary>It is no business of this site.</summary>
    public sealed record Refused(string Why) : FailoverStep;
}

/// <summary>Manages a failover. Not thread-safe. Source: the paper, section 5.6; design, section 10.</summary>
public sealed class Failover
{
    private readonly long _leaseWaitUs;
    private readonly ShipMutation _mutation;
    private readonly Dictionary<ShardId, FinalReport> _finals = [];
    private readonly SortedDictionary<int, ReadyStream> _ready = [];
    private SiteState _state;
    private SiteEpoch? _told;
    private long _frozenUs;

    /// <summary>Begins, or goes on.</summary>
    /// <param name="state">What SQL says.</param>
    /// <param name="leaseWaitUs"><see cref="SiteLease.WaitUs"/>; 0: there is no lease, and the operator attests that the primary is
    /// down.</param>
    public Failover(SiteState state, long leaseWaitUs)
        : this(state, leaseWaitUs, ShipMutation.None)
    {
    }

    internal Failover(SiteState state, long leaseWaitUs, ShipMutation mutation) =>
        (_state, _leaseWaitUs, _mutation) = (state, leaseWaitUs, mutation);

    /// <summary>SQL was read or written: what it says now.</summary>
    public void Read(SiteState state)
    {
        _state = state;
        // They are open now, or of processes that are gone; else they say so again.
        _ready.Clear();
    }

    /// <summary>A receiver's report.</summary>
    /// <param name="report">What it says.</param>
    /// <param name="nowUs">When it came.</param>
    /// <returns>Whether it counts, and is the stream's first.</returns>
    public bool Reported(in FinalReport report, long nowUs)
    {
        if (report.Stream.Number < 0 || report.Stream.Number >= _state.Streams.Length) return false;
        StreamState stream = _state.Streams[report.Stream.Number];
        bool isOfThis = report.Number == _state.Epoch && report.Generation == stream.Generation;
        // Who takes the stream from now on is frozen from its start: the last that was not is the owner of the moment at which the epoch
        // was taken.
        bool isOfOwner = report.Owner >= stream.Owner;
        if ((!isOfThis && _mutation != ShipMutation.StaleFinalCounts) || (!isOfOwner && _mutation != ShipMutation.DeposedFinalCounts))
            return false;
        if (_state.Role != SiteRole.FailingOver || !_finals.TryAdd(report.Stream, report)) return false;
        _frozenUs = nowUs;
        return true;
    }

    /// <summary>A process says that a stream of its is ready.</summary>
    /// <param name="number">In which failover.</param>
    /// <param name="ready">Which.</param>
    /// <returns>Whether it is to be opened.</returns>
    public bool Ready(SiteEpoch number, in ReadyStream ready)
    {
        if (number != _state.Epoch || _state is not { Role: SiteRole.FailingOver, Final: not null }) return false;
        if (ready.Stream.Number < 0 || ready.Stream.Number >= _state.Streams.Length) return false;
        // Who had it before is gone; who has it since SQL was read may be another one.
        StreamState stream = _state.Streams[ready.Stream.Number];
        long known = _ready.TryGetValue(ready.Stream.Number, out ReadyStream other) ? Math.Max(other.Owner, stream.Owner) : stream.Owner;
        if (ready.Owner < known && _mutation != ShipMutation.OpensForAnyOwner) return false;
        if (ready.Owner == stream.Owner && stream.IsOpen) return false;
        _ready[ready.Stream.Number] = ready;
        return true;
    }

    // The newest recorded cut that all hold. Each step goes to one that some stream holds, and no lower than one that all do.
    private WorldPoint Final
    {
        get
        {
            WorldPoint final = _finals.Values.Min(f => f.Newest);
            while (_mutation != ShipMutation.FinalInsideWindow)
            {
                WorldPoint least = _finals.Values.Min(f => f.AtOrBelow(final));
                if (least == final) break;
                final = least;
            }

            return final;
        }
    }

    /// <summary>What is to be done next.</summary>
    public FailoverStep Next(long nowUs)
    {
        if (_state.Role == SiteRole.Backup && _mutation == ShipMutation.DeposesBeforeTaken && _told is null)
            return new FailoverStep.TellDeposed((_told = _state.Epoch.Next).Value);
        if (_state.Role == SiteRole.FailingOver && _told != _state.Epoch)
            return new FailoverStep.TellDeposed((_told = _state.Epoch).Value);
        switch (_state.Role)
        {
            case SiteRole.Backup: return new FailoverStep.Take();
            case SiteRole.Primary when _state.Final is not null: return new FailoverStep.Done();
            case SiteRole.FailingOver: break;
            default: return new FailoverStep.Refused("the site is no backup");
        }

        if (_state.Final is { } decided)
        {
            return _ready.Count > 0 ? new FailoverStep.Open(_state.Epoch, [.. _ready.Values])
                : new FailoverStep.AskReady(_state.Epoch, decided, [.. Enumerable.Range(0, _state.Streams.Length)
                    .Where(s => _state.Streams[s] is { IsOpen: false, IsLost: false }).Select(s => new ShardId(s))]);
        }

        ImmutableArray<ShardId> missing = [.. Enumerable.Range(0, _state.Streams.Length).Select(s => new ShardId(s))
            .Where(s => !_state.Streams[s.Number].IsLost && !_finals.ContainsKey(s))];
        if (missing.Length > 0 && !(_mutation == ShipMutation.FinalBeforeAll && _finals.Count > 0))
            return new FailoverStep.AskFinals(_state.Epoch, missing);
        if (_finals.Count == 0) return new FailoverStep.Refused("no stream is left that holds anything");
        if (nowUs < _frozenUs + _leaseWaitUs && _mutation != ShipMutation.LeaseNotAwaited)
            return new FailoverStep.AwaitLease(_frozenUs + _leaseWaitUs);
        return new FailoverStep.Decide(_state.Epoch, Final);
    }
}

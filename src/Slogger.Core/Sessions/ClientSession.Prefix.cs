// The committed prefix and its exceptions (DPR, sections 2 and 5.4; invariant I2), and the runs that it is made of.
using System.Runtime.InteropServices;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sessions;

public sealed partial class ClientSession
{
    private readonly List<ExceptionRange> _exceptions = [];
    private VersionNumber _uniformCut;

    /// <summary>How many lost and uncertain ranges are not remembered any more, the oldest first. They were reported once,
    /// by <see cref="OnConnectionLost"/> or <see cref="ClientRollback"/>.</summary>
    public long ExceptionsForgotten { get; private set; }

    /// <summary>The cluster committed up to a point at every shard. Points of another world-line are ignored.</summary>
    /// <returns>The committed prefix.</returns>
    public SequenceNumber OnCommitted(WorldPoint uniform)
    {
        if (uniform.WorldLine != WorldLine && !Is(ClientMutation.AnyWorldLineCommits)) return Committed;
        if (uniform.Version <= _uniformCut) return Committed;
        _uniformCut = uniform.Version;
        MovePrefix();
        return Committed;
    }

    /// <summary>The cluster committed a cut. Cuts of another world-line are ignored, and what is older than what is known.</summary>
    /// <param name="worldLine">The cut's timeline.</param>
    /// <param name="byShard">The version of each shard, by number; shards beyond the end have nothing committed.</param>
    /// <returns>The committed prefix.</returns>
    public SequenceNumber OnCommitted(WorldLine worldLine, ReadOnlySpan<VersionNumber> byShard)
    {
        if (worldLine != WorldLine && !Is(ClientMutation.AnyWorldLineCommits)) return Committed;
        bool moved = false;
        for (int s = 0; s < byShard.Length; s++)
        {
            ref ShardView view = ref ViewOf(new(s));
            if (byShard[s] <= view.Cut) continue;
            view.Cut = byShard[s];
            moved = true;
        }

        if (moved) MovePrefix();
        return Committed;
    }

    /// <summary>The largest version of what was answered and is not known to be committed; zero if there is nothing such.</summary>
    public VersionNumber Uncommitted
    {
        get
        {
            VersionNumber largest = VersionNumber.Zero;
            for (int i = 0; i < _answered.Count; i++)
                if (_answered[i].Upper > largest && !IsCovered(_answered[i])) largest = _answered[i].Upper;
            return largest;
        }
    }

    /// <summary>Lists what does not belong to the committed prefix although it is not behind its end, and what is uncertain
    /// or lost anywhere: in order, at most one range for each batch and run.</summary>
    /// <param name="into">Emptied first.</param>
    public void CopyExceptions(List<ExceptionRange> into)
    {
        into.Clear();
        into.AddRange(_exceptions);
        for (int i = 0; i < _pending.Count && _pending[i].First <= Committed; i++)
            if (!Is(ClientMutation.PendingIsNoException)) into.Add(new(_pending[i].Range, ExceptionKind.Open));
        for (int i = 0; i < _answered.Count && _answered[i].Last <= Committed; i++)
            into.Add(new(_answered[i].Range, ExceptionKind.Open));
        CollectionsMarshal.AsSpan(into).Sort(static (a, b) => a.Range.First.CompareTo(b.Range.First));
    }

    /// <summary>Moves the prefix over what the cut holds, and forgets it: up to the first answered operation that the cut
    /// does not hold; in strict mode, up to the first unanswered one.</summary>
    private void MovePrefix()
    {
        int kept = 0, i = 0;
        for (; i < _answered.Count; i++)
        {
            Run run = _answered[i];
            bool covered = IsCovered(run);
            if (run.Last <= Committed)
            {
                // Answered after the prefix had passed it: an exception until a cut holds it.
                if (!covered && !Is(ClientMutation.LateIsCommitted)) _answered[kept++] = run;
                continue;
            }

            if (!covered && !Is(ClientMutation.UncoveredIsPassed)) break;
            if (_options.Strict && !Is(ClientMutation.StrictIsRelaxed) && _pending.Count > 0 && _pending[0].First < run.First) break;
            Committed = run.Last;
        }

        _answered.RemoveRange(kept, i - kept);
    }

    /// <summary>Whether the known cut holds all of a run.</summary>
    private bool IsCovered(in Run run) =>
        run.Upper <= (run.Shard == Run.SeveralShards ? CutBounds().Lowest : CutOf(run.Shard));

    private VersionNumber CutOf(int shard) => VersionNumber.Max(_uniformCut, _shards[shard].Cut);

    /// <summary>The lowest and highest cut of the shards that this session uses.</summary>
    private (VersionNumber Lowest, VersionNumber Highest) CutBounds()
    {
        (VersionNumber lowest, VersionNumber highest) = (new(long.MaxValue), _uniformCut);
        for (int s = 0; s < _shards.Length; s++)
        {
            if (!_shards[s].IsUsed) continue;
            lowest = VersionNumber.Min(lowest, CutOf(s));
            highest = VersionNumber.Max(highest, CutOf(s));
        }

        return (VersionNumber.Min(lowest, highest), highest);
    }

    /// <summary>Puts a run into its place among the answered ones, as part of a neighbour if it continues it.</summary>
    private void InsertRun(in Run run)
    {
        int at = _answered.PlaceOf(run.First);
        if (at > 0 && Continues(_answered[at - 1], run)) _answered[at - 1].Last = run.Last;
        else if (at < _answered.Count && Continues(run, _answered[at])) _answered[at].First = run.First;
        else _answered.Insert(at, run);
    }

    private static bool Continues(in Run a, in Run b) =>
        AreNeighbours(a, b) && a.Shard == b.Shard && a.Lower == b.Lower && a.Upper == b.Upper;

    /// <summary>Whether nothing lies between two runs. Then the prefix does not end there either: the operation that it ends
    /// with is in no run any more.</summary>
    private static bool AreNeighbours(in Run a, in Run b) => a.Last.Number + 1 == b.First.Number;

    /// <summary>Makes room: merges neighbouring runs two and two. The newest keep their resolution if possible: a recovery
    /// is most likely to fall there. The merged runs commit a little later, never earlier.</summary>
    /// <returns>False if nothing could be merged.</returns>
    private bool MergeRuns() => MergeRuns(_answered.Count / 2) || MergeRuns(_answered.Count);

    private bool MergeRuns(int upTo)
    {
        int to = 0, i = 0;
        while (i < _answered.Count)
        {
            Run run = _answered[i++];
            if (i < upTo && MayMerge(run, _answered[i])) run = Merged(run, _answered[i++]);
            _answered[to++] = run;
        }

        bool merged = to < i;
        _answered.RemoveRange(to, i - to);
        return merged;
    }

    // What is uncertain was listed as such, and must not be listed again with its neighbour.
    private static bool MayMerge(in Run a, in Run b) =>
        AreNeighbours(a, b) && (a.Upper == VersionNumber.Zero) == (b.Upper == VersionNumber.Zero);

    private Run Merged(in Run a, in Run b) => new()
    {
        First = a.First,
        Last = b.Last,
        Lower = VersionNumber.Min(a.Lower, b.Lower),
        Upper = Is(ClientMutation.MergedCommitsEarly) ? a.Upper : VersionNumber.Max(a.Upper, b.Upper),
        Shard = a.Shard == b.Shard || Is(ClientMutation.MergedIsOfOneShard) ? a.Shard : Run.SeveralShards,
    };

    private void Remember(ExceptionRange exception)
    {
        if (_exceptions.Count == ExceptionsMax)
        {
            _exceptions.RemoveAt(0);
            ExceptionsForgotten++;
        }

        _exceptions.Add(exception);
    }

    private static void Extend(List<SequenceRange> ranges, SequenceRange next)
    {
        if (ranges.Count > 0 && ranges[^1].Last.Number + 1 == next.First.Number) ranges[^1] = new(ranges[^1].First, next.Last);
        else ranges.Add(next);
    }
}

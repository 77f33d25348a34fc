// The client's half of libDPR: numbers a session's operations over many shards, tells each shard what the session has
// seen, and says which operations are committed and, after a recovery, which survived (DPR, sections 3.2, 4.2, 5.4 and 6;
// invariants I1, I2, I5). One session, one caller at a time. The server's view of a plain connection is SessionProgress.
//
// Contract with the caller
// - A batch is sent to its shard as soon as it has begun. While a connection lives, the shard executes the batches of the
//   session in the order in which they began. When it does not live any more: OnConnectionLost, before the next batch.
// - When a shard refuses a batch because of its world-line: OnRollback, with the branch and the batch's world-line. Cuts,
//   replies and refusals may come late, doubled, and in any order among shards.
//
// An operation depends on those that were *answered* before it began, and on no others. Of those the session remembers the
// highest version (AtLeast, Vs in the paper): a shard executes a later operation in no earlier version, so that whatever cut
// holds the later one holds those too. Operations that are unanswered are concurrent with what begins meanwhile: relaxed
// DPR lets the committed prefix pass over them, and lists them as exceptions.
//
// After a recovery the session starts anew: all that survived is inside the branch, which is inside every later cut, and what
// was lost nothing new may depend on. So AtLeast starts again above the branch.
//
// Two lists, both in the order of the operations: unanswered batches, and runs of answered operations of one shard and
// version which are not committed. The runs below the prefix's end are those answered after the prefix had passed them.
// Operations that will never be answered become a run of version 0: uncertain, and every cut passes over it.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sessions;

/// <summary>A client's session over many shards. Single-threaded. Memory is bounded by its options.</summary>
public sealed partial class ClientSession
{
    /// <summary>How many lost and uncertain ranges are remembered.</summary>
    public const int ExceptionsMax = 256;

    /// <summary>The highest number of a shard, plus one.</summary>
    public const int ShardsMax = 1024;

    private readonly ClientSessionOptions _options;
    private readonly ClientMutation _mutation;
    private readonly RunList _pending = new();
    private readonly RunList _answered = new();
    private ShardView[] _shards = new ShardView[4];
    private Dependency[] _dependencies = new Dependency[4];
    private long _learned;             // counts what was newly seen at any shard

    /// <summary>A session without operations.</summary>
    /// <param name="id">Its name.</param>
    /// <param name="worldLine">The cluster's world-line, or an older one: then the first batch will be refused.</param>
    /// <param name="options">Settings.</param>
    /// <exception cref="ArgumentOutOfRangeException">A bound is too small.</exception>
    public ClientSession(SessionId id, WorldLine worldLine, ClientSessionOptions options)
        : this(id, worldLine, options, ClientMutation.None)
    {
    }

    internal ClientSession(SessionId id, WorldLine worldLine, ClientSessionOptions options, ClientMutation mutation)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(options.WindowMax, 1, nameof(options));
        ArgumentOutOfRangeException.ThrowIfLessThan(options.RunsMax, 8, nameof(options));
        Id = id;
        WorldLine = worldLine;
        _options = options;
        _mutation = mutation;
    }

    /// <summary>Its name.</summary>
    public SessionId Id { get; }

    /// <summary>The timeline that it lives in.</summary>
    public WorldLine WorldLine { get; private set; }

    /// <summary>The last operation begun.</summary>
    public SequenceNumber Begun { get; private set; }

    /// <summary>How many operations are unanswered, and may still be answered.</summary>
    public int Unanswered { get; private set; }

    /// <summary>Every operation up to here is committed, except those that <see cref="CopyExceptions"/> lists. Never decreases.</summary>
    public SequenceNumber Committed { get; private set; }

    /// <summary>Vs: the largest version seen; what begins now is executed in no earlier one. Source: DPR, section 3.2.</summary>
    public VersionNumber AtLeast { get; private set; }

    /// <summary>How many batches and runs are kept; at most <see cref="ClientSessionOptions.RunsMax"/>.</summary>
    public int RunCount => _pending.Count + _answered.Count;

    /// <summary>Begins a batch: numbers its operations, in the order of their start.</summary>
    /// <param name="shard">The one shard that executes all of it.</param>
    /// <param name="count">How many operations; 1 to <see cref="ClientSessionOptions.WindowMax"/>.</param>
    /// <param name="header">What to send with it.</param>
    /// <returns>False if too much is unanswered or uncommitted: nothing has begun; try again after a reply or a cut.</returns>
    public bool TryBegin(ShardId shard, int count, out BatchHeader header)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(count, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(count, _options.WindowMax);
        ref ShardView view = ref ViewOf(shard);
        header = default;
        if (Unanswered + count > _options.WindowMax) return false;
        if (RunCount >= _options.RunsMax && !MergeRuns()) return false;

        header = new(Id, WorldLine, AtLeast, new(Begun.Number + 1), count, DependenciesOf(shard.Number, view.ToldUpTo));
        view.IsUsed = true;
        view.ToldUpTo = _learned;
        Begun = new(Begun.Number + count);
        Unanswered += count;
        _pending.Insert(_pending.Count, new() { First = header.First, Last = Begun, Lower = AtLeast, Shard = shard.Number });
        return true;
    }

    /// <summary>A shard answered a batch.</summary>
    /// <param name="shard">Which.</param>
    /// <param name="first">The number of the batch's first operation.</param>
    /// <param name="reply">The answer. Its cut is taken in too.</param>
    public ReplyOutcome OnReply(ShardId shard, SequenceNumber first, in BatchReply reply)
    {
        if (reply.WorldLine < WorldLine) return ReplyOutcome.Ignored;
        if (reply.WorldLine > WorldLine || first <= SequenceNumber.None || first > Begun) return ReplyOutcome.Invalid;
        int place = _pending.PlaceOf(first);
        if (place == _pending.Count || _pending[place].First != first) return ReplyOutcome.Ignored;
        Run batch = _pending[place];
        ReadOnlySpan<VersionRun> versions = reply.Versions.Span;
        if (batch.Shard != shard.Number || !Fits(batch, versions)) return ReplyOutcome.Invalid;

        _pending.RemoveRange(place, 1);
        Unanswered -= (int)batch.Range.Count;
        bool covered = Complete(batch, versions);
        if (reply.Cut.WorldLine == WorldLine && reply.Cut.Version > _uniformCut) OnCommitted(reply.Cut);
        else if (covered) MovePrefix();
        return ReplyOutcome.Completed;
    }

    /// <summary>A shard tells what it has executed of the batches that it has not answered: their connection is gone, and the replies with
    /// it. From here on they are as answered ones: what begins now depends on them. To be told before <see cref="OnConnectionLost"/>, and
    /// of the session's present world-line.</summary>
    /// <param name="shard">Which.</param>
    /// <param name="last">The last operation executed there: all batches up to it were.</param>
    /// <param name="latest">A version in which that had been done. They may have been executed in earlier ones: after a recovery to
    /// a version in between they are uncertain.</param>
    /// <exception cref="BrokenInvariantException">The version is below what the session had seen when a batch began.</exception>
    public void OnExecuted(ShardId shard, SequenceNumber last, VersionNumber latest)
    {
        for (int i = 0; i < _pending.Count;)
        {
            Run batch = _pending[i];
            if (batch.Shard != shard.Number || batch.Last > last)
            {
                i++;
                continue;
            }

            if (latest < VersionNumber.Max(batch.Lower, VersionNumber.Zero.Next))
                throw new BrokenInvariantException(
                    $"I1: session {Id}: shard {shard} says that {batch.Range} was executed up to version {latest}, although version "
                        + $"{batch.Lower} had been seen before.");
            _pending.RemoveRange(i, 1);
            Unanswered -= (int)batch.Range.Count;
            batch.Upper = latest;
            InsertRun(batch);
            Saw(shard.Number, latest);
        }

        MovePrefix();
    }

    /// <summary>The connection to a shard is gone: what it has not answered may have been executed, or may yet be, or not.
    /// These operations stay uncertain for ever; the session goes on. Also to be told if all was answered: the next batch to the shard
    /// says everything anew that the session has seen.</summary>
    /// <param name="shard">Which.</param>
    /// <param name="uncertain">Receives the ranges, in order.</param>
    public void OnConnectionLost(ShardId shard, List<SequenceRange> uncertain)
    {
        // What was told may never have arrived.
        if (!Is(ClientMutation.ToldForEver)) ViewOf(shard).ToldUpTo = 0;
        uncertain.Clear();
        for (int i = 0; i < _pending.Count;)
        {
            Run batch = _pending[i];
            if (batch.Shard != shard.Number)
            {
                i++;
                continue;
            }

            _pending.RemoveRange(i, 1);
            Unanswered -= (int)batch.Range.Count;
            Extend(uncertain, batch.Range);
            batch.Lower = batch.Upper = VersionNumber.Zero;
            InsertRun(batch);
        }

        foreach (SequenceRange range in uncertain) Remember(new(range, ExceptionKind.Uncertain));
        MovePrefix();
    }

    /// <summary>Whether an answer can be one to this batch.</summary>
    private static bool Fits(in Run batch, ReadOnlySpan<VersionRun> versions)
    {
        long count = 0;
        VersionNumber atLeast = VersionNumber.Max(batch.Lower, VersionNumber.Zero.Next);
        foreach (VersionRun run in versions)
        {
            // A version below the header's bound breaks the rule that recovery rests on; and an open version never goes back.
            if (run.Count < 1 || run.Version < atLeast) return false;
            count += run.Count;
            atLeast = run.Version;
        }

        return count == batch.Range.Count;
    }

    /// <summary>Notes in which versions a batch was executed.</summary>
    /// <returns>Whether the known cut holds some of it.</returns>
    private bool Complete(in Run batch, ReadOnlySpan<VersionRun> versions)
    {
        (VersionNumber lowest, VersionNumber highest) = (versions[0].Version, versions[^1].Version);
        Saw(batch.Shard, highest);
        Run run = batch;
        if (RunCount + versions.Length > _options.RunsMax)
        {
            // One coarse run has the place that the batch had.
            (run.Lower, run.Upper) = (lowest, highest);
            InsertRun(run);
            return IsCovered(run);
        }

        run.Last = new(batch.First.Number - 1);
        foreach (VersionRun v in versions)
        {
            run.First = new(run.Last.Number + 1);
            run.Last = new(run.Last.Number + v.Count);
            run.Lower = run.Upper = v.Version;
            InsertRun(run);
        }

        return lowest <= CutOf(batch.Shard);
    }

    private void Saw(int shard, VersionNumber version)
    {
        if (!Is(ClientMutation.SeenIsForgotten)) AtLeast = VersionNumber.Max(AtLeast, version);
        ref ShardView view = ref _shards[shard];
        if (version <= view.Seen) return;
        view.Seen = version;
        view.SeenAt = ++_learned;
    }

    /// <summary>What the session has seen at other shards since it last told this one.</summary>
    private ReadOnlyMemory<Dependency> DependenciesOf(int shard, long toldUpTo)
    {
        if (!_options.TrackDependencies) return default;
        int n = 0;
        for (int s = 0; s < _shards.Length; s++)
        {
            ref ShardView view = ref _shards[s];
            if (s != shard && view.SeenAt > toldUpTo) _dependencies[n++] = new(new(s), view.Seen);
        }

        if (Is(ClientMutation.OneDependency)) n = Math.Min(n, 1);
        return _dependencies.AsMemory(0, n);
    }

    private ref ShardView ViewOf(ShardId shard)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(shard.Number, nameof(shard));
        ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual(shard.Number, ShardsMax, nameof(shard));
        if (shard.Number >= _shards.Length)
        {
            int length = (int)System.Numerics.BitOperations.RoundUpToPowerOf2((uint)shard.Number + 1);
            Array.Resize(ref _shards, length);
            Array.Resize(ref _dependencies, length);
        }

        return ref _shards[shard.Number];
    }

    private bool Is(ClientMutation mutation) => _mutation == mutation;

    /// <summary>What the session knows of a shard, in the current world-line.</summary>
    private struct ShardView
    {
        public VersionNumber Cut;            // committed at this shard
        public VersionNumber Seen;           // the largest version of an answer
        public long SeenAt;            // when that was learned, in counts of _learned
        public long ToldUpTo;          // what was learned up to here is in the headers that this shard was sent
        public bool IsUsed;            // a batch was begun at it
    }
}

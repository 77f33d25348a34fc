// What must be true in the seeded world after every event. The session's answers are compared with what they would be if
// every operation were kept and looked at one by one (exactly, unless its runs are few), and with what the shards really did.
using Slogger.Core.Sessions;
using Slogger.Core.Tests.Model;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Sessions;

internal sealed class WorldSession(int number, ClientSession client, int shards)
{
    public int Number => number;
    public ClientSession Client => client;
    public List<WorldOp> Ops { get; } = [];
    public WorldConnection[] Connections { get; } = [.. Enumerable.Range(0, shards).Select(_ => new WorldConnection())];

    /// <summary>The cut that this session was told of, in its world-line.</summary>
    public VersionNumber[] Known { get; } = new VersionNumber[shards];

    /// <summary>Where the prefix ended last.</summary>
    public long Committed { get; set; }

    /// <summary>Where the prefix has to end.</summary>
    public long Prefix { get; set; }

    /// <summary>The first operation of the current world-line.</summary>
    public int Since { get; set; }

    public void Learn(WorldLine line, ReadOnlySpan<VersionNumber> cut)
    {
        if (line != client.WorldLine) return;
        for (int s = 0; s < shards; s++) Known[s] = VersionNumber.Max(Known[s], cut[s]);
    }

    public bool IsCovered(WorldOp op) => op.IsAnswered && op.Version <= Known[op.Shard];
}

internal sealed partial class SessionWorld
{
    private readonly List<ExceptionRange> _exceptions = [];

    private bool IsExact => _settings.RunsMax >= 1000;

    private void Receive(WorldSession s, int shard, WorldReply reply)
    {
        bool fresh = reply.Reply.WorldLine == s.Client.WorldLine && reply.Ops.All(op => !op.IsAnswered && op.Told == Fate.Unknown);
        ReplyOutcome outcome = s.Client.OnReply(new(shard), reply.First, reply.Reply);
        Count(outcome.ToString());
        if (outcome != (fresh ? ReplyOutcome.Completed : ReplyOutcome.Ignored))
            throw new ModelException($"a {(fresh ? "new" : "doubled or late")} reply was taken as {outcome}: {reply.Ops[0]}");
        if (!fresh) return;
        foreach (WorldOp op in reply.Ops) op.Answered = _tick;
        VersionNumber[] cut = new VersionNumber[Shards];
        Array.Fill(cut, reply.Reply.Cut.Version);
        s.Learn(reply.Reply.Cut.WorldLine, cut);
        Check(s);
    }

    /// <summary>The prefix and its exceptions, against every single operation.</summary>
    private void Check(WorldSession s)
    {
        for (int i = (int)Math.Max(s.Prefix, s.Since); i < s.Ops.Count; i++)
        {
            WorldOp op = s.Ops[i];
            if (op.Told == Fate.Uncertain || s.IsCovered(op)) s.Prefix = op.Sequence;
            else if (op.IsAnswered || _settings.Strict) break;
        }

        long committed = s.Client.Committed.Number;
        if (IsExact ? committed != s.Prefix : committed > s.Prefix)
            throw new ModelException($"I1: session {s.Number}: the prefix ends at {committed} instead of {s.Prefix}");
        if (committed < s.Committed)
            throw new ModelException($"I3: session {s.Number}: the prefix went back from {s.Committed} to {committed}");
        s.Committed = committed;
        s.Client.CopyExceptions(_exceptions);
        if (s.Client.ExceptionsForgotten > 0) throw new ModelException("the world is too long to remember all exceptions");
        if (s.Client.RunCount > _settings.RunsMax) throw new ModelException($"{s.Client.RunCount} runs instead of {_settings.RunsMax}");
        int e = 0;
        for (int i = 0; i < s.Ops.Count; i++)
        {
            WorldOp op = s.Ops[i];
            while (e < _exceptions.Count && _exceptions[e].Range.Last.Number < op.Sequence) e++;
            ExceptionKind? kind = e < _exceptions.Count && _exceptions[e].Range.First.Number <= op.Sequence ? _exceptions[e].Kind : null;
            CheckOp(s, op, kind, op.Sequence <= committed);
        }
    }

    private void CheckOp(WorldSession s, WorldOp op, ExceptionKind? kind, bool isPassed)
    {
        switch (op.Told)
        {
            case Fate.Lost or Fate.Uncertain:
                if (kind != (op.Told == Fate.Lost ? ExceptionKind.Lost : ExceptionKind.Uncertain))
                    throw new ModelException($"I8: reported as {op.Told}, listed as {kind}: {op}");
                break;
            case Fate.Committed or Fate.Survived:
                if (kind is not null) throw new ModelException($"I2: reported as {op.Told}, listed as {kind}: {op}");
                break;
            case Fate.Unknown when !isPassed || kind == ExceptionKind.Open:
                if (kind is not null && (!isPassed || (IsExact && s.IsCovered(op))))
                    throw new ModelException($"I1: listed as {kind}: {op}");
                break;
            default:
                if (kind is not null || !op.IsAnswered || !_metadata.Holds(op) || op.Version > _metadata.Cut[op.Shard])
                    throw new ModelException(
                        $"I2: taken as committed by the session, listed as {kind}, recorded cut {_metadata.Cut[op.Shard]}: {op}");
                op.Told = Fate.Committed;
                break;
        }
    }

    private void CheckUncertain(WorldSession s, int shard, List<SequenceRange> uncertain)
    {
        List<long> told = [.. uncertain.SelectMany(Numbers)];
        List<long> expected = [.. s.Ops.Skip(s.Since).Where(op => op.Shard == shard && !op.IsAnswered && op.Told == Fate.Unknown)
            .Select(op => op.Sequence)];
        if (!told.SequenceEqual(expected))
            throw new ModelException($"session {s.Number}: uncertain are {string.Join(' ', told)} instead of {string.Join(' ', expected)}");
        foreach (long n in told) s.Ops[(int)n - 1].Told = Fate.Uncertain;
    }

    private void CheckRollback(WorldSession s, ClientRollback r, VersionNumber[] branch)
    {
        Count("rollback");
        WorldLine line = s.Client.WorldLine;
        if (r.WorldLine != line) throw new ModelException($"session {s.Number} is in {line} instead of {r.WorldLine}");
        if (s.Ops.Count > s.Since && line > s.Ops[^1].Line.Next) Count("rollback over several world-lines");
        Dictionary<long, Fate> fates = [];
        void Add(SequenceRange range, ExceptionKind kind, bool below)
        {
            if (below != (range.Last < r.Survived) || range.IsEmpty)
                throw new ModelException($"I1: {range} is {kind}, survived is {r.Survived}");
            foreach (long n in Numbers(range))
                if (!fates.TryAdd(n, kind == ExceptionKind.Lost ? Fate.Lost : Fate.Uncertain))
                    throw new ModelException($"I1: {n} is in two places");
        }

        foreach (ExceptionRange e in r.Exceptions) Add(e.Range, e.Kind, below: true);
        foreach (SequenceRange range in r.Lost) Add(range, ExceptionKind.Lost, below: false);
        foreach (SequenceRange range in r.Uncertain) Add(range, ExceptionKind.Uncertain, below: false);
        for (int i = s.Since; i < s.Ops.Count; i++)
        {
            WorldOp op = s.Ops[i];
            bool listed = fates.Remove(op.Sequence, out Fate fate);
            if (op.Told == Fate.Uncertain)
            {
                if (listed) throw new ModelException($"I8: reported twice: {op}");
                continue;
            }

            if (!listed && op.Sequence > r.Survived.Number) throw new ModelException($"I8: behind {r.Survived}, and in no place: {op}");
            if (!listed) fate = Fate.Survived;
            CheckFate(op, fate, line);
            Count(fate.ToString());
            if (op.Told != Fate.Committed) op.Told = fate;
        }

        if (fates.Count > 0) throw new ModelException($"I1: nobody knows of {fates.Keys.First()}");
        s.Since = s.Ops.Count;
        s.Prefix = s.Ops.Count;
        for (int shard = 0; shard < Shards; shard++) s.Known[shard] = branch[Math.Min(shard, branch.Length - 1)];
        Check(s);
    }

    private void CheckFate(WorldOp op, Fate fate, WorldLine line)
    {
        if (op.Told == Fate.Committed && fate != Fate.Survived) throw new ModelException($"I2: reported as committed, now as {fate}: {op}");
        if (fate == Fate.Survived && !(op.IsAnswered && _metadata.Holds(op, line)))
            throw new ModelException($"I1: said to survive into {line}: {op}");
        if (fate == Fate.Lost && _metadata.Holds(op, line))
            throw new ModelException($"I1: said to be lost, but survived into {line}: {op}");
        if (fate == Fate.Uncertain && op.IsAnswered && IsExact) throw new ModelException($"I1: answered, but listed as uncertain: {op}");
    }

    /// <summary>I1: if the cluster went back to this cut now: no survivor began after the answer to what would be lost. By
    /// session; with grid cuts and clocks within their bound, by real time over all sessions. World-lines are looked at one
    /// by one: what an older one lost, nothing of a newer one depends on.</summary>
    private void CheckClosed(VersionNumber[] cut)
    {
        bool realTime = _settings.Cuts == CutKind.RealTime;
        Dictionary<(int, WorldLine), WorldOp> firstLost = [];
        bool Survives(WorldOp op) => _metadata.Holds(op) && op.Version <= cut[op.Shard];
        foreach (WorldOp op in _sessions.SelectMany(s => s.Ops))
        {
            if (!op.IsAnswered || Survives(op)) continue;
            (int, WorldLine) key = (realTime ? 0 : op.Session, op.Line);
            if (!firstLost.TryGetValue(key, out WorldOp? lost) || op.Answered < lost.Answered) firstLost[key] = op;
        }

        foreach (WorldOp op in _sessions.SelectMany(s => s.Ops))
            if (firstLost.TryGetValue((realTime ? 0 : op.Session, op.Line), out WorldOp? lost) && op.Begun > lost.Answered && Survives(op))
                throw new ModelException($"I1: the cut {string.Join(' ', cut)} holds {op}, which began after the answer to {lost}");
    }

    private void CheckCommittedHeld()
    {
        foreach (WorldOp op in _sessions.SelectMany(s => s.Ops))
            if (op.Told is Fate.Committed or Fate.Survived && !_metadata.Holds(op))
                throw new ModelException($"I2: was told as {op.Told} and is lost: {op}");
    }

    private void CheckAllTold(WorldSession s)
    {
        if (s.Client.Committed != s.Client.Begun || s.Client.Unanswered > 0 || s.Client.RunCount > 0)
            throw new ModelException(
                $"I8: session {s.Number} ends at {s.Client.Committed} of {s.Client.Begun} with {s.Client.RunCount} runs");
        foreach (WorldOp op in s.Ops)
            if (op.Told == Fate.Unknown) throw new ModelException($"I8: never told: {op}");
    }

    private static IEnumerable<long> Numbers(SequenceRange range)
    {
        for (long n = range.First.Number; n <= range.Last.Number; n++) yield return n;
    }
}

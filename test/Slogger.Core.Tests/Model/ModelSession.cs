// A client's connection in the model: what it did, next to what SessionProgress says about it.
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Model;

internal sealed class ModelSession(int id, SessionProgress progress, ModelConnection? own)
{
    private readonly List<ModelOp> _ops = [];
    private readonly HashSet<long> _uncertainBefore = [];
    private long _checkedCommitted;

    public int Id => id;

    public SessionProgress Progress => progress;

    /// <summary>The dedicated connection, or null for the shared one.</summary>
    public ModelConnection? Own { get; set; } = own;

    /// <summary>A blocked operation is in flight: everything behind it has two bounds.</summary>
    public bool Blocked => _blockedInFlight > 0;

    public int ExactInFlight => Own is null ? 0 : _exactInFlight;

    private int _blockedInFlight;
    private int _exactInFlight;

    public void Forward(int count, VersionNumber version, ModelConnection connection)
    {
        progress.OnForwarded(count, version);
        Add(count, connection, openEnded: false);
        _exactInFlight += count;
    }

    public void ForwardBlocked(int count, VersionNumber lower)
    {
        progress.OnForwardedOpenEnded(count, lower);
        Add(count, Own!, openEnded: true);
        _blockedInFlight += count;
    }

    private void Add(int count, ModelConnection connection, bool openEnded)
    {
        for (int i = 0; i < count; i++)
        {
            ModelOp op = new() { Session = id, Sequence = _ops.Count + 1, OpenEnded = openEnded, Blocked = openEnded && i == 0 };
            _ops.Add(op);
            connection.ToStore.Enqueue(new(op, null));
        }
    }

    public void Answered(ModelOp op, VersionNumber open)
    {
        progress.OnAnswered(1, open);
        if (progress.Answered.Number != op.Sequence)
            throw new ModelException($"session {id}: answer {op.Sequence} counted as {progress.Answered}");
        if (op.OpenEnded) _blockedInFlight--;
        else _exactInFlight--;
    }

    /// <summary>What was answered since the last rollback, less what was reported as uncertain.</summary>
    public IEnumerable<ModelOp> AnsweredOps() =>
        _ops.Where(op => op.Sequence > _settled && op.Sequence <= progress.Answered.Number && !_uncertainBefore.Contains(op.Sequence));

    public void UpstreamLost()
    {
        SequenceRange range = progress.OnUpstreamLost();
        for (long s = range.First.Number; s <= range.Last.Number; s++) _uncertainBefore.Add(s);
        _blockedInFlight = _exactInFlight = 0;
    }

    public void OnCommitted(WorldPoint point, List<ModelOp> everCommitted)
    {
        SequenceNumber committed = progress.OnCommitted(point);
        for (; _checkedCommitted < committed.Number; _checkedCommitted++)
        {
            ModelOp op = _ops[(int)_checkedCommitted];
            if (_uncertainBefore.Contains(op.Sequence)) continue;
            op.Committed = true;
            everCommitted.Add(op);
        }
    }

    /// <summary>The store goes back to the first so many commands: is what the session is told exactly true?</summary>
    public void RollBack(WorldLine next, Boundary branch, bool exact)
    {
        long answered = progress.Answered.Number;
        bool fresh = progress.WorldLine < next;
        if (!fresh) return;
        long settled = _settled;
        RollbackOutcome outcome = progress.OnRollback(next, branch.Version);
        for (long s = settled + 1; s <= _ops.Count; s++)
        {
            ModelOp op = _ops[(int)s - 1];
            if (_uncertainBefore.Contains(s)) continue;
            bool kept = op.Position >= 0 && op.Position < branch.Offset;
            string what = $"session {id}, operation {s} ({(op.OpenEnded ? "two bounds" : "exact")}, "
                + $"{(s <= answered ? "answered" : "unanswered")}) at {op.Position}, branch {branch.Point} at {branch.Offset}";
            if (s <= outcome.Survived.Number)
            {
                if (!kept) throw new ModelException($"I1: said to survive, but lost: {what}");
            }
            else if (s <= outcome.Uncertain.Last.Number)
            {
                if (exact && !op.OpenEnded && s <= answered) throw new ModelException($"I1: exact, but listed as uncertain: {what}");
            }
            else if (kept)
            {
                throw new ModelException($"I1: said to be lost, but survived: {what}");
            }
        }

        // From here on they are settled; what the session does next has new numbers.
        _settled = _ops.Count;
        _checkedCommitted = _ops.Count;
        _blockedInFlight = _exactInFlight = 0;
    }

    private long _settled;
}

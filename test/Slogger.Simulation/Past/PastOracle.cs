// What really happened: each command with the version that it was in when it was handed on, and which versions were closed. It knows nothing
// of logs, checkpoints and tiles. What a recovery takes back is forgotten.
using Slogger.Core.Versions;

namespace Slogger.Simulation.Past;

/// <summary>A command that was executed.</summary>
internal sealed class PastDone(PastOp op, VersionNumber label, long order)
{
    public PastOp Op => op;

    /// <summary>The version that it is in.</summary>
    public VersionNumber Label => label;

    /// <summary>Commands of all shards in the order of their execution.</summary>
    public long Order => order;

    /// <summary>When it was handed on by the shard's clock. Microseconds.</summary>
    public long HandedOnUs { get; init; }

    /// <summary>When somebody sent it, in true time; -1: nobody did, it is the cluster's own.</summary>
    public long SentUs { get; init; } = -1;

    /// <summary>When its reply came.</summary>
    public long AnsweredUs { get; set; } = long.MaxValue;

    /// <summary>A copy of a key that moves, or the deletion of what has moved.</summary>
    public bool IsOfMove { get; init; }

    /// <summary>The store's own deletion of a key that has expired. It may come into a version that had ended before.</summary>
    public bool IsExpiry { get; init; }
}

/// <summary>One shard's part.</summary>
internal sealed class PastOracle
{
    private readonly List<PastDone> _done = [];
    private readonly List<(VersionNumber From, VersionNumber To, long Offset)> _closed = [];
    private readonly List<long> _gaps = [];

    public IReadOnlyList<PastDone> Done => _done;

    /// <summary>The versions that were closed by themselves, as runs, with the offset where they end.</summary>
    public IReadOnlyList<(VersionNumber From, VersionNumber To, long Offset)> Closed => _closed;

    public void Add(PastDone done) => _done.Add(done);

    public void OnClosed(VersionNumber from, VersionNumber to, long offset) => _closed.Add((from, to, offset));

    public void OnGap(long offset) => _gaps.Add(offset);

    public bool HasGap(long from, long to) => _gaps.Exists(g => g > from && g <= to);

    public void OnBranch(VersionNumber branch, long offset)
    {
        _done.RemoveAll(d => d.Label > branch);
        _closed.RemoveAll(c => c.From > branch);
        if (_closed is [.., var last] && last.To > branch) { _closed[^1] = last with { To = branch }; }
        _gaps.RemoveAll(g => g > offset);
    }

    /// <summary>The last version at or below one that was closed by itself.</summary>
    public (VersionNumber Version, long Offset)? LastClosed(VersionNumber version)
    {
        for (int i = _closed.Count - 1; i >= 0; i--)
        {
            if (_closed[i].From <= version) { return (VersionNumber.Min(version, _closed[i].To), _closed[i].Offset); }
        }
        return null;
    }

    /// <summary>All keys at the end of a version, without those that have expired by then.</summary>
    public Dictionary<int, int> StateAt(VersionNumber version, long timeMs)
    {
        var state = new Dictionary<int, int>();
        foreach (PastDone done in _done)
        {
            if (done.Label > version) { break; }
            Put(state, done.Op, timeMs);
        }
        return state;
    }

    /// <summary>How many commands a reset has done here by the end of a version.</summary>
    public int OfReset(int number, VersionNumber version) => _done.Count(d => d.Op.Reset == number && d.Label <= version);

    /// <summary>Whether anything was done in the versions above one up to another.</summary>
    public bool IsAnyDone(VersionNumber above, VersionNumber upTo) => _done.Exists(d => d.Label > above && d.Label <= upTo && d.Op.Key >= 0);

    public static void Apply(Dictionary<int, (int Value, long ExpiresMs)> store, in PastOp op)
    {
        if (op.Value == 0) { store.Remove(op.Key); } else { store[op.Key] = (op.Value, op.ExpiresMs); }
    }

    public static void Put(Dictionary<int, int> state, in PastOp op, long timeMs)
    {
        if (op.Key < 0) { return; }
        if (op.Value == 0 || (op.ExpiresMs > 0 && op.ExpiresMs <= timeMs)) { state.Remove(op.Key); } else { state[op.Key] = op.Value; }
    }
}

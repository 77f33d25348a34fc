// Which commits a store has, and which of them it still needs. A commit counts until its file is gone: the log that it rests on is not
// deleted before it.
using Slogger.Core.WorldLines;

namespace Slogger.Faster.Commits;

/// <summary>The commits of a store that are on disk. Any thread.</summary>
internal sealed class CommitList
{
    private readonly CommitFiles _files;
    private readonly Lock _gate = new();
    private readonly List<CommitRecord> _commits;           // oldest first
    private readonly List<CommitRecord> _damaged = [];
    private WorldPoint? _floor, _held;

    /// <summary>Reads the commits that are there.</summary>
    public CommitList(CommitFiles files)
    {
        _files = files;
        _commits = files.Load();
    }

    /// <summary>All of them, oldest first.</summary>
    public IReadOnlyList<CommitRecord> All
    {
        get { lock (_gate) return [.. _commits]; }
    }

    public int Count
    {
        get { lock (_gate) return _commits.Count; }
    }

    public CommitRecord? Oldest
    {
        get { lock (_gate) return _commits.FirstOrDefault(); }
    }

    public CommitRecord? Newest
    {
        get { lock (_gate) return _commits.LastOrDefault(); }
    }

    /// <summary>The commit of a point; null: there is none.</summary>
    public CommitRecord? Find(WorldPoint point)
    {
        lock (_gate) return _commits.Find(c => c.Point == point);
    }

    /// <summary>A commit is on disk.</summary>
    public void Add(CommitRecord commit)
    {
        lock (_gate) _commits.Add(commit);
    }

    /// <summary>From one on they rest on a log that is damaged: they are none, and are deleted with those that are torn.</summary>
    /// <param name="first">Which is the first.</param>
    public void Damaged(int first)
    {
        lock (_gate)
        {
            _damaged.AddRange(_commits.Skip(first));
            _commits.RemoveRange(first, _commits.Count - first);
        }
    }

    /// <summary>Deletes what is damaged or torn. Left behind, it would be taken for damage of what is written in its place.</summary>
    public void DeleteDamaged()
    {
        _files.Purge(_damaged);
        _files.DeleteTorn();
    }

    /// <summary>Deletes the commits after a point; null: all.</summary>
    public void ForgetAfter(WorldPoint? point)
    {
        lock (_gate)
        {
            int first = point is null ? 0 : _commits.FindIndex(c => c.Point > point);
            if (first < 0 || first == _commits.Count) return;
            _files.Purge(_commits.Skip(first));
            _commits.RemoveRange(first, _commits.Count - first);
        }
    }

    /// <summary>Commits before the newest one that is not after a point are needed no more.</summary>
    public void Keep(WorldPoint oldestNeeded)
    {
        lock (_gate) _floor = oldestNeeded;
    }

    /// <summary>Finds a commit, which is kept until <see cref="EndHold"/>; null: there is none.</summary>
    public CommitRecord? Hold(WorldPoint point)
    {
        lock (_gate)
        {
            if (Find(point) is not { } commit) return null;
            _held = point;
            return commit;
        }
    }

    public void EndHold()
    {
        lock (_gate) _held = null;
    }

    /// <summary>Deletes the commits that are needed no more. To be called before the log that they are recovered from is cut.</summary>
    public void Prune()
    {
        CommitRecord[] before;
        lock (_gate)
        {
            if (_floor is not { } floor) return;
            if (_held is { } held && held < floor) floor = held;
            int needed = _commits.FindLastIndex(c => c.Point <= floor);
            if (needed <= 0) return;
            before = [.. _commits.Take(needed)];
        }

        _files.Purge(before);
        lock (_gate) _commits.RemoveAll(before.Contains);
    }
}

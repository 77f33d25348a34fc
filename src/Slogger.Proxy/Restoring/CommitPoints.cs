// Finds a version among the commits of an embedded store. Only reads. A commit is opened by slogger serve alone: there is no file to
// restore from.
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commits;
using Slogger.Proxy.Embedded;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Restoring;

internal sealed class CommitPoints : IVersionPoints
{
    private readonly List<KeptState> _states = [];
    private readonly Func<VersionNumber, HybridTimestamp> _endOf;

    /// <param name="directory">The store's.</param>
    /// <param name="recorded">The recorded cut.</param>
    /// <param name="lastValid">The last version of an older world-line that is still part of the current one.</param>
    /// <param name="endOf">When a version ends.</param>
    public CommitPoints(string directory, WorldPoint recorded, Func<WorldLine, VersionNumber> lastValid,
        Func<VersionNumber, HybridTimestamp> endOf)
    {
        _endOf = endOf;
        IReadOnlyList<CommitRecord> commits = FasterStore.CommitsIn(directory);
        foreach (KeptState state in new CommitHistory(directory, () => commits).All)
        {
            if (state.Line > recorded.WorldLine) { continue; }
            VersionNumber valid = state.Line == recorded.WorldLine ? state.Last : VersionNumber.Min(state.Last, lastValid(state.Line));
            if (state.First <= valid) { _states.Add(state with { Last = valid }); }
        }
    }

    public VersionNumber? Newest => _states is [] ? null : _states.Max(s => s.Last);

    public long End => long.MaxValue;

    public IEnumerable<string> Identities => [];

    public FoundPoint At(VersionNumber version)
    {
        foreach (KeptState state in _states.AsEnumerable().Reverse())
        {
            if (version < state.First || version > state.Last) { continue; }
            return new(new RestorePoint
            {
                Point = new WorldPoint(state.Line, version),
                Time = _endOf(version),
                BaseFile = "",
                BaseOffset = 0,
                TargetOffset = 0,
                History = NoHistory.Instance,
                ReplicationId = null,
            }, "", "");
        }
        return FoundPoint.None($"no commit of version {version} is kept",
            "give one that slogger restore --list shows, or --latest; an embedded store keeps few");
    }

    public IEnumerable<ListedVersions> All() => _states.Select(s => new ListedVersions(s.First, s.Last, _endOf(s.Last)));
}

// Which versions the commits of an embedded store stand for. A commit holds the state at the end of its own version; that may be the state
// of others too, and is then noted in a file beside the commits, durably, before it is claimed:
// - versions after it in which nothing was done;
// - the version at which a later world-line branched off: the line was entered with this state. Were that not noted, a crash before the
//   first commit of the line would look as if nobody had been served in it.
using System.Text.Json.Serialization;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Log.Files;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Embedded;

/// <summary>A state that the store can be brought to.</summary>
/// <param name="Commit">The commit that holds it.</param>
/// <param name="Line">The timeline.</param>
/// <param name="First">The first of its versions that ended with this state.</param>
/// <param name="Last">The last one.</param>
internal readonly record struct KeptState(WorldPoint Commit, WorldLine Line, VersionNumber First, VersionNumber Last);

/// <summary>The states of a store's commits. Thread-safe.</summary>
internal sealed class CommitHistory
{
    private const string FileName = "states.json";
    private readonly Lock _lock = new();
    private readonly string _path;
    private readonly Func<IReadOnlyList<CommitRecord>> _commits;
    private List<StateNote> _notes;

    /// <summary>Reads what was noted.</summary>
    /// <param name="directory">The store's directory.</param>
    /// <param name="commits">The commits on disk, oldest first.</param>
    /// <exception cref="InvalidDataException">The file cannot be read.</exception>
    public CommitHistory(string directory, Func<IReadOnlyList<CommitRecord>> commits)
    {
        _path = Path.Combine(directory, FileName);
        _commits = commits;
        _notes = DurableFile.ReadJson(SystemFileLayer.Instance, _path, StateNoteJson.Default.ListStateNote) ?? [];
    }

    /// <summary>All states whose commits are on disk, by rising world-line and version.</summary>
    public IReadOnlyList<KeptState> All
    {
        get
        {
            lock (_lock) { return States(); }
        }
    }

    /// <summary>The newest state that is part of the current history.</summary>
    /// <param name="current">The current world-line.</param>
    /// <param name="lastValid">The last version of an older world-line that is still part of the current one.</param>
    /// <param name="atMost">A version that it must not hold more than.</param>
    /// <returns>The state, its last version no later than asked for; null if there is none.</returns>
    public KeptState? Latest(WorldLine current, Func<WorldLine, VersionNumber> lastValid, VersionNumber atMost)
    {
        KeptState? best = null;
        foreach (KeptState state in InHistory(current, lastValid, atMost))
        {
            if (best is not { } b || state.Last >= b.Last) { best = state; }
        }
        return best;
    }

    /// <summary>The states that are part of the current history, by rising world-line and version.</summary>
    /// <inheritdoc cref="Latest"/>
    /// <returns>The states, their last versions no later than asked for.</returns>
    public IReadOnlyList<KeptState> InHistory(WorldLine current, Func<WorldLine, VersionNumber> lastValid, VersionNumber atMost)
    {
        var states = new List<KeptState>();
        foreach (KeptState state in All)
        {
            if (state.Line > current) { continue; }
            VersionNumber valid = state.Line == current ? atMost : VersionNumber.Min(atMost, lastValid(state.Line));
            if (state.First <= valid) { states.Add(state with { Last = VersionNumber.Min(state.Last, valid) }); }
        }
        return states;
    }

    /// <summary>In the versions up to this one nothing was done since the newest state before it, whose they are. Durable when it
    /// returns.</summary>
    /// <returns>False: the line has no state before it.</returns>
    /// <exception cref="IOException">The disk refused; nothing has changed.</exception>
    public bool Extend(WorldLine line, VersionNumber last)
    {
        lock (_lock)
        {
            KeptState? newest = null;
            foreach (KeptState state in States())
            {
                if (state.Line == line && state.First <= last) { newest = state; }
            }
            if (newest is not { } found) { return false; }
            if (found.Last < last) { Write([.. _notes.Where(n => !n.IsOf(found)), StateNote.Of(found with { Last = last })]); }
            return true;
        }
    }

    /// <summary>A world-line begins at a version whose state a commit of an earlier one holds. Durable when it returns.</summary>
    /// <exception cref="IOException">The disk refused; nothing has changed.</exception>
    public void Enter(WorldLine line, VersionNumber branch, WorldPoint commit)
    {
        var entered = new KeptState(commit, line, branch, branch);
        lock (_lock)
        {
            if (_notes.Any(n => n.IsOf(entered))) { return; }
            Write([.. _notes, StateNote.Of(entered)]);
        }
    }

    /// <summary>The oldest commit that a recovery may still need: the newest at or below the cut.</summary>
    public WorldPoint? OldestNeeded(WorldPoint cut, Func<WorldLine, VersionNumber> lastValid) =>
        Latest(cut.WorldLine, lastValid, cut.Version)?.Commit;

    private List<KeptState> States()
    {
        var states = new List<KeptState>();
        foreach (CommitRecord commit in _commits())
        {
            WorldPoint point = commit.Point;
            var own = new KeptState(point, point.WorldLine, point.Version, point.Version);
            StateNote? extended = null;
            foreach (StateNote note in _notes)
            {
                if (note.IsOf(own)) { extended = note; }
                else if (note.Commit == point) { states.Add(note.State); }
            }
            states.Add(extended?.State ?? own);
        }
        states.Sort((a, b) => (a.Line, a.First).CompareTo((b.Line, b.First)));
        return states;
    }

    // Of commits that are gone nothing need be known.
    private void Write(List<StateNote> notes)
    {
        HashSet<WorldPoint> kept = [.. _commits().Select(c => c.Point)];
        List<StateNote> needed = [.. notes.Where(n => kept.Contains(n.Commit))];
        DurableFile.WriteJson(SystemFileLayer.Instance, _path, needed, StateNoteJson.Default.ListStateNote);
        _notes = needed;
    }
}

/// <summary>A state as it is noted.</summary>
internal sealed record StateNote
{
    public required long Line { get; init; }

    public required long First { get; init; }

    public required long Last { get; init; }

    public required long CommitLine { get; init; }

    public required long CommitVersion { get; init; }

    [JsonIgnore]
    public WorldPoint Commit => new(new(CommitLine), new VersionNumber(CommitVersion));

    [JsonIgnore]
    public KeptState State => new(Commit, new(Line), new VersionNumber(First), new VersionNumber(Last));

    public static StateNote Of(in KeptState state) => new()
    {
        Line = state.Line.Number,
        First = state.First.Number,
        Last = state.Last.Number,
        CommitLine = state.Commit.WorldLine.Number,
        CommitVersion = state.Commit.Version.Number,
    };

    /// <summary>Whether it is of the same state, however far that reaches.</summary>
    public bool IsOf(in KeptState state) => Commit == state.Commit && Line == state.Line.Number && First == state.First.Number;
}

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower,
    RespectRequiredConstructorParameters = true)]
[JsonSerializable(typeof(List<StateNote>))]
internal sealed partial class StateNoteJson : JsonSerializerContext;

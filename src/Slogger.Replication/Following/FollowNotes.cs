// Which places in a stream the commits of a store that follows stand for: a file beside them. A commit counts only with its note, which is
// made behind it; so none is ever taken for another one's.
using System.Text.Json.Serialization;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;

namespace Slogger.Replication.Following;

/// <summary>A commit's place.</summary>
internal sealed record FollowNote
{
    /// <summary>The identity of the log while the store followed: drawn anew for each beginning from a copy.</summary>
    public required string Life { get; init; }

    /// <summary>World-line of the version at whose end it was made, which is also the commit's.</summary>
    public required long Line { get; init; }

    /// <summary>The version.</summary>
    public required long Version { get; init; }

    /// <summary>Bytes of the stream up to there.</summary>
    public required long Offset { get; init; }

    /// <summary>The database selected there.</summary>
    public required int Database { get; init; }

    /// <summary>The commit.</summary>
    [JsonIgnore]
    public WorldPoint Point => new(new(Line), new VersionNumber(Version));
}

/// <summary>The notes of a store's directory. Thread-safe.</summary>
internal sealed class FollowNotes(string directory)
{
    private const string FileName = "followed.json";
    private readonly Lock _lock = new();
    private readonly string _path = Path.Combine(directory, FileName);
    private List<FollowNote> _notes = DurableFile.ReadJson(
        SystemFileLayer.Instance, Path.Combine(directory, FileName), FollowNoteJson.Default.ListFollowNote) ?? [];

    /// <summary>The notes, oldest first.</summary>
    public IReadOnlyList<FollowNote> All
    {
        get
        {
            lock (_lock) { return _notes; }
        }
    }

    /// <summary>Adds a note, in place of one of the same commit, and forgets those of commits that are gone. Durable when it
    /// returns.</summary>
    /// <exception cref="IOException">The disk refused; nothing has changed.</exception>
    public void Add(FollowNote note, IEnumerable<WorldPoint> commits)
    {
        HashSet<WorldPoint> kept = [.. commits];
        lock (_lock)
        {
            List<FollowNote> notes = [.. _notes.Where(n => n.Point != note.Point && kept.Contains(n.Point)), note];
            DurableFile.WriteJson(SystemFileLayer.Instance, _path, notes, FollowNoteJson.Default.ListFollowNote);
            _notes = notes;
        }
    }

    /// <summary>The directory has become another one.</summary>
    public void Forget()
    {
        lock (_lock) { _notes = []; }
    }

    /// <summary>The store is a primary's: it stands for nothing of any stream. Not synced: what a crash brings back is of a life that is
    /// over.</summary>
    public static void Delete(string directory) => File.Delete(Path.Combine(directory, FileName));
}

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower,
    RespectRequiredConstructorParameters = true)]
[JsonSerializable(typeof(List<FollowNote>))]
internal sealed partial class FollowNoteJson : JsonSerializerContext;

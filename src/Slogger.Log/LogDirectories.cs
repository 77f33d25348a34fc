// The further directories of a log, beside its own: each segment that is begun has a file in each of them. So that nothing is lost in
// silence when one is missing, or is another log's:
//   - each has a note (slogger-log.json) that says which log it is of, and its own number, which is drawn once;
//   - the log's own directory has a list of them (directories.json), with their paths: it names what is missing;
//   - a segment's header says in which directories, by number, its files are.
// A directory may have another path at the next opening. It cannot be left out while a segment has a file there: each new one has. The
// list is durable before a new directory's note is, and that before any segment needs it: whatever a crash leaves can be opened again.
using System.Globalization;
using System.Security.Cryptography;
using System.Text.Json.Serialization;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

/// <summary>The further directories of a log that is being opened, or is open.</summary>
internal sealed class LogDirectories : IDisposable
{
    /// <summary>Most further directories.</summary>
    public const int MoreMax = SegmentHeader.PartsMax;

    public const string NoteName = "slogger-log.json", ListName = "directories.json";

    private readonly VersionLogOptions _options;
    private readonly List<IDisposable> _locks = [];
    private readonly List<LogDirectory> _listed;
    private readonly List<LogDirectory> _given = [];     // number 0: it is new
    private readonly List<string> _withoutNote = [];
    private string _log;

    // Where the log is.
    private string Home => Path.GetFullPath(_options.Directory);

    private LogDirectories(VersionLogOptions options, DirectoryList? list)
    {
        _options = options;
        _log = list?.Log ?? "";
        _listed = [.. list?.Directories ?? []];
    }

    /// <summary>Those that new segments have files in.</summary>
    public IReadOnlyList<LogDirectory> All => _given;

    /// <summary>Looks at the directories that are given, and locks them. Changes nothing in them.</summary>
    /// <exception cref="LogDirectoriesException">One is not of this log.</exception>
    /// <exception cref="LogFencedException">Another process has one.</exception>
    public static LogDirectories Open(VersionLogOptions options)
    {
        var opened = new LogDirectories(options, ReadList(options.Files, options.Directory));
        try
        {
            foreach (string path in options.MoreDirectories ?? [.. opened._listed.Select(d => d.Path)]) { opened.Look(path); }
            return opened;
        }
        catch
        {
            opened.Dispose();
            throw;
        }
    }

    /// <summary>The path of a directory that a segment has a file in.</summary>
    /// <exception cref="LogDirectoriesException">It was not given.</exception>
    public string PathOf(uint number, string segment)
    {
        if (_given.Find(d => d.Number == number) is { } found) { return found.Path; }
        string known = _listed.Find(d => d.Number == number)?.Path
            ?? string.Create(CultureInfo.InvariantCulture, $"the directory whose {NoteName} has number {number}");
        throw new LogDirectoriesException(_withoutNote.Contains(known)
            ? $"{known} has no {NoteName}, but segment {segment} of the version log in {_options.Directory} has a file there: it may not "
                + "be mounted, or was emptied. Bring it back, with all that was in it, then start again."
            : $"Segment {segment} of the version log in {_options.Directory} has a file in {known}, which is not among the directories "
                + "that are given. Give it, too; if it was moved, give its new path in place of the old one. A directory cannot be taken "
                + "away while the log lives.");
    }

    /// <summary>Checks what is in the directories against the log's segments. Changes nothing.</summary>
    /// <returns>Files that no segment has: what a crash has left.</returns>
    /// <exception cref="LogDirectoriesException">There is a file with blocks of a later segment than the log has.</exception>
    public IReadOnlyList<string> FindLeftovers(IReadOnlyList<Segment> segments)
    {
        long newest = segments.Count > 0 ? segments[^1].Header.Sequence : 0;
        HashSet<string> used = [.. segments.SelectMany(s => s.Paths)];
        var leftovers = new List<string>();
        foreach (LogDirectory directory in _given)
        {
            foreach (string name in _options.Files.List(directory.Path))
            {
                string path = Path.Combine(directory.Path, name);
                if (!SegmentName.TryParsePart(name, out long sequence) || used.Contains(path)) { continue; }
                // What was prepared has none.
                if (sequence > newest && HasBlocks(path))
                {
                    throw new LogDirectoriesException($"{path} is of a later segment than any in {_options.Directory}: that one is not "
                        + "what it was, or is not the one that belongs to this directory. Put it back as it was, then start again.");
                }
                leftovers.Add(path);
            }
        }
        return leftovers;
    }

    /// <summary>Makes new directories the log's. To be called when all that was found is in order.</summary>
    public void TakeNew()
    {
        if (_options.MoreDirectories is null) { return; }
        for (int i = 0; i < _given.Count; i++)
        {
            if (_given[i].Number == 0)
            {
                _given[i] = _given[i] with { Number = BitConverter.ToUInt32(RandomNumberGenerator.GetBytes(sizeof(uint))) | 1 };
            }
        }
        if (_given.SequenceEqual(_listed)) { return; }
        if (_log.Length == 0) { _log = Guid.NewGuid().ToString("n"); }
        IFileLayer files = _options.Files;
        DurableFile.WriteJson(files, Path.Combine(_options.Directory, ListName), new DirectoryList(_log, [.. _given]),
            LogDirectoriesJson.Default.DirectoryList);
        foreach (LogDirectory directory in _given.Where(d => d.NeedsNote))
        {
            DurableFile.WriteJson(files, Path.Combine(directory.Path, NoteName),
                new DirectoryNote(_log, directory.Number, _options.Shard.Number, Home),
                LogDirectoriesJson.Default.DirectoryNote);
        }
    }

    public void Dispose() => _locks.ForEach(l => l.Dispose());

    private void Look(string path)
    {
        if (path == _options.Directory || _given.Exists(d => d.Path == path))
        {
            throw new LogDirectoriesException($"{path} is given twice as a directory of the version log. Give each once.");
        }
        IFileLayer files = _options.Files;
        files.CreateDirectory(path);
        _locks.Add(files.TryLock(Path.Combine(path, VersionLog.LockName)) ?? throw new LogFencedException(
            $"The directory {path} of the version log is in use by another process. Stop that process first, or give another directory."));
        DirectoryNote? note = Readable(() => DurableFile.ReadJson(files, Path.Combine(path, NoteName),
            LogDirectoriesJson.Default.DirectoryNote, mayReturn: true));
        if (note is not null && note.Log != _log)
        {
            string whose = note.Home == Home
                ? $"{path} belongs to another version log: one of shard {note.Shard} that was in {Home} before. "
                : $"{path} belongs to another version log: that of shard {note.Shard} in {note.Home}, not the one in {_options.Directory}. "
                    + "Give each log directories of its own. ";
            throw new LogDirectoriesException(whose
                + $"If {_options.Directory} was lost, put it back; to begin anew, empty {path}, too.");
        }
        if (note is not null && note.Home != Home && IsOfAnother(note, path))
        {
            throw new LogDirectoriesException($"{path} belongs to the version log in {note.Home}, of which {_options.Directory} is a copy. "
                + $"Copy {path}, too, and give that copy.");
        }
        if (note is null && files.List(path).Any(n => n.EndsWith(SegmentName.Extension, StringComparison.Ordinal)))
        {
            throw new LogDirectoriesException($"{path} has segments of a version log, but no {NoteName} that says of which. Put that file "
                + "back from a copy, or give an empty directory.");
        }
        if (note is not null && _given.Find(d => d.Number == note.Number) is { } other)
        {
            throw new LogDirectoriesException($"{path} is a copy of {other.Path}: give one of them as a directory of the version log.");
        }
        if (note is null) { _withoutNote.Add(path); }
        if (note is null && _options.MoreDirectories is null) { return; }
        _given.Add(new(note?.Number ?? 0, path) { NeedsNote = note?.Home != Home });
    }

    // Whether the log that a note names is elsewhere, and this one its copy. A path may lead here under another name: then the lock is held
    // already, by this process. A log that is open elsewhere has the lock of the given directory, too.
    private bool IsOfAnother(DirectoryNote note, string path)
    {
        try
        {
            if (ReadList(_options.Files, note.Home) is not { } other || other.Log != note.Log
                || other.Directories.All(d => d.Path != path))
            {
                return false;
            }
            using IDisposable? taken = _options.Files.TryLock(Path.Combine(note.Home, VersionLog.LockName));
            return taken is not null;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // What this process cannot open is not its log.
            return false;
        }
    }

    private static DirectoryList? ReadList(IFileLayer files, string home) => Readable(() => DurableFile.ReadJson(
        files, Path.Combine(home, ListName), LogDirectoriesJson.Default.DirectoryList, mayReturn: true));

    private bool HasBlocks(string path)
    {
        using ILogFile file = _options.Files.Open(path, writable: false);
        using var reader = new BlockReader(file, salt: 0);
        return !reader.IsZeroFrom(0, file.Length);
    }

    private static T? Readable<T>(Func<T?> read) where T : class
    {
        try
        {
            return read();
        }
        catch (InvalidDataException e)
        {
            throw new LogDirectoriesException(e.Message);
        }
    }
}

/// <summary>A further directory of a log.</summary>
/// <param name="Number">Names it, wherever it is mounted.</param>
/// <param name="Path">Where it was last.</param>
internal sealed record LogDirectory(uint Number, string Path)
{
    /// <summary>Whether it has no note yet, or one that says that the log is elsewhere.</summary>
    [JsonIgnore]
    public bool NeedsNote { get; init; }
}

/// <summary>What the log's own directory says of the others.</summary>
/// <param name="Log">Names the log; drawn once.</param>
/// <param name="Directories">The others.</param>
internal sealed record DirectoryList(string Log, IReadOnlyList<LogDirectory> Directories);

/// <summary>What a further directory says of itself.</summary>
/// <param name="Log">Which log it is of.</param>
/// <param name="Number">Its number.</param>
/// <param name="Shard">The log's shard, for messages.</param>
/// <param name="Home">The log's own directory, for messages.</param>
internal sealed record DirectoryNote(string Log, uint Number, int Shard, string Home);

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(DirectoryList))]
[JsonSerializable(typeof(DirectoryNote))]
internal sealed partial class LogDirectoriesJson : JsonSerializerContext;

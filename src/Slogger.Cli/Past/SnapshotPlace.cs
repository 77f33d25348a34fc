// Where snapshots lie: a directory, or a bucket of a storage with the interface of S3. A snapshot is the files of its shards and, written
// last, its manifest: where a manifest is, all is there.
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>A place for one snapshot, or for several that are in it by their names.</summary>
internal abstract class SnapshotPlace
{
    /// <summary>How it is written.</summary>
    public const string Form = "DIR|s3://BUCKET/PREFIX";

    private const string Scheme = "s3:", Separator = "://";

    /// <summary>By what it is found again: an absolute path, or s3://BUCKET/PREFIX.</summary>
    public abstract string Name { get; }

    /// <summary>What is left of a snapshot that was not finished, for people.</summary>
    public abstract string AfterFailure { get; }

    /// <summary>The place that a text names.</summary>
    /// <param name="text">A directory, or s3://BUCKET/PREFIX.</param>
    /// <param name="problem">If there is none: why, and what to do.</param>
    public static SnapshotPlace? Of(string text, out string problem)
    {
        problem = "";
        if (text.StartsWith(Scheme, StringComparison.OrdinalIgnoreCase)) { return SnapshotBucket.Of(text, out problem); }
        if (!text.Contains(Separator, StringComparison.Ordinal)) { return new SnapshotDirectory(text); }
        problem = $"\"{text}\" is neither a directory nor s3://BUCKET/PREFIX";
        return null;
    }

    /// <summary>The place that an option names; null: an error was added.</summary>
    public static SnapshotPlace? Of(string text, string option, List<OptionError> errors)
    {
        if (Of(text, out string problem) is { } place) { return place; }
        errors.Add(new OptionError($"--{option}: {problem}", "the command line", $"write --{option} DIR or --{option} s3://BUCKET/PREFIX"));
        return null;
    }

    /// <summary>The place of that name in it.</summary>
    public abstract SnapshotPlace Inside(string name);

    /// <summary>The place beside it that has the last name of another one.</summary>
    public abstract SnapshotPlace Beside(string other);

    /// <summary>What a file is called in full.</summary>
    public abstract string PathOf(string file);

    /// <summary>Reads a small file; null: there is none.</summary>
    /// <param name="file">Its name.</param>
    /// <param name="stop">Interrupts.</param>
    /// <exception cref="IOException">It cannot be read; the text says what to do.</exception>
    public abstract Task<byte[]?> ReadAsync(string file, CancellationToken stop);

    /// <summary>Opens a file: it is read, and can seek.</summary>
    /// <exception cref="IOException">It cannot be read, or is missing; the text says what to do.</exception>
    public abstract Task<Stream> OpenAsync(string file);

    /// <summary>Begins to write a snapshot.</summary>
    /// <param name="progress">Is told what cannot be removed again.</param>
    /// <param name="stop">Interrupts.</param>
    /// <exception cref="IOException">One is there already, or nothing can be written; the text says what to do.</exception>
    public abstract Task<SnapshotDraft> BeginAsync(TextWriter progress, CancellationToken stop);
}

/// <summary>A snapshot that is written. Nobody takes it for one before it is complete. Several files may be written at a time.</summary>
internal abstract class SnapshotDraft
{
    /// <summary>Under which name a file will lie there.</summary>
    public abstract string NameOf(string file);

    /// <summary>Writes a file; it is durable when this returns.</summary>
    /// <param name="file">Its name, as <see cref="NameOf"/> says it.</param>
    /// <param name="bytes">Its size.</param>
    /// <param name="pieces">What it holds. A piece is used until the next one is asked for.</param>
    /// <param name="stop">Interrupts.</param>
    /// <exception cref="IOException">That is not possible; the text says what to do.</exception>
    public abstract Task WriteAsync(string file, long bytes, IAsyncEnumerable<byte[]> pieces, CancellationToken stop);

    /// <summary>Makes it a snapshot: writes the manifest.</summary>
    /// <exception cref="IOException">That is not possible; the text says what to do.</exception>
    public abstract Task CompleteAsync(byte[] manifest, CancellationToken stop);

    /// <summary>Removes what was written of one that is not complete.</summary>
    public abstract Task DiscardAsync();
}

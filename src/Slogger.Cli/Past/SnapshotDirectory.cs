// Snapshots in a directory. One that is written has another name until all of it is on disk.
namespace Slogger.Cli.Past;

/// <summary>A directory.</summary>
internal sealed class SnapshotDirectory(string path) : SnapshotPlace
{
    public override string Name { get; } = Path.TrimEndingDirectorySeparator(Path.GetFullPath(path));

    public override string AfterFailure => "nothing of it was left";

    public override SnapshotPlace Inside(string name) => new SnapshotDirectory(PathOf(name));

    public override SnapshotPlace Beside(string other) => new SnapshotDirectory(
        Path.Combine(Path.GetDirectoryName(Name) ?? Name, Path.GetFileName(Path.TrimEndingDirectorySeparator(other))));

    public override string PathOf(string file) => Path.Combine(Name, file);

    public override async Task<byte[]?> ReadAsync(string file, CancellationToken stop) =>
        File.Exists(PathOf(file)) ? await File.ReadAllBytesAsync(PathOf(file), stop).ConfigureAwait(false) : null;

    public override Task<Stream> OpenAsync(string file) =>
        Task.FromResult<Stream>(new FileStream(PathOf(file), FileMode.Open, FileAccess.Read, FileShare.Read, bufferSize: 0));

    public override Task<SnapshotDraft> BeginAsync(TextWriter progress, CancellationToken stop)
    {
        if (Directory.Exists(Name)) { throw new IOException($"{Name} is there already"); }
        return Task.FromResult<SnapshotDraft>(new Draft(Name));
    }

    private sealed class Draft : SnapshotDraft
    {
        private const string Unfinished = ".unfinished";
        private readonly string _whole, _unfinished;

        public Draft(string whole)
        {
            (_whole, _unfinished) = (whole, whole + Unfinished);
            // Of a command that was killed.
            if (Directory.Exists(_unfinished)) { Directory.Delete(_unfinished, recursive: true); }
            Directory.CreateDirectory(_unfinished);
        }

        public override string NameOf(string file) => file;

        public override async Task WriteAsync(string file, long bytes, IAsyncEnumerable<byte[]> pieces, CancellationToken stop)
        {
            await using FileStream written = File.Create(Path.Combine(_unfinished, file));
            await foreach (byte[] piece in pieces.ConfigureAwait(false)) { await written.WriteAsync(piece, stop).ConfigureAwait(false); }
            written.Flush(flushToDisk: true);
        }

        public override async Task CompleteAsync(byte[] manifest, CancellationToken stop)
        {
            await using (FileStream written = File.Create(Path.Combine(_unfinished, SnapshotManifest.FileName)))
            {
                await written.WriteAsync(manifest, stop).ConfigureAwait(false);
                written.Flush(flushToDisk: true);
            }
            Directory.Move(_unfinished, _whole);
        }

        public override Task DiscardAsync()
        {
            Directory.Delete(_unfinished, recursive: true);
            return Task.CompletedTask;
        }
    }
}

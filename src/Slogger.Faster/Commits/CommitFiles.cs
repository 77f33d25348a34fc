// The commits that are on disk, a file each. FASTER hands over what it notes for a commit when the log is on disk, and goes on; the file is
// written behind it, synced with its name, and only then is there a commit. A file that is not whole is one that was being written when
// its process ended. Which commits are needed is for the cut to say: FASTER would delete older ones by itself.
using System.Text;
using FASTER.core;
using Slogger.Log.Files;

namespace Slogger.Faster.Commits;

internal sealed class CommitFiles(IFileLayer files, string directory) : ICheckpointManager
{
    private const string Suffix = ".commit";
    private readonly List<string> _torn = [];
    private (Guid Token, byte[] Noted) _handed;

    /// <summary>Makes a commit durable, whose log is.</summary>
    /// <param name="commit">The commit.</param>
    /// <param name="checksum">Of a stretch of the log.</param>
    /// <returns>The commit as it is on disk.</returns>
    /// <exception cref="IOException">It could not be written. There is no such commit then.</exception>
    public CommitRecord Write(CommitRecord commit, Func<long, long, uint> checksum)
    {
        if (_handed.Token != commit.Token) throw new InvalidOperationException($"FASTER has not finished {commit.Token}.");
        commit = commit with { Begin = BeginOf(_handed.Noted), Checksum = checksum(commit.Since, commit.To) };
        byte[] bytes = commit.Write(_handed.Noted);
        string path = PathOf(commit.Token);
        try
        {
            using (ILogFile file = files.Create(path))
            {
                file.Write(bytes, 0);
                file.SyncData();
            }

            files.SyncDirectory(directory);
        }
        catch
        {
            _torn.Add(path);
            DeleteTorn();
            throw;
        }

        return commit;
    }

    /// <summary>All commits that are whole, oldest first.</summary>
    public List<CommitRecord> Load()
    {
        files.CreateDirectory(directory);
        var commits = new List<CommitRecord>();
        foreach (string name in files.List(directory))
        {
            if (!name.EndsWith(Suffix, StringComparison.Ordinal)
                || !Guid.TryParse(name.AsSpan(0, name.Length - Suffix.Length), out Guid token))
                continue;
            if (CommitRecord.Read(token, Bytes(token), out _) is { } commit) commits.Add(commit);
            else _torn.Add(PathOf(token));
        }

        commits.Sort((a, b) => a.Point.CompareTo(b.Point));
        return commits;
    }

    /// <summary>Deletes what is left of commits that were not finished.</summary>
    public void DeleteTorn()
    {
        foreach (string path in _torn) files.Delete(path);
        _torn.Clear();
    }

    /// <summary>Deletes commits, durably.</summary>
    public void Purge(IEnumerable<CommitRecord> commits)
    {
        foreach (CommitRecord commit in commits) files.Delete(PathOf(commit.Token));
        files.SyncDirectory(directory);
    }

    public void Purge(Guid token) => throw new NotSupportedException();

    public byte[] GetLogCheckpointMetadata(Guid logToken, DeltaLog deltaLog, bool scanDelta, long recoverTo) =>
        CommitRecord.Read(logToken, Bytes(logToken), out byte[] noted) is not null ? noted
            : throw new InvalidDataException($"{PathOf(logToken)} is damaged.");

    public void CommitLogCheckpoint(Guid logToken, byte[] commitMetadata) => _handed = (logToken, commitMetadata);

    public void CheckpointVersionShift(long oldVersion, long newVersion)
    {
    }

    public void InitializeLogCheckpoint(Guid logToken)
    {
    }

    public void OnRecovery(Guid indexToken, Guid logToken)
    {
    }

    public IEnumerable<Guid> GetLogCheckpointTokens() => [];

    public void Dispose()
    {
    }

    // Checkpoints of the index, and others than those of mode fold-over, are not taken; and what is deleted is for us to say.
    public IEnumerable<Guid> GetIndexCheckpointTokens() => [];

    public void InitializeIndexCheckpoint(Guid indexToken) => throw new NotSupportedException();

    public void CommitIndexCheckpoint(Guid indexToken, byte[] commitMetadata) => throw new NotSupportedException();

    public void CommitLogIncrementalCheckpoint(Guid logToken, long version, byte[] commitMetadata, DeltaLog deltaLog) =>
        throw new NotSupportedException();

    public byte[] GetIndexCheckpointMetadata(Guid indexToken) => throw new NotSupportedException();

    public IDevice GetIndexDevice(Guid indexToken) => throw new NotSupportedException();

    public IDevice GetSnapshotLogDevice(Guid token) => throw new NotSupportedException();

    public IDevice GetSnapshotObjectLogDevice(Guid token) => throw new NotSupportedException();

    public IDevice GetDeltaLogDevice(Guid token) => new EmptyDevice();

    public void PurgeAll() => throw new NotSupportedException();

    private static long BeginOf(byte[] noted)
    {
        var info = new HybridLogRecoveryInfo();
        using var text = new StreamReader(new MemoryStream(noted), Encoding.Default);
        info.Initialize(text);
        return info.beginAddress;
    }

    private byte[] Bytes(Guid token)
    {
        using ILogFile file = files.Open(PathOf(token), writable: false);
        byte[] bytes = new byte[file.Length];
        return file.Read(bytes, 0) == bytes.Length ? bytes : [];
    }

    private string PathOf(Guid token) => FileOf(directory, token);

    /// <summary>The file of a commit.</summary>
    internal static string FileOf(string directory, Guid token) => Path.Combine(directory, token.ToString("N") + Suffix);

    // FASTER asks whether there are changes to a commit, in a file beside it.
    private sealed class EmptyDevice() : StorageDeviceBase("none", 512, Devices.CAPACITY_UNSPECIFIED)
    {
        public override long GetFileSize(int segment) => 0;

        public override void WriteAsync(
            IntPtr sourceAddress, int segmentId, ulong destinationAddress, uint numBytesToWrite, DeviceIOCompletionCallback callback,
            object context) => throw new NotSupportedException();

        public override void ReadAsync(
            int segmentId, ulong sourceAddress, IntPtr destinationAddress, uint readLength, DeviceIOCompletionCallback callback,
            object context) => throw new NotSupportedException();

        public override void RemoveSegmentAsync(int segment, AsyncCallback callback, IAsyncResult result) =>
            throw new NotSupportedException();

        public override void Dispose()
        {
        }
    }
}

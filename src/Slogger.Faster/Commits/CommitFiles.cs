// The commits that are on disk, as FASTER keeps them: written by FASTER, found and deleted by us. FASTER would delete older ones by
// itself; which are needed is for the cut to say.
using System.Text;
using FASTER.core;

namespace Slogger.Faster.Commits;

internal sealed class CommitFiles(string directory)
    : DeviceLogCommitCheckpointManager(new LocalStorageNamedDeviceFactory(), new DefaultCheckpointNamingScheme(directory), removeOutdated: false)
{
    /// <summary>What the commit that is under way is. Set before FASTER writes it, which is the last thing that it does for one.</summary>
    public CommitRecord? UnderWay { get; set; }

    /// <inheritdoc />
    public override void CommitLogCheckpoint(Guid logToken, byte[] commitMetadata)
    {
        if (UnderWay is not { } commit || commit.Token != logToken) throw new InvalidOperationException($"FASTER commits {logToken}, which Slogger has not begun.");
        base.CommitLogCheckpoint(logToken, [.. commitMetadata, .. Encoding.ASCII.GetBytes(Convert.ToBase64String(commit.Cookie()))]);
    }

    /// <summary>All commits that are whole, oldest first.</summary>
    /// <exception cref="InvalidDataException">A commit was not made by Slogger, or cannot be read.</exception>
    public List<CommitRecord> Load()
    {
        var commits = new List<CommitRecord>();
        foreach (Guid token in GetLogCheckpointTokens())
        {
            if (Read(token) is { } commit) commits.Add(commit);
        }

        commits.Sort((a, b) => a.Point.CompareTo(b.Point));
        return commits;
    }

    // Null: the commit was not finished when its process ended.
    private CommitRecord? Read(Guid token)
    {
        byte[]? metadata;
        try
        {
            metadata = GetLogCheckpointMetadata(token, null, false, -1);
        }
        catch (FasterException)
        {
            metadata = null;
        }

        if (metadata is null || metadata.Length == 0) return null;
        var info = new HybridLogRecoveryInfo();
        using var text = new StreamReader(new MemoryStream(metadata), Encoding.Default);
        info.Initialize(text);
        string cookie = text.ReadToEnd().Trim('\0', '\r', '\n');
        Span<byte> bytes = stackalloc byte[CommitRecord.Bytes + 2];
        if (!Convert.TryFromBase64String(cookie, bytes, out int length) || CommitRecord.Read(token, bytes[..length]) is not { } commit)
            throw new InvalidDataException($"The commit {token} in {directory} was not made by Slogger: use a directory of its own.");
        return commit;
    }
}

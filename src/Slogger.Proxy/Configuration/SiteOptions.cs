// What concerns two sites: how a shard ships its log to the backup, where a process is reached by the other site, and who may. The same
// options at both, so that after a failover the direction can change.
using System.Collections.Immutable;
using Slogger.Core.Replication;
using Slogger.Resp;

namespace Slogger.Proxy.Configuration;

/// <summary>Options of two sites. Without any the cluster is alone.</summary>
public sealed record SiteOptions
{
    /// <summary>The backup's process for this shard; those whose slots it has, if the backup has another number of shards. Default: none,
    /// nothing is shipped.</summary>
    public ImmutableArray<ListenAddress> Backups { get; init; } = [];

    /// <summary>What happens when the log kept for the backup is at <see cref="BackupBudgetBytes"/>. Default: stall, clients' writes wait
    /// for the backup.</summary>
    public BudgetChoice OnBackupLag { get; init; } = BudgetChoice.Stall;

    /// <summary>So much of the log is kept for a backup that does not keep up or is away, in bytes. Default: 4 GiB.</summary>
    public long BackupBudgetBytes { get; init; } = 4L << 30;

    /// <summary>Bytes that are on their way to the backup at most. Default: 8 MiB; a link of 1 Gbit/s and 50 ms holds 6 MB. The backup
    /// keeps as much in memory.</summary>
    public long BackupWindowBytes { get; init; } = 8L << 20;

    /// <summary>Pieces that are on their way at most. Default: 64.</summary>
    public int BackupPieces { get; init; } = 64;

    /// <summary>What was not answered for so long is sent again. Default: 300 ms; several round trips.</summary>
    public TimeSpan BackupResend { get; init; } = TimeSpan.FromMilliseconds(300);

    /// <summary>From so many bytes on that the backup does not have yet, windows of versions are sent in place of the log. Default:
    /// 256 MiB.</summary>
    public long ReduceShipAboveBytes { get; init; } = 256L << 20;

    /// <summary>How the log is compressed on its way. Default: not at all.</summary>
    public ShipCompression BackupCompression { get; init; } = ShipCompression.None;

    /// <summary>Commits are reported only while the backup has answered so recently; a failover waits for as long. Default: null, no lease:
    /// who fails over attests that the primary is down.</summary>
    public TimeSpan? Lease { get; init; }

    /// <summary>Where this process is reached by the other site and by commands, over gRPC. Default: null, nowhere; a backup needs
    /// it.</summary>
    public ListenAddress? Listen { get; init; }

    /// <summary>File (absolute path) whose first line is what peers have to know. Default: null, no secret.</summary>
    public string? SecretFile { get; init; }

    /// <summary>This process's certificate chain (PEM), shown to peers in both directions. Default: null, clear text.</summary>
    public string? CertificateFile { get; init; }

    /// <summary>Private key (PEM) of <see cref="CertificateFile"/>.</summary>
    public string? KeyFile { get; init; }

    /// <summary>Authorities (PEM) that a peer's certificate must come from, in both directions. Default: null: callers need none, and
    /// servers one that this machine trusts.</summary>
    public string? CaFile { get; init; }

    /// <summary>At a backup: how many shards the primary has. Default: 0, as many as this site, or as was said when the backup was
    /// made.</summary>
    public int PrimaryShards { get; init; }

    /// <summary>Who tells the watermark, at a backup. Default: null, the process of shard 0.</summary>
    public ListenAddress? Watermark { get; init; }

    /// <summary>Whether a backup's process rehearses a failover. Default: true; it needs a redis-server program to do so.</summary>
    public bool Rehearses { get; init; } = true;

    /// <summary>Every address that is listened on or connected to.</summary>
    internal ImmutableArray<ListenAddress> Addresses => [.. Backups, .. new[] { Listen, Watermark }.OfType<ListenAddress>()];

    /// <summary>Bounds of shipping.</summary>
    public ShipperOptions ToShipper() => new()
    {
        WindowBytes = BackupWindowBytes,
        PiecesMax = BackupPieces,
        ResendUs = (long)BackupResend.TotalMicroseconds,
        BudgetBytes = BackupBudgetBytes,
        WindowsAboveBytes = ReduceShipAboveBytes,
        AtBudget = OnBackupLag,
        // A lease is renewed by them.
        HeartbeatUs = Lease is null ? 250_000 : 50_000,
        WantsEcho = Lease is not null,
    };
}

/// <summary>How the log is compressed on its way to the backup.</summary>
public enum ShipCompression
{
    /// <summary>Not at all.</summary>
    None,

    /// <summary>Gzip: for slow links.</summary>
    Gzip,
}

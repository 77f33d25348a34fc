// Reads what concerns two sites, and the rules between those options. Part of what ServeOptionsReader reads.
using System.Collections.Immutable;
using Slogger.Core.Replication;
using Slogger.Core.Shards;
using Slogger.Resp;

namespace Slogger.Proxy.Configuration;

/// <summary>Reads <see cref="SiteOptions"/>.</summary>
internal static class SiteOptionsReader
{
    private const long WindowMin = 256L << 10;
    private static readonly TimeSpan ResendMin = TimeSpan.FromMilliseconds(10), ResendMax = TimeSpan.FromMinutes(1), LeaseMin =
        TimeSpan.FromMilliseconds(500), LeaseMax = TimeSpan.FromMinutes(10);
    private static readonly string[] Shipping = ["on-backup-lag", "backup-budget", "backup-window", "backup-pieces", "backup-resend",
        "reduce-ship-above", "backup-compression", "site-lease"];
    private static readonly string[] Credentials = ["site-secret-file", "site-cert-file", "site-key-file", "site-ca-file"];

    public static SiteOptions Read(OptionReader reader, OptionCommands command)
    {
        SiteOptions defaults = new();
        return new()
        {
            Backups = reader.Value("backup", Peers, defaults.Backups),
            OnBackupLag = reader.Value("on-backup-lag", OptionText.Choice(("stall", BudgetChoice.Stall), ("detach", BudgetChoice.Detach)),
                defaults.OnBackupLag),
            BackupBudgetBytes = reader.Value("backup-budget", OptionText.Size(1L << 20, 1L << 50), defaults.BackupBudgetBytes),
            BackupWindowBytes = reader.Value("backup-window", OptionText.Size(WindowMin, 1L << 30), defaults.BackupWindowBytes),
            BackupPieces = reader.Value("backup-pieces", OptionText.Number(1, 4096), defaults.BackupPieces),
            BackupResend = reader.Value("backup-resend", OptionText.Duration(ResendMin, ResendMax), defaults.BackupResend),
            ReduceShipAboveBytes = reader.Value("reduce-ship-above", OptionText.Size(1L << 20, 1L << 50), defaults.ReduceShipAboveBytes),
            BackupCompression = reader.Value("backup-compression",
                OptionText.Choice(("none", ShipCompression.None), ("gzip", ShipCompression.Gzip)), defaults.BackupCompression),
            Lease = reader.Value("site-lease", OptionText.Duration(LeaseMin, LeaseMax), TimeSpan.Zero) is var lease
                && lease > TimeSpan.Zero ? lease : null,
            Listen = reader.Optional<ListenAddress>("site-listen", Tcp),
            SecretFile = reader.Optional<string>("site-secret-file", OptionText.ExistingFile),
            CertificateFile = reader.Optional<string>("site-cert-file", OptionText.ExistingFile),
            KeyFile = reader.Optional<string>("site-key-file", OptionText.ExistingFile),
            CaFile = reader.Optional<string>("site-ca-file", OptionText.ExistingFile),
            PrimaryShards = command == OptionCommands.Backup
                ? reader.Value("primary-shards", OptionText.Number(1, Slogger.Metadata.ClusterSettings.ShardCountMax), 0) : 0,
            Watermark = command == OptionCommands.Backup ? reader.Optional<ListenAddress>("watermark", Peer) : null,
            Rehearses = command == OptionCommands.Backup
                ? reader.Value("failover-rehearsal", OptionText.Choice(("on", true), ("off", false)), defaults.Rehearses)
                : defaults.Rehearses,
        };
    }

    public static void Check(OptionReader reader, ServeOptions options, OptionCommands command)
    {
        SiteOptions site = options.Site;
        bool isBackup = command == OptionCommands.Backup;
        if (isBackup && options.Commit is not (CommitMode.Log or CommitMode.Faster))
        {
            reader.Fail("commit", "has to be log or faster at a backup", "remove it");
        }
        else if (!site.Backups.IsEmpty && options.Commit != CommitMode.Log)
        {
            reader.Fail(
                "backup", "ships the version log, which a Redis with --commit log has alone",
                options.Commit == CommitMode.Faster ? "remove it: an embedded store that has taken over has no backup. To have one again, "
                    + "copy its data with a client to a cluster of Redis servers that has one"
                    : "remove it, or name a Redis with --redis or --redis-server and leave out --commit");
        }
        else if (!isBackup && site.Listen is not null && options.Commit != CommitMode.Log)
        {
            reader.Fail("site-listen", "is for a shard with a version log: no other can be switched over to another site",
                "remove it, or name a Redis with --redis or --redis-server and leave out --commit");
        }

        if (isBackup && !reader.IsGiven("site-listen"))
        {
            reader.Errors.Add(new OptionError("a backup receives over the network, and no address is given", "", "give --site-listen "
                + "HOST:PORT, which the primary's process of this shard has as --backup"));
        }

        if (isBackup && options.Joins)
        {
            reader.Fail("join", "is for a shard of a primary: the shards of a backup are those that it was made with",
                "remove it, and give --shards when the backup is made");
        }

        if (site.PrimaryShards > 0 && site.PrimaryShards != (options.Shards ?? 1) && options.Commit == CommitMode.Faster)
        {
            reader.Fail("primary-shards", "is another number than --shards, and the store is embedded, which follows one shard "
                + "of the primary", $"give --redis or --redis-server; or --shards {site.PrimaryShards}, and remove --primary-shards");
        }
        if (site.PrimaryShards > 0 && site.PrimaryShards != (options.Shards ?? 1)
            && options.Partitions is { Kind: Slogger.Core.Ownership.PartitionKind.Range })
        {
            reader.Fail("primary-shards", "is another number than --shards, and the keys fall into ranges (--partitions): only hash slots "
                + "can be divided otherwise than at the primary", $"give --shards {site.PrimaryShards}, and remove --primary-shards");
        }

        if (isBackup && site.Rehearses && options.RedisServerPath is null && reader.IsGiven("failover-rehearsal"))
        {
            reader.Fail("failover-rehearsal", "needs a redis-server program, and this process follows with a Redis that others run",
                "remove it, or have the process run its Redis: --redis-server redis-server");
        }

        // A lease's term is known at both sites: a failover waits for as long.
        if (site.Backups.IsEmpty
            && Shipping.FirstOrDefault(name => reader.IsGiven(name) && !(isBackup && name == "site-lease")) is { } stray)
        {
            reader.Fail(stray, "is given without --backup", "add --backup HOST:PORT, or remove it");
        }

        if (site is { Lease: not null, OnBackupLag: BudgetChoice.Detach })
        {
            reader.Fail("on-backup-lag", "detach has the shard go on without its backup, and with --site-lease nothing would be "
                + "committed then", "give stall, or leave --site-lease out");
        }

        if (site.BackupBudgetBytes < 2 * site.BackupWindowBytes)
        {
            reader.Fail(
                reader.IsGiven("backup-budget") ? "backup-budget" : "backup-window",
                $"leaves too little: a budget of {OptionText.FormatSize(site.BackupBudgetBytes)} is less than twice the window of "
                    + $"{OptionText.FormatSize(site.BackupWindowBytes)}", "raise --backup-budget or lower --backup-window");
        }

        CheckCredentials(reader, site, [.. site.Addresses, .. options.Cohort?.Members.Select(m => m.Address) ?? []]);
    }

    private static void CheckCredentials(OptionReader reader, SiteOptions site, ImmutableArray<ListenAddress> addresses)
    {
        if (addresses.IsEmpty)
        {
            // The nodes of a cohort show each other the same.
            if (!reader.IsGiven("cohort") && Credentials.FirstOrDefault(reader.IsGiven) is { } stray)
            {
                reader.Fail(stray, "is given without --backup, --site-listen and --cohort", "add one of them, or remove it");
            }
            return;
        }

        if (reader.IsGiven("site-cert-file") != reader.IsGiven("site-key-file"))
        {
            bool hasCertificate = reader.IsGiven("site-cert-file");
            reader.Fail(hasCertificate ? "site-cert-file" : "site-key-file",
                hasCertificate ? "needs --site-key-file" : "needs --site-cert-file", "give both files (PEM)");
        }
        else if (reader.IsGiven("site-ca-file") && !reader.IsGiven("site-cert-file"))
        {
            reader.Fail("site-ca-file", "needs --site-cert-file", "give certificate and key: peers show theirs to each other");
        }

        if (addresses.FirstOrDefault(address => !address.IsLocal) is not { } open) { return; }
        string name = site.Backups.Contains(open) ? "backup" : open == site.Listen ? "site-listen"
            : open == site.Watermark ? "watermark" : "cohort";
        if (!reader.IsGiven("site-secret-file") && !reader.IsGiven("site-ca-file"))
        {
            reader.Fail(name, $"{open} is beyond this machine, and nothing says who may connect",
                "give --site-secret-file, or --site-cert-file, --site-key-file and --site-ca-file, the same kind at both sites");
        }
        else if (!reader.IsGiven("site-cert-file"))
        {
            reader.Warnings.Add($"{open} is beyond this machine: the log and the secret of --site-secret-file travel in clear text "
                + "without --site-cert-file");
        }
    }

    // Not a Unix socket: the other end is on another machine.
    private static bool Tcp(string text, out ListenAddress value, out string problem)
    {
        if (!OptionText.Address(text, out value, out problem)) { return false; }
        problem = value.IsUnix ? "is a Unix socket, which another site does not reach" : "";
        return problem.Length == 0;
    }

    private static bool Peers(string text, out ImmutableArray<ListenAddress> value, out string problem)
    {
        value = [];
        problem = "";
        foreach (string part in text.Split(','))
        {
            if (!Peer(part.Trim(), out ListenAddress one, out problem)) { return false; }
            if (value.Contains(one))
            {
                problem = $"has {one} twice";
                return false;
            }
            value = value.Add(one);
        }
        return true;
    }

    public static bool Peer(string text, out ListenAddress value, out string problem)
    {
        if (!Tcp(text, out value, out problem)) { return false; }
        problem = value.Port == 0 || value.IsEveryInterface ? "is nothing that can be connected to" : "";
        return problem.Length == 0;
    }
}

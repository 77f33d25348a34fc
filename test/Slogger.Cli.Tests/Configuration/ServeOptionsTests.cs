using System.Collections.Immutable;
using System.Reflection;
using Microsoft.Extensions.Logging;
using Slogger.Core.Replication;
using Slogger.Core.Shards;
using Slogger.FrontEnd.Transports;
using Slogger.Proxy.Configuration;
using Slogger.Resp;
using SeedSource = Slogger.Proxy.Configuration.SeedSource;

namespace Slogger.Cli.Tests.Configuration;

public class ServeOptionsTests
{
    [Fact]
    public void Defaults_OnlyRedisGiven_AreThoseOfTheDocumentation()
    {
        ServeOptions options = Layers.Good();
        Assert.Equal(["127.0.0.1:6380"], options.Listen.Select(address => address.ToString()));
        Assert.Equal(StoreKind.Redis, options.Store);
        Assert.Equal(Path.GetFullPath("slogger-data"), options.DataDirectory);
        Assert.Equal("sqlite:" + Path.GetFullPath("slogger-data/metadata.db"), options.Metadata.Text);
        Assert.Equal(("default", 0, CommitMode.Log), (options.Cluster, options.Shard.Number, options.Commit));
        Assert.Equal(TimeSpan.FromMilliseconds(5), options.VersionInterval);
        Assert.Equal((576L << 20, 1L << 30, 10_000), (options.ClientOutputLimitBytes, options.OutputMemoryLimitBytes, options.MaxClients));
        Assert.Equal((1L << 30, 4L << 30), (options.CheckpointEveryBytes, options.LogBudgetBytes));
        Assert.Null(options.Seed);
        Assert.Null(options.RedisTls);
        Assert.Null(options.ClientTls);
    }

    [Fact]
    public void NoStoreGiven_ItIsEmbedded()
    {
        OptionsResult<ServeOptions> none = Layers.Serve();
        Assert.Empty(none.Errors);
        Assert.Equal((StoreKind.Faster, CommitMode.Faster), (none.Options!.Store, none.Options.Commit));
        Assert.Equal((1L << 30, 64L << 20, 32L << 20, 8),
            (none.Options.FasterMemoryBytes, none.Options.FasterIndexBytes, none.Options.FasterPageBytes, none.Options.FasterStride));
        OptionsResult<ServeOptions> all = Layers.Serve(("commit", "faster"), ("faster-memory", "2gb"), ("faster-index", "1mb"),
            ("faster-page", "4mb"), ("faster-stride", "2"));
        Assert.Empty(all.Errors);
        Assert.Equal((2L << 30, 1L << 20, 4L << 20, 2),
            (all.Options!.FasterMemoryBytes, all.Options.FasterIndexBytes, all.Options.FasterPageBytes, all.Options.FasterStride));
    }

    [Fact]
    public void EveryOption_Given_ReachesItsProperty()
    {
        using TempDirectory temp = new();
        string file = temp.File("file");
        ServeOptions options = Layers.Good(
            ("listen", "127.0.0.1:1"), ("listen", "/s"), ("tls-listen", "127.0.0.1:2"), ("tls-cert", file), ("tls-key", file),
                ("tls-client-ca", file),
            ("announce", "there:2"), ("max-clients", "7"), ("client-output-limit", "2mb"), ("output-memory-limit", "3mb"),
                ("on-rollback", "error"), ("redis-user", "u"),
            ("redis-password-file", file), ("redis-tls", "true"), ("redis-tls-ca", file), ("redis-tls-cert", file), ("redis-tls-key", file),
            ("data", temp.Path), ("metadata", "postgres:Host=h"), ("cluster", "c"), ("shard", "3"), ("partitions", "range:m,d"),
                ("commit", "bgsave"), ("version-interval", "1ms"),
            ("checkpoint-every", "2mb"), ("log-budget", "5mb"), ("rollback", "full"), ("seed", "from-log"), ("transport", "sockets"),
                ("log-level", "debug"), ("log-format", "json"));
        Assert.Equal(["127.0.0.1:1", "unix:/s"], options.Listen.Select(address => address.ToString()));
        Assert.Equal(("127.0.0.1:2", file, file, file),
            (options.ClientTls!.Listen.Single().ToString(), options.ClientTls.CertificateFile, options.ClientTls.KeyFile,
                options.ClientTls.ClientCaFile));
        Assert.Equal("there:2", options.Announce!.ToString());
        Assert.Equal((7, 2L << 20, 3L << 20, RollbackAction.Error),
            (options.MaxClients, options.ClientOutputLimitBytes, options.OutputMemoryLimitBytes, options.OnRollback));
        Assert.Equal(("u", file), (options.RedisUser, options.RedisPasswordFile));
        Assert.Equal(new RedisTlsOptions { CaFile = file, CertificateFile = file, KeyFile = file }, options.RedisTls);
        Assert.Equal((temp.Path, "postgres:Host=h", "c", 3),
            (options.DataDirectory, options.Metadata.Text, options.Cluster, options.Shard.Number));
        Assert.Equal("range:d,m", options.Partitions!.ToString());
        Assert.Equal((CommitMode.Bgsave, TimeSpan.FromMilliseconds(1)), (options.Commit, options.VersionInterval));
        Assert.Equal((2L << 20, 5L << 20, RollbackMethod.Full, SeedSource.FromLog),
            (options.CheckpointEveryBytes, options.LogBudgetBytes, options.Rollback, options.Seed));
        Assert.Equal((TransportKind.Sockets, LogLevel.Debug, LogFormat.Json), (options.Transport, options.LogLevel, options.LogFormat));
    }

    [Fact]
    public void LogDirectories_AreThoseBetweenCommas()
    {
        Assert.Equal(["/a", "/b"], Layers.Good(("log-dirs", "/a/, /b")).LogDirectories);
        Assert.Empty(Layers.Good().LogDirectories);
    }

    [Fact]
    public void Partitions_OfAFile_AreItsLines()
    {
        using TempDirectory temp = new();
        string file = temp.File("splits", "user:5000\r\n@odd,\n\n\\xff\n");
        Assert.Equal(@"range:\x40odd\x2c,user:5000,\xff", Layers.Good(("partitions", "range:@" + file)).Partitions!.ToString());
        Assert.Equal(@"range:\x40odd,m", Layers.Good(("partitions", @"range:\x40odd,m")).Partitions!.ToString());
        Assert.Null(Layers.Good().Partitions);
    }

    [Fact]
    public void SupervisedServer_WithConfiguration_ReachesItsProperties()
    {
        using TempDirectory temp = new();
        string program = temp.File("redis-server");
        File.SetUnixFileMode(program, UnixFileMode.UserRead | UnixFileMode.UserExecute);
        string config = temp.File("redis.conf");
        OptionsResult<ServeOptions> result = Layers.Serve(
            ("redis-server", program), ("redis-config", config), ("redis-directive", "maxmemory 1gb"),
                ("redis-directive", " maxmemory-policy allkeys-lru "));
        Assert.Empty(result.Errors);
        Assert.Equal((StoreKind.RedisServer, program, config),
            (result.Options!.Store, result.Options.RedisServerPath, result.Options.RedisConfigFile));
        Assert.Equal(["maxmemory 1gb", "maxmemory-policy allkeys-lru"], result.Options.RedisDirectives);
    }

    [Fact]
    public void Catalog_EveryProperty_HasExactlyOneOption()
    {
        string[] derived = [nameof(ServeOptions.Store)];
        IEnumerable<string> properties = Names(typeof(ServeOptions), "").Where(name => !derived.Contains(name));
        const OptionCommands Proxies = OptionCommands.Serve | OptionCommands.Backup;
        Assert.Equal(properties.Order(),
            OptionCatalog.All.Where(option => (option.Commands & Proxies) != 0).Select(option => option.Property).Order());
        Assert.Equal(["primary-shards", "watermark", "failover-rehearsal"],
            OptionCatalog.For(OptionCommands.Backup).Except(OptionCatalog.For(OptionCommands.Serve)).Select(option => option.Name));

        static IEnumerable<string> Names(Type type, string prefix) =>
            type.GetProperties(BindingFlags.Public | BindingFlags.Instance).SelectMany(property =>
            property.PropertyType == typeof(ClientTlsOptions) || property.PropertyType == typeof(RedisTlsOptions)
                || property.PropertyType == typeof(SiteOptions) || property.PropertyType == typeof(CohortOptions)
                ? Names(property.PropertyType, property.Name + ".")
                : property.CanWrite || prefix.Length == 0 ? [prefix + property.Name] : []);
    }

    [Fact]
    public void Catalog_RestoreOptions_HaveAnOptionOrComeFromTheDataDirectory()
    {
        string[] fromDataDirectory = [nameof(RestoreOptions.Cluster), nameof(RestoreOptions.Shard)];
        HashSet<string> known = [.. OptionCatalog.For(OptionCommands.Restore).Select(option => option.Property.Split('.')[0])];
        Assert.All(typeof(RestoreOptions).GetProperties().Where(property => !fromDataDirectory.Contains(property.Name)),
            property => Assert.Contains(property.Name, known));
    }

    [Theory]
    [InlineData("version-interval", "5", "no unit")]
    [InlineData("version-interval", "0.5ms", "out of range")]
    [InlineData("commit", "lgo", "did you mean log?")]
    [InlineData("on-rollback", "stop", "close, error")]
    [InlineData("seed", "redis", "from-redis, from-log")]
    [InlineData("shard", "-1", "whole number")]
    [InlineData("shard", "x", "whole number")]
    [InlineData("cluster", "a b", "not a name")]
    [InlineData("partitions", "slots", "neither hash nor range")]
    [InlineData("partitions", "range:", "empty split key")]
    [InlineData("partitions", "range:a\\b", "a backslash is written")]
    [InlineData("partitions", "range:@/nonexistent/file", "does not exist")]
    [InlineData("partitions", "range:@/dev/null", "no split key")]
    [InlineData("max-clients", "0", "1 to 1000000")]
    [InlineData("client-output-limit", "many", "not a size")]
    [InlineData("log-budget", "1", "out of range")]
    [InlineData("transport", "io_uring", "auto, epoll, sockets")]
    [InlineData("log-level", "loud", "trace, debug, info")]
    [InlineData("log-format", "xml", "text, json")]
    [InlineData("listen", "6380", "no port")]
    [InlineData("backup", "there:0", "nothing that can be connected to")]
    [InlineData("backup", "0.0.0.0:7380", "nothing that can be connected to")]
    [InlineData("site-listen", "unix:/a", "is a Unix socket")]
    [InlineData("redis-tls", "perhaps", "neither true nor false")]
    [InlineData("redis-password-file", "/nonexistent/file", "does not exist")]
    [InlineData("redis-password-file", "/", "is a directory")]
    [InlineData("redis-user", "", "not a user name")]
    [InlineData("data", "/dev/null", "not a directory")]
    [InlineData("log-dirs", "/a,", "names no directory")]
    [InlineData("log-dirs", "/a,/b,/a/", "has /a twice")]
    [InlineData("log-dirs", "/1,/2,/3,/4,/5,/6,/7,/8", "has more than 7")]
    [InlineData("log-dirs", "/dev/null", "not a directory")]
    public void BadValue_IsOneErrorWithNameOriginAndRemedy(string name, string text, string expected)
    {
        OptionsResult<ServeOptions> result = Layers.Serve(("redis", "127.0.0.1:6379"), (name, text));
        OptionError error = Assert.Single(result.Errors);
        Assert.Null(result.Options);
        Assert.StartsWith("--" + name, error.What);
        Assert.Contains(expected, error.What);
        Assert.Equal("the command line", error.Origin);
        Assert.NotEmpty(error.Remedy);
    }

    [Theory]
    [InlineData("both given", "redis", "h:1", "redis-server", "/bin/sh")]
    [InlineData("given 2 times", "redis", "h:1", "redis", "h:2")]
    [InlineData("port 0", "redis", "h:0")]
    [InlineData("not on the PATH", "redis-server", "no-such-redis-server")]
    [InlineData("not executable", "redis-server", "/etc/passwd")]
    [InlineData("does not exist", "redis-server", "/nonexistent/redis-server")]
    [InlineData("listens on", "redis", "127.0.0.1:6380")]
    [InlineData("no effect on a Redis that others run", "redis", "h:1", "redis-config", "/etc/passwd")]
    [InlineData("no effect on a Redis that others run", "redis", "h:1", "redis-directive", "maxmemory 1gb")]
    [InlineData("sets appendonly", "redis-server", "/bin/sh", "redis-directive", "appendonly yes")]
    [InlineData("like a switch", "redis-server", "/bin/sh", "redis-directive", "--maxmemory 1gb")]
    [InlineData("one line", "redis-server", "/bin/sh", "redis-directive", "a\nb")]
    [InlineData("without --redis-tls", "redis", "h:1", "redis-tls-ca", "/etc/passwd")]
    [InlineData("needs --redis-tls-key", "redis", "h:1", "redis-tls", "true", "redis-tls-cert", "/etc/passwd")]
    [InlineData("pointless", "redis", "h:1", "redis-tls", "true", "redis-tls-insecure", "true", "redis-tls-ca", "/etc/passwd")]
    [InlineData("without --tls-listen", "redis", "h:1", "tls-cert", "/etc/passwd")]
    [InlineData("needs --tls-key", "redis", "h:1", "tls-listen", "127.0.0.1:1", "tls-cert", "/etc/passwd")]
    [InlineData("twice", "redis", "h:1", "listen", "127.0.0.1:1", "listen", "127.0.0.1:1")]
    [InlineData("nothing that others can connect to", "redis", "h:1", "announce", "0.0.0.0:6380")]
    [InlineData("nothing that others can connect to", "redis", "h:1", "announce", "[::]:6380")]
    [InlineData("nothing that others can connect to", "redis", "h:1", "announce", "h:0")]
    [InlineData("nothing that others can connect to", "redis", "h:1", "announce", "/s")]
    [InlineData("makes 3 partitions, which are too few for 4 shards", "redis", "h:1", "shards", "4", "partitions", "range:a,b")]
    [InlineData("needs --commit log", "redis", "h:1", "log-dirs", "/a", "commit", "bgsave")]
    [InlineData("needs --commit log", "redis", "h:1", "log-dirs", "/a", "commit", "none")]
    [InlineData("is for a Redis", "log-dirs", "/a")]
    [InlineData("has /a, which is the data directory", "redis", "h:1", "data", "/a", "log-dirs", "/b,/a")]
    [InlineData("leaves too little", "redis", "h:1", "log-budget", "3mb", "checkpoint-every", "2mb")]
    [InlineData("leaves too little", "redis", "h:1", "client-output-limit", "3mb", "output-memory-limit", "2mb")]
    [InlineData("is for a Redis", "redis-user", "u")]
    [InlineData("is for a Redis", "commit", "log")]
    [InlineData("is for a Redis", "commit", "bgsave")]
    [InlineData("is for a Redis", "commit", "none")]
    [InlineData("is for a Redis", "checkpoint-every", "1gb")]
    [InlineData("is for a Redis", "rollback", "full")]
    [InlineData("is for a Redis", "seed", "from-log")]
    [InlineData("never owns anything", "join", "true", "shard", "1")]
    [InlineData("not a power of two", "faster-stride", "10")]
    [InlineData("less than four pages", "faster-memory", "64mb")]
    [InlineData("without --backup", "redis", "h:1", "site-lease", "5s")]
    [InlineData("without --backup", "redis", "h:1", "on-backup-lag", "detach")]
    [InlineData("without --backup, --site-listen and --cohort", "redis", "h:1", "site-secret-file", "/etc/passwd")]
    [InlineData("nothing says who may connect", "redis", "h:1", "backup", "there:7380")]
    [InlineData("nothing says who may connect", "redis", "h:1", "site-listen", "0.0.0.0:7380")]
    [InlineData("nothing says who may connect", "redis", "h:1", "backup", "there:7380", "site-cert-file", "/etc/passwd", "site-key-file",
        "/etc/passwd")]
    [InlineData("needs --site-key-file", "redis", "h:1", "backup", "127.0.0.1:1", "site-cert-file", "/etc/passwd")]
    [InlineData("needs --site-cert-file", "redis", "h:1", "backup", "127.0.0.1:1", "site-ca-file", "/etc/passwd")]
    [InlineData("ships the version log", "redis", "h:1", "backup", "127.0.0.1:1", "commit", "bgsave")]
    [InlineData("ships the version log", "backup", "127.0.0.1:1")]
    [InlineData("no other can be switched over", "site-listen", "127.0.0.1:1")]
    [InlineData("stall, detach", "redis", "h:1", "backup", "127.0.0.1:1", "on-backup-lag", "wait")]
    [InlineData("256kb", "redis", "h:1", "backup", "127.0.0.1:1", "backup-window", "1kb")]
    [InlineData("500ms", "redis", "h:1", "backup", "127.0.0.1:1", "site-lease", "1ms")]
    [InlineData("nothing would be committed", "redis", "h:1", "backup", "127.0.0.1:1", "on-backup-lag", "detach", "site-lease", "5s")]
    [InlineData("less than twice the window", "redis", "h:1", "backup", "127.0.0.1:1", "backup-budget", "8mb")]
    [InlineData("faster is for the embedded store", "redis", "h:1", "commit", "faster")]
    [InlineData("is for the embedded store", "redis", "h:1", "faster-memory", "1gb")]
    public void RulesBetweenOptions_Broken_AreOneError(string expected, params string[] pairs)
    {
        OptionsResult<ServeOptions> result = Layers.Serve([.. pairs.Chunk(2).Select(pair => (pair[0], pair[1]))]);
        OptionError error = Assert.Single(result.Errors);
        Assert.Contains(expected, error.What);
        Assert.NotEmpty(error.Remedy);
    }

    [Fact]
    public void Site_EveryOption_ReachesItsProperty()
    {
        using TempDirectory temp = new();
        string file = temp.File("file");
        (string, string)[] all =
        [
            ("redis", "h:1"), ("backup", "there:1,others:4"), ("primary-shards", "3"), ("on-backup-lag", "stall"),
                ("backup-budget", "1gb"), ("backup-window", "1mb"), ("backup-pieces", "8"), ("backup-resend", "1s"),
                    ("backup-compression", "gzip"),
            ("site-lease", "5s"), ("site-listen", "0.0.0.0:2"), ("site-secret-file", file), ("site-cert-file", file),
                ("site-key-file", file), ("site-ca-file", file), ("watermark", "there:3"),
            ("failover-rehearsal", "off"),
        ];
        OptionsResult<ServeOptions> backup = ServeOptionsReader.ReadBackup(Layers.CommandLine(all), new OptionLayer());
        Assert.Empty(backup.Errors);
        Assert.Empty(backup.Warnings);
        SiteOptions expected = new()
        {
            Backups = [ListenAddress.Tcp("there", 1), ListenAddress.Tcp("others", 4)], PrimaryShards = 3, BackupBudgetBytes = 1L << 30,
                BackupWindowBytes = 1L << 20, BackupPieces = 8, BackupResend = TimeSpan.FromSeconds(1),
            BackupCompression = ShipCompression.Gzip, Lease = TimeSpan.FromSeconds(5), Listen = ListenAddress.Tcp("0.0.0.0", 2),
                SecretFile = file, CertificateFile = file, KeyFile = file, CaFile = file,
            Watermark = ListenAddress.Tcp("there", 3), Rehearses = false,
        };
        Assert.Equal(expected.Backups, backup.Options!.Site.Backups);
        Assert.Equal(expected, backup.Options.Site with { Backups = expected.Backups });
        // A file for both commands: what is the backup's alone is passed over by serve.
        Assert.Equal(expected with { Watermark = null, PrimaryShards = 0, Rehearses = true },
            Layers.Serve(all).Options!.Site with { Backups = expected.Backups });
        ShipperOptions shipper = expected.ToShipper();
        Assert.Equal((1L << 30, 1L << 20, 8, 1_000_000L, BudgetChoice.Stall),
            (shipper.BudgetBytes, shipper.WindowBytes, shipper.PiecesMax, shipper.ResendUs, shipper.AtBudget));
    }

    [Fact]
    public void Site_Defaults_AreTheShippersOwn()
    {
        SiteOptions site = Layers.Good(("backup", "127.0.0.1:7380")).Site;
        // Without a lease no message is needed for time alone, and no answer to each.
        Assert.Equal(new ShipperOptions { HeartbeatUs = 250_000, WantsEcho = false }, site.ToShipper());
        Assert.Equal(new ShipperOptions(), (site with { Lease = TimeSpan.FromSeconds(3) }).ToShipper());
        Assert.Null(site.Lease);
        Assert.Empty(Layers.Good().Site.Backups);
        Assert.Equal(BudgetChoice.Detach, Layers.Good(("backup", "127.0.0.1:7380"), ("on-backup-lag", "detach")).Site.ToShipper().AtBudget);
    }

    [Theory]
    [InlineData("no address is given", "redis", "h:1")]
    [InlineData("has to be log or faster at a backup", "redis", "h:1", "site-listen", "127.0.0.1:1", "commit", "bgsave")]
    [InlineData("is for a shard of a primary", "redis", "h:1", "site-listen", "127.0.0.1:1", "join", "true")]
    [InlineData("the store is embedded, which follows one shard", "commit", "faster", "site-listen", "127.0.0.1:1", "shards", "2",
        "primary-shards", "3")]
    [InlineData("only hash slots can be divided", "redis", "h:1", "site-listen", "127.0.0.1:1", "shards", "2", "partitions", "range:m",
        "primary-shards", "3")]
    [InlineData("has 127.0.0.1:2 twice", "redis", "h:1", "site-listen", "127.0.0.1:1", "backup", "127.0.0.1:2,127.0.0.1:2")]
    [InlineData("nothing says who may connect", "redis", "h:1", "site-listen", "127.0.0.1:1", "watermark", "there:1")]
    [InlineData("needs a redis-server program", "redis", "h:1", "site-listen", "127.0.0.1:1", "failover-rehearsal", "on")]
    public void Backup_RulesBroken_AreOneError(string expected, params string[] pairs)
    {
        OptionError error = Assert.Single(
            ServeOptionsReader.ReadBackup(Layers.CommandLine([.. pairs.Chunk(2).Select(pair => (pair[0], pair[1]))]),
                new OptionLayer()).Errors);
        Assert.Contains(expected, error.What);
        Assert.NotEmpty(error.Remedy);
    }

    [Fact]
    public void Backup_WithoutARedis_HasAnEmbeddedStore_ThatShipsToNobody()
    {
        OptionsResult<ServeOptions> Read(params (string, string)[] more) =>
            ServeOptionsReader.ReadBackup(Layers.CommandLine([("site-listen", "127.0.0.1:1"), .. more]), new OptionLayer());
        Assert.Equal(StoreKind.Faster, Read().Options!.Store);
        Assert.Equal(StoreKind.Faster, Read(("commit", "faster")).Options!.Store);
        OptionError error = Assert.Single(Read(("backup", "127.0.0.1:2")).Errors);
        Assert.Contains("ships the version log", error.What);
        Assert.Contains("has taken over has no backup", error.Remedy);
    }

    [Fact]
    public void Backup_Lease_NeedsNoBackupOfItsOwn() =>
        Assert.Empty(ServeOptionsReader.ReadBackup(
            Layers.CommandLine(("redis", "h:1"), ("site-listen", "127.0.0.1:1"), ("site-lease", "5s")), new OptionLayer()).Errors);

    [Fact]
    public void Site_SecretInClearText_IsAWarning()
    {
        using TempDirectory temp = new();
        Assert.Contains("in clear text",
            Assert.Single(Layers.Serve(("redis", "h:1"), ("backup", "there:1"), ("site-secret-file", temp.File("s"))).Warnings));
    }

    [Fact]
    public void SeveralErrors_AreAllReported()
        => Assert.Equal(3, Layers.Serve(("redis", "h:1"), ("commit", "x"), ("shard", "x"), ("version-interval", "x")).Errors.Count);

    [Fact]
    public void OneOfTwoBudgets_Given_TheOtherFollows()
    {
        Assert.Equal(16L << 30, Layers.Good(("checkpoint-every", "8gb")).LogBudgetBytes);
        Assert.Equal(32L << 20, Layers.Good(("log-budget", "64mb")).CheckpointEveryBytes);
        Assert.Equal(2L << 30, Layers.Good(("client-output-limit", "2gb")).OutputMemoryLimitBytes);
        Assert.Equal(64L << 20, Layers.Good(("output-memory-limit", "64mb")).ClientOutputLimitBytes);
    }

    [Fact]
    public void TlsListen_WithoutListen_LeavesNoClearText()
    {
        using TempDirectory temp = new();
        string file = temp.File("pem");
        Assert.Empty(Layers.Good(("tls-listen", "127.0.0.1:1"), ("tls-cert", file), ("tls-key", file)).Listen);
    }

    [Fact]
    public void ListenBeyondLoopback_IsAWarning()
        => Assert.Contains("0.0.0.0:6380", Assert.Single(Layers.Serve(("redis", "h:1"), ("listen", "0.0.0.0:6380")).Warnings));

    [Fact]
    public void ToString_WithPasswords_ShowsNone()
        => Assert.DoesNotContain("s3cret", Layers.Good(("metadata", "postgres:Host=h;Password=s3cret")).ToString());

    [Theory]
    [InlineData("12", 12L, true)]
    [InlineData("-1", null, false)]
    [InlineData("latest", null, false)]
    public void Restore_Version_IsRead(string text, long? expected, bool ok)
    {
        OptionsResult<RestoreOptions> result = ServeOptionsReader.ReadRestore(Layers.CommandLine(("version", text)), new OptionLayer());
        Assert.Equal(ok, result.Errors.Count == 0);
        Assert.Equal(expected, result.Options?.Version?.Number);
    }

    [Fact]
    public void Restore_NoneOrBothOfVersionAndLatest_IsAnError()
    {
        Assert.Contains("none of --version, --latest and --list",
            Assert.Single(ServeOptionsReader.ReadRestore(Layers.CommandLine(), new OptionLayer()).Errors).What);
        Assert.Contains("both", Assert.Single(
            ServeOptionsReader.ReadRestore(Layers.CommandLine(("version", "1"), ("latest", "true")), new OptionLayer()).Errors).What);
        RestoreOptions latest = ServeOptionsReader.ReadRestore(Layers.CommandLine(("latest", "true")), new OptionLayer()).Options!;
        Assert.Null(latest.Version);
    }

    // A loss is accepted in full words only: --keep alone never means it, and it never comes alone.
    [Fact]
    public void Restore_AcceptsALoss_OnlyTogetherWithKeep_AndThenTheNewestVersionToo()
    {
        static OptionsResult<RestoreOptions> Read(params (string, string)[] options) =>
            ServeOptionsReader.ReadRestore(Layers.CommandLine(options), new OptionLayer());
        Assert.Contains("--i-accept-loss is given without --keep",
            Assert.Single(Read(("latest", "true"), ("i-accept-loss", "true")).Errors).What);
        Assert.Contains("--keep is given without --version", Assert.Single(Read(("latest", "true"), ("keep", "true")).Errors).What);
        RestoreOptions newest = Read(("latest", "true"), ("keep", "true"), ("i-accept-loss", "true")).Options!;
        Assert.Equal((null, true, true), (newest.Version, newest.Keep, newest.AcceptsLoss));
        RestoreOptions older = Read(("version", "7"), ("keep", "true")).Options!;
        Assert.Equal((7, true, false), (older.Version!.Value.Number, older.Keep, older.AcceptsLoss));
    }
}

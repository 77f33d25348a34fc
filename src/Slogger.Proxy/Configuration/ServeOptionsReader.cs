// From layers of option texts to ServeOptions or RestoreOptions: types, bounds, and the rules between options. All problems
// are reported together, each with its origin and what to do.
using System.Collections.Immutable;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.FrontEnd.Transports;
using Slogger.Resp;

namespace Slogger.Proxy.Configuration;

/// <summary>The options, or what is wrong with them. <see cref="Options"/> is null exactly if there are errors.</summary>
public sealed record OptionsResult<T>(T? Options, IReadOnlyList<OptionError> Errors, IReadOnlyList<string> Warnings)
    where T : class
{
    /// <summary>The texts that count, by option: of the highest source that has it. What nobody gave is not there.</summary>
    public IReadOnlyDictionary<string, OptionTexts> Given { get; init; } = new Dictionary<string, OptionTexts>();

    /// <summary>The options that have other texts than in an earlier reading, or are given in one of the two only, in the order of
    /// --help.</summary>
    public IReadOnlyList<OptionDefinition> ChangedSince(OptionsResult<T> earlier)
    {
        ArgumentNullException.ThrowIfNull(earlier);
        static IReadOnlyList<string> texts(OptionsResult<T> of, OptionDefinition option) =>
            of.Given.GetValueOrDefault(option.Name)?.Texts ?? [];
        return [.. OptionCatalog.All.Where(option => !texts(this, option).SequenceEqual(texts(earlier, option)))];
    }
}

/// <summary>Reads the options of slogger serve, backup, restore and recover.</summary>
public static class ServeOptionsReader
{
    /// <summary>Name of the data directory where none is given.</summary>
    public const string DefaultDataDirectory = "slogger-data";

    private const long MinSize = 1L << 20;
    private const long MaxSize = 1L << 50;

    // Redis's own output is bounded by what the proxy can hold; below one MiB ordinary pipelines would be cut off.
    private static readonly OptionTextParser<long> AnySize = OptionText.Size(MinSize, MaxSize);

    /// <summary>Reads log-level.</summary>
    public static readonly OptionTextParser<LogLevel> Level = OptionText.Choice(
        ("trace", LogLevel.Trace), ("debug", LogLevel.Debug), ("info", LogLevel.Information), ("warn", LogLevel.Warning),
            ("error", LogLevel.Error));

    /// <summary>Reads log-format.</summary>
    public static readonly OptionTextParser<LogFormat> Format = OptionText.Choice(("text", LogFormat.Text), ("json", LogFormat.Json));

    private static readonly OptionTextParser<CommitMode> Commits = OptionText.Choice(
        ("log", CommitMode.Log), ("bgsave", CommitMode.Bgsave), ("none", CommitMode.None), ("faster", CommitMode.Faster));

    private const int LogDirectoriesMax = 7;

    private static bool LogDirectories(string text, out ImmutableArray<string> value, out string problem)
    {
        value = [];
        problem = "";
        foreach (string part in text.Split(','))
        {
            if (!OptionText.DirectoryPath(part.Trim(), out string path, out problem)) { return false; }
            path = Path.TrimEndingDirectorySeparator(path);
            problem = value.Contains(path) ? $"has {path} twice"
                : value.Length == LogDirectoriesMax ? $"has more than {LogDirectoriesMax}" : "";
            if (problem.Length > 0) { return false; }
            value = value.Add(path);
        }
        return true;
    }

    /// <summary>Reads serve's options. <paramref name="commandLine"/> goes over <paramref name="environment"/>, that over the file named by
    /// --config.</summary>
    public static OptionsResult<ServeOptions> ReadServe(OptionLayer commandLine, OptionLayer environment) =>
        Read(commandLine, environment, OptionCommands.Serve);

    /// <summary>Reads backup's options: serve's and its own, as <see cref="ReadServe"/>.</summary>
    public static OptionsResult<ServeOptions> ReadBackup(OptionLayer commandLine, OptionLayer environment) =>
        Read(commandLine, environment, OptionCommands.Backup);

    private static OptionsResult<ServeOptions> Read(OptionLayer commandLine, OptionLayer environment, OptionCommands command)
    {
        OptionReader reader = OptionReader.Open(commandLine, environment);
        (ListenAddress? redis, string? server) = StoreOptionsReader.Read(reader);
        bool isEmbedded = StoreOptionsReader.IsEmbedded(reader);
        string data = reader.Value<string>("data", OptionText.DirectoryPath, Path.GetFullPath(DefaultDataDirectory));
        ClientTlsOptions? tls = ReadClientTls(reader);
        ServeOptions defaults = new() { DataDirectory = data, Metadata = MetadataSpec.SqliteFile(Path.Combine(data, "metadata.db")) };
        ReplyTiming replies = reader.Value("replies",
            OptionText.Choice(("early", ReplyTiming.Early), ("committed", ReplyTiming.Committed)), defaults.Replies);
        ServeOptions options = defaults with
        {
            ConfigFile = reader.Optional<string>("config", OptionText.ExistingFile),
            Listen = reader.List("listen", OptionText.Address, tls is null ? defaults.Listen : []),
            ClientTls = tls,
            Announce = reader.Optional<ListenAddress>("announce", OptionText.Address),
            Redis = redis,
            RedisServerPath = server,
            RedisConfigFile = StoreOptionsReader.ReadFile(reader, server),
            RedisDirectives = StoreOptionsReader.ReadDirectives(reader, server),
            RedisUser = reader.Optional<string>("redis-user", OptionText.UserName),
            RedisPasswordFile = reader.Optional<string>("redis-password-file", OptionText.ExistingFile),
            RedisTls = StoreOptionsReader.ReadRedisTls(reader),
            Metadata = reader.Value("metadata", OptionText.Metadata, defaults.Metadata),
            Cluster = reader.Value("cluster", OptionText.Name, defaults.Cluster),
            Shard = new ShardId(reader.Value("shard", OptionText.Number(0, 65_535), defaults.Shard.Number)),
            Shards = reader.Value("shards", OptionText.Number(1, Slogger.Metadata.ClusterSettings.ShardCountMax), 0) is > 0 and var shards
                ? shards : null,
            Joins = reader.Value("join", OptionText.Flag, false),
            Finder = reader.Value<FinderKind?>(
                "finder", OptionText.Choice<FinderKind?>(("approximate", FinderKind.Approximate), ("exact", FinderKind.Exact),
                    ("hybrid", FinderKind.Hybrid)), null),
            Partitions = reader.Optional<Partitioning>("partitions", OptionText.Partitions),
            FasterMemoryBytes = reader.Value("faster-memory", AnySize, defaults.FasterMemoryBytes),
            FasterIndexBytes = reader.Value("faster-index", AnySize, defaults.FasterIndexBytes),
            FasterPageBytes = reader.Value("faster-page", OptionText.Size(MinSize, 1L << 30), defaults.FasterPageBytes),
            FasterStride = reader.Value("faster-stride", OptionText.Number(1, 1 << 10), defaults.FasterStride),
            Commit = reader.Value("commit", Commits, isEmbedded ? CommitMode.Faster : defaults.Commit),
            Replies = replies,
            VersionInterval = reader.Value("version-interval",
                OptionText.Duration(ServeOptions.VersionIntervalMin, ServeOptions.VersionIntervalMax),
                replies == ReplyTiming.Committed ? ServeOptions.VersionIntervalMin : defaults.VersionInterval),
            ClockError = reader.Value("clock-error", OptionText.Duration(TimeSpan.Zero, ServeOptions.VersionIntervalMax / 2),
                defaults.ClockError),
            Rollback = reader.Value("rollback", OptionText.Choice(("in-place", RollbackMethod.InPlace), ("full", RollbackMethod.Full)),
                defaults.Rollback),
            OnRollback = reader.Value("on-rollback", OptionText.Choice(("close", RollbackAction.Close), ("error", RollbackAction.Error)),
                defaults.OnRollback),
            Seed = reader.Value<SeedSource?>(
                "seed", OptionText.Choice<SeedSource?>(("from-redis", SeedSource.FromRedis), ("from-log", SeedSource.FromLog)), null),
            MaxClients = reader.Value("max-clients", OptionText.Number(1, 1_000_000), defaults.MaxClients),
            ClientOutputLimitBytes = reader.Value("client-output-limit", AnySize, defaults.ClientOutputLimitBytes),
            Transport = reader.Value(
                "transport", OptionText.Choice(("auto", TransportKind.Auto), ("epoll", TransportKind.Epoll),
                    ("sockets", TransportKind.Sockets)), defaults.Transport),
            LogLevel = reader.Value("log-level", Level, defaults.LogLevel),
            LogFormat = reader.Value("log-format", Format, defaults.LogFormat),
            CheckpointEveryBytes = reader.Value("checkpoint-every", AnySize, defaults.CheckpointEveryBytes),
            LogDirectories = reader.Value("log-dirs", LogDirectories, defaults.LogDirectories),
            Retention = reader.Value("retention", OptionText.Duration(TimeSpan.FromSeconds(1), ServeOptions.RetentionMax),
                defaults.Retention),
            RetentionDetail = reader.Value("retention-detail", OptionText.Duration(TimeSpan.FromSeconds(1), ServeOptions.RetentionMax),
                defaults.RetentionDetail),
            RetentionStep = reader.Value("retention-step", OptionText.Duration(TimeSpan.FromMilliseconds(1), TimeSpan.FromHours(1)),
                defaults.RetentionStep),
            Site = SiteOptionsReader.Read(reader, command),
            Cohort = command == OptionCommands.Serve ? CohortOptionsReader.Read(reader) : null,
        };

        // A budget that is not given follows the option it depends on, so that setting one of the two is enough.
        options = options with
        {
            LogBudgetBytes = reader.Value("log-budget", AnySize, Math.Max(defaults.LogBudgetBytes, 2 * options.CheckpointEveryBytes)),
            OutputMemoryLimitBytes = reader.Value("output-memory-limit", AnySize,
                Math.Max(defaults.OutputMemoryLimitBytes, options.ClientOutputLimitBytes)),
        };
        // Nobody is to be told of what the next leader may not have.
        if (options.Cohort is not null && !reader.IsGiven("replies")) { options = options with { Replies = ReplyTiming.Committed }; }
        if (!reader.IsGiven("checkpoint-every"))
        {
            options = options with { CheckpointEveryBytes = Math.Max(
                MinSize / 2, Math.Min(options.CheckpointEveryBytes, options.LogBudgetBytes / 2)) };
        }

        if (!reader.IsGiven("client-output-limit"))
        {
            options = options with { ClientOutputLimitBytes = Math.Min(options.ClientOutputLimitBytes, options.OutputMemoryLimitBytes) };
        }

        // A backup without a Redis is told of that once, below.
        if (command == OptionCommands.Serve || !isEmbedded) { StoreOptionsReader.Check(reader, options, isEmbedded); }
        SiteOptionsReader.Check(reader, options, command);
        CohortOptionsReader.Check(reader, options);
        CheckTogether(reader, options);
        return Result(reader, options);
    }

    /// <summary>Reads restore's options; <paramref name="commandLine"/> also holds "version", "latest", "list", "keep" and
    /// "i-accept-loss".</summary>
    public static OptionsResult<RestoreOptions> ReadRestore(OptionLayer commandLine, OptionLayer environment)
    {
        OptionReader reader = OptionReader.Open(commandLine, environment);
        (ListenAddress? redis, string? server) = StoreOptionsReader.Read(reader);
        string data = reader.Value<string>("data", OptionText.DirectoryPath, Path.GetFullPath(DefaultDataDirectory));
        bool latest = reader.Value("latest", OptionText.Flag, false);
        long? version = reader.Value<long?>("version", ReadVersion, null);
        bool list = reader.Value("list", OptionText.Flag, false);
        bool keep = reader.Value("keep", OptionText.Flag, false), acceptsLoss = reader.Value("i-accept-loss", OptionText.Flag, false);
        bool json = reader.Value("json", OptionText.Flag, false);
        string[] given = [.. new[] { reader.IsGiven("version") ? "--version" : "", latest ? "--latest" : "", list ? "--list"
            : "" }.Where(o => o.Length > 0)];
        if (given.Length != 1)
        {
            string what = given.Length > 1 ? $"{string.Join(" and ", given)} are both given"
                : "none of --version, --latest and --list is given";
            reader.Errors.Add(new OptionError(what, given.Length > 1 ? "the command line" : "", "give one of them"));
        }
        if (json && !list)
        {
            reader.Fail("json", "is given without --list", "remove it: a restore prints log lines only (--log-format json)");
        }
        if (acceptsLoss && !keep)
        {
            reader.Errors.Add(new OptionError("--i-accept-loss is given without --keep", "the command line",
                "give both: the next slogger serve then goes on without what is lost"));
        }
        if (keep && !reader.IsGiven("version") && !(latest && acceptsLoss))
        {
            reader.Errors.Add(new OptionError("--keep is given without --version", "the command line", "give the version to go on from; "
                + "slogger restore --list shows what there is. Without --keep, --latest goes on from the newest"));
        }

        RestoreOptions options = new()
        {
            ConfigFile = reader.Optional<string>("config", OptionText.ExistingFile),
            DataDirectory = data,
            LogDirectories = reader.Value<ImmutableArray<string>>("log-dirs", LogDirectories, []),
            Version = version is { } number ? new VersionNumber(number) : null,
            Keep = keep,
            AcceptsLoss = acceptsLoss,
            List = list,
            Json = json,
            Redis = redis,
            RedisServerPath = server,
            RedisConfigFile = reader.Optional<string>("redis-config", OptionText.ExistingFile),
            RedisDirectives = reader.List<string>("redis-directive", StoreOptionsReader.Directive, []),
            RedisUser = reader.Optional<string>("redis-user", OptionText.UserName),
            RedisPasswordFile = reader.Optional<string>("redis-password-file", OptionText.ExistingFile),
            RedisTls = StoreOptionsReader.ReadRedisTls(reader),
            Metadata = reader.Value("metadata", OptionText.Metadata, MetadataSpec.SqliteFile(Path.Combine(data, "metadata.db"))),
            Seed = reader.Value<SeedSource?>(
                "seed", OptionText.Choice<SeedSource?>(("from-redis", SeedSource.FromRedis), ("from-log", SeedSource.FromLog)), null),
            LogLevel = reader.Value("log-level", Level, LogLevel.Information),
            LogFormat = reader.Value("log-format", Format, LogFormat.Text),
        };
        return Result(reader, options);
    }

    /// <summary>Reads recover's options.</summary>
    public static OptionsResult<RecoverOptions> ReadRecover(OptionLayer commandLine, OptionLayer environment)
    {
        OptionReader reader = OptionReader.Open(commandLine, environment);
        string data = reader.Value<string>("data", OptionText.DirectoryPath, Path.GetFullPath(DefaultDataDirectory));
        if (!reader.IsGiven("shard"))
        {
            reader.Errors.Add(new OptionError("no shard is given", "", "give --shard ID: its number, as slogger status of another "
                + "shard shows it"));
        }

        RecoverOptions options = new()
        {
            Metadata = reader.Value("metadata", OptionText.Metadata, MetadataSpec.SqliteFile(Path.Combine(data, "metadata.db"))),
            Cluster = reader.Value("cluster", OptionText.Name, "default"),
            Shard = new ShardId(reader.Value("shard", OptionText.Number(0, 65_535), 0)),
            LogLevel = reader.Value("log-level", Level, LogLevel.Information),
            LogFormat = reader.Value("log-format", Format, LogFormat.Text),
        };
        return Result(reader, options);
    }

    private static OptionsResult<T> Result<T>(OptionReader reader, T options)
        where T : class
    {
        // An option may be read twice.
        List<OptionError> errors = reader.Failure is { } failure ? [failure] : [.. reader.Errors.DistinctBy(error => error.What)];
        return new OptionsResult<T>(errors.Count == 0 ? options : null, errors, reader.Warnings) { Given = reader.Given };
    }

    private static bool ReadVersion(string text, out long? value, out string problem)
    {
        bool ok = long.TryParse(text, System.Globalization.NumberStyles.None, System.Globalization.CultureInfo.InvariantCulture,
            out long number);
        value = ok ? number : null;
        problem = ok ? "" : "is not a version; it is a whole number, as shown by slogger status";
        return ok;
    }

    private static ClientTlsOptions? ReadClientTls(OptionReader reader)
    {
        ImmutableArray<ListenAddress> listen = reader.List<ListenAddress>("tls-listen", OptionText.Address, []);
        string? certificate = reader.Optional<string>("tls-cert", OptionText.ExistingFile);
        string? key = reader.Optional<string>("tls-key", OptionText.ExistingFile);
        string? clientCa = reader.Optional<string>("tls-client-ca", OptionText.ExistingFile);
        if (!reader.IsGiven("tls-listen"))
        {
            string? stray = new[] { "tls-cert", "tls-key", "tls-client-ca" }.FirstOrDefault(reader.IsGiven);
            if (stray is not null)
            {
                reader.Fail(stray, "is given without --tls-listen", "add --tls-listen HOST:PORT, or remove it");
            }

            return null;
        }

        foreach (string needed in new[] { "tls-cert", "tls-key" })
        {
            if (!reader.IsGiven(needed))
            {
                reader.Fail("tls-listen", $"needs --{needed}", "add the file (PEM)");
            }
        }

        return new ClientTlsOptions { Listen = listen, CertificateFile = certificate ?? "", KeyFile = key ?? "", ClientCaFile = clientCa };
    }

    private static void CheckTogether(OptionReader reader, ServeOptions options)
    {
        ImmutableArray<ListenAddress> all = options.Listen.AddRange(options.ClientTls?.Listen ?? []);
        if (all.Where(address => address.IsUnix || address.Port != 0).GroupBy(address => address)
            .FirstOrDefault(group => group.Count() > 1) is { } twice)
        {
            reader.Fail(options.Listen.Contains(twice.Key) ? "listen" : "tls-listen", $"has {twice.Key} twice", "give each address once");
        }

        if (options.Redis is not null && all.Contains(options.Redis))
        {
            reader.Fail("redis", $"{options.Redis} is an address that the proxy itself listens on",
                "give Redis and the proxy different addresses");
        }

        if (options.Announce is { } announced && (announced.IsUnix || announced.Port == 0 || announced.IsEveryInterface))
        {
            reader.Fail("announce", $"{announced} is nothing that others can connect to",
                "give the HOST:PORT by which clients on other machines reach this proxy");
        }

        if (options.Partitions is { } partitions && options.Shards is { } shards && partitions.Count < shards)
        {
            reader.Fail("partitions", $"makes {partitions.Count} partitions, which are too few for {shards} shards",
                $"give at least {shards - 1} split keys");
        }

        foreach (ListenAddress open in all.Where(address => !address.IsLocal))
        {
            reader.Warnings.Add($"{open} is reachable from other machines: anyone there can use it, unless Redis asks for a password");
        }

        if (options is { Joins: true, Shards: not null })
        {
            reader.Fail("shards", "is given with --join, which has the cluster grow by one", "remove one of them");
        }

        if (options.Replies == ReplyTiming.Committed && options.Commit != CommitMode.Log)
        {
            reader.Fail("replies", "committed needs --commit log, and a Redis", "remove it, or give --redis or --redis-server with "
                + "--commit log");
        }

        if (options.LogDirectories.Length > 0 && options.Commit is CommitMode.Bgsave or CommitMode.None)
        {
            reader.Fail("log-dirs", "needs --commit log", "remove it, or leave out --commit");
        }

        if (options.LogDirectories.Contains(options.DataDirectory))
        {
            reader.Fail("log-dirs", $"has {options.DataDirectory}, which is the data directory", "give directories on other disks");
        }

        if (options.Retention > TimeSpan.Zero && options.Commit is not (CommitMode.Log or CommitMode.Faster))
        {
            reader.Fail("retention", "needs --commit log, and a Redis; or the embedded store",
                "remove it, or give --redis or --redis-server with --commit log");
        }

        if (options.RetentionDetail > options.Retention)
        {
            reader.Fail("retention-detail", $"{OptionText.FormatDuration(options.RetentionDetail)} is more than --retention, which is "
                + $"{(options.Retention == TimeSpan.Zero ? "not given" : OptionText.FormatDuration(options.Retention))}",
                "give a --retention that is longer");
        }

        if (options is { RetentionDetail.Ticks: > 0, Cohort: not null })
        {
            reader.Fail("retention-detail", "is not for a node of a cohort, which keeps all of --retention in detail", "remove it");
        }

        if (options.RetentionDetail == TimeSpan.Zero && options.RetentionStep != ServeOptions.RetentionStepDefault)
        {
            reader.Fail("retention-step", "is of what lies behind --retention-detail, which is not given", "give that, or remove it");
        }

        if (options.ClockError > options.VersionInterval / 2)
        {
            reader.Fail("clock-error",
                $"{OptionText.FormatDuration(options.ClockError)} is more than half of a version of "
                    + $"{OptionText.FormatDuration(options.VersionInterval)}", "keep the clocks closer together, or give a longer "
                    + "--version-interval");
        }

        if (options.LogBudgetBytes < 2 * options.CheckpointEveryBytes)
        {
            string name = reader.IsGiven("log-budget") ? "log-budget" : "checkpoint-every";
            reader.Fail(name, $"leaves too little: a log budget of {OptionText.FormatSize(options.LogBudgetBytes)} is less than twice "
                + $"{OptionText.FormatSize(options.CheckpointEveryBytes)} between checkpoints", "raise --log-budget or lower "
                + "--checkpoint-every");
        }

        if (options.OutputMemoryLimitBytes < options.ClientOutputLimitBytes)
        {
            string name = reader.IsGiven("output-memory-limit") ? "output-memory-limit" : "client-output-limit";
            reader.Fail(name, $"leaves too little: the limit for all clients, {OptionText.FormatSize(options.OutputMemoryLimitBytes)}, is "
                + $"below that for one, {OptionText.FormatSize(options.ClientOutputLimitBytes)}", "raise --output-memory-limit or lower "
                + "--client-output-limit");
        }

        if (options.Transport == TransportKind.Epoll && !OperatingSystem.IsLinux())
        {
            reader.Fail("transport", "epoll exists on Linux only", "use auto or sockets");
        }
    }
}

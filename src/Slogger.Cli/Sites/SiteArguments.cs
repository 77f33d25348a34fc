// The arguments of the commands of two sites: the command line over the environment. They name SQL databases and credentials, and need no
// data directory: where the processes are is in SQL (IMetadataStore.SiteAddressesAsync).
using System.Globalization;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Access;

namespace Slogger.Cli.Sites;

/// <summary>Reads them, and collects what is wrong.</summary>
/// <param name="texts">The command line.</param>
/// <param name="host">The environment.</param>
internal sealed class SiteArguments(OptionLayer texts, AppHost host)
{
    private const string Origin = "the command line";

    private OptionLayer? _file;

    public List<OptionError> Errors { get; } = [];

    public string Cluster => One("cluster") ?? "default";

    /// <summary>Options that all of them have, in a group of their own.</summary>
    public static IEnumerable<OptionDefinition> Common(string metadata) =>
    [
        .. Database("metadata", metadata),
        new("cluster", Where, "NAME", "The cluster's name. Also SLOGGER_CLUSTER.", "default", ""),
        .. Access,
    ];

    /// <summary>How to be let in by processes.</summary>
    public static IEnumerable<OptionDefinition> Access =>
    [
        .. Credentials,
        new("config", Where, "FILE", "The site's file, as its processes have it: what is left out here is taken from there. Also "
            + "SLOGGER_CONFIG.", "none", ""),
    ];

    /// <summary>Another database.</summary>
    public static IEnumerable<OptionDefinition> Database(string name, string help) =>
        [new(name, Where, "SPEC",
            $"{help}: sqlite:PATH, postgres:CONNECTION or sqlserver:CONNECTION. Also {VariableOf(name)}, which keeps a password off "
                + "the command line.", "none", "") { IsSecret = true }];

    /// <summary>Their heading in --help.</summary>
    public const string Where = "Which cluster, and how to be let in by its processes";

    private static readonly OptionDefinition[] Credentials =
    [
        new("site-secret-file", Where, "FILE", "File whose first line is the secret that the sites share, as the processes have it.",
            "none", ""),
        new("site-cert-file", Where, "FILE", "Certificate chain (PEM) to show to the processes.", "none", ""),
        new("site-key-file", Where, "FILE", "Private key (PEM) of --site-cert-file.", "none", ""),
        new("site-ca-file", Where, "FILE", "Authorities (PEM) that the processes' certificates must come from.", "none", ""),
    ];

    public void Fail(string what, string remedy) => Errors.Add(new OptionError(what, Origin, remedy));

    public bool Flag(string name) => texts.Values.ContainsKey(name);

    public string? One(string name)
    {
        string? text = texts.One(name, Errors) ?? host.Environment[VariableOf(name)] as string;
        return text is null && name != "config" ? SiteFile().Values.GetValueOrDefault(name)?.Texts[0] : text;
    }

    private OptionLayer SiteFile()
    {
        if (_file is null)
        {
            _file = One("config") is { } path ? OptionLayer.FromFile(path) : new OptionLayer();
            Errors.AddRange(_file.Failure is { } failure ? [failure] : _file.Errors);
        }
        return _file;
    }

    public T Value<T>(string name, OptionTextParser<T> parse, T fallback)
    {
        if (One(name) is not { } text) { return fallback; }
        if (parse(text, out T value, out string problem)) { return value; }
        Fail($"--{name} \"{text}\" {problem}", $"slogger COMMAND --help says what --{name} takes");
        return fallback;
    }

    /// <summary>Numbers of shards; given several times, or with commas.</summary>
    public int[] Shards(string name)
    {
        List<int> shards = [];
        foreach (string text in (texts.Values.GetValueOrDefault(name)?.Texts ?? []).SelectMany(t => t.Split(',')))
        {
            if (int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out int shard)) { shards.Add(shard); }
            else { Fail($"--{name} \"{text}\" is not a shard's number", "give a number from 0 on"); }
        }
        return [.. shards.Distinct().Order()];
    }

    /// <summary>A database, which has to be there, or may come (<see cref="NoSiteException"/>).</summary>
    public MetadataSpec? Metadata(string name, string? isNeeded, bool mayCome = false)
    {
        if (One(name) is not { } text)
        {
            if (isNeeded is not null) { Fail($"no {name} is named", $"give --{name}, {isNeeded}, or set {VariableOf(name)}"); }
            return null;
        }
        if (!MetadataSpec.TryParse(text, out MetadataSpec? spec, out string? wrong))
        {
            Fail($"--{name} {wrong}", "write sqlite:PATH, postgres:CONNECTION or sqlserver:CONNECTION");
        }
        else if (!mayCome && spec.Kind == MetadataKind.Sqlite && !System.IO.File.Exists(spec.Target))
        {
            Fail($"--{name}: {spec.Target} does not exist", "give what the site's processes were started with");
        }
        return spec;
    }

    public SiteCredentials Known()
    {
        (SiteCredentials? credentials, ProxyExit? failed) =
            SiteCredentials.Load(File("site-secret-file"), File("site-cert-file"), File("site-key-file"), File("site-ca-file"));
        if (failed is not null) { Fail(failed.Problem!, failed.Remedy); }
        return credentials ?? SiteCredentials.None;
    }

    /// <summary>Has credentials read their certificates again. Returns why they could not; null: they have.</summary>
    public string? Renew(SiteCredentials credentials) =>
        credentials.Renew(File("site-cert-file"), File("site-key-file"), File("site-ca-file"));

    private string? File(string name) => One(name) is { } path ? Path.GetFullPath(path) : null;

    private static string VariableOf(string name) => OptionCatalog.EnvironmentPrefix + name.ToUpperInvariant().Replace('-', '_');
}

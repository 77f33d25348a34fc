// slogger init: asks for what a cluster, and perhaps its second site, need, and writes a file for each site, from which every process of it
// starts: slogger serve --config FILE --shard N. What an option says is not asked.
using System.Globalization;
using System.Security.Cryptography;
using System.Text.Json;
using Slogger.Cli.Terminal;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Cli;

/// <summary>Writes the files of one or two sites.</summary>
internal static class InitCommand
{
    public const string Name = "init";

    private const string Origin = "the command line", What = "What there is to be", Where = "Where to write";
    private const int ClientPort = 6380, SitePort = 7400;

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new("hosts", What, "HOST[,...]",
            "The machine of each shard, as clients reach it. Name a machine twice to have two shards there.",
            "127.0.0.1, one shard", ""),
        new("backup-hosts", What, "HOST[,...]",
            "The machines of a second site, the backup.", "no second site", ""),
        new("metadata", What, "SPEC", "The site's database: sqlite:PATH, which serves one machine, postgres:CONNECTION or "
            + "sqlserver:CONNECTION.", "a SQLite file in --directory, on one machine", "") { IsSecret = true },
        new("backup-metadata", What, "SPEC", "The second site's.", "a SQLite file in --directory, on one machine", "") { IsSecret = true },
        new("redis", What, "HOST:PORT",
            "Attach to a Redis that runs at this address on every machine.", "the proxy runs one", ""),
        new("redis-server", What, "PATH",
            "The redis-server that the proxy starts.", "redis-server", ""),
        new("cluster", What, "NAME", "The cluster's name.", "default", ""),
        new("data", What, "DIR", "Where the data of all shards is, each in a directory of its own.",
            "/var/lib/slogger; on loopback --directory", ""),
        new("directory", Where, "DIR", "Where to write the files; the same place at every machine.", "the current directory", ""),
    ];

    public static CommandResult Run(OptionLayer texts, AppHost host)
    {
        var run = new InitRun(texts, host);
        return run.Read() is { Count: > 0 } errors ? CommandResult.BadOptions([.. errors.Distinct()]) : run.Write();
    }

    private sealed record Site(string Name, string[] Hosts, MetadataSpec? Metadata)
    {
        public bool IsHere => Hosts.All(h => ListenAddress.Tcp(h, ClientPort).IsLocal);

        public int Machines => Hosts.Distinct(StringComparer.OrdinalIgnoreCase).Count();
    }

    private sealed class InitRun(OptionLayer texts, AppHost host)
    {
        private readonly List<OptionError> _errors = [];
        private readonly Dictionary<string, int> _onHost = new(StringComparer.OrdinalIgnoreCase);
        private string _directory = "", _data = "", _cluster = "", _server = "";
        private ListenAddress? _redis;
        private Site[] _sites = [];

        private string SecretFile => Path.Combine(_directory, "site-secret");

        public List<OptionError> Read()
        {
            _directory = Path.GetFullPath(Ask("directory", null, "."));
            string[] first = Hosts("hosts", "The machine of each shard, with commas between", "127.0.0.1");
            string[] second = Hosts("backup-hosts", "The same of a second site, which follows; empty: none", "");
            string nameOfFirst = second.Length > 0 ? "site-a" : "site";
            _sites = [new(nameOfFirst, first, Metadata("metadata", "The site's database", first, nameOfFirst))];
            if (second.Length > 0)
            {
                _sites = [.. _sites, new("site-b", second,
                    Metadata("backup-metadata", "The second site's database", second, "site-b"))];
                if (second.Length != first.Length)
                {
                    Fail($"--backup-hosts names {second.Length}, --hosts {first.Length}", "name as many; a second site of another "
                        + "number of "
                        + "shards is set up as docs/operate/second-site.md says");
                }
            }
            else if (Given("backup-metadata") is not null) { Fail("--backup-metadata is given without --backup-hosts", "name both"); }
            string redis = Ask("redis", "A Redis that runs at every machine, HOST:PORT; empty: the proxy runs one", "");
            if (redis.Length > 0 && !ListenAddress.TryParse(redis, out _redis, out string? problem))
            {
                Fail($"--redis \"{redis}\" {problem}", "write HOST:PORT");
            }
            if (_redis is not null && Given("redis-server") is not null) { Fail("--redis and --redis-server are both given", "keep one"); }
            if (_redis is not null && _sites.Any(s => s.Machines < s.Hosts.Length))
            {
                Fail("a machine has two shards, and one Redis serves one shard", "leave --redis out: each proxy runs a Redis of its own");
            }
            _server = Ask("redis-server", null, "redis-server");
            _cluster = Ask("cluster", null, "default");
            if (!OptionText.Name(_cluster, out _, out string wrong)) { Fail($"--cluster \"{_cluster}\" {wrong}", "give another name"); }
            _data = Path.GetFullPath(Ask("data", null, _sites.All(s => s.IsHere) ? _directory : "/var/lib/slogger"));
            return _errors;
        }

        public CommandResult Write()
        {
            string[] files = [.. _sites.Select(FileOf), .. _sites.Length > 1 ? [SecretFile] : Array.Empty<string>()];
            if (files.FirstOrDefault(File.Exists) is { } there)
            {
                return CommandResult.Failed($"{there} exists already; nothing was written", "name another --directory, or delete it");
            }
            // Ports are given out to both sites before: each file names those of the other.
            Shard[][] shards = [.. _sites.Select(site => site.Hosts.Select(PlaceOn).ToArray())];
            try
            {
                Directory.CreateDirectory(_directory);
                if (_sites.Length > 1) { WriteNew(SecretFile, Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(32)) + "\n"); }
                for (int i = 0; i < _sites.Length; i++)
                {
                    WriteNew(FileOf(_sites[i]), JsonOf(_sites[i], shards[i], _sites.Length > 1 ? shards[1 - i] : null));
                }
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException)
            {
                return CommandResult.Failed($"the files cannot be written: {e.Message}", "name another --directory");
            }
            Tell(files);
            return CommandResult.Done;
        }

        private void Tell(string[] files)
        {
            host.Output.WriteLine($"written: {string.Join(", ", files)}");
            if (_sites.Any(s => !s.IsHere)) { host.Output.WriteLine("Copy them to the same place at every machine, for slogger's "
                + "user alone."); }
            for (int i = 0; i < _sites.Length; i++)
            {
                host.Output.WriteLine();
                host.Output.WriteLine(_sites.Length == 1 ? "Start:" : i == 0 ? "Start the site:" : "Start the second site:");
                for (int shard = 0; shard < _sites[i].Hosts.Length; shard++)
                {
                    string at = _sites[i].IsHere ? "" : $"     # on {_sites[i].Hosts[shard]}";
                    host.Output.WriteLine(
                        $"  slogger {(i == 0 ? "serve" : "backup")} --config {FileOf(_sites[i])} --shard {shard}{at}");
                }
            }
            if (_sites.Length == 1) { return; }
            host.Output.WriteLine();
            host.Output.WriteLine("Wait until it follows:");
            host.Output.WriteLine($"  slogger seed --config {FileOf(_sites[1])}");
        }

        // Those of one machine count up, whichever site they are of.
        private Shard PlaceOn(string name, int number)
        {
            int before = _onHost.GetValueOrDefault(name);
            _onHost[name] = before + 1;
            return new(number, ListenAddress.Tcp(name, ClientPort + before), ListenAddress.Tcp(name, SitePort + before));
        }

        private string JsonOf(Site site, Shard[] shards, Shard[]? others)
        {
            using var bytes = new MemoryStream();
            using (Utf8JsonWriter json = new(bytes, new JsonWriterOptions
            {
                Indented = true,
                Encoder = System.Text.Encodings.Web.JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
            }))
            {
                json.WriteStartObject();
                json.WriteString("cluster", _cluster);
                json.WriteNumber("shards", shards.Length);
                json.WriteString("metadata", site.Metadata!.Text);
                if (_redis is not null) { json.WriteString("redis", _redis.ToString()); }
                else { json.WriteString("redis-server", _server); }
                // Clocks of machines differ; those that NTP keeps, by less.
                if (site.Machines > 1) { json.WriteString("clock-error", "1ms"); }
                if (others is not null) { json.WriteString("site-secret-file", SecretFile); }
                json.WriteStartObject(OptionLayer.OfShardKey);
                foreach (Shard shard in shards)
                {
                    json.WriteStartObject(shard.Number.ToString(CultureInfo.InvariantCulture));
                    json.WriteString("data", Path.Combine(_data, _sites.All(s => s.IsHere) ? site.Name : "", $"shard{shard.Number}"));
                    if (shard.Clients.IsLocal) { json.WriteString("listen", shard.Clients.ToString()); }
                    else
                    {
                        json.WriteString("listen", $"0.0.0.0:{shard.Clients.Port}");
                        json.WriteString("announce", shard.Clients.ToString());
                    }
                    if (others is not null)
                    {
                        json.WriteString("site-listen", shard.OtherSite.ToString());
                        json.WriteString("backup", others[shard.Number].OtherSite.ToString());
                    }
                    json.WriteEndObject();
                }
                json.WriteEndObject();
                json.WriteEndObject();
            }
            return System.Text.Encoding.UTF8.GetString(bytes.ToArray()) + "\n";
        }

        private string FileOf(Site site) => Path.Combine(_directory, site.Name + ".json");

        private string[] Hosts(string name, string question, string fallback)
        {
            string[] hosts = Ask(name, question, fallback).Split(',',
                StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries);
            if (hosts.Length == 0 && fallback.Length > 0) { Fail($"--{name} names no machine", "name one for each shard"); }
            foreach (string text in hosts)
            {
                if (!ListenAddress.TryParse($"{text}:{ClientPort}", out ListenAddress? address, out _) || address.IsUnix
                    || address.IsEveryInterface)
                {
                    Fail($"--{name}: \"{text}\" is no machine's name or address", "write names without ports, with commas between");
                    return [];
                }
            }
            return hosts;
        }

        private MetadataSpec? Metadata(string name, string question, string[] hosts, string site)
        {
            var asked = new Site(site, hosts, null);
            string file = asked.IsHere ? "sqlite:" + Path.Combine(_directory, site + ".db") : "";
            string text = Ask(name, question + ": sqlite:PATH on one machine, postgres:CONNECTION or sqlserver:CONNECTION", file);
            if (text.Length == 0)
            {
                Fail($"no --{name} is named", "name a database that all machines of the site reach: postgres:CONNECTION or "
                    + "sqlserver:CONNECTION");
            }
            else if (!MetadataSpec.TryParse(text, out MetadataSpec? spec, out string? problem))
            {
                Fail($"--{name} {problem}", "correct it");
            }
            else if (spec.Kind == MetadataKind.Sqlite && asked.Machines > 1)
            {
                Fail($"--{name} is a file, and the site has {asked.Machines} machines", "name a database that all of them reach: "
                    + "postgres:CONNECTION or sqlserver:CONNECTION");
            }
            else { return spec; }
            return null;
        }

        // An option, else what a person answers, else what there is without either. Nobody is asked where nobody can answer.
        private string Ask(string name, string? question, string fallback)
        {
            if (Given(name) is { } text) { return text; }
            if (question is null || host.Input is not { } input) { return fallback; }
            host.Output.Write($"{question} [{(fallback.Length > 0 ? fallback : "none")}]: ");
            host.Output.Flush();
            return input.ReadLine()?.Trim() is { Length: > 0 } answer ? answer : fallback;
        }

        private string? Given(string name) => texts.One(name, _errors);

        private void Fail(string what, string remedy) => _errors.Add(new(what, Origin, remedy));

        private static void WriteNew(string path, string text)
        {
            using var file = new StreamWriter(new FileStream(path, FileMode.CreateNew, FileAccess.Write));
            file.Write(text);
        }
    }

    private readonly record struct Shard(int Number, ListenAddress Clients, ListenAddress OtherSite);
}

using System.Text;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Configuration;

public class OptionSourcesTests
{
    [Theory]
    [InlineData(null, null, null, "5ms")]
    [InlineData(null, null, "1ms", "1ms")]
    [InlineData(null, "2ms", "1ms", "2ms")]
    [InlineData("3ms", "2ms", "1ms", "3ms")]
    [InlineData("3ms", null, "1ms", "3ms")]
    [InlineData("3ms", "2ms", null, "3ms")]
    public void Precedence_CommandLineOverEnvironmentOverFile(string? commandLine, string? environment, string? file, string expected)
    {
        using TempDirectory temp = new();
        string path = temp.File("c.json", file is null ? "{}" : $$"""{ "version-interval": "{{file}}" }""");
        List<(string, string)> args = [("redis", "h:1"), ("config", path)];
        if (commandLine is not null)
        {
            args.Add(("version-interval", commandLine));
        }

        OptionLayer variables = environment is null ? Layers.Environment() : Layers.Environment(("SLOGGER_VERSION_INTERVAL", environment));
        ServeOptions options = ServeOptionsReader.ReadServe(Layers.CommandLine([.. args]), variables).Options!;
        Assert.Equal(expected, OptionText.FormatDuration(options.VersionInterval));
        Assert.Equal(path, options.ConfigFile);
    }

    [Theory]
    [InlineData("redis", "h:1", "SLOGGER_REDIS_SERVER", "/bin/sh", StoreKind.Redis)]
    [InlineData("redis-server", "/bin/sh", "SLOGGER_REDIS", "h:1", StoreKind.RedisServer)]
    public void Store_TwoKindsInTwoSources_TheHigherWins(string name, string text, string variable, string variableText, StoreKind expected)
    {
        OptionsResult<ServeOptions> result = ServeOptionsReader.ReadServe(
            Layers.CommandLine((name, text)), Layers.Environment((variable, variableText)));
        Assert.Empty(result.Errors);
        Assert.Equal(expected, result.Options!.Store);
    }

    [Fact]
    public void Store_RedisOverFileOfASupervisedServer_IgnoresItsDetails()
    {
        using TempDirectory temp = new();
        string path = temp.File("c.json", """{ "redis-server": "/bin/sh", "redis-directive": ["maxmemory 1gb"] }""");
        OptionsResult<ServeOptions> result = Layers.Serve(("redis", "h:1"), ("config", path));
        Assert.Empty(result.Errors);
        Assert.Empty(result.Options!.RedisDirectives);
    }

    [Fact]
    public void Environment_EveryOption_HasItsVariable()
    {
        OptionLayer layer = Layers.Environment([.. OptionCatalog.All.Select(option => (option.EnvironmentVariable, "x"))]);
        Assert.Equal(OptionCatalog.All.Select(option => option.Name).Order(), layer.Values.Keys.Order());
        Assert.Contains("SLOGGER_VERSION_INTERVAL", OptionCatalog.All.Select(option => option.EnvironmentVariable));
    }

    [Fact]
    public void Environment_ListsEmptyAndForeignVariables()
    {
        OptionLayer layer = Layers.Environment(
            ("SLOGGER_LISTEN", "127.0.0.1:1, unix:/a"), ("SLOGGER_REDIS_DIRECTIVE", "save-a 1, 2\nb 2"), ("SLOGGER_CLUSTER", ""),
                ("SLOGGER_LISEN", "x"),
            ("SLOGGER_SERVICE_HOST", "10.0.0.1"), ("SLOGGER_PORT", "tcp://x"), ("SLOGGER_PORT_6380_TCP", "x"), ("PATH", "x"));
        Assert.Equal(["127.0.0.1:1", "unix:/a"], layer.Values["listen"].Texts);
        Assert.Equal(["save-a 1, 2", "b 2"], layer.Values["redis-directive"].Texts);
        Assert.Equal(2, layer.Values.Count);
        Assert.Contains("did you mean SLOGGER_LISTEN?", Assert.Single(layer.Warnings));
    }

    [Fact]
    public void Environment_BadValue_NamesTheVariable()
    {
        OptionsResult<ServeOptions> result = ServeOptionsReader.ReadServe(
            Layers.CommandLine(("redis", "h:1")), Layers.Environment(("SLOGGER_COMMIT", "x")));
        Assert.Equal("environment variable SLOGGER_COMMIT", Assert.Single(result.Errors).Origin);
    }

    [Fact]
    public void File_CommentsAndTypes_AreRead()
    {
        OptionLayer layer = Json("""
            // comment
            {
              "listen": ["127.0.0.1:1", "/s"], /* another */
              "shard": 3,
              "redis-tls": true,
              "cluster": "c",
            }
            """);
        Assert.Empty(layer.Errors);
        Assert.Equal(["127.0.0.1:1", "/s"], layer.Values["listen"].Texts);
        Assert.Equal(["3"], layer.Values["shard"].Texts);
        Assert.Equal(["true"], layer.Values["redis-tls"].Texts);
        Assert.Equal("f.json line 6", layer.Values["cluster"].Origin);
    }

    [Theory]
    [InlineData("""{ "lisen": "x" }""", "is not an option", "did you mean \"listen\"?")]
    [InlineData("""{ "frobnicate-all": "x" }""", "is not an option", "remove it")]
    [InlineData("""{ "config": "x" }""", "stands in a configuration file", "remove it")]
    [InlineData("""{ "shard": [1, 2] }""", "wrong shape", "one string")]
    [InlineData("""{ "shard": null }""", "wrong shape", "one string")]
    [InlineData("""{ "shard": {"a": 1} }""", "wrong shape", "one string")]
    [InlineData("""{ "listen": [["a"]] }""", "wrong shape", "a list of strings")]
    [InlineData("""{ "shard": 1, "shard": 2 }""", "given twice", "remove one")]
    [InlineData("""[]""", "not a JSON object", "write one object")]
    [InlineData("", "not valid JSON", "correct it")]
    [InlineData("""{ "shard": 1 """, "not valid JSON", "correct it")]
    [InlineData("""{ "shard": 1 } x""", "not valid JSON", "correct it")]
    public void File_Bad_IsOneErrorWithItsPlace(string json, string what, string remedy)
    {
        OptionError error = Assert.Single(Json(json).Errors);
        Assert.Contains(what, error.What);
        Assert.Contains("f.json", error.Origin);
        Assert.Contains(remedy, error.Remedy);
    }

    [Theory]
    [InlineData("""{ "of-shard": 1 }""", "wrong shape", "give it an object")]
    [InlineData("""{ "of-shard": [{}] }""", "wrong shape", "give it an object")]
    [InlineData("""{ "of-shard": { "a": {} } }""", "no shard's number", "give it an object")]
    [InlineData("""{ "of-shard": { "0": 1 } }""", "no shard's number", "give it an object")]
    [InlineData("""{ "of-shard": { "0": {}, "0": {} } }""", "given twice", "remove one")]
    [InlineData("""{ "of-shard": { "0": { "shard": 0 } } }""", "stands among the options of a shard", "its key is its number")]
    [InlineData("""{ "of-shard": { "0": { "lisen": "x" } } }""", "is not an option", "did you mean \"listen\"?")]
    [InlineData("""{ "of-shard": { "0": { "of-shard": {} } } }""", "is not an option", "remove it")]
    public void File_OfShards_Bad_IsOneErrorWithItsPlace(string json, string what, string remedy)
    {
        OptionError error = Assert.Single(Json(json).Errors);
        Assert.Contains(what, error.What);
        Assert.Contains("f.json line 1", error.Origin);
        Assert.Contains(remedy, error.Remedy);
    }

    [Fact]
    public void File_OfShards_GoesOverWhatItSaysOfAll_AndUnderTheCommandLine()
    {
        using TempDirectory temp = new();
        string path = temp.File("c.json", """
            {
              "cluster": "shop", "max-clients": 7, "redis-server": "/bin/true", "site-secret-file": "/etc/hostname",
              "of-shard": {
                "0": { "listen": "127.0.0.1:1", "site-listen": "127.0.0.1:3" },
                "2": { "listen": ["127.0.0.1:2"], "site-listen": "127.0.0.1:4", "max-clients": 9, "redis": "h:1" }
              }
            }
            """);
        ServeOptions options = Layers.Serve(("config", path), ("shard", "2"), ("cluster", "mine")).Options!;
        Assert.Equal((2, "mine", 9, "h:1"), (options.Shard.Number, options.Cluster, options.MaxClients, options.Redis!.ToString()));
        Assert.Equal("127.0.0.1:2", Assert.Single(options.Listen).ToString());
        Assert.Equal(7, ServeOptionsReader.ReadServe(
            Layers.CommandLine(("config", path)), Layers.Environment(("SLOGGER_SHARD", "0"))).Options!.MaxClients);
        OptionError unknown = Assert.Single(Layers.Serve(("config", path), ("shard", "1")).Errors);
        Assert.Contains("has nothing of shard 1, but of 0, 2", unknown.What);
        Assert.Contains("no shard is named", Assert.Single(Layers.Serve(("config", path)).Errors).What);
    }

    [Fact]
    public void File_Missing_IsOneError()
    {
        OptionError error = Assert.Single(Layers.Serve(("redis", "h:1"), ("config", "/nonexistent/c.json")).Errors);
        Assert.Contains("does not exist", error.What);
    }

    [Fact]
    public void File_BadValue_NamesFileAndLine()
    {
        using TempDirectory temp = new();
        string path = temp.File("c.json", "{\n  \"commit\": \"x\"\n}");
        Assert.Equal(path + " line 2", Assert.Single(Layers.Serve(("redis", "h:1"), ("config", path)).Errors).Origin);
    }

    [Fact]
    public void SampleConfiguration_NamesEveryOptionAndIsTheDefaults()
    {
        string path = Path.Combine(RepositoryRoot(), "deploy", "slogger.sample.json");
        string text = File.ReadAllText(path);
        Assert.All(OptionCatalog.All.Where(option => option.Name != "config"), option => Assert.Contains($"\"{option.Name}\":", text));
        OptionsResult<ServeOptions> result = Layers.Serve(("config", path), ("data", "/tmp/slogger-no-such-directory"));
        Assert.Empty(result.Errors);
        ServeOptions defaults = Layers.Good(("data", "/tmp/slogger-no-such-directory"));
        Assert.Equal(defaults.ToString(), (result.Options! with { ConfigFile = null }).ToString());
    }

    private static OptionLayer Json(string text) => OptionLayer.FromJson(Encoding.UTF8.GetBytes(text), "f.json");

    private static string RepositoryRoot()
    {
        DirectoryInfo? folder = new(AppContext.BaseDirectory);
        while (folder is not null && !File.Exists(Path.Combine(folder.FullName, "Slogger.sln")))
        {
            folder = folder.Parent;
        }

        return folder?.FullName ?? throw new InvalidOperationException("not inside the repository");
    }
}

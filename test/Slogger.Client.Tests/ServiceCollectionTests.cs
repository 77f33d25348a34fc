// A client that an application gets from its container: its settings come from the configuration, and what is wrong there is named.
using System.Collections.Concurrent;
using System.Reflection;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace Slogger.Client.Tests;

public sealed class ServiceCollectionTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task Client_FromASection_ConnectsAndLogsAsTheApplicationDoes()
    {
        await using var proxy = new ScriptedProxy(0, _ => "$1\r\n1\r\n");
        using var lines = new Lines();
        var services = new ServiceCollection();
        services.AddSingleton<ILoggerFactory>(lines);
        services.AddSloggerClient(Section(("Endpoints:0", proxy.Endpoint)));
        SloggerClient client;
        await using (ServiceProvider provider = services.BuildServiceProvider())
        {
            client = provider.GetRequiredService<SloggerClient>();
            Assert.Same(client, provider.GetRequiredService<SloggerClient>());
            await using SloggerSession session = await client.OpenSessionAsync().WaitAsync(Generous);
            Assert.Equal("1", (await session.GetAsync("k").AsTask().WaitAsync(Generous)).Value);
            Assert.Equal("c", client.Cluster);
        }

        Assert.Contains(lines.All, l => l.StartsWith("Connected to 127.0.0.1:", StringComparison.Ordinal));
        // The container has disposed it.
        Assert.Throws<ObjectDisposedException>(() => client.OpenSession());
    }

    [Fact]
    public async Task Client_FromAFunction_HasItsOptionsAndTheContainersServices()
    {
        var services = new ServiceCollection();
        services.AddSingleton("127.0.0.1:9");
        services.AddSloggerClient(p => new SloggerClientOptions { Endpoints = [p.GetRequiredService<string>()], RedirectionsMax = 3 });
        await using ServiceProvider provider = services.BuildServiceProvider();
        var client = provider.GetRequiredService<SloggerClient>();
        Assert.Equal(("127.0.0.1:9", 3), (Assert.Single(client.Options.Endpoints), client.Options.RedirectionsMax));
        Assert.Null(client.Options.LoggerFactory);
    }

    // Of each property: who adds one to the options adds it to the configuration, too.
    [Fact]
    public async Task Settings_OfEveryProperty_AreReadFromTheConfiguration()
    {
        SloggerClientOptions options = await OptionsOf(("Endpoints:0", "one:1"), ("Endpoints:1", "[::1]:2"), ("ReadsBackup", "true"),
            ("User", "ann"), ("Password", "secret"), ("Tls", "True"), ("ConnectTimeout", "00:00:01"), ("ReconnectDelayMin", "00:00:00.020"),
            ("reconnectdelaymax", "00:00:02"), ("GiveUpAfter", "00:01:00"), ("RedirectionsMax", "4"));
        Assert.Equal(["one:1", "[::1]:2"], options.Endpoints);
        Assert.Equal((true, "ann", "secret", 4), (options.ReadsBackup, options.User, options.Password, options.RedirectionsMax));
        Assert.Equal((1000, 20, 2000, 60_000), (options.ConnectTimeout.TotalMilliseconds, options.ReconnectDelayMin.TotalMilliseconds,
            options.ReconnectDelayMax.TotalMilliseconds, options.GiveUpAfter.TotalMilliseconds));
        Assert.NotNull(options.Tls);

        var defaults = new SloggerClientOptions { Endpoints = [] };
        foreach (PropertyInfo property in typeof(SloggerClientOptions).GetProperties(BindingFlags.Public | BindingFlags.Instance)
            .Where(p => p.Name != nameof(SloggerClientOptions.LoggerFactory)))
        {
            Assert.True(!Equals(property.GetValue(options), property.GetValue(defaults)), $"{property.Name} is not read");
        }
    }

    [Fact]
    public async Task Settings_InAText_BesideNullsAndWithCode_AreTakenTogether()
    {
        SloggerClientOptions options = await OptionsOf(o => o with { GiveUpAfter = TimeSpan.FromSeconds(1), User = "ben" },
            ("Endpoints", "one:1, two:2"), ("User", null));
        Assert.Equal(["one:1", "two:2"], options.Endpoints);
        Assert.Equal(("ben", 1.0), (options.User, options.GiveUpAfter.TotalSeconds));
    }

    [Theory]
    [InlineData("Endpoint", "one:1", "App:Slogger:Endpoint, which is no setting")]
    [InlineData("ConnectTimeout", "5", "App:Slogger:ConnectTimeout is '5': it has to be a time as HH:MM:SS")]
    [InlineData("ConnectTimeout", "5s", "App:Slogger:ConnectTimeout is '5s'")]
    [InlineData("ConnectTimeout", "-00:00:05", "App:Slogger: ")]
    [InlineData("ReadsBackup", "yes", "App:Slogger:ReadsBackup is 'yes': it has to be true or false")]
    [InlineData("RedirectionsMax", "many", "App:Slogger:RedirectionsMax is 'many'")]
    [InlineData("User:Name", "ann", "App:Slogger:User is a section")]
    [InlineData("Endpoints:0", "nowhere", "'nowhere' is not an endpoint")]
    [InlineData("Endpoints", "", "at least one proxy in Endpoints")]
    public async Task Settings_ThatCannotBe_AreNamed(string key, string value, string expected)
    {
        (string, string?)[] endpoints = key.StartsWith("Endpoints", StringComparison.Ordinal) ? [] : [("Endpoints:0", "one:1")];
        SloggerException wrong = await Assert.ThrowsAsync<SloggerException>(() => OptionsOf([.. endpoints, (key, value)]));
        Assert.Contains(expected, wrong.Message, StringComparison.Ordinal);
    }

    private static IConfigurationSection Section(params (string Key, string? Value)[] settings) => new ConfigurationBuilder()
        .AddInMemoryCollection(settings.Select(s => KeyValuePair.Create("App:Slogger:" + s.Key, s.Value))).Build()
        .GetSection("App:Slogger");

    private static Task<SloggerClientOptions> OptionsOf(params (string Key, string? Value)[] settings) => OptionsOf(null, settings);

    private static async Task<SloggerClientOptions> OptionsOf(Func<SloggerClientOptions, SloggerClientOptions>? with,
        params (string Key, string? Value)[] settings)
    {
        await using ServiceProvider provider =
            new ServiceCollection().AddSloggerClient(Section(settings), with).BuildServiceProvider();
        return provider.GetRequiredService<SloggerClient>().Options;
    }

    // What was logged.
    private sealed class Lines : ILoggerFactory, ILogger
    {
        public ConcurrentQueue<string> All { get; } = new();

        public ILogger CreateLogger(string categoryName) => this;

        public void AddProvider(ILoggerProvider provider) => throw new NotSupportedException();

        public IDisposable? BeginScope<TState>(TState state) where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception,
            Func<TState, Exception?, string> formatter) => All.Enqueue(formatter(state, exception));

        public void Dispose()
        {
        }
    }
}

// Slogger.Client in an application that starts before its proxies: it goes on trying, says why, and works when one comes.
using System.Collections.Concurrent;
using System.Globalization;
using Microsoft.Extensions.Logging;
using Slogger.Client;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Client;

public sealed class ClientStartTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    private static string Local(int port) => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}");

    [Fact]
    public async Task Client_StartedBeforeAnyProxy_WorksWhenOneComes()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        using var log = new Warnings();
        await using SloggerClient client = SloggerClient.Start(new() { Endpoints = [Local(deployment.Port)], LoggerFactory = log });
        Task<SloggerSession> opening = client.OpenSessionAsync();
        Task<CommitScope> beginning = client.BeginScopeAsync();
        await log.FirstAsync(l => l.Contains("refused", StringComparison.OrdinalIgnoreCase));
        SloggerException early = Assert.Throws<SloggerException>(() => client.OpenSession());
        Assert.Contains("OpenSessionAsync", early.Message, StringComparison.Ordinal);
        Assert.Contains(Local(deployment.Port), early.Message, StringComparison.Ordinal);
        Assert.Throws<SloggerException>(() => client.Cluster);
        Assert.Throws<SloggerException>(() => client.Partitions);
        // Who does not want to wait longer need not, and nobody else is disturbed.
        using var impatient = new CancellationTokenSource(TimeSpan.FromMilliseconds(50));
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => client.OpenSessionAsync(cancellation: impatient.Token));
        Assert.False(client.Connected.IsCompleted || opening.IsCompleted || beginning.IsCompleted);

        await deployment.StartAsync();
        await client.Connected.WaitAsync(Generous);
        await using SloggerSession session = await opening.WaitAsync(Generous);
        Assert.Equal(1, (await session.IncrementAsync("n").AsTask().WaitAsync(Generous)).Value);
        await session.WaitForCommitAsync().WaitAsync(Generous);
        await using CommitScope scope = await beginning.WaitAsync(Generous);
        await scope.WaitForCommitAsync().WaitAsync(Generous);
        await using SloggerSession another = client.OpenSession();
        Assert.Equal("1", (await another.GetAsync("n").AsTask().WaitAsync(Generous)).Value);
    }

    [Fact]
    public async Task Client_DisposedWhileItTries_EndsAndTellsWhoWaits()
    {
        var client = SloggerClient.Start(new() { Endpoints = [Local(Workspace.FreePort())] });
        Task<SloggerSession> opening = client.OpenSessionAsync();
        Assert.False(opening.IsCompleted);
        await client.DisposeAsync().AsTask().WaitAsync(Generous);
        await Assert.ThrowsAsync<ObjectDisposedException>(() => opening.WaitAsync(Generous));
        await Assert.ThrowsAsync<ObjectDisposedException>(() => client.Connected.WaitAsync(Generous));
        await Assert.ThrowsAsync<ObjectDisposedException>(() => client.OpenSessionAsync().WaitAsync(Generous));
        Assert.Throws<ObjectDisposedException>(() => client.OpenSession());
        await client.DisposeAsync();
    }

    // A Redis without a proxy, with another password than the client's. Neither is for good.
    [Fact]
    public async Task Client_WithAWrongPasswordAndAWrongEndpoint_TellsEachOnceAndWorksWhenBothAreRight()
    {
        const string Password = "right-pony";
        using var workspace = new Workspace();
        using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder("plain"), "--requirepass", "other-horse");
        using var log = new Warnings();
        await using SloggerClient client = SloggerClient.Start(new()
        {
            Endpoints = [Local(redis.Port)], Password = Password, LoggerFactory = log, ReconnectDelayMax = TimeSpan.FromMilliseconds(20),
        });
        await log.FirstAsync(l => l.Contains("WRONGPASS", StringComparison.Ordinal));
        using (RespClient plain = await redis.ConnectAsync())
        {
            await plain.DoAsync("AUTH", "other-horse");
            await plain.DoAsync("CONFIG", "SET", "requirepass", Password);
            await log.FirstAsync(l => l.Contains("no proxy that speaks sessions", StringComparison.Ordinal));
            long before = await ConnectionsAsync(plain);
            await Eventually.AsyncTrue("ten more attempts", Generous, async () => await ConnectionsAsync(plain) >= before + 10);
        }

        Assert.Equal(log.All.Distinct(), log.All);
        Assert.DoesNotContain(log.All, l => l.Contains(Password, StringComparison.Ordinal));
        Assert.False(client.Connected.IsCompleted);

        redis.KillHard();
        await File.WriteAllTextAsync(workspace.File("password"), Password + "\n");
        string data = workspace.Folder("data");
        using ProxyProcess proxy = await ProxyProcess.StartAsync(redis.Port, ["--redis-server", RedisProcess.Executable, "--data", data,
            "--metadata", "sqlite:" + Path.Combine(data, "metadata.db"), "--redis-password-file", workspace.File("password")]);
        try
        {
            await using SloggerSession session = await client.OpenSessionAsync().WaitAsync(Generous);
            Assert.Equal(1, (await session.IncrementAsync("n").AsTask().WaitAsync(Generous)).Value);
        }
        finally
        {
            await proxy.TerminateAsync();
        }
    }

    private static async Task<long> ConnectionsAsync(RespClient redis) => long.Parse(
        (await redis.DoAsync("INFO", "stats")).Text.Split("total_connections_received:")[1].Split("\r\n")[0], CultureInfo.InvariantCulture);

    // What is logged as a warning.
    private sealed class Warnings : ILoggerFactory, ILogger
    {
        private readonly ConcurrentQueue<string> _lines = new();

        public string[] All => [.. _lines];

        public Task FirstAsync(Func<string, bool> which) =>
            Eventually.AsyncTrue("a warning", Generous, () => Task.FromResult(_lines.Any(which)));

        public ILogger CreateLogger(string categoryName) => this;

        public void AddProvider(ILoggerProvider provider) => throw new NotSupportedException();

        public IDisposable? BeginScope<TState>(TState state) where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => logLevel >= LogLevel.Warning;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception,
            Func<TState, Exception?, string> formatter)
        {
            if (IsEnabled(logLevel)) { _lines.Enqueue(formatter(state, exception)); }
        }

        public void Dispose()
        {
        }
    }
}

// The supervisor with a real redis-server: it outlives its supervisor, is adopted, and its death is noticed.
using System.Net.Sockets;
using Slogger.Redis.Connections;
using Slogger.Redis.Supervision;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Supervision;

public sealed class RedisSupervisorTests : IAsyncLifetime
{
    private readonly string _directory = TestRedis.NewDirectory();

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    public async ValueTask DisposeAsync()
    {
        await using (var last = new RedisSupervisor(new() { Directory = _directory, Password = _password }))
        {
            if (await last.StartOrAdoptAsync() is not SupervisedStart.Failed)
                await last.KillAsync();
        }
        Directory.Delete(_directory, recursive: true);
    }

    private string? _password;

    [Fact]
    public async Task Start_ThenNewSupervisor_AdoptsTheSameRun()
    {
        _password = "p\"a\\s s\u00e9";
        var options = new RedisSupervisorOptions { Directory = _directory, Password = _password };
        SupervisedStart.Started started;
        await using (var first = new RedisSupervisor(options))
        {
            started = Assert.IsType<SupervisedStart.Started>(await first.StartOrAdoptAsync());
            await using RedisConnection client = await RedisConnection.ConnectAsync(first.Endpoint);
            await client.ExpectAsync("SET", "a", "1");
            Assert.True((await RedisProbe.InspectAsync(first.Endpoint)).IsUsable);
        }
        await using var second = new RedisSupervisor(options);
        var adopted = Assert.IsType<SupervisedStart.Adopted>(await second.StartOrAdoptAsync());
        Assert.Equal(started.RunId, adopted.RunId);
        Assert.Equal(started.ProcessId, adopted.ProcessId);
        Assert.False(adopted.SettingsDiffer);
        await using var third = new RedisSupervisor(options with { BacklogBytes = 1 << 20 });
        Assert.True(Assert.IsType<SupervisedStart.Adopted>(await third.StartOrAdoptAsync()).SettingsDiffer);
        if (!OperatingSystem.IsWindows())
            Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, File.GetUnixFileMode(Path.Combine(_directory, "redis.conf")));
        await using var wrong = new RedisSupervisor(options with { Password = "other" });
        var failed = Assert.IsType<SupervisedStart.Failed>(await wrong.StartOrAdoptAsync());
        Assert.Equal(RedisProblem.WrongPassword, failed.Problem);
    }

    [Fact]
    public async Task EndLeftBehind_EndsTheOneOfTheDirectory_WithoutItsPidFileToo_AndNobodyElses()
    {
        foreach (bool hasPidFile in (bool[])[true, false])
        {
            var first = new RedisSupervisor(new() { Directory = _directory });
            Assert.IsType<SupervisedStart.Started>(await first.StartOrAdoptAsync());
            await first.DisposeAsync();
            if (!hasPidFile) File.Delete(Path.Combine(_directory, "redis.pid"));
            // As one that was left between two turns.
            ProcessWatch.Pause(first.ProcessId);
            await using var next = new RedisSupervisor(new() { Directory = _directory });
            await next.EndLeftBehindAsync();
            Assert.True(first.HasEnded);
            Assert.False(File.Exists(next.SocketPath));
        }
        string other = TestRedis.NewDirectory();
        await using var stranger = new RedisSupervisor(new() { Directory = other });
        var running = Assert.IsType<SupervisedStart.Started>(await stranger.StartOrAdoptAsync());
        await File.WriteAllTextAsync(Path.Combine(_directory, "redis.pid"), $"{running.ProcessId}\n");
        await new RedisSupervisor(new() { Directory = _directory }).EndLeftBehindAsync();
        Assert.False(stranger.HasEnded);
        await stranger.KillAsync();
        Directory.Delete(other, recursive: true);
    }

    [Fact]
    public async Task Kill9_IsNoticedAndStartedAgainEmpty()
    {
        await using var supervisor = new RedisSupervisor(new() { Directory = _directory });
        var started = Assert.IsType<SupervisedStart.Started>(await supervisor.StartOrAdoptAsync());
        await using (RedisConnection client = await RedisConnection.ConnectAsync(supervisor.Endpoint))
        {
            await client.ExpectAsync("SET", "a", "1");
            await client.ExpectAsync("SAVE");
        }
        for (int round = 0; round < 3; round++)
        {
            Assert.False(supervisor.Exited.IsCompleted || supervisor.IsEnding);
            System.Diagnostics.Process.GetProcessById(supervisor.ProcessId).Kill();
            await supervisor.Exited.WaitAsync(TimeSpan.FromSeconds(30));
            Assert.True(supervisor.IsEnding);
            var again = Assert.IsType<SupervisedStart.Started>(await supervisor.StartOrAdoptAsync());
            Assert.NotEqual(started.RunId, again.RunId);
            Assert.Equal(0, (await RedisProbe.InspectAsync(supervisor.Endpoint)).Facts!.KeyCount);
        }
        await supervisor.StopAsync();
        Assert.True(supervisor.Exited.IsCompleted);
    }

    [Fact]
    public async Task Start_TheOneBeforeStillAcceptsAndCloses_IsStartedWhenThatHasEnded()
    {
        await using var supervisor = new RedisSupervisor(new() { Directory = _directory });
        using var listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        listener.Bind(new UnixDomainSocketEndPoint(supervisor.SocketPath));
        listener.Listen();
        Task<SupervisedStart> start = supervisor.StartOrAdoptAsync();
        for (int i = 0; i < 3; i++)
        {
            using Socket accepted = await listener.AcceptAsync().WaitAsync(TimeSpan.FromSeconds(30));
        }
        listener.Close();
        Assert.IsType<SupervisedStart.Started>(await start);
    }

    [Fact]
    public async Task Stop_StoppedProcess_IsKilled()
    {
        await using var supervisor = new RedisSupervisor(new() { Directory = _directory, StopTimeMax = TimeSpan.FromMilliseconds(300) });
        var started = Assert.IsType<SupervisedStart.Started>(await supervisor.StartOrAdoptAsync());
        System.Diagnostics.Process.Start("kill", ["-STOP", $"{started.ProcessId}"]).WaitForExit();
        await supervisor.StopAsync().WaitAsync(TimeSpan.FromSeconds(30));
    }

    [Fact]
    public async Task Start_PortTaken_SaysSoFromTheLog()
    {
        await using TestRedis other = await TestRedis.StartAsync();
        await using var supervisor = new RedisSupervisor(new() { Directory = _directory, Port = other.Port });
        var failed = Assert.IsType<SupervisedStart.Failed>(await supervisor.StartOrAdoptAsync().WaitAsync(TimeSpan.FromSeconds(25)));
        Assert.Contains("in use", failed.Message);
    }

    [Fact]
    public async Task Start_BadSettingOrProgram_SaysSo()
    {
        await using var bad = new RedisSupervisor(new() { Directory = _directory, ExtraLines = ["no-such-setting 1"] });
        Assert.Contains("no-such-setting", Assert.IsType<SupervisedStart.Failed>(await bad.StartOrAdoptAsync()).Message);
        await using var absent = new RedisSupervisor(new() { Directory = _directory, Executable = "no-such-redis" });
        Assert.Contains("no-such-redis", Assert.IsType<SupervisedStart.Failed>(await absent.StartOrAdoptAsync()).Message);
    }

    [Fact]
    public async Task Start_LongDirectory_UsesAShortSocketPath()
    {
        string deep = Path.Combine(_directory, new string('d', 120));
        await using var supervisor = new RedisSupervisor(new() { Directory = deep });
        Assert.IsType<SupervisedStart.Started>(await supervisor.StartOrAdoptAsync());
        await supervisor.StopAsync();
    }

    // Somebody else has made the directory for the socket, and may listen there.
    [Theory]
    [InlineData("open")]
    [InlineData("link")]
    [InlineData("another user's")]
    public async Task Start_LongDirectoryAndAForeignOneForTheSocket_IsRefused(string how)
    {
        if (OperatingSystem.IsWindows())
        {
            Assert.Skip("there is no mode");
            return;
        }

        const UnixFileMode Private = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute;
        string shared = Directory.CreateDirectory(Path.Combine(_directory, "tmp")).FullName, home =
            Path.Combine(shared, "slogger-" + Environment.UserName);
        string made = how == "link" ? Path.Combine(_directory, "elsewhere") : home;
        Directory.CreateDirectory(made, Private);
        if (how == "open") { File.SetUnixFileMode(made, Private | UnixFileMode.GroupWrite | UnixFileMode.GroupExecute); }
        if (how == "link") { Directory.CreateSymbolicLink(home, made); }
        if (how == "another user's")
        {
            if (Environment.UserName != "root") { Assert.Skip("only root can make another user's directory"); }
            using var chown = System.Diagnostics.Process.Start("chown", ["12345", home]);
            await chown.WaitForExitAsync(TestContext.Current.CancellationToken);
        }
        var options = new RedisSupervisorOptions { Directory = Path.Combine(_directory, new string('d', 120)), Password = "secret" };
        await using var refused = new RedisSupervisor(options, shared);
        Assert.StartsWith(shared, refused.SocketPath, StringComparison.Ordinal);
        string told;
        using (var listener = new System.Net.Sockets.Socket(
            System.Net.Sockets.AddressFamily.Unix, System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Unspecified))
        {
            listener.Bind(new System.Net.Sockets.UnixDomainSocketEndPoint(refused.SocketPath));
            listener.Listen();
            told = Assert.IsType<SupervisedStart.Failed>(await refused.StartOrAdoptAsync(TestContext.Current.CancellationToken)).Message;
            Assert.False(listener.Poll(0, System.Net.Sockets.SelectMode.SelectRead), "nobody has connected");
        }
        Assert.Contains(home, told, StringComparison.Ordinal);
        Assert.Contains("Have it removed, or give a shorter data directory", told, StringComparison.Ordinal);

        Directory.Delete(home, recursive: how != "link");
        await using var supervisor = new RedisSupervisor(options, shared);
        Assert.IsType<SupervisedStart.Started>(await supervisor.StartOrAdoptAsync(TestContext.Current.CancellationToken));
        await supervisor.StopAsync(TestContext.Current.CancellationToken);
    }
}

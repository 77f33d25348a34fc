// An application that hosts a shard, in the test's process.
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Slogger.Hosting.Tests;

internal sealed class HostedShard : IAsyncDisposable
{
    public static readonly TimeSpan Generous = TimeSpan.FromSeconds(120);
    private readonly string _folder = Directory.CreateTempSubdirectory("slogger-hosting-").FullName;
    private readonly IHost _host;

    private HostedShard(Action<SloggerShardOptions> configure)
    {
        HostApplicationBuilder builder = Host.CreateApplicationBuilder();
        builder.Logging.ClearProviders();
        builder.Services.Configure<HostOptions>(static o =>
            o.BackgroundServiceExceptionBehavior = BackgroundServiceExceptionBehavior.Ignore);
        builder.Services.AddSloggerShard(o =>
        {
            o.Serve["listen"] = "127.0.0.1:0";
            o.Serve["data"] = Path.Combine(_folder, "data");
            o.Serve["faster-memory"] = "256mb";
            configure(o);
        });
        _host = builder.Build();
        Shard = _host.Services.GetRequiredService<ISloggerShard>();
    }

    public ISloggerShard Shard { get; }

    /// <summary>Not started yet.</summary>
    public static HostedShard New(Action<SloggerShardOptions>? configure = null) => new(configure ?? (static _ => { }));

    /// <summary>Serves.</summary>
    public static async Task<HostedShard> StartAsync(Action<SloggerShardOptions>? configure = null)
    {
        HostedShard hosted = New(configure);
        await hosted.StartAsync();
        await hosted.Shard.Ready.WaitAsync(Generous);
        return hosted;
    }

    public Task StartAsync() => _host.StartAsync();

    public Task StopAsync() => _host.StopAsync();

    public async ValueTask DisposeAsync()
    {
        await _host.StopAsync();
        _host.Dispose();
        Directory.Delete(_folder, recursive: true);
    }
}

// How an application asks for a shard.
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Hosting;

namespace Slogger.Hosting;

/// <summary>Adds a shard to an application.</summary>
public static class SloggerShardServiceCollectionExtensions
{
    /// <summary>Runs a shard with an embedded store in this process, as a hosted service, and gives the application
    /// <see cref="ISloggerShard"/>. One for each process.</summary>
    public static IServiceCollection AddSloggerShard(this IServiceCollection services, Action<SloggerShardOptions> configure)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentNullException.ThrowIfNull(configure);
        services.Configure(configure);
        services.TryAddSingleton<SloggerShard>();
        services.TryAddSingleton<ISloggerShard>(static s => s.GetRequiredService<SloggerShard>());
        services.AddSingleton<IHostedService>(static s => s.GetRequiredService<SloggerShard>());
        return services;
    }
}

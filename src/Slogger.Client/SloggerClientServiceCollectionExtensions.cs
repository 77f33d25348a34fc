// How an application asks for a client.
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace Slogger.Client;

/// <summary>Adds a client to an application.</summary>
public static class SloggerClientServiceCollectionExtensions
{
    /// <summary>Gives the application one <see cref="SloggerClient"/>, with settings from its configuration. It is started
    /// (<see cref="SloggerClient.Start"/>) when it is asked for first, whether or not a proxy is there, and it logs as the application
    /// does.</summary>
    /// <param name="services">The application's services.</param>
    /// <param name="section">The section with the client's settings. Its keys are the properties of <see cref="SloggerClientOptions"/>:
    /// <c>Endpoints</c> is a list, or one text with commas; times are HH:MM:SS; <c>Tls</c> is true or false. It is read when the client is
    /// asked for first. A key that is none of these, or a value that cannot be, is a <see cref="SloggerException"/> then that names
    /// it.</param>
    /// <param name="with">What is set besides, as <c>o => o with { Tls = ... }</c>; null: nothing.</param>
    public static IServiceCollection AddSloggerClient(this IServiceCollection services, IConfiguration section,
        Func<SloggerClientOptions, SloggerClientOptions>? with = null)
    {
        ArgumentNullException.ThrowIfNull(section);
        return services.AddSloggerClient(_ => ConfiguredOptions.Read(section, with));
    }

    /// <summary>Gives the application one <see cref="SloggerClient"/>. It is started (<see cref="SloggerClient.Start"/>) when it is asked
    /// for first, whether or not a proxy is there. Where the settings name no <see cref="SloggerClientOptions.LoggerFactory"/>, it logs as
    /// the application does.</summary>
    /// <param name="services">The application's services.</param>
    /// <param name="options">Makes the settings.</param>
    public static IServiceCollection AddSloggerClient(this IServiceCollection services,
        Func<IServiceProvider, SloggerClientOptions> options)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentNullException.ThrowIfNull(options);
        return services.AddSingleton(provider =>
        {
            SloggerClientOptions given = options(provider);
            return SloggerClient.Start(given with { LoggerFactory = given.LoggerFactory ?? provider.GetService<ILoggerFactory>() });
        });
    }
}

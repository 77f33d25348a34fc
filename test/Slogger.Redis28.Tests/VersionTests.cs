// That this project runs what it is for: a central version must not take the old one's place unseen.
using StackExchange.Redis;

namespace Slogger.Redis28.Tests;

public sealed class VersionTests
{
    [Fact]
    public void StackExchangeRedis_InThisProject_IsTheOlderOne() =>
        Assert.StartsWith("2.8.16", typeof(ConnectionMultiplexer).Assembly.GetCustomAttributes(false)
            .OfType<System.Reflection.AssemblyFileVersionAttribute>().Single().Version, StringComparison.Ordinal);
}

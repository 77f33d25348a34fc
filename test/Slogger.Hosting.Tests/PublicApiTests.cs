// The public API as a list in a file.
using Slogger.Tests.Packages;

namespace Slogger.Hosting.Tests;

public sealed class PublicApiTests
{
    [Fact]
    public void PublicApi_IsWhatTheListSays() => PublicApi.Check(typeof(ISloggerShard).Assembly, typeof(PublicApiTests).Assembly);
}

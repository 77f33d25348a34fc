using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Cli.Tests.Configuration;

public class OptionTextTests
{
    private static readonly OptionTextParser<TimeSpan> Interval =
        OptionText.Duration(ServeOptions.VersionIntervalMin, ServeOptions.VersionIntervalMax);
    private static readonly OptionTextParser<long> Size = OptionText.Size(0, 1L << 50);

    [Theory]
    [InlineData("1ms", 1_000)]
    [InlineData("5ms", 5_000)]
    [InlineData("2.5ms", 2_500)]
    [InlineData("1500us", 1_500)]
    [InlineData("2s", 2_000_000)]
    [InlineData("10m", 600_000_000)]
    [InlineData("10min", 600_000_000)]
    [InlineData("60m", 3_600_000_000)]
    [InlineData("1h", 3_600_000_000)]
    [InlineData("5MS", 5_000)]
    public void Duration_Good_IsRead(string text, long microseconds)
    {
        Assert.True(Interval(text, out TimeSpan value, out string problem), problem);
        Assert.Equal(microseconds, value.Ticks / TimeSpan.TicksPerMicrosecond);
    }

    [Theory]
    [InlineData("5", "5ms, 5s or 5m")]
    [InlineData("0ms", "1ms to 1h")]
    [InlineData("999us", "1ms to 1h")]
    [InlineData("61m", "1ms to 1h")]
    [InlineData("99999999999999999999999999h", "out of range")]
    [InlineData("-5ms", "not a duration")]
    [InlineData("", "not a duration")]
    [InlineData("ms", "not a duration")]
    [InlineData("fast", "not a duration")]
    [InlineData("1.0005ms", "finer than a microsecond")]
    [InlineData("1,5ms", "not a duration")]
    public void Duration_Bad_SaysWhatIsExpected(string text, string expected)
    {
        Assert.False(Interval(text, out _, out string problem));
        Assert.Contains(expected, problem);
    }

    [Theory]
    [InlineData("0", 0)]
    [InlineData("4096", 4096)]
    [InlineData("1k", 1_000)]
    [InlineData("1kb", 1_024)]
    [InlineData("576mb", 576L << 20)]
    [InlineData("1.5GB", 3L << 29)]
    [InlineData("2gib", 2L << 30)]
    [InlineData("1tb", 1L << 40)]
    public void Size_Good_IsRead(string text, long bytes)
    {
        Assert.True(Size(text, out long value, out string problem), problem);
        Assert.Equal(bytes, value);
        Assert.True(Size(OptionText.FormatSize(bytes), out long again, out _));
        Assert.Equal(bytes, again);
    }

    [Theory]
    [InlineData("")]
    [InlineData("mb")]
    [InlineData("-1mb")]
    [InlineData("1xb")]
    [InlineData("99999999999999999999tb")]
    public void Size_Bad_IsRefused(string text)
    {
        Assert.False(Size(text, out _, out string problem));
        Assert.NotEmpty(problem);
    }

    [Theory]
    [InlineData("127.0.0.1:6380", "127.0.0.1:6380", true)]
    [InlineData("localhost:1", "localhost:1", true)]
    [InlineData("redis.example.org:6379", "redis.example.org:6379", false)]
    [InlineData("0.0.0.0:6380", "0.0.0.0:6380", false)]
    [InlineData("[::1]:6380", "[::1]:6380", true)]
    [InlineData("[::]:0", "[::]:0", false)]
    [InlineData("unix:/run/s.sock", "unix:/run/s.sock", true)]
    [InlineData("/run/s.sock", "unix:/run/s.sock", true)]
    public void Address_Good_IsReadAndWritten(string text, string expected, bool local)
    {
        Assert.True(ListenAddress.TryParse(text, out ListenAddress? address, out string? problem), problem);
        Assert.Equal(expected, address.ToString());
        Assert.Equal(local, address.IsLocal);
        Assert.True(ListenAddress.TryParse(address.ToString(), out ListenAddress? again, out _));
        Assert.Equal(address, again);
    }

    [Theory]
    [InlineData("6380", "no port")]
    [InlineData("localhost", "no port")]
    [InlineData(":6380", "127.0.0.1:6380")]
    [InlineData("*:6380", "0.0.0.0")]
    [InlineData("::1:6380", "brackets")]
    [InlineData("[zz]:6380", "IPv6")]
    [InlineData("[127.0.0.1]:6380", "IPv6")]
    [InlineData("localhost:65536", "0 to 65535")]
    [InlineData("localhost:-1", "0 to 65535")]
    [InlineData("localhost:", "0 to 65535")]
    [InlineData("redis://localhost:6379", "URL")]
    [InlineData("a b:6379", "host name")]
    [InlineData("unix:", "socket file")]
    [InlineData("/run/", "socket file")]
    public void Address_Bad_SaysWhatIsExpected(string text, string expected)
    {
        Assert.False(ListenAddress.TryParse(text, out _, out string? problem));
        Assert.Contains(expected, problem);
    }

    [Fact]
    public void Address_UnixPathTooLong_IsRefused()
    {
        Assert.True(ListenAddress.TryParse("/" + new string('a', ListenAddress.UnixPathBytesMax - 1), out _, out _));
        Assert.False(ListenAddress.TryParse("/" + new string('a', ListenAddress.UnixPathBytesMax), out _, out string? problem));
        Assert.Contains("too long", problem);
    }

    [Theory]
    [InlineData("postgres:Host=db;Port=5433;Username=u;Password=s3cret;Database=d", MetadataKind.Postgres)]
    [InlineData("postgresql:Host=db;Password=s3cret", MetadataKind.Postgres)]
    [InlineData("sqlserver:Server=db;User Id=u;Password=s3cret;Pwd=s3cret", MetadataKind.SqlServer)]
    public void Metadata_WithPassword_KeepsItAndNeverShowsIt(string text, MetadataKind kind)
    {
        Assert.True(MetadataSpec.TryParse(text, out MetadataSpec? spec, out string? problem), problem);
        Assert.Equal(kind, spec.Kind);
        Assert.Contains("s3cret", spec.Text);
        Assert.DoesNotContain("s3cret", spec.ToString());
        Assert.Contains("db", spec.ToString());
    }

    [Theory]
    [InlineData("mysql:Host=db;Password=s3cret", "sqlite:")]
    [InlineData("postgres://u:s3cret@db/d", "URL")]
    [InlineData("postgres:s3cret", "Key=Value")]
    [InlineData("postgres:", "empty")]
    [InlineData("sqlite:", "no file")]
    [InlineData("metadata.db", "sqlite:")]
    public void Metadata_Bad_SaysWhatIsExpectedWithoutTheSecret(string text, string expected)
    {
        OptionsResult<ServeOptions> result = Layers.Serve(("redis", "h:1"), ("metadata", text));
        OptionError error = Assert.Single(result.Errors);
        Assert.Contains(expected, error.What);
        Assert.DoesNotContain("s3cret", error.ToString());
    }

    [Theory]
    [InlineData("lisen", "listen")]
    [InlineData("version-intervall", "version-interval")]
    [InlineData("LISTEN", "listen")]
    [InlineData("zzzzzz", null)]
    [InlineData("", null)]
    public void NearestName_Typed_IsFoundIfNear(string typed, string? expected)
        => Assert.Equal(expected, NearestName.Find(typed, OptionCatalog.All.Select(option => option.Name)));
}

// Keys with their versions: what each command replies, what it refuses, and that every write counts, by whomever it is done.
using System.Text;
using System.Text.RegularExpressions;
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

/// <summary>A Redis, and a proxy with --commit log.</summary>
public sealed class LoggedProxy : IDisposable
{
    public LoggedProxy() => Proxy = new(Redis, TransportKind.Auto, o => o with { Commit = CommitMode.Log });

    internal RedisServer Redis { get; } = new();

    internal TestProxy Proxy { get; }

    public void Dispose()
    {
        Proxy.Dispose();
        Redis.Dispose();
    }
}

public sealed partial class KeyCommandTests : IClassFixture<LoggedProxy>, IDisposable
{
    private readonly LoggedProxy _servers;
    private readonly RespConnection _client;

    public KeyCommandTests(LoggedProxy servers)
    {
        _servers = servers;
        _client = servers.Proxy.Connect();
        Assert.Equal("+OK\r\n", _client.Call("FLUSHALL"));
    }

    public void Dispose() => _client.Dispose();

    // A reply in short: strings as they are, arrays in brackets, numbers with a colon.
    private static string Short(string reply)
    {
        int at = 0;
        string Next()
        {
            int end = reply.IndexOf("\r\n", at, StringComparison.Ordinal);
            string line = reply[at..end];
            at = end + 2;
            switch (line[0])
            {
                case '$' when line == "$-1":
                case '_':
                    return "nil";
                case '$':
                    string text = reply.Substring(at, int.Parse(line.AsSpan(1), null));
                    at += text.Length + 2;
                    return text;
                case '*':
                    return "[" + string.Join(' ', Enumerable.Range(0, int.Parse(line.AsSpan(1), null)).Select(_ => Next())) + "]";
                default:
                    return line;
            }
        }
        return Next();
    }

    private string Do(params string[] request) => Short(_client.Call(request));

    private string Do(string request) => Do(request.Split(' '));

    // The version of a key, and its value before it.
    private (string Value, string Version) Get(string key)
    {
        string[] words = Do("DPR.GETV", key).Trim('[', ']').Split(' ');
        return (words[0], words[1]);
    }

    private string VersionOf(string key) => Get(key).Version;

    [GeneratedRegex(@"^\[:1 (?<version>\d+\.\d+)\]$")]
    private static partial Regex Done();

    private static string NewVersion(string reply) =>
        Done().Match(reply) is { Success: true } match ? match.Groups["version"].Value : throw new InvalidOperationException(reply);

    [Fact]
    public void Put_WithTheKeysVersion_WritesAndGivesTheNext()
    {
        string first = Do("DPR.PUTV k a");
        Assert.Equal(("a", first), Get("k"));
        string second = NewVersion(Do($"DPR.CPUT k {first} b"));
        Assert.Equal(("b", second), Get("k"));
        Assert.Equal($"[:0 {second}]", Do($"DPR.CPUT k {first} c"));
        string third = NewVersion(Do($"DPR.CPUT k {second} d"));
        Assert.Equal($"[[d {third}] [nil {VersionOf("none")}]]", Do("DPR.GETV k none"));
    }

    [Fact]
    public void Version_Zero_IsOfAKeyThatMustNotExist()
    {
        string version = NewVersion(Do("DPR.CPUT k 0 a"));
        Assert.Equal($"[:0 {version}]", Do("DPR.CPUT k 0 b"));
        Assert.Equal("a", Do("GET k"));
        Assert.Equal($"[:0 {version}]", Do("DPR.CDEL k 0"));
        Assert.Equal(":1", Do("DEL k"));
        string missing = NewVersion(Do("DPR.CDEL k 0"));
        NewVersion(Do($"DPR.CPUT k {missing} c"));
    }

    [Fact]
    public void Delete_WithTheKeysVersion_Deletes()
    {
        string version = Do("DPR.PUTV k a");
        string deleted = NewVersion(Do($"DPR.CDEL k {version}"));
        Assert.Equal(("nil", deleted), Get("k"));
        Assert.Equal($"[:0 {deleted}]", Do($"DPR.CDEL k {version}"));
        // There is nothing to delete: nothing is written, and the next write of anybody is seen.
        string again = NewVersion(Do($"DPR.CDEL k {deleted}"));
        Assert.Equal("+OK", Do("SET k b"));
        Assert.StartsWith("[:0 ", Do($"DPR.CPUT k {again} c"));
        Assert.Equal("b", Do("GET k"));
        string plain = Do("DPR.DELV k other");
        Assert.Equal(("nil", plain), Get("k"));
    }

    [Fact]
    public void Put_OfSeveralKeys_IsAllOrNothing()
    {
        string version = Do("DPR.PUTV {t}a 1 {t}b 2");
        Assert.Equal($"[[1 {version}] [2 {version}]]", Do("DPR.GETV {t}a {t}b"));
        string other = Do("DPR.PUTV {t}b 3");
        Assert.Equal($"[:0 {other}]", Do($"DPR.CPUT {{t}}a {version} 5 {{t}}b {version} 6"));
        Assert.Equal("[1 3]", Do("MGET {t}a {t}b"));
        string both = NewVersion(Do($"DPR.CPUT {{t}}a {version} 5 {{t}}b {other} 6 {{t}}c 0 7"));
        Assert.Equal($"[[5 {both}] [6 {both}] [7 {both}]]", Do("DPR.GETV {t}a {t}b {t}c"));
        Assert.Equal($"[:0 {both}]", Do($"DPR.CDEL {{t}}a {both} {{t}}b {version}"));
        NewVersion(Do($"DPR.CDEL {{t}}a {both} {{t}}b {both}"));
        Assert.Equal(":1", Do("EXISTS {t}a {t}b {t}c"));
    }

    [Fact]
    public void Options_OfAConditionalPut_AreThoseOfSet()
    {
        string version = NewVersion(Do("DPR.CPUT {t}k 0 a {t}l 0 b PX 100000"));
        Assert.InRange(int.Parse(Do("PTTL {t}k").AsSpan(1), null), 1, 100_000);
        Assert.InRange(int.Parse(Do("PTTL {t}l").AsSpan(1), null), 1, 100_000);
        Assert.Equal(("a", version), Get("{t}k"));
        string kept = NewVersion(Do($"DPR.CPUT {{t}}k {version} b KEEPTTL"));
        Assert.InRange(int.Parse(Do("PTTL {t}k").AsSpan(1), null), 1, 100_000);
        NewVersion(Do($"DPR.CPUT {{t}}k {kept} c"));
        Assert.Equal(":-1", Do("PTTL {t}k"));
    }

    [Fact]
    public void Fields_OfAHash_HaveVersionsOfTheirOwn()
    {
        Assert.Equal(":2", Do("HSET h f 1 g 2"));
        string[] words = Do("DPR.HGETV h f g none").Replace("[", "").Replace("]", "").Split(' ');
        Assert.Equal(("1", "2", "nil", words[1]), (words[0], words[2], words[4], words[3]));
        string f = words[1], none = words[5];
        string g = NewVersion(Do($"DPR.HCPUT h g {words[3]} 3"));
        Assert.Equal($"[[1 {f}] [3 {g}]]", Do("DPR.HGETV h f g"));
        // The key's version is that of its last write.
        Assert.Equal("[:0 " + g + "]", Do($"DPR.CDEL h {f}"));
        string n = NewVersion(Do($"DPR.HCPUT h f {f} 4 none {none} 5"));
        Assert.Equal($"[:0 {n}]", Do($"DPR.HCPUT h f {f} 6 g {g} 6"));
        Assert.Equal($"[:0 {n}]", Do("DPR.HCPUT h none 0 6"));
        Assert.Equal("[f 4 g 3 none 5]", Do("HGETALL h"));
        Assert.Equal(":3", Do("HINCRBY h new 3"));
        Assert.StartsWith("[:0 ", Do($"DPR.HCDEL h f {n} new {n}"));
        NewVersion(Do($"DPR.HCDEL h f {n} g {g}"));
        Assert.Equal("[none new]", Do("HKEYS h"));
        // A write of the whole key is one of each field.
        Assert.Equal(":1", Do("PEXPIRE h 1000000"));
        Assert.StartsWith("[:0 ", Do($"DPR.HCPUT h none {n} 7"));
    }

    public static TheoryData<string> Writes =>
    [
        "SET k v", "APPEND k v", "INCR k", "DEL k", "UNLINK k", "PEXPIRE k 100000", "EXPIRE k -1", "RENAME k l", "COPY l k REPLACE",
        "MSET l 1 k 2",
        "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "SETRANGE k 0 x", "GETDEL k", "GETEX k EX 100", "EVAL return(redis.call('set','k','v')) 0",
        "EVAL redis.call('incr','l');return(redis.call('incr','k')) 0", "SORT list STORE k", "MULTI|SET l 1|SET k 1|EXEC",
        "MULTI|SELECT 1|SET k 1|SELECT 0|SET k 1|EXEC", "SUNIONSTORE k s", "MOVE k 1",
    ];

    [Theory]
    [MemberData(nameof(Writes))]
    public void Write_OfAnybody_IsSeen(string requests)
    {
        using RespConnection direct = _servers.Redis.Connect();
        foreach (RespConnection other in (RespConnection[])[_client, direct])
        {
            Do("FLUSHALL");
            Do("MSET k 1 l 1");
            Do("RPUSH list 3 1 2");
            Do("SADD s x");
            string version = VersionOf("k");
            foreach (string request in requests.Split('|'))
            {
                string reply = other.Call(request.Split(' '));
                Assert.False(reply.StartsWith('-'), reply);
            }
            string before = other.Call("GET", "k");
            Assert.StartsWith("[:0 ", Do($"DPR.CPUT k {version} new"));
            Assert.Equal(before, other.Call("GET", "k"));
            // With what it is told then it goes on.
            string next = Do($"DPR.CPUT k {version} new")[4..^1];
            NewVersion(Do($"DPR.CPUT k {next} new"));
            Assert.Equal("new", Do("GET k"));
        }
    }

    [Theory]
    [InlineData("GET k")]
    [InlineData("SET l 5")]
    [InlineData("MULTI|SET l 1|GET k|EXEC")]
    [InlineData("SELECT 1|SET k 1|SELECT 0")]
    [InlineData("EVAL return(redis.call('set','l','v')) 0")]
    [InlineData("PUBLISH k x")]
    [InlineData("FUNCTION FLUSH")]
    public void WhatDoesNotWriteTheKey_LeavesItsVersion(string requests)
    {
        Do("MSET k 1 l 1");
        string version = VersionOf("k");
        foreach (string request in requests.Split('|')) { Assert.False(_client.Call(request.Split(' ')).StartsWith('-')); }
        Assert.Equal(version, VersionOf("k"));
        NewVersion(Do($"DPR.CPUT k {version} new"));
    }

    [Fact]
    public void Expiry_IsAWrite()
    {
        // Nobody but who touches a key finds out that it has expired.
        using RespConnection direct = _servers.Redis.Connect();
        Assert.Equal("+OK\r\n", direct.Call("DEBUG", "SET-ACTIVE-EXPIRE", "0"));
        try
        {
            string version = NewVersion(Do("DPR.CPUT k 0 a PX 30"));
            Thread.Sleep(60);
            Assert.StartsWith("[:0 ", Do($"DPR.CPUT k {version} b KEEPTTL"));
            Assert.Equal(("nil", "nil"), (Get("k").Value, Do("GET k")));
            string field;
            // On a slow machine it may expire before it is read.
            do
            {
                Do("HSET h f 1");
                Do("PEXPIRE h 30");
            }
            while ((field = Do("DPR.HGETV h f")).Contains("nil", StringComparison.Ordinal));
            field = field[4..^2];
            Thread.Sleep(60);
            Assert.StartsWith("[:0 ", Do($"DPR.HCPUT h f {field} b"));
            NewVersion(Do("DPR.HCPUT h f 0 b"));
        }
        finally { direct.Call("DEBUG", "SET-ACTIVE-EXPIRE", "1"); }
    }

    [Fact]
    public void Version_OfTheFuture_IsRefused()
    {
        string version = Do("DPR.PUTV k a");
        string future = version[..^1] + "99999999";
        Assert.Equal($"[:0 {version}]", Do($"DPR.CPUT k {future} b"));
        Assert.Equal($"[:0 {version}]", Do($"DPR.CPUT k 99{version} b"));
        Assert.Equal($"[:0 {version}]", Do($"DPR.CPUT k {version}.1 b"));
    }

    [Theory]
    [InlineData("DPR.GETV", "-ERR wrong number of arguments for 'dpr.getv' command")]
    [InlineData("DPR.CPUT k", "-ERR wrong number of arguments for 'dpr.cput' command")]
    [InlineData("DPR.CPUT k 0", "-ERR wrong number of arguments for 'dpr.cput' command")]
    [InlineData("DPR.CPUT k 0 a EX 5", "-ERR wrong number of arguments for 'dpr.cput' command")]
    [InlineData("DPR.CPUT k 0 a l", "-ERR wrong number of arguments for 'dpr.cput' command")]
    [InlineData("dpr.cput k 0 a PX 0", "-ERR invalid expire time in 'dpr.cput' command")]
    [InlineData("DPR.CPUT k 0 a PX x", "-ERR invalid expire time in 'dpr.cput' command")]
    [InlineData("DPR.CDEL k", "-ERR wrong number of arguments for 'dpr.cdel' command")]
    [InlineData("DPR.PUTV k", "-ERR wrong number of arguments for 'dpr.putv' command")]
    [InlineData("DPR.DELV", "-ERR wrong number of arguments for 'dpr.delv' command")]
    [InlineData("DPR.HGETV h", "-ERR wrong number of arguments for 'dpr.hgetv' command")]
    [InlineData("DPR.HCPUT h f 0", "-ERR wrong number of arguments for 'dpr.hcput' command")]
    [InlineData("DPR.HCPUT h f 0 v KEEPTTL", "-ERR wrong number of arguments for 'dpr.hcput' command")]
    [InlineData("DPR.HCDEL h f", "-ERR wrong number of arguments for 'dpr.hcdel' command")]
    [InlineData("DPR.CPUT k 1 a", "-ERR SLOGGER '1' is no version of a key")]
    [InlineData("DPR.CPUT k 0 a l 1.x b", "-ERR SLOGGER '1.x' is no version of a key")]
    [InlineData("DPR.HGETV string f", "-WRONGTYPE ")]
    [InlineData("DPR.HCPUT string f 0 v", "-WRONGTYPE ")]
    [InlineData("DPR.HCDEL string f 0", "-WRONGTYPE ")]
    [InlineData("DPR.GETV hash", "-WRONGTYPE ")]
    public void BadRequest_IsAnError_AndNothingIsWritten(string request, string error)
    {
        Do("SET string x");
        Do("HSET hash f 1");
        Assert.StartsWith(error, Do(request));
        Assert.Equal(":2", Do("DBSIZE"));
        Assert.Equal("x", Do("GET string"));
        // It watches nothing, and is in no transaction.
        using RespConnection direct = _servers.Redis.Connect();
        direct.Call("SET", "string", "y");
        direct.Call("HSET", "hash", "f", "2");
        Assert.Equal("+OK", Do("MULTI"));
        Assert.Equal("+QUEUED", Do("GET string"));
        Assert.Equal("[y]", Do("EXEC"));
    }

    [Fact]
    public void Refusal_LeavesNothingWatched()
    {
        string version = Do("DPR.PUTV k a");
        Do("SET k b");
        Assert.StartsWith("[:0 ", Do($"DPR.CPUT k {version} c"));
        Assert.Equal("+OK", Do("WATCH other"));
        using RespConnection direct = _servers.Redis.Connect();
        direct.Call("SET", "k", "d");
        Assert.Equal("+OK", Do("MULTI"));
        Assert.Equal("+QUEUED", Do("GET k"));
        Assert.Equal("[d]", Do("EXEC"));
    }

    [Theory]
    [InlineData("DPR.GETV k")]
    [InlineData("DPR.CPUT k 0 a")]
    [InlineData("DPR.HCDEL k f 0")]
    [InlineData("DPR.PUTV k a")]
    public void InATransaction_ItIsRefused_AndTheTransactionDoesNotRun(string request)
    {
        Assert.Equal("+OK", Do("MULTI"));
        Assert.StartsWith("-ERR SLOGGER DPR.", Do(request));
        Assert.Equal("+QUEUED", Do("SET l 1"));
        Assert.StartsWith("-EXECABORT", Do("EXEC"));
        Assert.Equal(":0", Do("DBSIZE"));
        Assert.Equal("+OK", Do("WATCH l"));
        Assert.Contains("would end what this connection watches", Do(request));
        Assert.Equal("+OK", Do("UNWATCH"));
        Assert.False(Do(request) is ['-', ..]);
    }

    [Fact]
    public void Subscriber_OfResp2_IsRefused()
    {
        Do("SUBSCRIBE c");
        Assert.StartsWith("-ERR Can't execute 'dpr.putv'", Do("DPR.PUTV k a"));
        Do("UNSUBSCRIBE c");
        Assert.Equal(":0", Do("EXISTS k"));
    }

    [Fact]
    public void Subscriber_OfResp3_IsServed()
    {
        _client.Call("HELLO", "3");
        _client.Call("SUBSCRIBE", "c");
        string version = Do("DPR.PUTV k a");
        Assert.Equal(("a", version), Get("k"));
        NewVersion(Do($"DPR.CPUT k {version} b"));
        Assert.Equal($"[[nil {VersionOf("none")}]]", Do("DPR.GETV none"));
    }

    [Fact]
    public void Databases_HaveKeysOfTheirOwn()
    {
        string zero = Do("DPR.PUTV k a");
        Assert.Equal("+OK", Do("SELECT 3"));
        string three = Do("DPR.PUTV k b");
        Assert.Equal(("b", three), Get("k"));
        Assert.Equal($"[:0 {three}]", Do($"DPR.CPUT k {zero} c"));
        Assert.Equal("+OK", Do("SELECT 0"));
        Assert.Equal(("a", zero), Get("k"));
        NewVersion(Do($"DPR.CPUT k {zero} d"));
    }

    [Fact]
    public void Requests_InAPipeline_AreAnsweredInOrder()
    {
        string version = Do("DPR.PUTV k 0");
        var requests = new StringBuilder();
        foreach (string request in (string[])["SET l 1",
            $"DPR.CPUT k {version} 1", "GET k", $"DPR.CPUT k {version} 2", "DPR.GETV k l", "INCR l",
            "DPR.PUTV k 5", "GET k", "DPR.COMMITTED"])
        {
            requests.Append(Encoding.Latin1.GetString(RespConnection.Request(request.Split(' '))));
        }
        _client.SendRaw(requests.ToString());
        string Read() => Short(_client.Read());
        Assert.Equal("+OK", Read());
        string put = NewVersion(Read());
        Assert.Equal("1", Read());
        Assert.Equal($"[:0 {put}]", Read());
        Assert.StartsWith($"[[1 {put}] [1 ", Read());
        Assert.Equal(":2", Read());
        Read();
        Assert.Equal("5", Read());
        // Each is one operation: FLUSHALL and the put before, and these but the last.
        Assert.Matches(@"^\[:1 :\d+ :10 :\d+\]$", Read());
    }

    [Fact]
    public void Monitor_ShowsTheWrite_AndNotWhatIsAroundIt()
    {
        using RespConnection monitor = _servers.Proxy.Connect();
        monitor.Call("MONITOR");
        NewVersion(Do("DPR.CPUT watched 0 a"));
        Do("SET end 1");
        string lines = monitor.ReadUntil("\"end\" \"1\"\r\n");
        Assert.Contains("\"SET\" \"watched\" \"a\"", lines);
        Assert.DoesNotContain("watch\"", lines, StringComparison.OrdinalIgnoreCase);
        Assert.DoesNotContain("multi", lines, StringComparison.OrdinalIgnoreCase);
        Assert.DoesNotContain("role", lines, StringComparison.OrdinalIgnoreCase);
    }

    [Fact]
    public void WithoutALog_ItIsRefused()
    {
        using var proxy = new TestProxy(_servers.Redis, TransportKind.Auto);
        using RespConnection client = proxy.Connect();
        Assert.StartsWith("-ERR SLOGGER DPR.GETV needs --commit log", client.Call("DPR.GETV", "k"));
        Assert.StartsWith("-ERR SLOGGER DPR.CPUT needs --commit log", client.Call("DPR.CPUT", "k", "0", "a"));
    }
}

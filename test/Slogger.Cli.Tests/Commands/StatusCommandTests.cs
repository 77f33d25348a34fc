using System.Text.Json;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Cli.Tests.Commands;

public sealed class StatusCommandTests : IDisposable
{
    private readonly TempDirectory _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public async Task Table_ShowsTheShardForAPerson()
    {
        using FakeProxy proxy = FakeProxy.WithInfo();
        AppRun run = await AppRun.Of(["status", proxy.Address.ToString()]);
        Assert.Equal((0, ""), (run.ExitCode, run.Error));
        string[] expected =
        [
            "shard 0 of cluster default", "redis 127.0.0.1:6379, serving", "log, versions of 5ms", "1205", "1203, 2 behind the open one",
                "1202, 3 behind the open one",
            "marker 0.4 ms, log 1.2 ms, sync 3.5 ms, record 0.2 ms", "1.5 MB", "ago, 700.0 MB", "12, 2 with a connection of their own",
                "123,456 per second",
            "version 0.1.0, up for 1 h 2 min", "future_field", "[x]",
        ];
        Assert.All(expected, text => Assert.Contains(text, run.Output));
        Assert.Equal(["DPR.INFO"], proxy.Asked);
    }

    // The words are those of VersionedShard.Status.
    [Theory]
    [InlineData("serving", true)]
    [InlineData("serving reads", true)]
    [InlineData("available", true)]
    [InlineData("recovering", false)]
    [InlineData("starting", false)]
    [InlineData("unavailable", false)]
    public void State_ThatTheProxySays_IsShownAsWellOrNot(string state, bool isWell) => Assert.Equal(isWell, StatusReport.IsWell(state));

    [Fact]
    public async Task Table_OfSeveralShards_HasNoRawNamesOfItsOwnFields()
    {
        string info = FakeProxy.Info + "lag_commit_ms:5.5\r\nstride:4\r\nlog_offset:99\r\nfinder:approximate\r\nrollback_ready:1\r\n"
            + "rollbacks_in_place:2\r\nrollbacks_full:0\r\nrollback_last_keys:17\r\nrollback_last_ms:31\r\n";
        using FakeProxy proxy = new(new() { ["DPR.INFO"] = FakeProxy.Bulk(info) });
        AppRun run = await AppRun.Of(["status", proxy.Address.ToString()]);
        string[] expected = ["commit 5.5 ms", "every 4th is closed", "up to offset 99", "would go back in place",
            "2 in place, 0 full", "17 keys in 31 ms"];
        Assert.All(expected, text => Assert.Contains(text, run.Output));
        Assert.DoesNotContain("rollback_", run.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Table_OfABackup_ShowsWhatReadersSeeAndNothingThatABackupHasNot()
    {
        const string Info = "role:backup\r\nmode:log\r\ncluster:default\r\nshard:2\r\nstream:2\r\nsite_epoch:0\r\nworldline:3\r\n"
            + "applied:3:120\r\napplied_time_us:17\r\napplied_age_ms:6.5\r\nheld:3:124\r\nwatermark:3:123\r\nsilent_ms:4\r\n"
            + "clients:2\r\nclients_dedicated:0\r\nops_per_sec:10\r\nstore:the supervised Redis\r\nstore_state:serving reads\r\n"
            + "uptime_s:65\r\nversion:0.1.0\r\n";
        using FakeProxy proxy = new(new() { ["DPR.INFO"] = FakeProxy.Bulk(Info) });
        AppRun run = await AppRun.Of(["status", proxy.Address.ToString()]);
        string[] expected = ["shard 2 of cluster default", "serving reads", "3:120, closed 6.5 ms ago", "3:124", "3:123", "heard 4 ms ago"];
        Assert.All(expected, text => Assert.Contains(text, run.Output));
        Assert.DoesNotContain("?", run.Output.Split(proxy.Address.ToString())[1], StringComparison.Ordinal);
        Assert.DoesNotContain("metadata", run.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Table_OfACohortsFollower_ShowsTheCohortAndNothingOfASite()
    {
        const string Info = "role:follower\r\nmode:log\r\ncluster:default\r\nshard:2\r\nworldline:3\r\napplied:3:120\r\n"
            + "applied_time_us:17\r\napplied_age_ms:6.5\r\nnode:b\r\nnode_role:follows\r\nreign:5\r\nleader:a\r\ncommit_version:121\r\n"
            + "members:a,b,c\r\ntakeovers:1\r\nclients:2\r\nclients_dedicated:0\r\nops_per_sec:10\r\nstore:the supervised Redis\r\n"
            + "store_state:serving reads\r\nuptime_s:65\r\nversion:0.1.0\r\n";
        using FakeProxy proxy = new(new() { ["DPR.INFO"] = FakeProxy.Bulk(Info) });
        AppRun run = await AppRun.Of(["status", proxy.Address.ToString()]);
        string[] expected = ["b of a,b,c: follows, leader: a", "version 121", "3:120, closed 6.5 ms ago", "takeovers by this process: 1"];
        Assert.All(expected, text => Assert.Contains(text, run.Output));
        Assert.DoesNotContain("?", run.Output.Split(proxy.Address.ToString())[1], StringComparison.Ordinal);
        Assert.All((string[])["watermark", "primary", "metadata"], text => Assert.DoesNotContain(text, run.Output, StringComparison.Ordinal));
    }

    [Fact]
    public async Task Json_HasEveryFieldWithItsType()
    {
        using FakeProxy proxy = FakeProxy.WithInfo();
        AppRun run = await AppRun.Of(["status", "--json", proxy.Address.ToString()]);
        Assert.Equal((0, ""), (run.ExitCode, run.Error));
        using JsonDocument json = JsonDocument.Parse(run.Output);
        List<KeyValuePair<string, string>> fields = StatusClient.Parse(FakeProxy.Info);
        Assert.Equal(fields.Select(field => field.Key), json.RootElement.EnumerateObject().Select(property => property.Name));
        Assert.Equal(1205, json.RootElement.GetProperty("open_version").GetInt64());
        Assert.Equal(0.4, json.RootElement.GetProperty("lag_marker_ms").GetDouble());
        Assert.Equal("0.1.0", json.RootElement.GetProperty("version").GetString());
    }

    [Fact]
    public async Task Data_FindsTheProxyByItsRecord_AlsoOnAUnixSocket()
    {
        string data = DataWithRecord(out FakeProxy proxy);
        using (proxy)
        {
            AppRun run = await AppRun.Of(["status", "--data", data]);
            Assert.Equal((0, ""), (run.ExitCode, run.Error));
            AppRun byEnvironment = await AppRun.Of(["status"], new() { ["SLOGGER_DATA"] = data });
            Assert.Equal(0, byEnvironment.ExitCode);
        }
    }

    [Fact]
    public async Task Data_ProxyGone_SaysWhereTheAddressCameFrom()
    {
        string data = DataWithRecord(out FakeProxy proxy);
        proxy.Dispose();
        AppRun run = await AppRun.Of(["status", "--data", data]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("no proxy answers at unix:", run.Error);
        Assert.Contains("proxy.json", run.Error);
    }

    [Fact]
    public async Task Data_NoneOrEmptyOrNoProxy_IsAClearFailure()
    {
        AppRun none = await AppRun.Of(["status", "--data", _temp.Below("none")]);
        Assert.Equal(1, none.ExitCode);
        Assert.Contains("does not exist", none.Error);
        AppRun empty = await AppRun.Of(["status", "--data", _temp.Path]);
        Assert.Equal(1, empty.ExitCode);
        Assert.Contains("is not a data directory of Slogger", empty.Error);
        _temp.File("store.json", "{}");
        AppRun idle = await AppRun.Of(["status", "--data", _temp.Path]);
        Assert.Equal(1, idle.ExitCode);
        Assert.Contains("no proxy runs on", idle.Error);
    }

    [Fact]
    public async Task Data_TheProxyStarts_SaysSoForAPersonAndForAProgram()
    {
        string data = _temp.Below("data");
        ServeOptions options = new() { DataDirectory = data, Metadata = MetadataSpec.SqliteFile(data + ".db"), Cluster = "c",
            Shard = new(2), Redis = ListenAddress.Tcp("127.0.0.1", 1) };
        using (DataDirectory opened = DataDirectory.OpenForServe(options).Opened!)
        {
            AppRun person = await AppRun.Of(["status", "--data", data]);
            Assert.Equal(1, person.ExitCode);
            Assert.Matches($"^shard 2 of cluster c: starting for [0-9]+ s \\(process {Environment.ProcessId}\\)\n$", person.Output);
            Assert.Contains("serves nobody yet", person.Error);
            AppRun program = await AppRun.Of(["status", "--data", data, "--json"]);
            Assert.Equal((1, person.Error), (program.ExitCode, program.Error));
            using JsonDocument json = JsonDocument.Parse(program.Output);
            Assert.Equal(["cluster", "shard", "state", "pid", "starting_s"], json.RootElement.EnumerateObject().Select(p => p.Name));
            Assert.Equal(("c", 2, "starting", Environment.ProcessId), (json.RootElement.GetProperty("cluster").GetString(),
                json.RootElement.GetProperty("shard").GetInt32(), json.RootElement.GetProperty("state").GetString(),
                json.RootElement.GetProperty("pid").GetInt32()));
            using FakeProxy proxy = FakeProxy.WithInfo();
            ProxyRecord.Publish(data, [proxy.Address], []);
            Assert.Equal(0, (await AppRun.Of(["status", "--data", data])).ExitCode);
        }
        Assert.Contains("no proxy runs on", (await AppRun.Of(["status", "--data", data])).Error);
        using (DataDirectory restoring = DataDirectory.OpenExisting(data).Opened!)
        {
            AppRun run = await AppRun.Of(["status", "--data", data]);
            Assert.Equal((1, ""), (run.ExitCode, run.Output));
            Assert.Contains("slogger restore", run.Error);
        }
    }

    // One that was killed while it started has left its number behind.
    [Fact]
    public async Task Data_TheProxyDiedWhileItStarted_IsNotTakenForOneThatStarts()
    {
        _temp.File("store.json", "{}");
        _temp.File("proxy.pid", "4194304999\nproxy\n");
        Assert.Contains("no proxy runs on", (await AppRun.Of(["status", "--data", _temp.Path])).Error);
        _temp.File("proxy.pid", "2147483646\nproxy\n");
        AppRun run = await AppRun.Of(["status", "--data", _temp.Path]);
        Assert.Equal((1, ""), (run.ExitCode, run.Output));
        Assert.Contains("no proxy runs on", run.Error);
    }

    [Theory]
    [InlineData("-ERR unknown command 'DPR.INFO', with args beginning with: \r\n", "does not know DPR.INFO")]
    [InlineData("-NOAUTH Authentication required.\r\n", "--password-file")]
    [InlineData("-LOADING Redis is loading\r\n", "answers LOADING")]
    [InlineData("HTTP/1.1 400 Bad Request\r\n\r\n", "is not a Slogger proxy")]
    [InlineData("$-1\r\n", "is not a Slogger proxy")]
    [InlineData("$99999999999\r\n", "is not a Slogger proxy")]
    [InlineData("$0\r\n\r\n", "is empty")]
    [InlineData("", "closed the connection")]
    public async Task Answer_Unexpected_IsAClearFailure(string answer, string expected)
    {
        using FakeProxy proxy = new(new() { ["DPR.INFO"] = answer });
        AppRun run = await AppRun.Of(["status", proxy.Address.ToString()]);
        Assert.Equal((1, ""), (run.ExitCode, run.Output));
        Assert.Contains(expected, run.Error);
        Assert.Contains("what to do", run.Error);
    }

    [Fact]
    public async Task Answer_None_EndsAfterAWhile()
    {
        using FakeProxy proxy = new([]);
        AppRun run = await AppRun.Of(["status", proxy.Address.ToString()]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("does not answer within", run.Error);
    }

    [Fact]
    public async Task Password_FromFile_IsSentAndNeverShown()
    {
        string file = _temp.File("password", "s3cret\n");
        using FakeProxy proxy = new(new() { ["AUTH"] = "+OK\r\n", ["DPR.INFO"] = FakeProxy.Bulk(FakeProxy.Info) });
        AppRun run = await AppRun.Of(["status", proxy.Address.ToString(), "--user", "u", "--password-file", file]);
        Assert.Equal(0, run.ExitCode);
        Assert.Equal(["AUTH u s3cret", "DPR.INFO"], proxy.Asked);
        using FakeProxy refusing = new(new() { ["AUTH"] = "-WRONGPASS invalid\r\n" });
        AppRun refused = await AppRun.Of(["status", refusing.Address.ToString(), "--password-file", file]);
        Assert.Equal(1, refused.ExitCode);
        Assert.Contains("WRONGPASS", refused.Error);
        Assert.DoesNotContain("s3cret", refused.Error + refused.Output + run.Output);
    }

    [Theory]
    [InlineData("more than one proxy", "127.0.0.1:1", "127.0.0.1:2")]
    [InlineData("more than one proxy", "127.0.0.1:1", "--data", "/tmp")]
    [InlineData("no port", "localhost")]
    [InlineData("given 2 times", "--data", "/a", "--data", "/b")]
    [InlineData("did you mean --json?", "--jason")]
    [InlineData("does not exist", "127.0.0.1:1", "--password-file", "/nonexistent")]
    public async Task Options_Bad_ExitWithTwo(string expected, params string[] args)
    {
        AppRun run = await AppRun.Of(["status", .. args]);
        Assert.Equal(2, run.ExitCode);
        Assert.Contains(expected, run.Error);
    }

    [Fact]
    public async Task FieldsMissing_TableStillPrints()
    {
        using FakeProxy proxy = new(new() { ["DPR.INFO"] = FakeProxy.Bulk("mode:none\r\nshard:0\r\nodd line\r\n:x\r\n") });
        AppRun run = await AppRun.Of(["status", proxy.Address.ToString()]);
        Assert.Equal((0, ""), (run.ExitCode, run.Error));
        Assert.Contains("none", run.Output);
    }

    [Theory]
    [InlineData("0", "0 bytes")]
    [InlineData("1023", "1023 bytes")]
    [InlineData("1536", "1.5 KB")]
    [InlineData("9223372036854775807", "8192.0 PB")]
    [InlineData("?", "?")]
    public void Bytes_AreShownInTheLargestUnit(string text, string expected) => Assert.Equal(expected, ConsoleText.Bytes(text));

    [Theory]
    [InlineData("0", "0 s")]
    [InlineData("59.9", "59 s")]
    [InlineData("61", "1 min 1 s")]
    [InlineData("7260", "2 h 1 min")]
    [InlineData("180000", "2 d 2 h")]
    [InlineData("-5", "0 s")]
    [InlineData("?", "?")]
    public void Age_IsShownInTwoUnits(string text, string expected) => Assert.Equal(expected, ConsoleText.Age(text));

    private string DataWithRecord(out FakeProxy proxy)
    {
        proxy = FakeProxy.WithInfo(_temp.Below("s.sock"));
        ProxyRecord.Publish(_temp.Path, [proxy.Address], []);
        return _temp.Path;
    }
}

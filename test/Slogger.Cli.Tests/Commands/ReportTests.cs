// What a command has found out, for a person and for a program: the same facts, by names that --help lists.
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Core.WorldLines;
using Slogger.Proxy;

namespace Slogger.Cli.Tests.Commands;

public sealed class ReportTests
{
    private static readonly DateTimeOffset s_time = new(2026, 11, 26, 12, 0, 1, 500, TimeSpan.Zero);

    [Fact]
    public void Versions_AreLines_OrObjects()
    {
        VersionsReport report = new([new(5, 7, s_time, true), new(8, 8, null, false)]);
        Assert.Equal("5 to 7, closed 2026-11-26 12:00:01.500 UTC\n8, not committed\n", TextOf(report));
        JsonElement[] versions = [.. JsonOf(report).GetProperty("versions").EnumerateArray()];
        Assert.Equal((5, 7, s_time, true), (versions[0].GetProperty("first").GetInt64(), versions[0].GetProperty("last").GetInt64(),
            versions[0].GetProperty("closed").GetDateTimeOffset(), versions[0].GetProperty("is_committed").GetBoolean()));
        Assert.Equal(JsonValueKind.Null, versions[1].GetProperty("closed").ValueKind);
    }

    [Fact]
    public void SwitchOver_SaysThatNothingIsLost_OnlyIfNothingIs()
    {
        SwitchOverReport whole = new(IsCalledOff: false, 4, 9) { Cut = Point(8, 100), From = Point(8, 100),
            Held = TimeSpan.FromMilliseconds(12.3456) };
        Assert.Contains("nothing is lost: the primary ended at cut 8:100, and the backup goes on from 8:100", TextOf(whole));
        Assert.Contains("clients were held for 12.3 ms at most", TextOf(whole));
        JsonElement json = JsonOf(whole);
        Assert.Equal(100, json.GetProperty("cut").GetProperty("version").GetInt64());
        Assert.Equal(8, json.GetProperty("from").GetProperty("world_line").GetInt64());
        Assert.Equal(12.346, json.GetProperty("held_ms").GetDouble());
        Assert.DoesNotContain("nothing is lost", TextOf(whole with { From = Point(8, 99) }));
        Assert.True(JsonOf(new SwitchOverReport(IsCalledOff: true)).GetProperty("is_called_off").GetBoolean());
    }

    [Fact]
    public void Failover_WhatIsNotKnown_IsNullAndNotGuessed()
    {
        FailoverReport other = new(WasOverBefore: false, 2, 7, Point(7, 50), 3) { ShardsTaken = 3, Silent = [],
            Rto = TimeSpan.FromSeconds(1), RtoParts = [new(TimeSpan.FromSeconds(1), "to take over")], Stages = "open 1" };
        Assert.Contains("RPO: not known, since another run has decided: everything up to version 50 is kept", TextOf(other));
        Assert.Equal(JsonValueKind.Null, JsonOf(other).GetProperty("rpo_ms").ValueKind);
        FailoverReport known = other with { Rpo = TimeSpan.FromMilliseconds(20), KeptUntil = s_time,
            KnownUntil = s_time.AddMilliseconds(20), Unasked = "nobody asked" };
        Assert.Contains("RPO: at least 20 ms are lost.", TextOf(known));
        Assert.Contains("What the primary did after that is not known: nobody asked.", TextOf(known));
        Assert.Equal(20, JsonOf(known).GetProperty("rpo_ms").GetDouble());
        Assert.Equal("to take over", JsonOf(known).GetProperty("rto_parts")[0].GetProperty("for").GetString());
    }

    [Fact]
    public void Site_AStreamThatNobodySpeaksFor_HasNoFiguresAndAProblem()
    {
        SiteReport report = new("c", 1, "Backup", "backup", "nobody is there", null,
            [new(0, 3, "0 (of the primary's 3)", null, "Unknown", "unknown", 1) { Problem = "start it" }], [], IsBackup: true);
        Assert.Contains("shard 0 (of the primary's 3): start it\n", TextOf(report));
        JsonElement stream = JsonOf(report).GetProperty("streams")[0];
        Assert.Equal(JsonValueKind.Null, stream.GetProperty("silent_us").ValueKind);
        Assert.Equal("start it", stream.GetProperty("problem").GetString());
        Assert.False(stream.TryGetProperty("name", out _));
    }

    [Theory]
    [InlineData("status", "shard, primary_shard, process, phase, generation, held {world_line, version}")]
    [InlineData("drill", "keeps {streams [{shard, held {world_line, version}, applied {world_line, version}, silent_ms}]")]
    [InlineData("failover", "was_over_before, site_epoch, world_line, from {world_line, version}, shards")]
    [InlineData("switchover", "is_called_off, site_epoch, world_line")]
    [InlineData("seed", "follows_epoch, reseeded [{shard, generation, was_empty}]")]
    [InlineData("move", "kind, owners [{partitions, keys, shard}], moves [{number, partitions, from, to, state, note}]}, with --list")]
    [InlineData("interval", "{version_interval_ms, first_version, begins_in_ms}")]
    [InlineData("restore", "{versions [{first, last, closed, is_committed}]}, with --list")]
    public async Task Help_ListsTheNames(string command, string names)
    {
        AppRun run = await AppRun.Of([command, "--help"]);
        string flat = string.Join(' ', run.Output.Split((char[]?)null, StringSplitOptions.RemoveEmptyEntries));
        Assert.Contains(names, flat, StringComparison.Ordinal);
        Assert.Contains("--json", flat, StringComparison.Ordinal);
    }

    // Whatever a program may read is in the list of its command.
    [Fact]
    public void Help_OfEveryReport_HasAllNamesThatAreWritten()
    {
        foreach ((Report report, JsonTypeInfo shape) in ((Report, JsonTypeInfo)[])[
            (new SwitchOverReport(IsCalledOff: true), SiteReportJson.Default.SwitchOverReport),
            (new SeedReport(3, [new(1, 2, false)], [4], [new("0", true, 1, "follows")], true), SiteReportJson.Default.SeedReport),
            (new DrillReport(new([new("0", Point(1, 2), Point(1, 1), TimeSpan.Zero)], Point(1, 2), null, null, null),
                new(default, default, 1, 2, default, default, default, default, default, default, null, null),
                [new("0", Point(1, 2), null, null, 1, 2, default)], [new(0, null, Point(1, 2), default, 1, 2, 3)], true),
                SiteReportJson.Default.DrillReport)])
        {
            string names = Report.NamesOf(shape);
            foreach (string name in NamesIn(JsonOf(report))) { Assert.Contains(name, names, StringComparison.Ordinal); }
        }
    }

    private static IEnumerable<string> NamesIn(JsonElement json) => json.ValueKind switch
    {
        JsonValueKind.Object => json.EnumerateObject().SelectMany(p => NamesIn(p.Value).Prepend(p.Name)),
        JsonValueKind.Array => json.EnumerateArray().SelectMany(NamesIn),
        _ => [],
    };

    private static WorldPoint Point(long line, long version) => new(new(line), new(version));

    private static string TextOf(Report report) => Write(report, asJson: false);

    private static JsonElement JsonOf(Report report)
    {
        using JsonDocument json = JsonDocument.Parse(Write(report, asJson: true));
        return json.RootElement.Clone();
    }

    private static string Write(Report report, bool asJson)
    {
        StringWriter output = new();
        report.Write(new AppHost { Output = output, Error = TextWriter.Null, Environment = new Dictionary<string, string>() }, asJson);
        return output.ToString();
    }
}

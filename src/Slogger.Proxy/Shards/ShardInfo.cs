// What a shard tells of itself: DPR.INFO, INFO's section, `slogger status`.
using System.Globalization;
using System.Text;
using Slogger.Core.Shards;
using Slogger.Core.Sites;
using Slogger.FrontEnd;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;

namespace Slogger.Proxy.Shards;

/// <summary>The text about a shard. The loop's thread, which counts operations.</summary>
internal sealed class ShardInfo(VersionedShard shard, ServeOptions options)
{
    private readonly OperationRate _rate = new();

    /// <summary>See <see cref="IShardPort.InfoText"/>.</summary>
    public string Text(FrontEndLoop loop) => shard.Seat.FollowedSite is { } site ? OfFollower(site, loop) : OfPrimary(loop);

    private string OfPrimary(FrontEndLoop loop)
    {
        ShardStatus status = default;
        lock (shard.Versions.Lock)
        {
            if (shard.Versions.Machine is { } machine) { status = machine.StatusAt(shard.Now()); }
        }
        var text = new StringBuilder(512);
        void Line(string name, object value) => text.Append(CultureInfo.InvariantCulture, $"{name}:{value}\r\n");
        string Milliseconds(long microseconds) => (microseconds / 1000.0).ToString("0.###", CultureInfo.InvariantCulture);
        Line("mode", shard.ModeName);
        Line("cluster", options.Cluster);
        Line("shard", options.Shard);
        Line("worldline", shard.WorldLine);
        Line("open_version", status.OpenVersion.Number);
        Line("durable_version", status.Durable.Version.Number);
        Line("replies", shard.HoldsReplies ? "committed" : "early");
        Line("committed_version", shard.MayTell ? shard.CommittedVersion : 0);
        Line("version_interval_us", shard.SessionBatches.VersionIntervalUs);
        Line("lag_marker_ms", Milliseconds(status.AnsweredLagUs));
        Line("lag_log_ms", Milliseconds(status.ReadLagUs));
        Line("lag_sync_ms", Milliseconds(status.DurableLagUs));
        Line("lag_record_ms", Milliseconds(status.RecordedLagUs));
        Line("lag_commit_ms", Milliseconds(status.CommittedLagUs));
        foreach ((string name, long value) in shard.KeptStatus()) { Line(name, value); }
        shard.Moves.AppendStatus(Line);
        AppendClients(Line, loop);
        Line("store", shard.StoreName);
        Line("store_state", shard.IsOpen ? "serving" : shard.Lifetime.State);
        Line("metadata_state", shard.Cuts!.Recorder.IsMetadataAvailable ? "available" : "unavailable");
        shard.Cuts.Coordination?.AppendShards(Line);
        shard.AppendSite(Line);
        if (shard.Intake is ICohort cohort) { foreach ((string name, object value) in cohort.Status) { Line(name, value); } }
        AppendProcess(Line);
        return text.ToString();
    }

    private string OfFollower(SiteState site, FrontEndLoop loop)
    {
        var text = new StringBuilder(512);
        void Line(string name, object value) => text.Append(CultureInfo.InvariantCulture, $"{name}:{value}\r\n");
        bool isNode = shard.Intake is ICohort;
        Line("role", isNode ? "follower" : "backup");
        Line("mode", shard.ModeName);
        Line("cluster", options.Cluster);
        Line("shard", options.Shard);
        if (!isNode)
        {
            Line("stream", options.Shard);
            Line("site_epoch", site.Epoch);
        }
        Line("worldline", shard.WorldLine);
        Line("applied", shard.Follower.Applied);
        if (shard.Follower.Stands is { } stands && stands.Time.Microseconds > 0)
        {
            Line("applied_time_us", stands.Time.Microseconds);
            Line("applied_age_ms", ((ShardClock.WallUs(options.Time) - stands.Time.Microseconds) / 1000.0).ToString(
                "0.###", CultureInfo.InvariantCulture));
        }
        if (shard.CohortPort?.AgeUs is { } ageUs)
        {
            Line("age_ms", (ageUs / 1000.0).ToString("0.###", CultureInfo.InvariantCulture));
        }
        foreach ((string name, object value) in shard.Intake!.Status) { Line(name, value); }
        if (shard.Follower.Problem is { } problem) { Line("store_problem", problem); }
        if (!shard.StreamLog.IsEmpty) { foreach ((string name, long value) in shard.KeptStatus()) { Line(name, value); } }
        AppendClients(Line, loop);
        Line("store", shard.StoreName);
        Line("store_state", shard.IsOpen ? "serving reads" : shard.Lifetime.State);
        AppendProcess(Line);
        return text.ToString();
    }

    private void AppendClients(Action<string, object> line, FrontEndLoop loop)
    {
        line("clients", loop.Clients.Count);
        line("clients_dedicated", loop.Clients.DedicatedCount);
        line("ops_per_sec", _rate.PerSecond(loop.Forwarded));
    }

    private void AppendProcess(Action<string, object> line)
    {
        line("uptime_s", _rate.UptimeSeconds);
        line("version", typeof(ShardInfo).Assembly.GetName().Version?.ToString(3) ?? "");
    }
}

// What a shard tells of itself: DPR.INFO, INFO's section, `slogger status`.
using System.Globalization;
using System.Text;
using Slogger.Core.Shards;
using Slogger.FrontEnd;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    private readonly OperationRate _rate = new();

    /// <summary>The lines about another site.</summary>
    protected virtual void AppendSite(Action<string, object> line)
    {
    }

    /// <inheritdoc />
    public string InfoText(FrontEndLoop loop)
    {
        if (FollowingText(loop) is { } following) { return following; }
        ShardStatus status = default;
        lock (_machineLock)
        {
            if (_machine is { } machine) { status = machine.StatusAt(Now()); }
        }
        var text = new StringBuilder(512);
        void Line(string name, object value) => text.Append(CultureInfo.InvariantCulture, $"{name}:{value}\r\n");
        string Milliseconds(long microseconds) => (microseconds / 1000.0).ToString("0.###", CultureInfo.InvariantCulture);
        Line("mode", ModeName);
        Line("cluster", _options.Cluster);
        Line("shard", _options.Shard);
        Line("worldline", WorldLine);
        Line("open_version", status.OpenVersion.Number);
        Line("durable_version", status.Durable.Version.Number);
        Line("committed_version", MayTell ? CommittedVersion : 0);
        Line("version_interval_us", _batches.VersionIntervalUs);
        Line("lag_marker_ms", Milliseconds(status.AnsweredLagUs));
        Line("lag_log_ms", Milliseconds(status.ReadLagUs));
        Line("lag_sync_ms", Milliseconds(status.DurableLagUs));
        Line("lag_record_ms", Milliseconds(status.RecordedLagUs));
        Line("lag_commit_ms", Milliseconds(status.CommittedLagUs));
        foreach ((string name, long value) in KeptStatus()) { Line(name, value); }
        if (_messages is { } messages)
        {
            Line("messages_sent", messages.Sent);
            Line("messages_dropped", messages.Dropped);
        }
        Line("clients", loop.Clients.Count);
        Line("clients_dedicated", loop.DedicatedCount);
        Line("ops_per_sec", _rate.PerSecond(loop.Forwarded));
        Line("store", _store.Name);
        Line("store_state", _door.IsOpen ? "serving" : _state);
        Line("metadata_state", _cuts.IsMetadataAvailable ? "available" : "unavailable");
        _coordination?.AppendShards(Line);
        AppendSite(Line);
        Line("uptime_s", _rate.UptimeSeconds);
        Line("version", typeof(VersionedShard).Assembly.GetName().Version?.ToString(3) ?? "");
        return text.ToString();
    }
}

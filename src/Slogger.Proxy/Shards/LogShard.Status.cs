// What the shard tells of itself: DPR.INFO, INFO's section, `slogger status`.
using System.Globalization;
using System.Text;
using Slogger.Core.Shards;
using Slogger.Proxy.FrontEnd;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    private readonly OperationRate _rate = new();

    /// <inheritdoc />
    public string InfoText(FrontEndLoop loop)
    {
        ShardStatus status = default;
        lock (_machineLock)
        {
            if (_machine is { } machine) { status = machine.StatusAt(Now()); }
        }
        var text = new StringBuilder(512);
        void Line(string name, object value) => text.Append(CultureInfo.InvariantCulture, $"{name}:{value}\r\n");
        string Milliseconds(long microseconds) => (microseconds / 1000.0).ToString("0.###", CultureInfo.InvariantCulture);
        Line("mode", "log");
        Line("cluster", _options.Cluster);
        Line("shard", _options.Shard);
        Line("worldline", WorldLine);
        Line("open_version", status.OpenVersion.Number);
        Line("durable_version", _log.DurableBoundary?.Version.Number ?? 0);
        Line("committed_version", CommittedVersion);
        Line("version_interval_us", (long)_options.VersionInterval.TotalMicroseconds);
        Line("lag_marker_ms", Milliseconds(status.AnsweredLagUs));
        Line("lag_log_ms", Milliseconds(status.ReadLagUs));
        Line("lag_sync_ms", Milliseconds(status.DurableLagUs));
        Line("lag_record_ms", Milliseconds(status.RecordedLagUs));
        Line("log_bytes", _log.SizeBytes);
        Line("log_offset", _log.EndOffset);
        var newest = _checkpoints.All.Count > 0 ? _checkpoints.All[^1] : null;
        Line("checkpoint_last_unix", newest?.CreatedAt.ToUnixTimeSeconds() ?? 0);
        Line("checkpoint_last_bytes", newest?.Bytes ?? 0);
        Line("clients", loop.Clients.Count);
        Line("clients_dedicated", loop.DedicatedCount);
        Line("ops_per_sec", _rate.PerSecond(loop.Forwarded));
        Line("store", _store.Name);
        Line("store_state", _isOpen ? "serving" : _state);
        Line("metadata_state", _cuts.IsMetadataAvailable ? "available" : "unavailable");
        Line("uptime_s", _rate.UptimeSeconds);
        Line("version", typeof(LogShard).Assembly.GetName().Version?.ToString(3) ?? "");
        return text.ToString();
    }
}

// A shard without versions (--commit none): the front end alone.
using System.Globalization;
using Slogger.FrontEnd;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Proxy.Shards;

internal sealed class PassThroughShard(ServeOptions options, ILogger log) : IShardPort
{
    private readonly OperationRate _rate = new();
    private string _lastReason = "";

    public bool IsVersioned => false;

    public long OpenVersion => 0;

    public bool IsOpen => true;

    public long WorldLine => 0;

    public long CommittedVersion => 0;

    public string MarkerChannel => "";

    public CommandCounts OwnCommands { get; } = new();

    public bool KeepsClients => false;

    public bool IsPunctual => false;

    public long MicrosecondsToNextTick() => -1;

    public long MicrosecondsToReplies() => 0;

    public MarkerToSend? Tick(bool busy, bool inFlight) => null;

    public void MarkerAnswered(bool counts)
    {
    }

    public void MarkerLost()
    {
    }

    public string InfoText(FrontEndLoop loop) => string.Join("\r\n",
        "mode:none",
        $"cluster:{options.Cluster}",
        $"shard:{options.Shard}",
        string.Create(CultureInfo.InvariantCulture, $"clients:{loop.Clients.Count}"),
        string.Create(CultureInfo.InvariantCulture, $"clients_dedicated:{loop.Clients.DedicatedCount}"),
        string.Create(CultureInfo.InvariantCulture, $"ops_per_sec:{_rate.PerSecond(loop.Forwarded)}"),
        $"store:{loop.Store}",
        $"store_state:{(loop.CanSendMarker || loop.Probe.NeedsPassword ? "serving" : "unreachable")}",
        string.Create(CultureInfo.InvariantCulture, $"uptime_s:{_rate.UptimeSeconds}"),
        $"version:{typeof(PassThroughShard).Assembly.GetName().Version?.ToString(3)}",
        "");

    public bool IsOwnConnection(string address) => OwnConnections.Contains(address);

    public void StoreUnreachable(string reason)
    {
        if (reason != _lastReason) { log.Warn($"no connection to the store: {reason}"); }
        _lastReason = reason;
    }

    public void Warn(string message) => log.Warn(message);
}

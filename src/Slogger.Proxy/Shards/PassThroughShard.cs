// A shard without versions (--commit none): the front end alone.
using System.Globalization;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.FrontEnd;

namespace Slogger.Proxy.Shards;

internal sealed class PassThroughShard(ServeOptions options, ILogSink log) : IShardPort
{
    private string _lastReason = "";

    public bool IsVersioned => false;

    public long OpenVersion => 0;

    public bool IsOpen => true;

    public long WorldLine => 0;

    public long CommittedVersion => 0;

    public string MarkerChannel => "";

    public bool KeepsClients => false;

    public long MicrosecondsToNextTick() => -1;

    public MarkerToSend? Tick(bool busy) => null;

    public void MarkerAnswered(bool counts)
    {
    }

    public void MarkerLost()
    {
    }

    public string InfoText(FrontEndLoop loop) => string.Create(CultureInfo.InvariantCulture,
        $"mode:none\r\ncluster:{options.Cluster}\r\nshard:{options.Shard}\r\nclients:{loop.Clients.Count}\r\nclients_dedicated:{loop.DedicatedCount}\r\n");

    public void StoreUnreachable(string reason)
    {
        if (reason != _lastReason) { log.Warn($"no connection to the store: {reason}"); }
        _lastReason = reason;
    }

    public void Warn(string message) => log.Warn(message);
}

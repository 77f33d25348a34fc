// What a shard with an embedded store tells of it: in DPR.INFO and `slogger status`, and in INFO and CONFIG GET, where Redis's clients
// look.
using System.Globalization;
using Slogger.Faster;
using Slogger.Faster.Commands;

namespace Slogger.Proxy.Shards;

internal partial class FasterShard
{
    // As of the keeper's last look: the store may have ended when it is asked for.
    private volatile FasterStatistics? _statistics;

    protected override IEnumerable<(string Name, long Value)> KeptStatus()
    {
        long stride;
        lock (_machineLock) { stride = _machine?.Stride ?? _options.FasterStride; }
        yield return ("stride", stride);
        if (_statistics is { } state)
        {
            yield return ("keys", _engine!.KeyCount);
            yield return ("memory_bytes", state.LogBytes);
            yield return ("memory_live_bytes", state.LiveBytes);
            yield return ("memory_limit_bytes", state.LogBytesMax);
            yield return ("disk_bytes", state.DiskBytes);
            yield return ("commits_kept", state.Commits);
            yield return ("commit_last_ms", (long)state.LastCommit.TotalMilliseconds);
            yield return ("undone_bytes", state.UndoneBytes);
        }
        yield return ("commits_failed", Volatile.Read(ref _commitsFailed));
        yield return ("rollbacks_in_place", Volatile.Read(ref _rollbacksInPlace));
        yield return ("rollback_last_ms", Volatile.Read(ref _rollbackMilliseconds));
        yield return ("purge_last_ms", Volatile.Read(ref _purgeMilliseconds));
    }

    private EngineOptions EngineOptionsOf(FasterStore store) => new()
    {
        IsOutOfMemory = () => store.IsOutOfMemory,
        InfoFields = section => section == "memory" && _statistics is { } state
            ? [Field("used_memory", state.LogBytes), Field("used_memory_dataset", state.LiveBytes), Field("maxmemory", state.LogBytesMax)]
            : [],
        Settings = () => _statistics is { } state ? [Field("maxmemory", state.LogBytesMax)] : [],
    };

    private static KeyValuePair<string, string> Field(string name, long value) => new(name, value.ToString(CultureInfo.InvariantCulture));
}

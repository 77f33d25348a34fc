// What a redis-server propagates of a load, as a replica receives it; cut into windows, reduced, and replayed by another server.
using System.Buffers;
using System.Globalization;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Reduction;
using Slogger.Redis.Replication;
using Slogger.Redis.Rollback;

namespace Slogger.Bench.Reduction;

/// <summary>What is left of a stream.</summary>
/// <param name="Bytes">It, if it was asked for.</param>
internal readonly record struct ReducedStream(
    long CommandsBefore, long CommandsAfter, long BytesBefore, long BytesAfter, double CpuNs, byte[] Bytes);

/// <summary>A stream that begins in database 0, and has no transactions.</summary>
internal sealed class EffectStream
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);

    // A window may be as large as it is asked to be.
    private readonly EffectReducer _reducer = new(new() { WindowBytesMax = int.MaxValue, WindowCommandsMax = int.MaxValue });
    private readonly ArrayBufferWriter<byte> _output = new();
    private readonly byte[] _bytes;

    private EffectStream(byte[] bytes) => _bytes = bytes;

    public byte[] Bytes => _bytes;

    /// <summary>Has a server execute a load.</summary>
    public static async Task<EffectStream> RecordAsync(RedisEndpoint redis, ReductionLoad load, string directory)
    {
        using var link = new ReplicationLink(new() { Endpoint = redis });
        AttachResult attached = await link.AttachAsync(
            new() { OnFull = OnFullSync.WithData, RdbFile = Path.Combine(directory, "base.rdb") }).ConfigureAwait(false);
        if (attached is not AttachResult.Full full) { throw new BenchException($"the replica was not attached: {attached}"); }
        var sink = new Sink();
        link.Start(sink);
        RedisPipeline pipeline = await RedisPipeline.ConnectAsync(redis, s_limit, default).ConfigureAwait(false);
        await using (pipeline.ConfigureAwait(false))
        {
            foreach (RedisBatch batch in load.Batches())
            {
                IReadOnlyList<RedisReply> replies = await pipeline.RunAsync(batch, default).ConfigureAwait(false);
                if (replies.FirstOrDefault(r => r.IsError) is { } error) { throw new BenchException(error.Text); }
            }
        }
        RedisConnection control = await RedisConnection.ConnectAsync(redis, s_limit).ConfigureAwait(false);
        await using (control.ConfigureAwait(false))
        {
            long end = (await control.RoleAsync().ConfigureAwait(false)).Offset;
            while (sink.Length < end - full.Offset) { await Task.Delay(5).ConfigureAwait(false); }
        }
        return new(sink.ToArray());
    }

    /// <summary>Reduces it in windows of so many commands.</summary>
    public ReducedStream Reduce(int windowCommands, bool isKept = false)
    {
        int[] ends = Ends(windowCommands);
        _output.ResetWrittenCount();
        long before = 0, after = 0, bytesAfter = 0;
        TimeSpan start = Environment.CpuUsage.TotalTime;
        int from = 0, database = 0;
        foreach (int end in ends)
        {
            _reducer.Begin(_bytes, from, database);
            _reducer.TryTake(end);
            ReducedWindow window = _reducer.Write(_output);
            if (!isKept) { _output.ResetWrittenCount(); }
            (before, after, bytesAfter) = (before + window.CommandsBefore, after + window.CommandsAfter, bytesAfter + window.BytesAfter);
            (from, database) = (end, window.Database);
        }
        double ns = (Environment.CpuUsage.TotalTime - start).TotalNanoseconds / before;
        return new(before, after, _bytes.Length, bytesAfter, ns, isKept ? _output.WrittenSpan.ToArray() : []);
    }

    /// <summary>Has an empty server execute a stream as a replica does. Returns its CPU time in milliseconds, and the digest.</summary>
    public static async Task<(double CpuMs, string Digest)> ReplayAsync(RedisEndpoint redis, byte[] stream)
    {
        // As a restore from reduced tiles: what lies before the offset is not there, so the store ends at the offset of the whole log.
        const long Target = 1L << 40;
        RedisConnection control = await RedisConnection.ConnectAsync(redis, s_limit).ConfigureAwait(false);
        await using (control.ConfigureAwait(false))
        {
            var plan = new FeedPlan
            {
                BaseOffset = Target - stream.Length, BaseDatabase = 0, TargetOffset = Target,
                History = new Source(stream, Target - stream.Length),
            };
            double before = await CpuMsAsync(control).ConfigureAwait(false), after = 0;
            string digest = "";
            RestoreResult result = await RedisRestore.RunAsync(control, plan, new()
            {
                BeforePromotion = async (replica, _) =>
                {
                    after = await CpuMsAsync(replica).ConfigureAwait(false);
                    digest = (await replica.ExpectAsync("DEBUG", "DIGEST").ConfigureAwait(false)).Text;
                },
            }).ConfigureAwait(false);
            return result is RestoreResult.Restored { Offset: Target } ? (after - before, digest)
                : throw new BenchException($"the replay has failed: {result}");
        }
    }

    /// <summary>How many keys its commands name first. Of overwrites alone no fewer commands can be left.</summary>
    public int DistinctKeys()
    {
        var effect = new Effect();
        var keys = new List<EffectKey>();
        var names = new HashSet<StoreKey>();
        for (int at = 0; at < _bytes.Length && effect.TryRead(_bytes, at, _bytes.Length); at = effect.End)
        {
            if (EffectScope.Find(effect, 0, keys) == EffectReach.Keys) { names.Add(new(0, effect[keys[0].Argument].ToArray())); }
        }
        return names.Count;
    }

    private int[] Ends(int windowCommands)
    {
        var effect = new Effect();
        var keys = new List<EffectKey>();
        List<int> ends = [];
        int at = 0, commands = 0;
        for (; at < _bytes.Length && effect.TryRead(_bytes, at, _bytes.Length); at = effect.End)
        {
            if (effect.Is(0, "MULTI"u8)) { throw new BenchException("a transaction in the stream"); }
            bool isData = EffectScope.Find(effect, 0, keys) is not (EffectReach.Nothing or EffectReach.Select);
            if (isData && ++commands % windowCommands == 0) { ends.Add(effect.End); }
        }
        if (ends.Count == 0 || ends[^1] < at) { ends.Add(at); }
        return [.. ends];
    }

    private static async Task<double> CpuMsAsync(RedisConnection redis)
    {
        string info = (await redis.ExpectAsync("INFO", "cpu").ConfigureAwait(false)).Text;
        double Of(string field) => double.Parse(info.Split("\r\n").First(l => l.StartsWith(field + ":", StringComparison.Ordinal))
            [(field.Length + 1)..], CultureInfo.InvariantCulture);
        return 1000 * (Of("used_cpu_user") + Of("used_cpu_sys"));
    }

    private sealed class Sink : IStreamSink
    {
        private readonly Lock _lock = new();
        private readonly MemoryStream _bytes = new();

        public long Length
        {
            get
            {
                lock (_lock) { return _bytes.Length; }
            }
        }

        public byte[] ToArray()
        {
            lock (_lock) { return _bytes.ToArray(); }
        }

        public void OnBytes(ReadOnlySpan<byte> bytes, long startOffset)
        {
            lock (_lock) { _bytes.Write(bytes); }
        }

        public void OnMarker(in StreamMarker marker)
        {
        }

        public void OnClosed(LinkClosed reason)
        {
        }
    }

    private sealed class Source(byte[] bytes, long start) : IHistorySource
    {
        public int Read(long offset, Span<byte> destination)
        {
            int at = (int)(offset - start), count = Math.Min(destination.Length, bytes.Length - at);
            bytes.AsSpan(at, count).CopyTo(destination);
            return count;
        }
    }
}

// The store of a backup's shard that follows several of the primary's, or a part of one: a stream with a log of its own for each, and out
// of these the shard's log, which the store follows and with which the shard goes on when the site has taken over.
//
// When the watermark has come to a version, what lies between the version before and this one in each stream's log, and concerns the
// shard's slots, is appended to the shard's log, stream after stream, and then the end of the version; all of it is durable before the
// store goes there. Nothing beyond a watermark is ever in it, so nothing of it is taken back but a part of a version that a crash has left
// (VersionLog.Rewind). How far it is says its last version; what comes next say the streams' logs, which are trimmed behind that.
//
// It begins with the copies of all streams, each as of its own offset, in one file: the first version is appended behind that, and the
// store is brought there before anybody looks. Which lives of the streams it is put together from is noted when it has begun (merged.json);
// as long as a stream is in another one, the shard's log stays as it is, and the store goes on showing it.
using System.Text.Json.Serialization;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Redis.Feeding;
using Slogger.Redis.Slots;
using Slogger.Sites.Streams;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Merging;

/// <summary>Puts a shard together from several streams.</summary>
internal sealed class MergedStore : IDisposable
{
    private const string DirectoryName = "streams", RecordName = "merged.json";

    // Of the shard's own history, before its first version: it is nobody else's.
    private const long FirstOffset = 1;

    private static readonly byte[] s_select = [.. "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"u8];

    private readonly IFollowingShard _shard;
    private readonly ShardId _number;
    private readonly string _dataDirectory, _record;
    private readonly ILogger _report;
    private readonly SemaphoreSlim _turn = new(1, 1);           // who brings the shard somewhere, or has a stream begin anew
    private readonly SemaphoreSlim _appending = new(1, 1);      // who changes the shard's log
    private readonly byte[] _buffer = new byte[1 << 20];
    private readonly Lock _lock = new();
    private MergedRecord? _known;
    private WorldPoint _reached;
    private TaskCompletionSource _moved = NewMoved();
    private Task? _promoting;
    private volatile bool _isOver;

    private MergedStore(IFollowingShard shard, ShardId number, string dataDirectory, ILogger report) =>
        (_shard, _number, _dataDirectory, _record, _report) =
            (shard, number, dataDirectory, Path.Combine(dataDirectory, DirectoryName, RecordName), report);

    /// <summary>The streams, in the order of their sources.</summary>
    public IReadOnlyList<MergedStream> Streams { get; private set; } = [];

    /// <summary>Opens what there is.</summary>
    /// <param name="shard">The shard.</param>
    /// <param name="number">Its number.</param>
    /// <param name="epoch">This process's epoch as the owner of its streams.</param>
    /// <param name="dataDirectory">The process's data directory.</param>
    /// <param name="layout">Which streams there are.</param>
    /// <param name="report">For people.</param>
    /// <param name="logs">How their logs are kept; their directories and owner aside. Null: as is right for a shard.</param>
    /// <exception cref="LogException">A log cannot be opened.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    /// <exception cref="InvalidDataException">A record cannot be read.</exception>
    public static MergedStore Open(IFollowingShard shard, ShardId number, long epoch, string dataDirectory, StreamLayout layout,
        ILogger report, VersionLogOptions? logs = null)
    {
        string directory = Path.Combine(dataDirectory, DirectoryName);
        // Of a shard whose log is gone nothing is of use any more: the copies that it began with are in that.
        if (shard.Log.IsEmpty && DurableFile.Read(shard.Log.Files, Path.Combine(directory, RecordName)) is not null)
        {
            Clear(shard.Log.Files, dataDirectory);
        }
        shard.Log.Files.CreateDirectory(directory);
        var store = new MergedStore(shard, number, dataDirectory, report);
        try
        {
            int[] streams = [.. layout.StreamsOf(number.Number)];
            foreach (int stream in streams)
            {
                var share = new SlotShare(layout.SlotsOf(stream), streams.Length == 1, stream == streams[0]);
                store.Streams = [.. store.Streams,
                    MergedStream.Open(store, new(stream), layout[stream].Source, share, directory,
                        (logs ?? MergedStream.Logs) with { Shard = number, Epoch = epoch })];
            }
            store._known = DurableFile.ReadJson(shard.Log.Files, store._record, MergedRecordJson.Default.MergedRecord);
            if (store.IsCurrent) { store._reached = shard.Applied; }
            return store;
        }
        catch
        {
            store.Dispose();
            throw;
        }
    }

    /// <summary>What a site that follows nobody any more has left there is deleted.</summary>
    public static void Clear(string dataDirectory) => Clear(SystemFileLayer.Instance, dataDirectory);

    private static void Clear(IFileLayer files, string dataDirectory)
    {
        string directory = Path.Combine(dataDirectory, DirectoryName);
        if (!Directory.Exists(directory)) { return; }
        foreach (string stream in Directory.EnumerateDirectories(directory)) { Directory.Delete(stream, recursive: true); }
        // Last, so that a start after a crash in here does it again.
        DurableFile.Delete(files, Path.Combine(directory, RecordName));
        Directory.Delete(directory, recursive: true);
    }

    /// <summary>Where the store is; the default: nowhere in the streams' present lives.</summary>
    public WorldPoint Applied => IsCurrent ? _shard.Applied : default;

    /// <summary>Has something done to the shard's log while nothing is appended.</summary>
    public async Task WithLogAsync(Action change)
    {
        await _appending.WaitAsync().ConfigureAwait(false);
        try
        {
            change();
        }
        finally
        {
            _appending.Release();
        }
    }

    /// <summary>A stream's watermark has come to a version: returns when the store is there, or beyond. It goes when all streams have come
    /// there.</summary>
    public async Task BringToAsync(MergedStream stream, WorldPoint to, CancellationToken stop)
    {
        lock (_lock) { stream.Target = to; }
        while (true)
        {
            Task moved;
            await _turn.WaitAsync(stop).ConfigureAwait(false);
            try
            {
                if (Least is { } least && (least > _reached || !IsCurrent)) { await GoAsync(least, stop).ConfigureAwait(false); }
                if (IsCurrent && _reached >= to) { return; }
                moved = _moved.Task;
            }
            finally
            {
                _turn.Release();
            }
            await moved.WaitAsync(stop).ConfigureAwait(false);
        }
    }

    /// <summary>A stream has another life: the shard's log is none of it until all have come to a version of theirs.</summary>
    /// <exception cref="SlotEffectException">What the copy holds cannot be divided by slots.</exception>
    public async Task<bool> RenewAsync(MergedStream stream, Func<bool> begin, CancellationToken stop)
    {
        await _turn.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            lock (_lock) { stream.Target = null; }
            return await Task.Run(
                () =>
                {
                    // One that is damaged is deleted, and says nothing.
                    string? flaw = RdbMerge.Flaw(stream.Disk.CopyPath);
                    return flaw is not null && CheckpointStore.ChecksumOf(stream.Disk.CopyPath) == stream.Disk.Seed!.Checksum
                        ? throw new SlotEffectException($"the primary's shard {stream.Source} cannot be divided among another "
                        + $"number of shards: {flaw}", isOver: false) : begin();
                },
                CancellationToken.None).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    }

    /// <summary>The world-line of this site's rule begins where the store is, durably.</summary>
    public async Task EnterAsync(WorldLine line, CancellationToken stop)
    {
        await _appending.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            await Task.Run(
                () =>
                {
                    VersionLog log = _shard.Log;
                    log.Rewind();
                    log.BeginWorldLine(line, log.LastBoundary ?? throw new InvalidOperationException("The shard's log has no version."),
                        log.ReplicationId);
                },
                CancellationToken.None).ConfigureAwait(false);
        }
        finally
        {
            _appending.Release();
        }
    }

    /// <summary>Makes the store a primary's; once, however many streams there are.</summary>
    public Task PromoteAsync(CancellationToken stop)
    {
        lock (_lock) { _promoting ??= _shard.PromoteAsync(stop); }
        return _promoting.WaitAsync(stop);
    }

    /// <summary>The site is the primary: the shard's log is all that it needs.</summary>
    public void TakeOver(SiteState site)
    {
        _isOver = true;
        _shard.TakeOver(site);
    }

    /// <summary>Shows that a version can be recovered to: by the shard's log up to where that goes, and the stream's from there
    /// on.</summary>
    public V1.VerifyReply Verify(MergedStream stream, WorldPoint to, CancellationToken stop)
    {
        if (!IsCurrent || _shard.Log.LastBoundary is not { } last) { return new() { Flaw = "its copies have not been put together yet" }; }
        WorldPoint merged = last.Point < to ? last.Point : to;
        V1.VerifyReply reply = LogProof.Of(_shard.Log, _shard.Checkpoints, _shard.BaseBelow, merged, stop);
        if (reply.Flaw.Length == 0 && merged < to) { LogProof.AddRest(reply, stream.Log, merged, to, stop); }
        return reply;
    }

    /// <summary>Closes the streams' logs.</summary>
    public void Dispose()
    {
        foreach (MergedStream stream in Streams) { stream.Dispose(); }
        _turn.Dispose();
        _appending.Dispose();
        if (!_isOver) { return; }
        try
        {
            Clear(_dataDirectory);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            _report.Warn($"shard {_number}: what is left of the streams that it followed cannot be deleted; the next start does it: "
                + $"{e.Message}");
        }
    }

    private bool IsCurrent =>
        _known is { } known && Streams.All(s => s.Disk.Life is { } life && known.Lives.GetValueOrDefault(s.Source) == life);

    // To where all may go; null: not all have said.
    private WorldPoint? Least
    {
        get
        {
            lock (_lock) { return Streams.Any(s => s.Target is null) ? null : Streams.Min(s => s.Target); }
        }
    }

    private async Task GoAsync(WorldPoint to, CancellationToken stop)
    {
        Boundary end;
        try
        {
            if (!IsCurrent) { await BeginAsync(to, stop).ConfigureAwait(false); }
            await _appending.WaitAsync(stop).ConfigureAwait(false);
            try
            {
                end = await Task.Run(() => Append(to), CancellationToken.None).ConfigureAwait(false);
            }
            finally
            {
                _appending.Release();
            }
        }
        catch (LogIOException e) when (e.IsFatal)
        {
            _shard.OnIntakeFailed(e.Message);
            throw;
        }
        // Before a crash it may have come further: where it was is a watermark, too.
        if (end.Version <= to.Version) { end = end with { WorldLine = to.WorldLine, Version = to.Version }; }
        await _shard.BringToAsync(end, stop).ConfigureAwait(false);
        _reached = end.Point;
        TaskCompletionSource moved = _moved;
        _moved = NewMoved();
        moved.SetResult();
        Trim(end.Version);
    }

    // Done again after a crash until it is noted: the copies are there as long as the first version is not.
    private async Task BeginAsync(WorldPoint to, CancellationToken stop)
    {
        if (Streams.FirstOrDefault(s => s.Disk.Life is null || s.Disk.Seed!.Floor > to) is { } missing)
        {
            throw new InvalidOperationException($"Stream {missing.Number} cannot be brought to {to}.");
        }
        string file = _shard.Checkpoints.NewTemporaryPath();
        try
        {
            await Task.Run(() => RdbMerge.Write(file, [.. Streams.Select(s => new RdbPart(s.CopyFile, s.Share))]),
                CancellationToken.None).ConfigureAwait(false);
            await _shard.RenewAsync(
                () =>
                {
                    var origin = new StreamOrigin(FeedPlan.NewReplicationId(), FirstOffset, 0);
                    _shard.Checkpoints.Clear();
                    _shard.Checkpoints.Add(file, new Checkpoint
                    {
                        Origin = origin, ReplicationId = origin.ReplicationId, Offset = origin.Offset, Database = origin.Database,
                            WorldLine = to.WorldLine.Number, CreatedAt = DateTimeOffset.UtcNow,
                    });
                    _shard.Log.Begin(origin, to.WorldLine, to.Version);
                    WriteRecord(new(Streams.ToDictionary(s => s.Source, s => s.Disk.Life!.Value)));
                    return true;
                },
                stop).ConfigureAwait(false);
            _report.Info($"shard {_number}: is put together from the copies of "
                + $"{(Streams.Count == 1 ? "the primary's shard" : "the primary's shards")} "
                + $"{string.Join(", ", Streams.Select(s => s.Source))}");
        }
        finally
        {
            File.Delete(file);
        }
    }

    // Under _appending.
    private Boundary Append(WorldPoint to)
    {
        VersionLog log = _shard.Log;
        // What a crash, or a disk that was full, has left of a version.
        log.Rewind();
        Boundary? before = log.LastBoundary;
        if (before?.Point >= to) { return before.Value; }
        if (to.WorldLine > log.WorldLine)
        {
            log.BeginWorldLine(to.WorldLine, before
                ?? new Boundary(log.WorldLine, log.FirstVersion.Previous, log.Origin.Offset, 0, default), log.ReplicationId);
            if (before is { } kept && kept.Version == to.Version) { return log.LastBoundary!.Value; }
        }
        long began = log.EndOffset;
        HybridTimestamp time = before?.Time ?? default;
        foreach (MergedStream stream in Streams)
        {
            Boundary end = stream.Log.BoundaryAtOrBelow(to.Version)
                ?? throw new LogHistoryChangedException(
                $"The log of stream {stream.Number} does not hold the end of version {to.Version}, which is to be applied.");
            (long at, int database) = before is { } last && stream.Log.BoundaryAtOrBelow(last.Version) is { } from
                ? (from.Offset, from.Database) : (stream.Log.Origin.Offset, stream.Log.Origin.Database);
            if (end.Time > time) { time = end.Time; }
            Copy(stream, at, database, end.Offset, began);
        }
        if (log.EndOffset == began && before is not null) { log.AppendEmptyRun(to.Version, time); }
        else { log.AppendBoundary(new(to.WorldLine, to.Version, log.EndOffset, 0, time)); }
        log.AppendHeldCut(to);
        log.Sync();
        return log.LastBoundary!.Value;
    }

    private void Copy(MergedStream stream, long at, int database, long end, long began)
    {
        if (at == end) { return; }
        VersionLog log = _shard.Log;
        var filter = new SlotFilter(stream.Share, database);
        using LogReader reader = stream.Log.OpenReader(at, end);
        while (reader.Position < end)
        {
            int count = reader.Read(_buffer);
            if (count == 0)
            {
                throw new LogHistoryChangedException(
                    $"The log of stream {stream.Number} ends at offset {reader.Position}, and {end} is to be applied.");
            }
            filter.Take(_buffer.AsSpan(0, count), kept =>
            {
                if (log.EndOffset == began) { log.Append(s_select); }
                log.Append(kept);
            });
        }
        if (!filter.IsAtBoundary)
        {
            throw new InvalidDataException($"The version of stream {stream.Number} that ends at offset {end} ends inside a command.");
        }
    }

    // Whatever is needed of the streams lies behind this.
    private void Trim(VersionNumber reached)
    {
        foreach (MergedStream stream in Streams)
        {
            try
            {
                if (stream.Log.BoundaryAtOrBelow(reached) is { } end) { stream.Log.TrimBefore(end.Offset); }
                if (stream.Checkpoints.All.Count > 0) { stream.Checkpoints.Clear(); }
            }
            catch (LogException e)
            {
                _report.Warn($"stream {stream.Number}: what is not needed any more cannot be deleted, and is tried again: {e.Message}");
            }
        }
    }

    private void WriteRecord(MergedRecord record)
    {
        DurableFile.WriteJson(_shard.Log.Files, _record, record, MergedRecordJson.Default.MergedRecord);
        _known = record;
    }

    private static TaskCompletionSource NewMoved() => new(TaskCreationOptions.RunContinuationsAsynchronously);
}

/// <summary>What <c>merged.json</c> says: the lives of the streams, by their sources, that the shard's log is put together from.</summary>
internal sealed record MergedRecord(Dictionary<int, long> Lives);

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(MergedRecord))]
internal sealed partial class MergedRecordJson : JsonSerializerContext;

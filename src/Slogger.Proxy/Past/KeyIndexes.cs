// The indexes of keys beside the segments of a shard's log, for readers of the past: made on a thread that goes behind all others, once a
// segment is not written to any more. One that is missing, torn, of another segment or damaged is no index: that segment is read, and its
// index made again.
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Past;

/// <summary>Makes them, and finds them. Any thread.</summary>
/// <param name="log">The log.</param>
/// <param name="report">Hears what could not be indexed.</param>
/// <param name="shard">Whose log it is, for messages.</param>
internal sealed class KeyIndexes(VersionLog log, ILogger report, string shard) : IDisposable
{
    // What the disk refused may be taken later.
    private const long FailurePauseMs = 60_000, LookPauseMs = 500;

    private static readonly HashSet<long> s_none = [];

    private readonly Lock _gate = new();
    private readonly HashSet<long> _done = [];
    private readonly HashSet<long> _refused = [];   // cannot be done
    private readonly CancellationTokenSource _ending = new();
    private Thread? _thread;
    private long _notBeforeMs;

    /// <summary>Gives a segment's keys from what has read them already.</summary>
    /// <param name="segment">The segment.</param>
    /// <param name="taken">What has them; null: it does not know all of them.</param>
    /// <returns>False: not yet.</returns>
    public delegate bool TryTake(in SealedSegment segment, out KeyIndexMaker? taken);

    /// <summary>What has read segments already; null: nothing has.</summary>
    public TryTake? Known { get; init; }

    /// <summary>Begins to make those that are missing. The control task; it waits for nothing.</summary>
    public void Keep()
    {
        if (_thread is { IsAlive: true } || Environment.TickCount64 < Volatile.Read(ref _notBeforeMs)) { return; }
        Volatile.Write(ref _notBeforeMs, Environment.TickCount64 + LookPauseMs);
        if (Missing(s_none) is null) { return; }
        _thread = new Thread(Work) { Name = "key indexes", IsBackground = true, Priority = ThreadPriority.Lowest };
        _thread.Start();
    }

    /// <summary>A stretch of the present history, in the parts that have an index and those that have none.</summary>
    /// <param name="from">A command boundary.</param>
    /// <param name="database">The database selected there.</param>
    /// <param name="to">Another, above it: segments that begin behind it are not looked at.</param>
    /// <returns>The parts, in order, without a hole; the last one, without an index, has no end. Whoever takes one disposes its
    /// index.</returns>
    /// <exception cref="IOException">An index cannot be read.</exception>
    public IEnumerable<EffectStretch> Stretches(long from, int database, long to)
    {
        long at = from;
        foreach (SealedSegment segment in log.SealedSegments)
        {
            if (segment.End <= at) { continue; }
            if (segment.Start >= to) { break; }
            if (Open(segment) is not { } index) { continue; }
            // A world-line may have begun in it since: what is behind that is void.
            long first = Math.Max(at, index.First), end = index.MadeTo == segment.End ? index.End : Math.Min(index.End, segment.End);
            if (first >= end)
            {
                index.Dispose();
                continue;
            }
            if (first > at)
            {
                yield return new(at, first, database, null);
                database = index.DatabaseAt(first);
            }
            int next = index.DatabaseAt(end);
            yield return new(first, end, database, index);
            (at, database) = (end, next);
        }
        yield return new(at, long.MaxValue, database, null);
    }

    /// <summary>Gives up what is under way, and waits for its end.</summary>
    public void Dispose()
    {
        _ending.Cancel();
        _thread?.Join();
        _ending.Dispose();
    }

    private KeyIndex? Open(in SealedSegment segment)
    {
        KeyIndex? index = KeyIndex.Open(segment.IndexPath, new(segment.Sequence, segment.Salt));
        if (index is not null) { return index; }
        lock (_gate) { _done.Remove(segment.Sequence); }
        return null;
    }

    private SealedSegment? Missing(IReadOnlySet<long> later)
    {
        IReadOnlyList<SealedSegment> all = log.SealedSegments;
        lock (_gate)
        {
            // The newest are asked for most.
            foreach (SealedSegment segment in all.Reverse())
            {
                bool isDue = segment.Before is not null && !_done.Contains(segment.Sequence) && !_refused.Contains(segment.Sequence);
                if (isDue && !later.Contains(segment.Sequence)) { return segment; }
            }
        }
        return null;
    }

    private void Work()
    {
        Niceness.PutThreadBehind();
        var maker = new KeyIndexMaker();
        HashSet<long> later = [];
        while (!_ending.IsCancellationRequested && Missing(later) is { } segment)
        {
            try
            {
                if (!Make(maker, segment)) { later.Add(segment.Sequence); }
            }
            catch (Exception e) when (e is OperationCanceledException or LogHistoryChangedException or ArgumentOutOfRangeException)
            {
                // The shard ends; or what was to be read has changed, or was trimmed: it is looked at again.
                return;
            }
            catch (Exception e) when (e is LogCorruptException or PastException or RedisException)
            {
                lock (_gate) { _refused.Add(segment.Sequence); }
                report.Warn($"{shard}: of segment {segment.Sequence} of the log there is no index of keys, so that it is read whole where "
                    + $"the past is looked at: {e.Message}");
            }
            catch (Exception e)
            {
                // Whatever it is, it ends no process.
                Volatile.Write(ref _notBeforeMs, Environment.TickCount64 + FailurePauseMs);
                report.Warn($"{shard}: segment {segment.Sequence} of the log cannot be indexed, so that it is read whole where the past is "
                    + $"looked at, and it is tried again in a minute: {e.Message}");
                return;
            }
        }
    }

    private bool Read(KeyIndexMaker maker, in SealedSegment segment)
    {
        using var history = new LogHistory(log);
        (long before, int database) = segment.Before!.Value;
        return maker.Read(history, before, database, segment.Start, segment.End, log.DurableOffset, _ending.Token);
    }

    // False: not yet, since its last command's end has not come, or others are about to read it.
    private bool Make(KeyIndexMaker maker, in SealedSegment segment)
    {
        var mark = new KeyIndexMark(segment.Sequence, segment.Salt);
        using (KeyIndex? there = KeyIndex.Open(segment.IndexPath, mark))
        {
            if (there is null)
            {
                KeyIndexMaker? taken = null;
                if (Known?.Invoke(segment, out taken) == false) { return false; }
                if (taken is null && !Read(maker, segment)) { return false; }
                FailPoint.Pass(FailPoint.KeyIndexRead);
                (taken ?? maker).Write(segment.IndexPath, mark);
                FailPoint.Pass(FailPoint.KeyIndexWritten);
                // It goes with its segment, which may have gone meanwhile.
                if (!log.HasSegment(segment.Sequence)) { File.Delete(segment.IndexPath); }
            }
        }
        lock (_gate) { _done.Add(segment.Sequence); }
        return true;
    }
}

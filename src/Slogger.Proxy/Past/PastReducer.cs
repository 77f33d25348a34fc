// Reduces the past of a shard behind what is kept in detail, on a thread that goes behind all others. What is reduced next is the control
// task's decision (TilePlan), and so is the deletion of what was reduced.
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Log.Reduced;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Past;

/// <summary>The background work. The control task, if nothing else is said.</summary>
/// <param name="log">The log.</param>
/// <param name="checkpoints">Its checkpoints.</param>
/// <param name="group">Of so many versions one stays an instant.</param>
/// <param name="report">Hears what was reduced, and what could not be.</param>
/// <param name="shard">Whose log it is, for messages.</param>
internal sealed class PastReducer(VersionLog log, CheckpointStore checkpoints, Func<long> group, ILogger report, string shard) : IDisposable
{
    // What the disk refused may be taken later. Whether something is to be done takes a look into the log.
    private const long FailurePauseMs = 60_000, LookPauseMs = 500;

    private readonly CancellationTokenSource _ending = new();
    private Thread? _thread;
    private long _notBeforeMs;

    /// <summary>Begins what is to be reduced next, if nothing is under way and it is time to look.</summary>
    /// <param name="next">Deletes what was reduced, and says between which checkpoints it goes on, each the next one that is kept; none:
    /// there is nothing to be reduced now.</param>
    public void Keep(Func<IReadOnlyList<Checkpoint>> next)
    {
        if (_thread is { IsAlive: true } || Environment.TickCount64 < Volatile.Read(ref _notBeforeMs)) { return; }
        Volatile.Write(ref _notBeforeMs, Environment.TickCount64 + LookPauseMs);
        try
        {
            if (next() is { Count: > 0 } between) { Begin(between); }
        }
        catch (LogIOException e) when (!e.IsFatal)
        {
            report.Warn($"{shard}: log that was reduced cannot be deleted, and it is tried again: {e.Message}");
        }
    }

    private void Begin(IReadOnlyList<Checkpoint> between)
    {
        _thread = new Thread(() => Work(between)) { Name = "log reduction", IsBackground = true, Priority = ThreadPriority.Lowest };
        _thread.Start();
    }

    /// <summary>Gives up what is under way, and waits for its end.</summary>
    public void Dispose()
    {
        _ending.Cancel();
        _thread?.Join();
        _ending.Dispose();
    }

    private void Work(IReadOnlyList<Checkpoint> between)
    {
        Niceness.PutThreadBehind();
        var reduction = new StretchReduction(log, checkpoints);
        int at = 0;
        try
        {
            for (; at < between.Count - 1; at++)
            {
                if (reduction.Make(between[at], between[at + 1], group(), _ending.Token) is not { } made) { return; }
                report.Info($"{shard}: the past up to version {made.Last} is reduced: of {made.CommandsBefore} commands "
                    + $"{made.CommandsAfter} are left");
            }
        }
        catch (Exception e) when (e is OperationCanceledException or LogHistoryChangedException or ArgumentOutOfRangeException)
        {
            // The shard ends; or what was to be read has changed, or was trimmed, and the next decision is another one.
        }
        catch (Exception e)
        {
            // Whatever it is, it ends no process.
            Volatile.Write(ref _notBeforeMs, Environment.TickCount64 + FailurePauseMs);
            report.Warn($"{shard}: the past from offset {between[at].Offset} to {between[at + 1].Offset} cannot be reduced, so that it "
                + $"stays as it is, and it is tried again in a minute: {e.Message}");
        }
    }
}

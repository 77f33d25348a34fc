// Brings a store that follows to the versions that it is told: one after the other, each until it is there. Of several that wait it takes
// the newest.
using System.Diagnostics;
using System.Threading.Channels;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;

namespace Slogger.Replication.Following;

/// <summary>Moves one store along its log.</summary>
internal sealed class StoreMover : IAsyncDisposable
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(100);
    private readonly VersionLog _log;
    private readonly IFollowingStore _store;
    private readonly string _subject;
    private readonly ILogger _report;
    private readonly Func<WorldPoint, TimeSpan, ValueTask> _arrived;
    private readonly Channel<WorldPoint> _targets = Channel.CreateBounded<WorldPoint>(
        new BoundedChannelOptions(1) { FullMode = BoundedChannelFullMode.DropOldest });
    private readonly CancellationTokenSource _stop = new();
    private Task _moving = Task.CompletedTask;
    private volatile string? _problem;

    /// <summary>Nothing is moved before <see cref="Begin"/>.</summary>
    /// <param name="log">What is followed.</param>
    /// <param name="store">The store.</param>
    /// <param name="subject">Whose store it is, for people: "stream 0".</param>
    /// <param name="report">For people.</param>
    /// <param name="arrived">Is told where the store is, and how long it took. Throws OperationCanceledException when nobody wants to
    /// know any more.</param>
    public StoreMover(VersionLog log, IFollowingStore store, string subject, ILogger report,
        Func<WorldPoint, TimeSpan, ValueTask> arrived) => (_log, _store, _subject, _report, _arrived) = (log, store, subject, report, arrived);

    /// <summary>Why it cannot be brought on; null: it can. Any thread.</summary>
    public string? Problem => _problem;

    /// <summary>Begins to move it.</summary>
    public void Begin() => _moving = Task.Run(MoveAsync);

    /// <summary>The store is to be at the end of this version. Any thread; never waits.</summary>
    public void Go(WorldPoint to) => _targets.Writer.TryWrite(to);

    /// <summary>Stops where the store is.</summary>
    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        await _moving.ConfigureAwait(false);
        _stop.Dispose();
    }

    private async Task MoveAsync()
    {
        try
        {
            await foreach (WorldPoint told in _targets.Reader.ReadAllAsync(_stop.Token).ConfigureAwait(false))
            {
                WorldPoint to = told;
                TimeSpan? took;
                while ((took = await BroughtAsync(to).ConfigureAwait(false)) is null)
                {
                    await Task.Delay(RetryDelay, _stop.Token).ConfigureAwait(false);
                    // Whatever hindered it may not concern a later one.
                    if (_targets.Reader.TryRead(out WorldPoint later)) { to = later; }
                }
                await _arrived(to, took.Value).ConfigureAwait(false);
            }
        }
        catch (OperationCanceledException)
        {
            // Stopping.
        }
    }

    // Null: it is not there.
    private async Task<TimeSpan?> BroughtAsync(WorldPoint to)
    {
        try
        {
            // Before the first version has ended the log's own beginning is a place to go to.
            Boundary end = _log.BoundaryAtOrBelow(to.Version)
                ?? (to.Version == _log.FirstVersion.Previous ? LogPlaces.BaseOf(_log) : null as Boundary?)
                ?? throw new LogHistoryChangedException($"The log does not hold the end of version {to.Version}, which is to be applied.");
            long began = Stopwatch.GetTimestamp();
            await _store.BringToAsync(end with { WorldLine = to.WorldLine, Version = to.Version }, _stop.Token).ConfigureAwait(false);
            _problem = null;
            return Stopwatch.GetElapsedTime(began);
        }
        catch (Exception e) when (e is not OperationCanceledException || !_stop.IsCancellationRequested)
        {
            if (e.Message != _problem)
            {
                _report.Warn($"{_subject}: its store could not be brought to version {to.Version}, and it is tried again: {e.Message}");
            }
            _problem = e.Message;
            return null;
        }
    }
}

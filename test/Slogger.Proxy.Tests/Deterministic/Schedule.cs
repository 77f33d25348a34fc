// One real shard, one client, a store, a disk and a database, in one sequence of events. An event comes from outside the process: an answer
// of the database, a record of the store's stream, a sync, a write of the client, time that passes, a crash. A seed chooses the next one,
// and only when the process has come to rest: no work item is queued or runs, so whatever the last event has set off is over. So the code
// of the product runs as it is, with its tasks and locks, and yet the same seed gives the same events.
//
// What is checked: what was reported as committed is there after each crash; what a client has done is taken back by a new world-line only,
// and then exactly what lies above its branch; the cut of a world-line never goes back, nor covers a version that is open; without more
// faults everything is committed in the end.
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Tests.Simulation;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Tests.Deterministic;

/// <summary>What was promised does not hold.</summary>
internal sealed class BrokenPromiseException(string what) : Exception(what);

/// <summary>A run of one seed. On a thread of its own, and in a process in which nothing else runs.</summary>
internal sealed class Schedule : IDisposable
{
    private const int Events = 250, EventsToTheEnd = 3_000, CrashesMax = 6;
    private const long IntervalUs = 5_000;
    private static readonly TimeSpan RestLimit = TimeSpan.FromSeconds(60), OthersEndLimit = TimeSpan.FromSeconds(10);
    private static readonly int s_othersBusy = LeastBusy();
    private readonly Random _random;
    private readonly SimulatedDisk _disk;
    private readonly ManualTime _time = new();
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-schedule").FullName;
    private readonly IMetadataStore _database;
    private readonly ServeOptions _options;
    private readonly VersionLogOptions _log;
    private readonly Lock _lock = new();
    private readonly List<MetadataCall> _calls = [];                        // under _lock
    private readonly List<(string Name, TaskCompletionSource Done)> _steps = [];     // under _lock
    private readonly List<MetadataCall> _late = [];         // of processes that are gone
    private readonly List<Write> _writes = [];              // that were not taken back
    private JournalShard _shard = null!;
    private CancellationTokenSource _life = null!;
    private Task<ProxyExit?> _start = null!;
    private bool _hasServed, _isBusy, _isAnswerDue, _isTaken;
    private int _number, _histories, _crashes, _committed;
    private long _line;
    private WorldPoint _cut;

    private readonly record struct Write(int Number, long Version);

    public Schedule(int seed, ScheduleMutation mutation = ScheduleMutation.None)
    {
        (_random, Mutation) = (new(seed), mutation);
        _disk = new(seed) { IgnoresDataSync = mutation == ScheduleMutation.SyncForgets };
        string file = Path.Combine(_directory, "metadata.db");
        _database = MetadataStoreFactory.Create($"sqlite:{file}");
        _options = new()
        {
            DataDirectory = _directory, Metadata = MetadataSpec.SqliteFile(file), VersionInterval = TimeSpan.FromMicroseconds(IntervalUs),
            Time = _time, IsRehearsal = true,
        };
        _log = new()
        {
            Directory = "/log", Shard = _options.Shard, Files = _disk, PrepareInBackground = false, ZeroFill = false,
            SegmentBytes = 64 << 10, BlockBytes = 4 << 10, BufferBytes = 64 << 10,
        };
        _database.InitializeAsync().GetAwaiter().GetResult();
        _database.GetOrCreateClusterAsync(
            _options.Cluster, new() { Grid = [new GridStretch(new(1), ManualTime.StartUs, IntervalUs)] }).GetAwaiter().GetResult();
    }

    public ScheduleMutation Mutation { get; }

    /// <summary>What happened, in order.</summary>
    public List<string> Trace { get; } = [];

    public JournalStore Store { get; private set; } = new();

    /// <summary>How often a process began to serve.</summary>
    public int Starts { get; private set; }

    /// <summary>How many writes were taken back.</summary>
    public int TakenBack { get; private set; }

    /// <summary>Runs it.</summary>
    /// <exception cref="BrokenPromiseException">Something that was promised does not hold.</exception>
    public void Run()
    {
        int crashAt = _random.Next(20, Events);
        Start();
        for (int i = 0; i < Events; i++)
        {
            if (i == crashAt) { Crash(_random.Next(2) == 0); }
            Step(mayCrash: true);
        }
        // From here on nothing fails. Whatever was done is committed in the end, and survives the loss of everything but the disk.
        _disk.OperationsUntilCrash = -1;
        AwaitAllCommitted();
        Crash(isPower: true);
        AwaitAllCommitted();
    }

    public void Dispose()
    {
        _shard?.Abandon();
        _database.DisposeAsync().AsTask().GetAwaiter().GetResult();
        Directory.Delete(_directory, recursive: true);
    }

    // ---- What the process asks ----

    /// <summary>The metadata, as this process sees it.</summary>
    public IMetadataStore Metadata() => ScheduledMetadata.For(_database, call =>
    {
        lock (_lock) { _calls.Add(call); }
    });

    /// <summary>Returns when the schedule goes on with it.</summary>
    public Task StepAsync(string name)
    {
        var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        lock (_lock) { _steps.Add((name, done)); }
        return done.Task;
    }

    /// <summary>A fresh name for a history of the store.</summary>
    public string NewHistory() => Interlocked.Increment(ref _histories).ToString("x40", null);

    // ---- Events ----

    private void Start()
    {
        Trace.Add("start");
        (_life, _hasServed, _isBusy, _isAnswerDue, _isTaken) = (new(), false, false, false, false);
        var shard = _shard = new JournalShard(_options, NullLogger.Instance, this, _log);
        CancellationToken stop = _life.Token;
        _start = Task.Run(() => shard.StartAsync(stop));
    }

    private void Crash(bool isPower)
    {
        _crashes++;
        Trace.Add(isPower ? "power fails" : "process is killed");
        lock (_lock)
        {
            // What was on its way may come, before or after what the next process asks.
            _late.AddRange(_calls.Where(c => !c.IsPerformed));
            _calls.Clear();
            _steps.Clear();
        }
        _shard.Abandon();
        _life.Cancel();
        Rest();
        if (isPower)
        {
            _disk.Crash();
            Store = new();
        }
        else { _disk.Kill(); }
        Start();
    }

    private void Step(bool mayCrash)
    {
        try
        {
            Rest();
            if (Observe()) { return; }
            List<(int Weight, string Name, Action Do)> events = [.. Possible(mayCrash)];
            if (mayCrash && _crashes < CrashesMax)
            {
                events.Add((1, "", () => Crash(isPower: false)));
                events.Add((1, "", () => Crash(isPower: true)));
                events.Add((1, "the disk stops the machine soon", () => _disk.OperationsUntilCrash = _random.Next(8)));
            }
            if (events.All(e => e.Weight < 2))
            {
                Trace.Add("time passes");
                if (!_time.PassToNext()) { throw new BrokenPromiseException("nothing is left to happen, and the shard does not serve"); }
                return;
            }
            int at = _random.Next(events.Sum(e => e.Weight));
            (int _, string name, Action action) = events.First(e => (at -= e.Weight) < 0);
            if (name.Length > 0) { Trace.Add(name); }
            action();
            Rest();
            _shard.Mutate();
        }
        catch (SimulatedCrashException)
        {
            Crash(isPower: true);
        }
    }

    private IEnumerable<(int Weight, string Name, Action Do)> Possible(bool mayLose)
    {
        MetadataCall[] calls;
        (string Name, TaskCompletionSource Done)[] steps;
        lock (_lock)
        {
            // Of those that came together the order is nobody's.
            calls = [.. _calls.OrderBy(c => c.Name, StringComparer.Ordinal)];
            steps = [.. _steps.OrderBy(s => s.Name, StringComparer.Ordinal)];
        }
        foreach (MetadataCall call in calls)
        {
            if (!call.IsPerformed) { yield return (15, $"{call.Name} is performed", call.Perform); }
            else { yield return (15, $"{call.Name} is answered", () => End(call, call.Answer)); }
            if (mayLose) { yield return (1, $"{call.Name} is lost", () => Lose(call)); }
        }
        foreach (MetadataCall call in _late)
        {
            yield return (2, $"{call.Name} of before is performed", () => PerformLate(call));
        }
        foreach ((string Name, TaskCompletionSource Done) step in steps)
        {
            yield return (15, step.Name, () =>
            {
                lock (_lock) { _steps.Remove(step); }
                step.Done.SetResult();
            });
        }
        if (_shard.HasMoreToRead) { yield return (20, "the stream is read", _shard.Read); }
        if (!_hasServed || !_shard.Serves) { yield break; }
        if (_shard.IsSyncWanted) { yield return (10, "the log is synced", _shard.Sync); }
        if (_isAnswerDue)
        {
            yield return (15, "the marker is answered", () =>
            {
                _isAnswerDue = false;
                _shard.MarkerAnswered(true);
            });
        }
        if (mayLose) { yield return (25, "", WriteNext); }
        yield return (20, "", Tick);
        yield return (5, "a client waits", _shard.OnCommitAwaited);
    }

    private void End(MetadataCall call, Action how)
    {
        lock (_lock) { _calls.Remove(call); }
        how();
    }

    // The process is told that it failed, whether it was performed, will be, or never is.
    private void Lose(MetadataCall call)
    {
        if (!call.IsPerformed && _random.Next(2) == 0) { _late.Add(call); }
        End(call, call.Lose);
    }

    private void PerformLate(MetadataCall call)
    {
        _late.Remove(call);
        call.Perform();
        // By a process that is gone: the one that lives has to see that, and end.
        _isTaken |= call.Name == nameof(IMetadataStore.TakeShardEpochAsync);
    }

    private void WriteNext()
    {
        var write = new Write(++_number, _shard.OpenVersion);
        Trace.Add($"write {write.Number} in {write.Version}");
        Store.Add(write.Number);
        _writes.Add(write);
        _isBusy = true;
    }

    private void Tick()
    {
        _time.Pass(_random.Next((int)(2 * IntervalUs)));
        MarkerToSend? marker = _shard.Tick(_isBusy, inFlight: false);
        _isBusy = false;
        Trace.Add($"tick in {_shard.OpenVersion}");
        if (marker is null) { return; }
        switch (_random.Next(20))
        {
            case 0:
                Trace.Add("the marker is lost");
                _shard.MarkerLost();
                break;
            case 1:
                Trace.Add("the marker is executed, and its answer lost");
                Store.AddMarker(_shard.Sent);
                _shard.MarkerLost();
                break;
            case 2:
                Trace.Add("the marker is refused");
                _shard.MarkerAnswered(false);
                break;
            default:
                Trace.Add("the marker is sent");
                Store.AddMarker(_shard.Sent);
                _isAnswerDue = true;
                break;
        }
    }

    private void AwaitAllCommitted()
    {
        for (int i = 0; i < EventsToTheEnd; i++)
        {
            if (_hasServed && _committed == _writes.Count) { return; }
            Step(mayCrash: false);
        }
        throw new BrokenPromiseException(
            $"{_writes.Count - _committed} writes are not committed after {EventsToTheEnd} events without faults");
    }

    // ---- What is seen ----

    // True: the process has ended, and another was started.
    private bool Observe()
    {
        if (_shard.HasFailed)
        {
            if (_isTaken)
            {
                Trace.Add("the shard was taken");
                Crash(isPower: false);
                return true;
            }
            throw new BrokenPromiseException($"the shard has failed: {_shard.Failure.Result.Problem}");
        }
        if (!_hasServed && _start.IsCompleted)
        {
            if (_start.Exception?.InnerException is SimulatedCrashException)
            {
                Crash(isPower: true);
                return true;
            }
            if (_start.GetAwaiter().GetResult() is { } exit)
            {
                bool isExpected = _isTaken || exit.Problem!.Contains("simulated", StringComparison.Ordinal);
                Check(isExpected, exit.Problem!);
                Trace.Add("the start is given up");
                Crash(isPower: false);
                return true;
            }
            _hasServed = true;
            Starts++;
            CheckStore();
        }
        if (_hasServed) { CheckCut(); }
        return false;
    }

    private void CheckStore()
    {
        (long line, Boundary last) = (_shard.WorldLine, _shard.Last);
        int kept = Store.Numbers.Count;
        Trace.Add($"serves in world-line {line} after version {last.Version} with {kept} writes");
        Check(Store.Numbers.SequenceEqual(_writes.Take(kept).Select(w => w.Number)), "the store holds what is no prefix of what was done");
        Check(kept >= _committed, $"{_committed} writes were reported as committed, and {kept} are there");
        if (line == _line) { Check(kept == _writes.Count, $"{_writes.Count - kept} writes are gone, and no world-line has begun"); }
        else
        {
            int below = _writes.Count(w => w.Version <= last.Version.Number);
            Check(kept == below,
                $"world-line {line} has begun at version {last.Version}: it has {kept} writes, and clients were told {below}");
            (_line, _cut) = (line, default);
        }
        TakenBack += _writes.Count - kept;
        _writes.RemoveRange(kept, _writes.Count - kept);
    }

    private void CheckCut()
    {
        WorldPoint cut = _shard.RecordedCut;
        if (cut.WorldLine.Number != _line || cut == _cut) { return; }
        Trace.Add($"committed {cut.Version}");
        Check(cut.Version >= _cut.Version, $"the cut has gone back from {_cut.Version} to {cut.Version}");
        Check(cut.Version.Number < _shard.OpenVersion, $"version {cut.Version} is committed, and open");
        _cut = cut;
        _committed = Math.Max(_committed, _writes.Count(w => w.Version <= cut.Version.Number));
    }

    private static void Check(bool holds, string otherwise)
    {
        if (!holds) { throw new BrokenPromiseException(otherwise); }
    }

    // ---- Rest ----

    // An item that runs at the first look has ended by the last one, and then the count is another.
    private static bool IsAtRest()
    {
        long done = ThreadPool.CompletedWorkItemCount;
        return ThreadPool.PendingWorkItemCount == 0 && Busy() <= s_othersBusy && ThreadPool.PendingWorkItemCount == 0
            && ThreadPool.CompletedWorkItemCount == done;
    }

    private static void Rest()
    {
        long until = Environment.TickCount64 + (long)RestLimit.TotalMilliseconds;
        for (int looks = 0; looks < 3;)
        {
            looks = IsAtRest() ? looks + 1 : 0;
            if (looks == 0) { Thread.Sleep(0); }
            if (Environment.TickCount64 > until) { throw new TimeoutException("the process does not come to rest"); }
        }
    }

    private static int Busy()
    {
        ThreadPool.GetMaxThreads(out int all, out _);
        ThreadPool.GetAvailableThreads(out int free, out _);
        return all - free;
    }

    // Those that never end, of the test runner or of tests before. One of them that ended later would hide one of the process. So those
    // that do end are waited for.
    private static int LeastBusy()
    {
        int least = Busy();
        for (long until = Environment.TickCount64 + (long)OthersEndLimit.TotalMilliseconds; least > 0 && Environment.TickCount64 < until;)
        {
            Thread.Sleep(1);
            least = Math.Min(least, Busy());
        }
        return least;
    }
}

// Snapshots of a shard: its data at the end of any version that is kept, as an RDB file. A redis-server beside the shard's own loads the
// checkpoint below it and the log up to it, and saves; the live store is asked for nothing but who may.
//
// It has the keys of the slots that the shard had then: what else was in its store, while slots moved, is left out of the file.
//
// One that rests on another has what differs between the two instants only (SnapshotDelta).
//
// One is made after the other, so that the machine needs memory for one more copy of the data. A file stays until its reader is done, or
// was silent for a minute.
using System.Security.Cryptography;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Past;
using Slogger.Redis.Slots;
using Slogger.Redis.Supervision;
using RestoreOptions = Slogger.Redis.Feeding.RestoreOptions;

namespace Slogger.Proxy.Past;

/// <summary>The snapshots of a shard. Any thread.</summary>
internal sealed class ShardSnapshots : IPastSnapshots
{
    private const string Folder = "snapshot", Files = "snapshots";
    private const int JobsMax = 8;

    private static readonly string[] s_settings = ["maxmemory 0", "rdbchecksum yes"];
    private static readonly TimeSpan SilentMax = TimeSpan.FromMinutes(1), SaveMax = TimeSpan.FromHours(6);

    private readonly VersionLog _log;
    private readonly CheckpointStore _checkpoints;
    private readonly PastInstants _instants;
    private readonly RedisSupervisorOptions? _server;
    private readonly string _files;
    private readonly SemaphoreSlim _turn = new(1, 1);
    private readonly CancellationTokenSource _ending = new();
    private readonly Lock _gate = new();
    private readonly Dictionary<string, Job> _jobs = [];
    private Task _dropped = Task.CompletedTask;
    private volatile bool _isCleared;   // of what a process before has left behind

    public ShardSnapshots(ServeOptions options, VersionLog log, CheckpointStore checkpoints, PastInstants instants)
    {
        (_log, _checkpoints, _instants) = (log, checkpoints, instants);
        _server = options.RedisServerPath is null ? null : ScratchServer.In(Folder, options, s_settings);
        _files = Path.Combine(options.DataDirectory, Files);
    }

    /// <summary>The offset from which those that are made need the log and a checkpoint; <see cref="long.MaxValue"/>: none is.</summary>
    public long HeldFrom
    {
        get
        {
            lock (_gate)
            {
                return _jobs.Values.Where(j => !j.Work.IsCompleted).Select(j => j.HeldFrom).DefaultIfEmpty(long.MaxValue).Min();
            }
        }
    }

    /// <summary>The live store, which knows who may have all data; null: it has no users, and all may.</summary>
    public required Func<RedisEndpoint?> Live { get; init; }

    /// <summary>The past of the shard, of which this is a part.</summary>
    public required ShardPast Past { get; init; }

    /// <inheritdoc />
    public Task<byte[]> BeginAsync(Instant at, SnapshotRest? rests, string user) => PastAnswer.OfAsync(async () =>
    {
        if (_server is null) { throw PastAnswer.NoServer(); }
        await using (ReadRights rights = await ReadRights.OpenAsync(Live(), _ending.Token).ConfigureAwait(false))
        {
            if (await rights.RefusalAsync(user, ReadRights.OfAllData, _ending.Token).ConfigureAwait(false) is { } why)
            {
                return PastAnswer.Error(why);
            }
        }
        PastPoint point = _instants.Hold(await _instants.CommittedAsync(at, _ending.Token).ConfigureAwait(false));
        await _instants.Owners.AwaitCertainAsync(point.End.Version, _ending.Token).ConfigureAwait(false);
        RestsOn? other = rests is (var version, var behind, var upTo)
            ? await RestOnAsync(point, new(version), new(behind), new(upTo)).ConfigureAwait(false) : null;
        string name = Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(16));
        var job = new Job(point, other, Path.Combine(_files, name), _ending.Token);
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_ending.IsCancellationRequested, this);
            if (_jobs.Count >= JobsMax) { throw new PastException($"{JobsMax} snapshots are being made or read: try again later"); }
            _jobs.Add(name, job);
            job.Work = Task.Run(() => MakeAsync(job));
        }
        var reply = new List<byte>();
        RespText.AppendHeader(reply, '*', 4);
        RespText.AppendBulk(reply, System.Text.Encoding.ASCII.GetBytes(name));
        foreach (long number in (long[])[point.End.WorldLine.Number, point.End.Version.Number, _instants.TimeUsOf(point.End.Version)])
        {
            RespText.AppendHeader(reply, ':', number);
        }
        return [.. reply];
    });

    // Each command between the two is wanted.
    private async Task<RestsOn> RestOnAsync(PastPoint point, VersionNumber version, VersionNumber behind, VersionNumber upTo)
    {
        await _instants.CommittedAsync(new(InstantBy.Version, upTo.Number), _ending.Token).ConfigureAwait(false);
        await _instants.Owners.AwaitCertainAsync(upTo, _ending.Token).ConfigureAwait(false);
        long heldFrom = long.MaxValue;
        _instants.HoldDetail(point.End.Version);
        (Boundary since, Boundary lowest, Boundary highest) = (End(version), End(behind), _instants.HoldDetail(upTo));
        return since.Version == version ? new(since, lowest, highest, heldFrom)
            : throw new PastException($"version {version} is none that this shard has closed");

        // Of a time when the shard had no slots others know what was done.
        Boundary End(VersionNumber at)
        {
            _instants.RequireKnown(at);
            if (!_instants.Owners.HadAny(at)) { return default(Boundary) with { Version = at }; }
            _instants.HoldDetail(at);
            PastPoint held = _instants.Hold(at);
            heldFrom = Math.Min(heldFrom, held.Base.Offset);
            return held.End;
        }
    }

    /// <inheritdoc />
    public Task<byte[]> StateAsync(string name) => OfJobAsync(name, job =>
    {
        if (job.Failure is { } why) { throw new PastException($"the snapshot could not be made: {why}"); }
        (long done, long all) = job.Progress;
        string state = job.IsReady ? "ready" : job.IsSaving ? "saves" : done == 0 ? "waits" : "loads";
        var reply = new List<byte>();
        RespText.AppendHeader(reply, '*', 7);
        RespText.AppendBulk(reply, System.Text.Encoding.ASCII.GetBytes(state));
        foreach (long number in (long[])[done, all, job.FileBytes, job.Keys, job.RemovalBytes, job.Removed])
        {
            RespText.AppendHeader(reply, ':', number);
        }
        return [.. reply];
    });

    /// <inheritdoc />
    public Task<byte[]> ReadAsync(string name, bool ofRemovals, long offset, int bytesMax) => OfJobAsync(name, job =>
    {
        if (!job.IsReady) { throw new PastException("the snapshot is not ready"); }
        if (ofRemovals && job.Rests is null) { throw new PastException("the snapshot rests on no other: it removes nothing"); }
        using FileStream file = File.OpenRead(ofRemovals ? job.Removals : job.Path);
        var part = new byte[(int)Math.Clamp(file.Length - offset, 0, bytesMax)];
        file.Seek(offset, SeekOrigin.Begin);
        file.ReadExactly(part);
        return RespText.Bulk(part);
    });

    /// <inheritdoc />
    public Task<byte[]> EndAsync(string name) => PastAnswer.OfAsync(async () =>
    {
        Job? job;
        Task dropped = Task.CompletedTask;
        lock (_gate)
        {
            if (_jobs.Remove(name, out job)) { _dropped = Task.WhenAll(_dropped, dropped = DropAsync(job)); }
        }
        await dropped.ConfigureAwait(false);
        return "+OK\r\n"u8.ToArray();
    });

    /// <summary>Gives up those whose readers are silent, and at the first call what a process before has left behind. The control task;
    /// it waits for nothing.</summary>
    public void Keep()
    {
        if (!_isCleared && _turn.Wait(0)) { _ = Task.Run(ClearAsync); }
        lock (_gate)
        {
            foreach ((string name, Job job) in _jobs.Where(j => j.Value.IsSilent).ToList())
            {
                _jobs.Remove(name);
                _dropped = Task.WhenAll(_dropped, DropAsync(job));
            }
        }
    }

    /// <summary>Ends all of it.</summary>
    public async Task StopAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        List<Job> all;
        lock (_gate)
        {
            all = [.. _jobs.Values];
            _jobs.Clear();
        }
        foreach (Job job in all) { await DropAsync(job).ConfigureAwait(false); }
        await _dropped.ConfigureAwait(false);
        // What clears up may still be at it.
        await _turn.WaitAsync().ConfigureAwait(false);
        _turn.Release();
    }

    private Task<byte[]> OfJobAsync(string name, Func<Job, byte[]> answer) => PastAnswer.OfAsync(() => Task.Run(() =>
    {
        Job job;
        lock (_gate)
        {
            job = _jobs.GetValueOrDefault(name)
                ?? throw new PastException("there is no snapshot of that name: it was given up, or nobody asked for a minute");
            job.Touch();
        }
        return answer(job);
    }));

    private async Task MakeAsync(Job job)
    {
        try
        {
            await _turn.WaitAsync(job.Stop).ConfigureAwait(false);
            try
            {
                await ClearOnceAsync(job.Stop).ConfigureAwait(false);
                if (job.Rests is { } rests)
                {
                    await DiffAsync(job, rests).ConfigureAwait(false);
                    return;
                }
                await using var server = new RedisSupervisor(_server!);
                try
                {
                    await LoadBehindOthersAsync(server, job).ConfigureAwait(false);
                }
                finally
                {
                    await ScratchServer.EndAsync(server, _server!).ConfigureAwait(false);
                }
            }
            finally
            {
                _turn.Release();
            }
        }
        catch (Exception e)
        {
            // Whoever asks for the state is told, whatever it is.
            job.Failure = (PastAnswer.WhyOf(e) ?? e.ToString())
                + (job.Rests is not null && e is PastException ? ": take one of all keys (without --from)" : "");
        }
    }

    private async Task DiffAsync(Job job, RestsOn rests)
    {
        Boundary to = _instants.HoldDetail(job.Point.End.Version), since = rests.Since;
        if (to.Version != job.Point.End.Version
            || (_instants.Owners.HadAny(since.Version) && _instants.HoldDetail(since.Version).Point != since.Point))
        {
            throw new PastException("what it is made from has been deleted meanwhile");
        }
        Directory.CreateDirectory(_files);
        SnapshotDelta delta = job.Delta = new(Past, since, to, rests.Lowest, rests.Highest);
        await delta.WriteAsync(job.Path, job.Removals, job.Stop).ConfigureAwait(false);
        (job.Keys, job.Removed) = (delta.Keys, delta.Removed);
        (job.FileBytes, job.RemovalBytes) = (new FileInfo(job.Path).Length, new FileInfo(job.Removals).Length);
        job.Touch();
        job.IsReady = true;
    }

    private async Task LoadBehindOthersAsync(RedisSupervisor server, Job job)
    {
        if (await server.StartOrAdoptAsync(job.Stop).ConfigureAwait(false) is SupervisedStart.Failed failed)
        {
            throw new PastException($"the redis-server that loads it does not start: {failed.Message}");
        }
        using var isLoaded = new CancellationTokenSource();
        // Clients come first.
        Task turns = server.RunInSpareTimeAsync(isLoaded.Token);
        try
        {
            await LoadAsync(server, job).ConfigureAwait(false);
        }
        finally
        {
            await isLoaded.CancelAsync().ConfigureAwait(false);
            await turns.ConfigureAwait(false);
        }
    }

    private async Task LoadAsync(RedisSupervisor server, Job job)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(server.Endpoint, SaveMax, job.Stop).ConfigureAwait(false);
        // By now there may be a better checkpoint, and others may have gone.
        PastPoint now = _instants.Hold(job.Point.End.Version);
        if (now.End.Version != job.Point.End.Version) { throw new PastException("what it is made from has been deleted meanwhile"); }
        job.Point = now;
        IHistorySource history = now.OpenHistory(_log, _checkpoints);
        using var _ = history as IDisposable;
        var plan = new FeedPlan
        {
            BaseFile = _checkpoints.PathOf(now.Base), BaseOffset = now.Base.Offset, TargetOffset = now.Target, History = history,
        };
        var how = new RestoreOptions
        {
            Feed = FeedAddress.For(server.Endpoint),
            Progress = job,
            // A master would drop what has expired since.
            BeforePromotion = (loaded, stop) => SaveAsync(loaded, job, stop),
        };
        if (await RedisRestore.RunAsync(control, plan, how, job.Stop).ConfigureAwait(false) is RestoreResult.Failed wrong)
        {
            job.Stop.ThrowIfCancellationRequested();
            throw new PastException(wrong.Message);
        }
        Directory.CreateDirectory(_files);
        string dump = Path.Combine(_server!.Directory, RedisSupervisor.DumpName);
        if (_instants.Owners.OwnAt(now.End.Version) is { } isOwn)
        {
            job.Keys = RdbMerge.Write(job.Path, dump, key => isOwn(new(0, key)));
            File.Delete(dump);
        }
        else { File.Move(dump, job.Path, overwrite: true); }
        job.FileBytes = new FileInfo(job.Path).Length;
        job.Touch();
        job.IsReady = true;
    }

    private static async Task SaveAsync(RedisConnection loaded, Job job, CancellationToken stop)
    {
        job.IsSaving = true;
        try
        {
            job.Keys = await RedisProbe.KeyCountAsync(loaded, stop).ConfigureAwait(false);
            await loaded.ExpectAsync(["SAVE"], stop).ConfigureAwait(false);
        }
        catch (RedisException e)
        {
            throw new PastException($"it is loaded, and cannot be saved: {e.Message}");
        }
    }

    private async Task ClearAsync()
    {
        try
        {
            await ClearOnceAsync(_ending.Token).ConfigureAwait(false);
        }
        catch (Exception e) when (PastAnswer.WhyOf(e) is not null)
        {
            // It is tried again.
        }
        finally
        {
            _turn.Release();
        }
    }

    // Under the turn: no file of this process is there yet.
    private async Task ClearOnceAsync(CancellationToken stop)
    {
        if (_isCleared) { return; }
        if (_server is not null) { await ScratchServer.EndLeftAsync(_server, stop).ConfigureAwait(false); }
        if (Directory.Exists(_files)) { Directory.Delete(_files, recursive: true); }
        _isCleared = true;
    }

    private static async Task DropAsync(Job job)
    {
        await job.CancelAsync().ConfigureAwait(false);
        await job.Work.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        try
        {
            File.Delete(job.Path);
            File.Delete(job.Removals);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // The next start deletes it.
        }
    }

    // What a snapshot rests on: the instants of the other one, and of the lowest and highest below that.
    private sealed record RestsOn(Boundary Since, Boundary Lowest, Boundary Highest, long HeldFrom);

    // A snapshot that is made, or read.
    private sealed class Job(PastPoint point, RestsOn? rests, string path, CancellationToken ending) : IProgress<FeedProgress>
    {
        private readonly CancellationTokenSource _stop = CancellationTokenSource.CreateLinkedTokenSource(ending);
        private long _lastUsed = Environment.TickCount64, _done;

        public PastPoint Point { get; set; } = point;
        public RestsOn? Rests => rests;

        public string Path { get; } = path + ".rdb";
        public string Removals { get; } = path + ".removed";
        public SnapshotDelta? Delta { get; set; }
        public CancellationToken Stop => _stop.Token;
        public Task Work { get; set; } = Task.CompletedTask;
        public volatile bool IsSaving;
        public volatile bool IsReady;
        public volatile string? Failure;
        public long FileBytes { get; set; }
        public long Keys { get; set; }
        public long RemovalBytes { get; set; }
        public long Removed { get; set; }

        public long HeldFrom => Math.Min(Point.Base.Offset, rests?.HeldFrom ?? long.MaxValue);

        public bool IsSilent => Environment.TickCount64 - Volatile.Read(ref _lastUsed) >= SilentMax.TotalMilliseconds;

        public void Touch() => Volatile.Write(ref _lastUsed, Environment.TickCount64);

        // In bytes; of one that rests on another in keys.
        public (long Done, long All) Progress
        {
            get
            {
                long bytes = Point.Base.Bytes + Point.Target - Point.Base.Offset;
                (long done, long all) = rests is null ? (Volatile.Read(ref _done), bytes) : Delta?.Progress ?? default;
                return (IsReady ? all : done, all);
            }
        }

        public void Report(FeedProgress value) =>
            Volatile.Write(ref _done, value.BaseBytesSent + Math.Max(0, value.OffsetSent - Point.Base.Offset));

        public Task CancelAsync() => _stop.CancelAsync();
    }
}

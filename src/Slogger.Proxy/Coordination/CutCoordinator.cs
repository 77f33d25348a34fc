// The role that finds the cuts of a cluster (design, section 7): any proxy of it can have it, by a lease (ClusterPulse). It hears from
// the shards what they have durable, has one of Core's finders work out the cut, records that in SQL, and tells the shards: one
// statement a turn, however many shards and versions there are. What it knows it can lose: another starts from SQL.
//
// Why it may go by what it is told: SQL takes a cut only from the holder of the role, only in the current world-line, and only
// if no shard has changed hands since this process last looked who owns them (RecordCutAsync). So what a deposed owner of a shard says can
// be in no cut that is recorded after its successor took the shard.
using System.Diagnostics;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Versions;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Peers;

namespace Slogger.Proxy.Coordination;

internal sealed class CutCoordinator(ClusterSeat seat, ILogger report) : IDisposable
{
    // How often SQL is looked at for what shards say there alone, since they cannot connect.
    private static readonly TimeSpan LookPeriod = TimeSpan.FromMilliseconds(500);
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan IdlePace = TimeSpan.FromMilliseconds(50);
    private const int UnreadReportsMax = 256;

    private readonly Lock _lock = new();
    private readonly Dictionary<int, ShardVoice> _voices = [];
    private readonly SemaphoreSlim _signal = new(0, 1);
    private readonly SemaphoreSlim _turnWanted = new(0, 1);
    private bool _isLookWanted;
    private long _epoch;
    private VersionNumber _awaitedUntil;
    private bool _awaitedIsNews;

    // The turn's own: what it goes by, and what was recorded last.
    private IDprFinder? _finder;
    private CoordinatorView? _view;
    private Cut? _told;
    private long _actedAt;

    /// <summary>Whether this process has the role.</summary>
    public bool IsActive => Volatile.Read(ref _epoch) != 0;

    // ---- Connections (a task each) ----

    /// <summary>Hears a shard, and tells it the cuts, until it hangs up.</summary>
    /// <param name="peer">The connection.</param>
    /// <param name="epoch">The epoch of the shard's owner at its other end.</param>
    /// <param name="stop">Ends it.</param>
    /// <exception cref="IOException">It has hung up, or says what no shard says.</exception>
    public async Task HearAsync(PeerChannel peer, long epoch, CancellationToken stop)
    {
        await using var queue = new PeerQueue(peer);
        var voice = new ShardVoice(queue, peer.Other, epoch);
        Task pump = queue.PumpAsync(stop);
        try
        {
            lock (_lock)
            {
                // A deposed owner that has not heard of it does not take the place of its successor.
                if (!IsActive || (_voices.TryGetValue(voice.Shard.Number, out ShardVoice? before) && before.Epoch > voice.Epoch))
                {
                    return;
                }
                before?.HangUp();
                _voices[voice.Shard.Number] = voice;
                voice.IsNew = true;
            }
            do { Wake(); } while (Hear(voice, await queue.ReceiveAsync(stop).ConfigureAwait(false)));
        }
        finally
        {
            lock (_lock)
            {
                if (_voices.GetValueOrDefault(voice.Shard.Number) == voice) { _voices.Remove(voice.Shard.Number); }
            }
            await queue.DisposeAsync().ConfigureAwait(false);
            await pump.ConfigureAwait(false);
        }
    }

    // False: it says what no shard says.
    private bool Hear(ShardVoice voice, string line)
    {
        if (CoordinationText.ReadWait(line) is { } until)
        {
            lock (_lock)
            {
                if (until <= _awaitedUntil) { return true; }
                (_awaitedUntil, _awaitedIsNews) = (until, true);
            }
            // There may be a while to go until the next turn.
            Release(_turnWanted);
            return true;
        }
        if (line == CoordinationText.Look)
        {
            Volatile.Write(ref _isLookWanted, true);
            Release(_turnWanted);
            return true;
        }
        if (CoordinationText.ReadReport(voice.Shard, line) is not { } said || !Fits(said)) { return false; }
        lock (_lock)
        {
            if (voice.Reports.Count == UnreadReportsMax)
            {
                // The newest says what is durable; what lies between is asked for again.
                voice.Reports.Clear();
                voice.Connection.Send(CoordinationText.Again);
            }
            voice.Reports.Enqueue(said);
        }
        return true;
    }

    private bool Fits(in VersionReport said)
    {
        foreach (Dependency d in said.Dependencies.Items)
        {
            if (d.Shard.Number >= seat.ShardCount) { return false; }
        }
        return said.Stride >= 1 && said.Floor <= said.Durable.Version && said.After <= said.Durable.Version;
    }

    private void Wake() => Release(_signal);

    private static void Release(SemaphoreSlim signal)
    {
        try
        {
            signal.Release();
        }
        catch (SemaphoreFullException)
        {
            // Already awake.
        }
    }

    // ---- The role (one task) ----

    /// <summary>Coordinates until stopped, or until another process has the role.</summary>
    /// <param name="epoch">With which the role was taken.</param>
    /// <param name="stop">Ends it.</param>
    /// <exception cref="MetadataException">A person has to act.</exception>
    public async Task RunAsync(long epoch, CancellationToken stop)
    {
        report.Info($"shard {seat.Shard}: this proxy coordinates the cuts of cluster \"{seat.Cluster}\" (epoch {epoch})");
        Volatile.Write(ref _epoch, epoch);
        try
        {
            long lookedAt = 0;
            var pace = new CutPace(seat.ShardCount);
            while (!stop.IsCancellationRequested)
            {
                // A turn that has nothing to record costs little among few shards: the one that has is not to wait for that.
                if (pace.IsCrowded) { _actedAt = Stopwatch.GetTimestamp(); }
                try
                {
                    if (_finder is null || Interlocked.Exchange(ref _isLookWanted, false)
                        || Stopwatch.GetElapsedTime(lookedAt) >= LookPeriod)
                    {
                        if (!await seat.Metadata.RenewCoordinatorAsync(seat.Cluster, epoch, stop).ConfigureAwait(false)) { break; }
                        TakeIn(await seat.Metadata.CoordinatorViewAsync(seat.Cluster, stop).ConfigureAwait(false));
                        lookedAt = Stopwatch.GetTimestamp();
                    }
                    if (!await TurnAsync(epoch, stop).ConfigureAwait(false)) { break; }
                }
                catch (MetadataUnavailableException)
                {
                    // Whether the last cut was recorded is not known: nothing may be built upon it.
                    _finder = null;
                    await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
                    continue;
                }
                if (_finder is null) { continue; }
                await _signal.WaitAsync(LookPeriod, stop).ConfigureAwait(false);
                while (Pace - Stopwatch.GetElapsedTime(_actedAt) is var rest && rest > TimeSpan.Zero && !Volatile.Read(ref _isLookWanted))
                {
                    // Somebody waits now, who has not before: then it is not as long.
                    if (!await _turnWanted.WaitAsync(rest, stop).ConfigureAwait(false)) { break; }
                }
            }
            if (!stop.IsCancellationRequested) { report.Info($"shard {seat.Shard}: another proxy coordinates the cuts now"); }
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            // Stopped.
        }
        finally
        {
            Volatile.Write(ref _epoch, 0);
            _finder = null;
            lock (_lock)
            {
                foreach (ShardVoice voice in _voices.Values) { voice.HangUp(); }
                _voices.Clear();
            }
        }
    }

    private TimeSpan Pace
    {
        get
        {
            bool isAwaited;
            lock (_lock) { isAwaited = _told is { } told && told.Versions[0] < _awaitedUntil; }
            return isAwaited ? TimeSpan.FromMicroseconds(new CutPace(seat.ShardCount).TurnUs(seat.Grid.Stretches[^1].IntervalUs))
                : IdlePace;
        }
    }

    // False: another has the role.
    private async Task<bool> TurnAsync(long epoch, CancellationToken stop)
    {
        bool isIncomplete = Gather(out List<ShardVoice> fresh, out VersionNumber until, out bool isNews);
        bool moved = _finder!.Advance();
        Cut cut = _finder.Current;
        if (moved)
        {
            _actedAt = Stopwatch.GetTimestamp();
            CutOutcome outcome = await seat.Metadata.RecordCutAsync(seat.Cluster, cut, epoch, _view!.Owners, stop).ConfigureAwait(false);
            if (outcome == CutOutcome.Deposed) { return false; }
            if (outcome != CutOutcome.Recorded)
            {
                _finder = null;
                return true;
            }
            _told = cut;
        }
        // Shards that cannot connect look in SQL for whether somebody waits.
        if (isNews && isIncomplete) { await seat.Metadata.AwaitCommitAsync(seat.Cluster, until, stop).ConfigureAwait(false); }
        // What the finder started from was recorded by others.
        if (moved || isNews) { Tell(cut, until, null); }
        else if (fresh.Count > 0) { Tell(cut, until, fresh); }
        return true;
    }

    // Takes what the shards have said to the finder. True if not all are connected.
    private bool Gather(out List<ShardVoice> fresh, out VersionNumber until, out bool isNews)
    {
        fresh = [];
        lock (_lock)
        {
            (until, isNews, _awaitedIsNews) = (_awaitedUntil, _awaitedIsNews, false);
            foreach (ShardVoice voice in _voices.Values)
            {
                // Who owns a shard is known as of the last look; one that has just been taken is heard after the next.
                if (!IsOwner(voice)) { continue; }
                if (voice.IsNew)
                {
                    voice.IsNew = false;
                    voice.Connection.Send(CoordinationText.Again);
                    fresh.Add(voice);
                }
                while (voice.Reports.TryDequeue(out VersionReport said)) { _finder!.Report(said); }
            }
            return _view!.Shards.Any(s => Members.Counts(s.State) && !_voices.ContainsKey(s.Shard.Number));
        }
    }

    private bool IsOwner(ShardVoice voice) => voice.Shard.Number < _view!.Shards.Count
        && voice.Epoch == _view.Shards[voice.Shard.Number].Epoch;

    private void Tell(Cut cut, VersionNumber until, List<ShardVoice>? only)
    {
        VersionNumber lowest = cut.Versions[0];
        foreach (VersionNumber version in cut.Versions) { lowest = VersionNumber.Min(lowest, version); }
        lock (_lock)
        {
            foreach (ShardVoice voice in (only ?? [.. _voices.Values]).Where(v => v.Shard.Number < cut.ShardCount))
            {
                voice.Connection.Send(CoordinationText.CutFor(voice.Shard, cut, until, lowest));
            }
        }
    }

    // What SQL says. A finder that it contradicts, or has outrun, is made anew.
    private void TakeIn(CoordinatorView view)
    {
        Cut recorded = view.Cut.Whole(view.Shards.Count);
        bool ownersChanged = _view?.Owners != view.Owners;
        _view = view;
        lock (_lock)
        {
            if (view.Cut.AwaitedUntil > _awaitedUntil) { (_awaitedUntil, _awaitedIsNews) = (view.Cut.AwaitedUntil, true); }
            foreach (ShardVoice voice in _voices.Values)
            {
                // A deposed owner, which may sleep: it must not be taken for a shard that is heard.
                if (voice.Shard.Number < view.Shards.Count && voice.Epoch < view.Shards[voice.Shard.Number].Epoch) { voice.HangUp(); }
                else if (_finder is null || ownersChanged || _finder.Current.WorldLine != recorded.WorldLine) { voice.IsNew = true; }
            }
        }
        if (_finder is null || ownersChanged || _finder.Current.WorldLine != recorded.WorldLine || !_finder.Current.IsAtLeast(recorded))
        {
            _finder = seat.Finder.Start(recorded, view.Rows, [.. view.Shards.Select(s => Members.Counts(s.State))]);
            _told = recorded;
        }
        else if (seat.Finder.RecordsRows)
        {
            foreach (PrecedenceRow row in view.Rows)
            {
                _finder.Report(new VersionReport(row.Shard, row.Through, 1, row.After, row.Dependencies));
            }
        }
        if (seat.Finder.RecordsRows) { return; }
        foreach (ShardRecord shard in view.Shards)
        {
            _finder.Report(VersionReport.Of(shard.Shard, shard.Claim, shard.Durable.Version, DependencySet.Empty));
        }
    }

    public void Dispose()
    {
        _signal.Dispose();
        _turnWanted.Dispose();
    }

    /// <summary>A shard that is connected.</summary>
    private sealed class ShardVoice(PeerQueue connection, ShardId shard, long epoch)
    {
        public PeerQueue Connection => connection;

        public ShardId Shard => shard;

        public long Epoch => epoch;

        /// <summary>It has to be asked for what it has said before.</summary>
        public bool IsNew { get; set; }

        public Queue<VersionReport> Reports { get; } = [];

        // Closing a socket does not wait.
        public void HangUp() => _ = connection.DisposeAsync().AsTask();
    }
}

// How a shard starts, notices that its store may be lost, and stops. One task does it; everything slow happens there, nothing of
// it blocks the loop.
using Slogger.Core.Resets;
using Slogger.Core.Sites;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    private static readonly TimeSpan MetadataRetryDelay = TimeSpan.FromMilliseconds(500);
    private Task _control = Task.CompletedTask;
    private bool _hasStarted;       // the control task; until Attach, the caller of StartAsync

    // ---- The start ----

    /// <summary>Takes the shard in the metadata, opens what is kept, finds or starts the store, and recovers it if need be. A
    /// failure is returned.</summary>
    public async Task<ProxyExit?> StartAsync(CancellationToken stop)
    {
        bool hasStarted = false;
        try
        {
            ProxyExit? failed = await TakeAndRecoverAsync(stop).ConfigureAwait(false);
            hasStarted = failed is null;
            return failed;
        }
        finally
        {
            if (!hasStarted) { await GiveUpStartAsync().ConfigureAwait(false); }
        }
    }

    private const string OtherMetadataRemedy =
        "start with the metadata that this data directory was used with. If its file is gone for good, bring it back from a copy; without "
        + "one move the data directory away, and start with an empty one: with --seed from-redis what Redis holds goes on, else the "
        + "shard begins empty";

    private async Task<ProxyExit?> TakeAndRecoverAsync(CancellationToken stop)
    {
        try
        {
            Seat = await TakeSeatAsync(stop).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            return ProxyExit.Failed($"the metadata cannot be used: {e.Message} The proxy does not start",
                "put that right, or check --metadata, and start again: nothing that was committed is lost");
        }
        catch (OtherMetadataException e)
        {
            return ProxyExit.Failed(e.Message, OtherMetadataRemedy);
        }
        catch (Exception e) when (e is IOException or InvalidDataException or UnauthorizedAccessException)
        {
            return ProxyExit.Failed(e.Message, "");
        }
        Recovery.Begin();
        OnTaken();
        bool follows = Seat.FollowedSite is not null;
        if (!follows) { JoinCluster(); }
        try
        {
            HybridTimestamp? closed = OpenKept();
            // What is kept has passed the test of its epochs.
            Seat.NoteIdentity(_options.DataDirectory);
            if (closed is { } last) { Versions.Clock.Resume(last); }
            Versions.Clock.ResumeNoted();
            Versions.Published.Enter(Seat.WorldLineAtStart);
            if (follows)
            {
                await FollowAsync(stop).ConfigureAwait(false);
                await Moves.StartAsync(stop).ConfigureAwait(false);
                return null;
            }
            await Recovery.StartAsync(stop).ConfigureAwait(false);
            await Moves.StartAsync(stop).ConfigureAwait(false);
        }
        catch (LogFencedException e) when (e.NewestEpoch > 0)
        {
            // It has just been given its epoch, above all that the metadata knows of: unless another process was faster, the metadata is
            // not what the log was written with.
            return ProxyExit.Failed(
                $"{KeptName} was written under epoch {e.NewestEpoch}, and {_options.Metadata} gave this process only epoch {Seat.Epoch}: "
                + "the metadata was deleted, or replaced by another or an older one, or another process has just taken the shard",
                OtherMetadataRemedy);
        }
        catch (LogException e)
        {
            return ProxyExit.Failed($"{KeptName} cannot be used: {e.Message}", "");
        }
        catch (Exception e) when (e is RecoveryRefusedException or RedisException or MetadataException or IOException
            or InvalidDataException or UnauthorizedAccessException)
        {
            // What is given up half-way says so.
            stop.ThrowIfCancellationRequested();
            return HasFailed ? await Failure.ConfigureAwait(false) : ProxyExit.Failed(e.Message, "");
        }
        StartOnce();
        return null;
    }

    /// <summary>Starts what makes versions durable and records them. Not before the store is there: what they ask of the metadata a
    /// recovery would wait for.</summary>
    internal void StartOnce()
    {
        if (_hasStarted) { return; }
        _hasStarted = true;
        StartWorkers();
        Cuts!.Start();
    }

    private async Task<ClusterSeat> TakeSeatAsync(CancellationToken stop)
    {
        bool told = false;
        while (true)
        {
            try
            {
                return await ClusterSeat.TakeAsync(OpenMetadata(), _options, _report, follows: Intake is not null,
                    stop).ConfigureAwait(false);
            }
            catch (MetadataUnavailableException e) when (_options.Metadata.Kind != MetadataKind.Sqlite)
            {
                // A server comes back. Of a file that cannot be used somebody has to be told.
                if (!told)
                {
                    _report.Warn($"shard {_options.Shard}: the start waits for the metadata: {e.Message} If it is elsewhere, "
                        + "correct --metadata");
                }
                told = true;
                await Task.Delay(MetadataRetryDelay, stop).ConfigureAwait(false);
            }
        }
    }

    /// <summary>The site's metadata. Does no I/O.</summary>
    private protected virtual IMetadataStore OpenMetadata() => MetadataStoreFactory.Create(_options.Metadata.Text);

    /// <summary>The front end is there: from now on its loop is told what happens.</summary>
    public void Attach(FrontEndLoop loop)
    {
        Access.Attach(loop);
        Moves.Attach(loop);
        _control = Lifetime.Work("the control of the shard", stop => Seat.FollowedSite is null ? OpenAndControlAsync(stop)
            : FollowAndControlAsync(stop));
    }

    private async Task OpenAndControlAsync(CancellationToken stop)
    {
        Moves.Run(stop);
        try
        {
            await Recovery.OpenAsync(stop).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            return;
        }
        catch (MetadataException e)
        {
            Fail(ProxyExit.Failed($"the metadata failed: {e.Message}", ""));
            return;
        }
        await ControlAsync(stop).ConfigureAwait(false);
    }

    private async Task FollowAndControlAsync(CancellationToken stop)
    {
        try
        {
            Moves.Follow();
            Moves.Run(stop);
            Task rehearsing = Follower.RehearseAsync(stop);
            (Boundary final, SiteState site) = await Follower.FollowToEndAsync(stop).ConfigureAwait(false);
            await rehearsing.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await Recovery.TakeOverAsync(final, site, stop).ConfigureAwait(false);
            await EndFollowingAsync().ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            return;
        }
        catch (Exception e) when (e is MetadataException or RecoveryRefusedException)
        {
            Fail(ProxyExit.Failed(e.Message, ""));
            return;
        }
        catch (Exception e)
        {
            Fail(ProxyExit.Failed($"shard {_options.Shard}: following ended: {e}", "report this"));
            return;
        }
        await ControlAsync(stop).ConfigureAwait(false);
    }

    private async Task ControlAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            try
            {
                await Lifetime.AttentionAsync(stop).ConfigureAwait(false);
                if (Access.IsSuspected)
                {
                    if ((!await IsSameStoreAsync(stop).ConfigureAwait(false) || HasLostReset) && GivesWay()) { return; }
                    await Recovery.ResolveAsync(stop).ConfigureAwait(false);
                }
                Versions.Clock.NoteIfDue();
                await MaintainAsync(stop).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
                return;
            }
            catch (RecoveryRefusedException e)
            {
                Fail(ProxyExit.Failed(e.Message, ""));
                return;
            }
            catch (LogException e)
            {
                OnLogFailure(e);
                return;
            }
            catch (Exception e) when (e is RedisException or MetadataException or IOException)
            {
                _report.Error($"shard {_options.Shard}: {e.Message}; trying again");
                await Task.Delay(ShardRecovery.RetryDelay, CancellationToken.None).ConfigureAwait(false);
                if (!IsOpen) { Lifetime.Suspect(e.Message); }
            }
            catch (Exception e)
            {
                // Nobody else would open the door again.
                Fail(ProxyExit.Failed($"shard {_options.Shard}: watching over {_store.Name} failed: {e}", "report this"));
                return;
            }
        }
    }

    // The store holds a part of a reset, and nothing that comes from it is read any more: it can only go back, or another one leads.
    private bool HasLostReset => Reset.Phase is not (ResetPhase.None or ResetPhase.Holds) && !Versions.IsAttached;

    // ---- The end ----

    /// <summary>Commits what was done, and stops.</summary>
    public async Task StopAsync()
    {
        Lifetime.BeginStop();
        // Nothing may be forwarded behind the last boundary: its reply would promise what the stop loses.
        Access.ShutForGood();
        if (Access.Loop is { } loop) { await loop.SeenAsync().ConfigureAwait(false); }
        Versions.Stopping();
        Cuts?.Recorder.Wake();
        // The open version ends now, not at its time: whoever ends this process by force has lost nothing.
        Access.EndVersion();
        // Where no front end has come, nobody has done anything.
        if (Versions.IsAttached && !HasFailed && Access.Loop is not null)
        {
            await Task.WhenAny(Versions.Stopped, Failure, Task.Delay(StopLimit)).ConfigureAwait(false);
            if (!Versions.Stopped.IsCompleted) { _report.Warn("the last version could not be committed in time"); }
        }
        // Whoever leads next is not kept waiting by what follows.
        await HandOverAsync().ConfigureAwait(false);
        if (Versions.Stopped.IsCompleted)
        {
            await Membership.EndAsync().ConfigureAwait(false);
            // The next shard of this process is not kept waiting: it follows.
            if (!Lifetime.KeepsStore) { await BeforeEndAsync().ToldAsync(_report, EndWaits("a checkpoint")).ConfigureAwait(false); }
        }
        await Moves.CloseAsync().ToldAsync(_report, EndWaits("moves of slots")).ConfigureAwait(false);
        await Lifetime.Ending.CancelAsync().ConfigureAwait(false);
        await EndWorkersAsync().ToldAsync(_report, EndWaits("its log, and what is shipped")).ConfigureAwait(false);
        try
        {
            await Task.WhenAll(_control, Cuts?.Ended ?? Task.CompletedTask, Moves.Watching, Membership.Leaving)
                .ToldAsync(_report, EndWaits("what watches over it")).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // As asked.
        }
        // One that is being started is stopped, too.
        await Recovery.StoreStarting.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await _store.EndAsync(Lifetime.KeepsStore).ToldAsync(_report, EndWaits(_store.Name)).ConfigureAwait(false);
        CloseKept();
        await Seat.DisposeAsync().ConfigureAwait(false);
    }

    private string EndWaits(string what) => $"shard {_options.Shard}: its end waits for {what}";

    public virtual void Dispose()
    {
        Cuts?.Dispose();
        Lifetime.Dispose();
        _checkpointing.Dispose();
        Membership.Dispose();
    }
}

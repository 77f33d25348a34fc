// A shard's part in a reset of the cluster to an instant (slogger reset): what was done since is undone by writes, at all shards or at none
// (ResetHold, Core). Whoever manages it asks for one step after the other, and is expected to ask again within some seconds: if not, the
// hold ends here, as it would by a recovery. A shard that is replicated marks what it is about to do (ResetMark, Core): whoever leads next
// finds that.
using System.Text;
using Slogger.Core.Cuts;
using Slogger.Core.Ownership;
using Slogger.Core.Resets;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Past;
using Slogger.Proxy.Stores;
using Slogger.Redis.Past;

namespace Slogger.Proxy.Shards;

/// <summary>The resets of a shard, one at a time. Any thread.</summary>
/// <param name="shard">Whose.</param>
/// <param name="store">What it needs of the store.</param>
/// <param name="report">For people.</param>
internal sealed class ShardReset(VersionedShard shard, IResetStore store, ILogger report) : IPastReset
{
    private static readonly TimeSpan HeldSilentMax = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan StepMax = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(1);

    private readonly Lock _gate = new();
    private readonly CancellationTokenSource _ending = new();
    private ResetJob? _job;
    private Task _giving = Task.CompletedTask, _writing = Task.CompletedTask;

    /// <inheritdoc />
    public Task<byte[]> PrepareAsync(long version, byte[] prefix, long shiftMs, string user) => PastAnswer.OfAsync(async () =>
    {
        if (WhyNot() is { } reason) { throw new PastException(reason); }
        await using (ReadRights rights = await ReadRights.OpenAsync(store.Past.Live(), _ending.Token).ConfigureAwait(false))
        {
            // Who may lose all keys may put them back.
            if (await rights.RefusalAsync(user, ["FLUSHALL"u8.ToArray()], _ending.Token).ConfigureAwait(false) is { } why)
            {
                return PastAnswer.Error(why);
            }
        }
        var to = new VersionNumber(version);
        PastInstants instants = store.Past.Instants;
        await instants.CommittedAsync(new(InstantBy.Version, version), _ending.Token).ConfigureAwait(false);
        instants.RequireKnown(to);
        if (shard.Moves.Watch is { } known) { await known.LookAsync(_ending.Token).ConfigureAwait(false); }
        OwnershipTable? table = instants.Owners.Table;
        if (table is { Moves.IsEmpty: false })
        {
            throw new PastException("slots move in this cluster: set it back when they have moved (slogger move --list)");
        }
        // What it was before it had slots others have.
        Boundary end = instants.Owners.HadAny(to) ? instants.HoldDetail(to) : default(Boundary) with
        {
            WorldLine = shard.Recovery.LineOf(to), Version = to,
        };
        var job = new ResetJob(shard, store, end, prefix, shiftMs, table?.Revision, _ending.Token);
        lock (_gate)
        {
            if (shard.HoldsAll)
            {
                throw new PastException("operations are held already, for another reset or a switch-over: wait for its end");
            }
            // One that holds nothing gives way.
            _ = _job?.GiveUpAsync();
            _job = job;
            job.BeginPreparing();
        }
        var reply = new List<byte>();
        RespText.AppendHeader(reply, '*', 4);
        RespText.AppendBulk(reply, Encoding.ASCII.GetBytes(job.Name));
        foreach (long number in (long[])[end.WorldLine.Number, end.Version.Number, instants.TimeUsOf(end.Version)])
        {
            RespText.AppendHeader(reply, ':', number);
        }
        return [.. reply];
    });

    /// <inheritdoc />
    public Task<byte[]> StateAsync(string name) => StepAsync(name, job =>
    {
        // Other shards may take longer to get ready.
        PastInstants instants = store.Past.Instants;
        if (!shard.Reset.IsHeld && instants.Owners.HadAny(job.End.Version)) { instants.HoldDetail(job.End.Version); }
        return Task.FromResult(StateOf(job));
    });

    /// <inheritdoc />
    public Task<byte[]> HoldAsync(string name) => StepAsync(name, async job =>
    {
        RequireReady(job);
        bool isFirst;
        lock (_gate)
        {
            if (_job != job) { throw Ended(); }
            lock (shard.Versions.Lock) { isFirst = shard.Reset.Hold(); }
        }
        if (isFirst) { Tell($"operations of clients are held: the cluster is set back to version {job.End.Version}"); }
        long began = Environment.TickCount64;
        // What blocks would be served by what is written.
        if (await shard.Access.AwaitForwardedAsync(StepMax, _ending.Token, endsBlocked: true).ConfigureAwait(false) is { } open)
        {
            lock (shard.Versions.Lock) { shard.Reset.Quiet(open); }
            while (!IsCovered() && Environment.TickCount64 - began < StepMax.TotalMilliseconds)
            {
                await Task.Delay(Pause, _ending.Token).ConfigureAwait(false);
            }
        }
        return StateOf(job);
    });

    /// <inheritdoc />
    public Task<byte[]> WriteAsync(string name) => StepAsync(name, job =>
    {
        lock (_gate)
        {
            if (_job != job) { throw Ended(); }
            // A recovery waits for its end.
            Task<byte[]> writing = Task.Run(() => WriteAsync(job));
            _writing = writing;
            return writing;
        }
    });

    private async Task<byte[]> WriteAsync(ResetJob job)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(job.Life.Token);
        limit.CancelAfter(ResetTime.Limit(job.Plan.Bytes));
        CancellationToken stop = limit.Token;
        if (!IsCovered())
        {
            throw new PastException("nothing is written before operations are held, and all that was acknowledged is committed");
        }
        // A shard that is held lets no slots go; it may have begun to before.
        if (shard.Moves.Moves is { IsFreezing: true } || (shard.Moves.Watch is { } watch && watch.Table.Revision != job.Owners))
        {
            throw new PastException("slots have begun to move, or a recovery has come between: set it back when no slots move "
                + "(slogger move --list)");
        }
        // Clients have done some more since it was prepared.
        await job.Preparing.WaitAsync(stop).ConfigureAwait(false);
        RequireReady(job);
        await job.AddAsync(stop).ConfigureAwait(false);
        limit.CancelAfter(ResetTime.Limit(job.Plan.Bytes));
        long before;
        ResetMark mark;
        lock (shard.Versions.Lock)
        {
            if (!shard.Reset.TryFreeze(shard.RecordedCut)) { throw Recovered(); }
            // The marker on its way closes what was open before.
            before = shard.Versions.OpenForAll.Previous.Number;
            mark = new(shard.Versions.Machine!.WorldLine);
        }
        if (shard.Seat.HasPeers && !await shard.Seat.MarkResetAsync(mark, stop).ConfigureAwait(false)) { throw Recovered(); }
        FailPoint.Pass(FailPoint.ResetMarked);
        while (!MayWrite()) { await Task.Delay(Pause, stop).ConfigureAwait(false); }
        store.NoteReset();
        // A batch that is sent before a recovery begins is awaited by it: see OnStoreLostAsync.
        int batches = 0;
        Action check = () =>
        {
            if (!MayWrite()) { throw Recovered(); }
            if (batches++ > 0) { FailPoint.Pass(FailPoint.ResetPartWritten); }
        };
        await store.WriteAsync(job.Plan.Batches, check, stop).ConfigureAwait(false);
        lock (shard.Versions.Lock)
        {
            if (!shard.Reset.Written()) { throw Recovered(); }
        }
        shard.Versions.MarkChanged();
        return RespText.Integers(before, job.Plan.Keys);
    }

    /// <inheritdoc />
    public Task<byte[]> CloseAsync(string name, long above) => StepAsync(name, async job =>
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(job.Life.Token);
        limit.CancelAfter(ResetTime.Limit(job.Plan.Bytes));
        lock (shard.Versions.Lock)
        {
            if (!shard.Reset.TryClose(new(above))) { throw new PastException("nothing is closed before it is written"); }
        }
        shard.Access.EndVersion();
        shard.OnCommitAwaited();
        VersionNumber? result;
        while ((result = ResultOf()) is null) { await Task.Delay(Pause, limit.Token).ConfigureAwait(false); }
        return RespText.Integer(result.Value.Number);
    });

    /// <inheritdoc />
    public Task<byte[]> EndAsync(string name) => StepAsync(name, async job =>
    {
        (WorldLine line, VersionNumber branch) = await EndAsync(job).ConfigureAwait(false);
        return RespText.Integers(line.Number, branch.Number);
    });

    /// <summary>Ends a reset that nobody asks for any more. The control task; it waits for nothing.</summary>
    public void Keep()
    {
        ResetJob job;
        lock (_gate)
        {
            if (_job is null || _job.IsBusy || !_giving.IsCompleted) { return; }
            job = _job;
        }
        if (job.Silent < (shard.Reset.IsHeld ? HeldSilentMax : ResetJob.SilentMax)) { return; }
        if (shard.Reset.IsHeld) { report.Warn($"shard {shard.Seat.Shard}: nobody goes on with the reset: it ends"); }
        // If it cannot be ended now it is tried again, some seconds later.
        job.Begin();
        _giving = Task.Run(async () =>
        {
            try
            {
                await EndAsync(job, isForgotten: true).ConfigureAwait(false);
            }
            catch (Exception e) when (PastAnswer.WhyOf(e) is { } why)
            {
                report.Warn($"shard {shard.Seat.Shard}: the reset cannot end: {why}");
            }
            finally
            {
                job.Finish();
            }
        });
    }

    /// <summary>Gives up what is under way: the shard ends.</summary>
    public async Task StopAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        await _giving.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await _writing.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (_job is { } job) { await GiveUpAsync(job).ConfigureAwait(false); }
    }

    // ---- Steps ----

    private string? WhyNot() =>
        !shard.HasGridCuts ? "this cluster finds its cuts by dependencies (--finder): a reset needs the clock grid's"
        : !shard.IsOpen ? "the shard does not serve now: try again"
        : store.WhyNot is { } reason ? reason
        : store.Past.HasServer ? null : PastAnswer.NoServer().Message;

    // If nobody has said so, another shard may have written: what clients did here before that one ends would be lost with it.
    private async Task<(WorldLine Line, VersionNumber Branch)> EndAsync(ResetJob job, bool isForgotten = false)
    {
        DurableClaim? written = null;
        (WorldLine, VersionNumber) ended = default;
        bool isReplicatedAlone = shard.CohortShard is not null && !shard.Seat.HasPeers, givesWay = false;
        lock (shard.Versions.Lock)
        {
            if (!shard.Reset.EndsWithWorldLine(isForgotten && shard.Seat.HasPeers)) { shard.Reset.End(); }
            // By a majority. What is recorded may be what another leader has.
            else if (isReplicatedAlone && shard.Versions.Machine!.Durable is var durable && shard.Reset.IsCommitted(durable))
            {
                ended = (durable.WorldLine, durable.Version);
                shard.Reset.End();
            }
            else if (isReplicatedAlone) { givesWay = true; }
            else
            {
                written = shard.Versions.ClaimOf(shard.Versions.Machine!.Durable);
                // Nothing more is claimed, so that this is not less than what is.
                shard.Versions.StoreLost();
            }
        }
        // No world-line begins, behind which it would be forgotten.
        if (ended != default) { store.ForgetReset(); }
        if (givesWay)
        {
            Tell("another node is to lead, which has all of the reset, or nothing of it");
            if (!shard.GivesWay())
            {
                throw new PastException("a part of the reset may be written here, and no other node can lead now: clients wait until "
                    + "one can");
            }
        }
        else if (written is not { } claim) { shard.Access.OnHoldEnded(); }
        else
        {
            WorldLine next = claim.Point.WorldLine.Next;
            try
            {
                if (await shard.Seat.BeginWorldLineAsync(claim, row: null, _ending.Token).ConfigureAwait(false) is { } branch)
                {
                    shard.Cuts!.Coordination?.Link.SayBegun();
                    ended = (next, branch);
                    Tell($"world-line {next} begins at version {branch}, by a reset to version {job.End.Version}");
                }
            }
            catch (RecoveryRefusedException e)
            {
                throw new PastException(e.Message);
            }
            finally
            {
                // Also if it was refused: the recovery finds out why.
                shard.Recovery.LeaveWorldLine(next);
            }
        }
        await GiveUpAsync(job).ConfigureAwait(false);
        return ended;
    }

    /// <summary>The store is lost, or goes back. What is being written comes to its end first. The control task.</summary>
    public async Task OnStoreLostAsync()
    {
        ResetJob? job;
        Task writing;
        lock (_gate)
        {
            (job, writing) = (_job, _writing);
            _job = null;
        }
        lock (shard.Versions.Lock) { shard.Reset.End(); }
        shard.Access.OnHoldEnded();
        if (job is not null) { await GiveUpAsync(job).ConfigureAwait(false); }
        await writing.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private async Task GiveUpAsync(ResetJob job)
    {
        lock (_gate)
        {
            if (_job == job) { _job = null; }
        }
        await job.GiveUpAsync().ConfigureAwait(false);
    }

    // ---- What is known ----

    private Task<byte[]> StepAsync(string name, Func<ResetJob, Task<byte[]>> step) => PastAnswer.OfAsync(async () =>
    {
        ResetJob job;
        lock (_gate)
        {
            if (_job is null || _job.Name != name) { throw Ended(); }
            job = _job;
            job.Begin();
        }
        try
        {
            return await step(job).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!_ending.IsCancellationRequested)
        {
            throw job.Life.IsCancellationRequested ? Ended()
                : new PastException($"it took longer than {ResetTime.Limit(job.Plan.Bytes).TotalSeconds:0} s");
        }
        finally
        {
            job.Finish();
        }
    });

    private static void RequireReady(ResetJob job)
    {
        if (job.Failure is { } why) { throw new PastException(why); }
        if (!job.IsReady) { throw new PastException("the reset is not prepared yet"); }
    }

    private byte[] StateOf(ResetJob job)
    {
        if (job.Failure is { } why) { throw new PastException(why); }
        string state = shard.Reset.Phase switch
        {
            ResetPhase.None => job.IsReady ? "ready" : "prepares",
            ResetPhase.Holds => IsCovered() ? "held" : "holds",
            ResetPhase.Writes => "writes",
            ResetPhase.Written => "written",
            _ => "closes",
        };
        var reply = new List<byte>();
        RespText.AppendHeader(reply, '*', 5);
        RespText.AppendBulk(reply, Encoding.ASCII.GetBytes(state));
        WorldPoint cut = shard.RecordedCut;
        foreach (long number in (long[])[job.Plan.Keys, job.Plan.Bytes, cut.WorldLine.Number, cut.Version.Number])
        {
            RespText.AppendHeader(reply, ':', number);
        }
        return [.. reply];
    }

    private bool IsCovered()
    {
        WorldPoint committed = store.Past.Instants.Committed();
        lock (shard.Versions.Lock) { return shard.Reset.IsCovered(committed); }
    }

    private VersionNumber? ResultOf()
    {
        lock (shard.Versions.Lock) { return shard.Reset.Phase == ResetPhase.Closes ? shard.Reset.Result : throw Recovered(); }
    }

    private bool MayWrite()
    {
        lock (shard.Versions.Lock)
        {
            ShardMachine machine = shard.Versions.Machine!;
            return shard.Reset.Phase != ResetPhase.Writes ? throw Recovered()
                : shard.Reset.MayWrite(machine.MarkerInFlight);
        }
    }

    private static PastException Ended() => new("there is no such reset any more: it has ended, or another one was prepared");

    private static PastException Recovered() => new("a recovery has come between: nothing is set back");

    private void Tell(string what) => report.Info($"shard {shard.Seat.Shard}: {what}");
}

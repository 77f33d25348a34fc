// A shard with --commit log as a node's of a cohort: it follows as a backup's does, and when its node is elected it goes on as a primary's.
// What is durable is then what a majority has. A shard leads once in its life. When its reign is over it ends, and the process begins
// another one, which follows.
using System.Diagnostics;
using Slogger.Core.Identities;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard : ICohortShard, ICohortPort
{
    // Clients wait no longer for a hand-over: it is called off.
    private static readonly TimeSpan HoldLimit = TimeSpan.FromSeconds(3), MajorityPause = TimeSpan.FromMilliseconds(1);
    private volatile CohortLead? _lead;
    private volatile bool _isHandingOver;

    /// <summary>The node of a cohort in this process; null: the shard has none.</summary>
    public ICohort? Cohort { get; init; }

    internal override ICohortShard? CohortShard => Cohort is null ? null : this;

    ICohortLead? ICohortShard.Lead => _lead;

    // ---- What clients are told of the cohort ----

    internal override ICohortPort? CohortPort => Cohort is null ? null : this;

    CohortView ICohortPort.View => Cohort!.Seats;

    // The leader's own store is the newest there is.
    long? ICohortPort.AgeUs => IsFollowing ? Cohort!.AgeUs : 0;

    TimeSpan ICohortPort.ReadsStaleMax => Cohort!.Options.ReadsStaleMax;

    string ICohortPort.Cluster => _options.Cluster;

    ShardId ICohortPort.Shard => _options.Shard;

    string ICohortPort.MasterName => Seat.HasPeers ? $"{_options.Cluster}-{_options.Shard}" : _options.Cluster;

    void ICohortShard.BeginReign(Reign reign)
    {
        if (!_log.IsEmpty) { lock (_logLock) { _log.BeginReign(reign); } }
        _lead = new(_options, reign, Cohort!, _log, _dumps, this, OnCommittedByMajority, Access.WakeSilent, _checkpoints,
            _report);
        if (!_log.IsEmpty) { _lead.Begin(); }
    }

    // ---- Early replies: clients are told more than is committed ----

    // Of a shard alone a reset is in one version, which the log has or not.
    async Task<bool> ICohortShard.BeginsWithWorldLineAsync(bool losesNothing, CancellationToken stop) => (!HoldsReplies && !losesNothing)
        || (Seat.HasPeers && await OrEndAsync(() => Recovery.Taking.TakesWithResetAsync(stop), stop).ConfigureAwait(false));

    internal override bool IsHandingOver => _isHandingOver;

    Task ICohortShard.BeginWorldLineAsync(CancellationToken stop) => OrEndAsync(
        async () =>
        {
            await Recovery.BeginWorldLineAsync(start => BeginWorldLine(start, _log.ReplicationId), stop).ConfigureAwait(false);
            return true;
        }, stop);

    // Who cannot begin to lead ends.
    private async Task<T> OrEndAsync<T>(Func<Task<T>> step, CancellationToken stop)
    {
        try
        {
            return await step().ConfigureAwait(false);
        }
        catch (Exception e) when (e is RecoveryRefusedException or MetadataException or LogException)
        {
            Fail(ProxyExit.Failed(e.Message, ""));
        }
        catch (BrokenInvariantException e)
        {
            Lifetime.Fatal(e.Message);
        }
        await Task.Delay(Timeout.Infinite, stop).ConfigureAwait(false);
        throw new OperationCanceledException(stop);
    }

    async Task<bool> ICohortShard.HoldAsync(CancellationToken stop)
    {
        if (HoldsReplies) { return true; }
        // No version is closed.
        if (Reset.IsFrozen) { return false; }
        // At an ordered end all is committed, if that can be done.
        if (Lifetime.IsStopping) { return Versions.Stopped.IsCompletedSuccessfully; }
        if (!IsOpen || HasFailed) { return false; }
        _isHandingOver = true;
        long began = Stopwatch.GetTimestamp();
        if (await Access.AwaitForwardedAsync(HoldLimit, stop).ConfigureAwait(false) is not { } last) { return false; }
        while (Stopwatch.GetElapsedTime(began) < HoldLimit)
        {
            lock (Versions.Lock)
            {
                WorldPoint durable = Versions.Machine!.Durable;
                if (durable.WorldLine != last.WorldLine) { return false; }
                if (durable >= last) { return true; }
            }
            await Task.Delay(1, stop).ConfigureAwait(false);
        }
        return false;
    }

    void ICohortShard.GoOn()
    {
        if (!_isHandingOver) { return; }
        _isHandingOver = false;
        Access.OnHoldEnded();
    }

    // With nothing in the log there is nothing that another one could lack.
    internal override async Task AwaitMajorityAsync(WorldPoint end, CancellationToken stop)
    {
        if (_lead is not { } lead || _log.IsEmpty) { return; }
        lead.Synced();
        while (lead.Commit is not { } commit || commit.Point < end) { await Task.Delay(MajorityPause, stop).ConfigureAwait(false); }
    }

    private void OnCommittedByMajority(WorldPoint point)
    {
        _shipping?.Wake();
        Versions.OnDurable(point);
    }

    void ICohortShard.StepDown()
    {
        _lead?.FallSilent();
        Access.ShutForGood();
        Versions.Deposed();
        // Who comes now goes to another node: here all would wait for the process's next beginning.
        Access.Post(() =>
        {
            Access.Loop!.TakeNobody();
            Access.Loop.CloseStore(ProxyExit.LeadsNoMore.Problem!);
        });
        // The process goes on with it, if it is not to end.
        Lifetime.KeepsStore = !Lifetime.IsStopping;
        Fail(ProxyExit.LeadsNoMore);
    }

    // The reign of what it appends; none without a cohort.
    private Reign OwnReign => _lead?.Reign ?? Reign.None;

    // Where another site rules nobody is to lead here.
    internal override Task HandOverAsync() => Cohort is { } cohort && _lead is not null && !Site.IsDeposed
        ? cohort.HandOverAsync() : Task.CompletedTask;

    internal override bool StepsDown(Reign? later)
    {
        if (Cohort is not { } cohort || _lead is not { } lead) { return false; }
        // Whoever has taken it is later than this one, by one reign or more.
        cohort.Refused(later ?? lead.Reign.Next);
        return true;
    }

    internal override bool GivesWay() => Cohort is { } cohort && _lead is not null && cohort.GiveWay();
}

// A recovery that something interrupts. The whole life is the simulator's to check (test/Slogger.Simulation).
using Slogger.Core.Identities;
using Slogger.Core.Lifecycle;
using Slogger.Core.Recovery;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Xunit;
using K = Slogger.Core.Lifecycle.LifecycleStepKind;

namespace Slogger.Core.Tests.Lifecycle;

public class ShardLifecycleTests
{
    [Fact]
    public void Recovery_FailedBehindTheRestore_BeginsAnew_AndTellsTheBranch()
    {
        var shard = new Shard();
        shard.Start();
        shard.LoseStore();
        Assert.Equal(K.AwaitEntered, shard.Resolve(failAt: K.AwaitEntered)[^1].Kind);

        IReadOnlyList<LifecycleStep> steps = shard.Resolve();
        Assert.DoesNotContain(steps, s => s.Kind == K.CompareStore);
        Assert.Contains(steps, s => s.Kind == K.LoseStore);
        Assert.Equal(new WorldPoint(new(2), new VersionNumber(7)), steps[^1].RolledBack?.Point);
    }

    [Fact]
    public void Waiting_CutShort_IsGoneOnWith_BeforeClientsAreLetIn()
    {
        var shard = new Shard();
        shard.Start();
        shard.LoseStore();
        Assert.Equal(K.Open, shard.Resolve(suspectAt: K.LookAtPeers)[^1].Kind);

        shard.IsSuspected = false;
        K[] kinds = [.. shard.Resolve().Select(s => s.Kind)];
        Assert.Equal([K.TakeSuspicion, K.CompareStore, K.EndLost, K.LookAtPeers, K.EndLost, K.Open], kinds);
        // They are in: from now on a broken connection is only that.
        Assert.Equal([K.TakeSuspicion, K.CompareStore, K.EndLost, K.Open], shard.Resolve().Select(s => s.Kind));
    }

    [Fact]
    public void Branch_ThatNobodyWasToldOf_IsToldAtTheNextOpening()
    {
        var shard = new Shard();
        shard.Start();
        shard.LoseStore();
        Assert.Equal(K.EndLost, shard.Resolve(failAt: K.EndLost)[^1].Kind);
        Assert.Equal(new WorldPoint(new(2), new VersionNumber(7)), shard.Resolve()[^1].RolledBack?.Point);
        Assert.Null(shard.Resolve()[^1].RolledBack);
    }

    // A failover has opened all shards of the site in one world-line. Of a cohort that elected another leader nobody knows that.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void TakeOver_WaitsForPeers_UnlessItsSiteHasTakenOverWithAllShards(bool isWithSite)
    {
        IReadOnlyList<LifecycleStep> steps = new Shard().TakeOver(isWithSite);

        Assert.Equal(!isWithSite, steps.Any(s => s.Kind == K.LookAtPeers));
        Assert.Equal(1, steps.Count(s => s.Kind == K.Open));
        Assert.Equal(new VersionNumber(7), steps.Single(s => s.Kind == K.Open).RolledBack?.Version);
    }

    /// <summary>A shard of two over a Redis whose log is durable up to version 7.</summary>
    private sealed class Shard
    {
        private readonly ShardLifecycle _life = new(new() { Shard = new(0), HasPeers = true, IsSupervised = true }, new WorldLine(1));
        private WorldLine _sql = new(1), _log = new(1);
        private bool _isAttached, _isEmpty, _hasEnded, _areStreamsOpen;

        private LifecycleView Now =>
            new() { IsAttached = _isAttached, IsSuspected = IsSuspected, AreStreamsOpen = _areStreamsOpen };

        private Boundary Last => new(_log, new VersionNumber(7), 70, 0, default);

        private MetadataView View => new() { Cut = new(_sql, new VersionNumber(7)), Claim = new(_sql, new VersionNumber(7)) };

        public bool IsSuspected { get; set; }

        public void LoseStore() => (_isAttached, _isEmpty, _hasEnded) = (false, true, true);

        public void Start()
        {
            _life.BeginStart();
            Perform(null, null);
            _life.BeginOpening();
            Assert.Equal(K.Open, Perform(null, null)[^1].Kind);
        }

        public IReadOnlyList<LifecycleStep> TakeOver(bool isWithSite)
        {
            _areStreamsOpen = true;
            _life.TakenOver(Last, View, isWithSite);
            _life.BeginTakeOver();
            List<LifecycleStep> steps = Perform(null, null);
            // Clients are let in here, or in a sequence of its own.
            if (steps.Any(s => s.Kind == K.Open)) { return steps; }
            _life.BeginOpening();
            return [.. steps, .. Perform(null, null)];
        }

        public IReadOnlyList<LifecycleStep> Resolve(K? failAt = null, K? suspectAt = null)
        {
            _life.BeginResolving();
            return Perform(failAt, suspectAt);
        }

        private List<LifecycleStep> Perform(K? failAt, K? suspectAt)
        {
            List<LifecycleStep> done = [];
            while (_life.Next(Now, out LifecycleStep step))
            {
                done.Add(step);
                if (step.Kind == failAt) { break; }
                IsSuspected |= step.Kind == suspectAt;
                Report(step);
            }
            return done;
        }

        private void Report(LifecycleStep step)
        {
            switch (step.Kind)
            {
                case K.CompareStore: _life.Compared(true); break;
                case K.StartStore:
                    _life.StoreStarting(_hasEnded);
                    _hasEnded = false;
                    break;
                case K.LookAtMetadata: _life.Looked(View); break;
                case K.LookAtStore: _life.Found(_isEmpty ? StoreSituation.Empty : StoreSituation.Continues, "", 0); break;
                case K.ReadLog: _life.Proved(Last, Last, null); break;
                case K.BeginWorldLine:
                    _sql = _sql.Next;
                    _life.WorldLineBegun(step.At.Version);
                    break;
                case K.Restore:
                    (_log, _isEmpty, _isAttached) = (step.WorldLine, false, true);
                    _life.Performed(true);
                    break;
                case K.Continue:
                    _isAttached = true;
                    _life.Performed(true);
                    break;
                case K.LookAtPeers: _life.PeersSeen(_sql, []); break;
                default: break;
            }
        }
    }
}

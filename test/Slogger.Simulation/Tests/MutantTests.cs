// The tests of the tests: with one rule switched off, some case among the first so many breaks the invariant that the rule is for.
using Slogger.Core.Cuts;
using Slogger.Core.Leases;
using Slogger.Core.Recovery;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;

namespace Slogger.Simulation.Tests;

// What needs so many coincidences that few seeds show it has a scenario of its own (Scenarios/*.txt: LaterWorldLineLetsIn,
// LostMarkerLivesOn, ClockForgotten; ScenarioTests: ClockStaysBehind).
public class MutantTests
{
    // What takes several leases, or world-lines, has time for more of them.
    private const int LongCase = 2400;

    [Theory]
    [InlineData((int)SimMutation.CutOneTooFar, "I2", 50)]
    [InlineData((int)SimMutation.WorldLineNotCompared, "I5", 100)]
    [InlineData((int)SimMutation.EpochNotCompared, "I6", 100)]
    [InlineData((int)SimMutation.BranchBeforeTransaction, "I3", 20000)]
    [InlineData((int)SimMutation.BeginNotCompared, "I5", 100)]
    [InlineData((int)SimMutation.StoreNotFenced, "I6", 500)]
    [InlineData((int)SimMutation.GapForgetsLog, "I1|I2", 500)]
    [InlineData((int)SimMutation.StrideIgnored, "I2", 100)]
    public void Cluster_RuleOfThoseWhoDriveIsOff_IsCaught(int mutation, string by, int seeds) =>
        AssertCaught(((SimMutation)mutation).ToString(), by, seeds, new() { Seed = 0, Mutation = (SimMutation)mutation });

    [Theory]
    [InlineData((int)SimMutation.DependenciesForgotten, "I1", 2000)]
    [InlineData((int)SimMutation.CutNotCompared, "I3", 3000)]
    public void Coordinator_RuleIsOff_IsCaught(int mutation, string by, int seeds) =>
        AssertCaught(((SimMutation)mutation).ToString(), by, seeds,
            new() { Seed = 0, Finder = FinderKind.Exact, Mutation = (SimMutation)mutation });

    [Theory]
    [InlineData((int)FinderKind.Approximate)]
    [InlineData((int)FinderKind.Hybrid)]
    public void Coordinator_HearsDeposedOwners_IsCaught(int finder) =>
        AssertCaught("OwnersNotCompared", "I6", 1000,
            new() { Seed = 0, Finder = (FinderKind)finder, Mutation = SimMutation.OwnersNotCompared });

    [Theory]
    [InlineData((int)LeaseMutation.HalfATerm, "I6", 1000)]
    public void Lease_RuleIsOff_IsCaught(int mutation, string by, int seeds) =>
        AssertCaught(((LeaseMutation)mutation).ToString(), by, seeds,
            new() { Seed = 0, Finder = FinderKind.Exact, Steps = LongCase, Lease = (LeaseMutation)mutation });

    [Theory]
    [InlineData((int)ShardMutation.GapIsNoFloor, "I2", 500)]
    [InlineData((int)ShardMutation.BusyIgnored, "I1|I2", 500)]
    [InlineData((int)ShardMutation.OpenMovesAtAnswer, "I1|I2|ArgumentOutOfRangeException", 40000)]
    [InlineData((int)ShardMutation.RecordBeforeDurable, "I2", 500)]
    [InlineData((int)ShardMutation.OldWorldLineDurable, "I2", 2000)]
    [InlineData((int)ShardMutation.OpenGoesBack, "I5", 2000)]
    public void Shard_RuleIsOff_IsCaught(int mutation, string by, int seeds) =>
        AssertCaught(((ShardMutation)mutation).ToString(), by, seeds, new() { Seed = 0, Shard = (ShardMutation)mutation });

    // A store has to be busy, and asked for nothing else, until others have passed the version that it refused to end.
    [Fact]
    public void Shard_RefusedMarkerLeavesItsVersionClean_IsCaught() =>
        AssertCaught("RefusedLeavesClean", "I1|I2", 500, new() { Seed = 0, Steps = LongCase, Shard = ShardMutation.RefusedLeavesClean });

    [Theory]
    [InlineData((int)GateMutation.EarlierVersionExecutes, "I1", 500)]
    [InlineData((int)GateMutation.OlderWorldLineExecutes, "I5", 500)]
    [InlineData((int)GateMutation.FarAheadExecutes, "I1", 10000)]
    [InlineData((int)GateMutation.NewerWorldLineExecutes, "I5", 2000)]
    public void Gate_RuleIsOff_IsCaught(int mutation, string by, int seeds) =>
        AssertCaught(((GateMutation)mutation).ToString(), by, seeds, new() { Seed = 0, Gate = (GateMutation)mutation });

    [Theory]
    [InlineData((int)ClientMutation.SeenIsForgotten, (int)FinderKind.Approximate, "I1", 20000)]
    [InlineData((int)ClientMutation.OneDependency, (int)FinderKind.Exact, "I1", 3000)]
    [InlineData((int)ClientMutation.ToldForEver, (int)FinderKind.Exact, "I1", 20000)]
    [InlineData((int)ClientMutation.UnansweredSurvives, (int)FinderKind.Approximate, "I1", 2000)]
    [InlineData((int)ClientMutation.PendingIsNoException, (int)FinderKind.Approximate, "I2", 2000)]
    public void Session_RuleIsOff_IsCaught(int mutation, int finder, string by, int seeds) =>
        AssertCaught(((ClientMutation)mutation).ToString(), by, seeds,
            new() { Seed = 0, Finder = (FinderKind)finder, Steps = finder == (int)FinderKind.Exact ? LongCase : 900,
                Client = (ClientMutation)mutation });

    [Theory]
    [InlineData((int)SessionMutation.LowerBoundSurvives, (int)FinderKind.Approximate, "I1", 40000)]
    [InlineData((int)SessionMutation.AnyWorldLineCommits, (int)FinderKind.Exact, "I2", 1000)]
    public void PlainConnection_RuleIsOff_IsCaught(int mutation, int finder, string by, int seeds) =>
        AssertCaught(((SessionMutation)mutation).ToString(), by, seeds,
            new() { Seed = 0, Steps = LongCase, Finder = (FinderKind)finder, Session = (SessionMutation)mutation });

    // Rows follow each other without a hole, or no cut can pass it. That a joiner's older claim is dropped MemberMutantTests has.
    [Fact]
    public void Recorder_RowThatMayBeLostIsNotGivenOutAgain_IsCaught() =>
        AssertCaught("LostRowForgotten", "I1|I2|I5|I8", 500,
            new() { Seed = 0, Finder = FinderKind.Exact, Recorder = RecorderMutation.LostRowForgotten }, checksProgress: true);

    [Theory]
    [InlineData((int)FinderMutation.GraphOneTooFar, (int)FinderKind.Exact, "I1", 2000)]
    [InlineData((int)FinderMutation.NoTransitivity, (int)FinderKind.Exact, "I1", 40000)]
    [InlineData((int)FinderMutation.GapIsClosed, (int)FinderKind.Hybrid, "I1", 3000)]
    [InlineData((int)FinderMutation.LostIsTrusted, (int)FinderKind.Hybrid, "I1", 3000)]
    [InlineData((int)FinderMutation.StrideIgnored, (int)FinderKind.Hybrid, "I2", 20000)]
    [InlineData((int)FinderMutation.GridOneTooFar, (int)FinderKind.Hybrid, "I2", 500)]
    [InlineData((int)FinderMutation.FloorIgnored, (int)FinderKind.Hybrid, "I2", 2000)]
    public void Finder_RuleIsOff_IsCaught(int mutation, int finder, string by, int seeds) =>
        AssertCaught(((FinderMutation)mutation).ToString(), by, seeds,
            new() { Seed = 0, Finder = (FinderKind)finder, FinderFault = (FinderMutation)mutation });

    [Theory]
    [InlineData((int)RollbackMutation.AnyHistoryGoesBack, "I", 3000)]
    [InlineData((int)RollbackMutation.ClientsNotShutOut, "I", 3000)]
    [InlineData((int)RollbackMutation.StoreNotNoted, "I", 3000)]
    [InlineData((int)RollbackMutation.NotedBehindWorldLine, "I", 20000)]
    [InlineData((int)RollbackMutation.OnePassOnly, "I1", 3000)]
    [InlineData((int)RollbackMutation.LastPassCounts, "I1", 20000)]
    [InlineData((int)RollbackMutation.BranchNotAwaited, "I", 3000)]
    [InlineData((int)RollbackMutation.AttachesAtBranch, "I", 3000)]
    [InlineData((int)RollbackMutation.NoteForgottenEarly, "I", 20000)]
    public void RollbackInPlace_RuleIsOff_IsCaught(int mutation, string by, int seeds) =>
        AssertCaught(((RollbackMutation)mutation).ToString(), by, seeds,
            new() { Seed = 0, InPlace = true, Moves = true, Rollback = (RollbackMutation)mutation }, checksProgress: true);

    [Theory]
    [InlineData((int)VersionGateMutation.RepliesNotHeld, "I1", 2000)]
    [InlineData((int)VersionGateMutation.DedicatedNotHeld, "I1|I2", 2000)]
    [InlineData((int)VersionGateMutation.OpenMovesAtAnswer, "I1|I2", 500)]
    [InlineData((int)VersionGateMutation.HeldIsOfBefore, "I1|I2", 2000)]
    public void VersionGate_RuleIsOff_IsCaught(int mutation, string by, int seeds) =>
        AssertCaught(((VersionGateMutation)mutation).ToString(), by, seeds, new() { Seed = 0, Boundary = (VersionGateMutation)mutation },
            checksProgress: true);

    [Theory]
    [InlineData((int)VersionGateMutation.NotDrained, "I1|I2", 2000)]
    public void VersionGate_RuleIsOffWithRollbacksInPlace_IsCaught(int mutation, string by, int seeds) =>
        AssertCaught(((VersionGateMutation)mutation).ToString(), by, seeds,
            new() { Seed = 0, InPlace = true, Boundary = (VersionGateMutation)mutation }, checksProgress: true);

    [Fact]
    public void VersionGate_ForwardsBeyondTheEnd_IsCaught() =>
        AssertCaught("EndIgnored", "I1", 20000, new() { Seed = 0, Moves = true, Boundary = VersionGateMutation.EndIgnored },
            checksProgress: true);

    // Of those that few cases catch: the first that does, so that it need not be looked for each time. Where it does not any more, it is
    // looked for.
    private static readonly Dictionary<string, int> FirstToCatch = new()
    {
        ["BranchBeforeTransaction"] = 1266, ["EndIgnored"] = 1966, ["StrideIgnored"] = 5098, ["ToldForEver"] = 4177,
        ["DeadLeavesQuietly"] = 2476, ["StagedOutlivesSender"] = 2429, ["OlderSenderAccepted"] = 2371,
        ["SenderNotRecorded"] = 4626, ["StaleFinalCounts"] = 221, ["MoveOfDeposedCounts"] = 1363, ["CopiesForAnyRow"] = 842,
            ["OpensBeforeVoid"] = 186, ["OpenVersionNotAwaited"] = 3691, ["CopyUsedUnsynced"] = 2800,
            ["HalfATerm"] = 600, ["WindowsNotTold"] = 682,
    };

    internal static void AssertCaught(string name, string by, int seeds, SimSettings settings, bool checksProgress = false)
    {
        settings = settings with { ChecksProgress = checksProgress, Moves = settings.Moves ?? false, Members = settings.Members
            ?? false, InPlace = settings.InPlace ?? false, Backup = settings.Backup ?? false };
        IEnumerable<int> cases = Enumerable.Range(1, seeds);
        foreach (int seed in FirstToCatch.TryGetValue(name, out int first) ? cases.Prepend(first) : cases)
        {
            if (SimRun.Try(settings with { Seed = seed }, out _) is not { } failure) continue;
            TestContext.Current.TestOutputHelper?.WriteLine($"{name}: seed {seed}: {failure.Text}");
            Assert.Contains(by.Split('|'), i => failure.Text.StartsWith(i, StringComparison.Ordinal));
            return;
        }

        Assert.Fail($"The mutant {name} survived {seeds} cases.");
    }
}

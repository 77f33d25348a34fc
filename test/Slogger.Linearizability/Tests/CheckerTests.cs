// The checkers against histories that are known to be right or wrong.
using Slogger.Linearizability.Checking;
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Tests;

public sealed class CheckerTests
{
    private const int Seeds = 3000, SeedsWrong = 60, SeedsTiny = 10_000;

    [Fact]
    public void Registers_OfARightStore_Pass() => AllPass(seed => SimulatedStore.Registers(seed, Size(seed)));

    [Fact]
    public void Lists_OfARightStore_Pass() => AllPass(seed => SimulatedStore.Lists(seed, Size(seed)));

    public static TheoryData<string> Names => [.. Mutations.All.Select(m => m.Name)];

    [Theory]
    [MemberData(nameof(Names))]
    public void Mutation_IsFound_AndNamed(string name)
    {
        var mutation = Mutations.All.Single(m => m.Name == name);
        int applied = 0;
        for (int seed = 1; seed <= SeedsWrong; seed++)
        {
            var right = mutation.IsOfLists ? SimulatedStore.Lists(seed) : SimulatedStore.Registers(seed);
            if (mutation.Apply([.. right], new Random(seed)) is not { } wrong) { continue; }
            applied++;
            var found = HistoryChecker.Check(wrong);
            Assert.True(found.Any(f => mutation.Kinds.Contains(f.Kind)), $"seed {seed}: {string.Join('\n', found)}");
            // Nothing that is said of a part is wrong only together with the rest.
            Assert.All(found.Where(f => !mutation.IsOfLists && f.Kind is not (AnomalyKind.NeverWritten or AnomalyKind.AbortedRead)),
                f => Assert.False(RegisterChecker.IsLinearizable(f.Operations), $"seed {seed}: {f}"));
            Assert.All(found, f => Assert.InRange(f.Operations.Count, 1, 8));
        }

        Assert.True(applied >= SeedsWrong / 3, $"only {applied} of {SeedsWrong} histories had anything to mutate");
    }

    [Fact]
    public void Registers_ByEveryOrder_TheSameVerdict() => SameVerdicts(seed => TinyHistories.Registers(seed));

    [Fact]
    public void Lists_ByEveryOrder_TheSameVerdict() => SameVerdicts(seed => TinyHistories.Lists(seed));

    [Fact]
    public void Register_Of50000Operations_IsDecided()
    {
        // One register, 60 operations without an answer.
        var size = new SimulatedSize(Clients: 8, Operations: 50_000, Keys: 1, Unknown: 0.0012, Failed: 0.001);
        var right = SimulatedStore.Registers(1, size);
        Assert.InRange(right.Count(o => o.Outcome == Outcome.Unknown), 30, 100);
        Assert.Empty(HistoryChecker.Check(right));

        var old = right.First(o => o is { Outcome: Outcome.Done, Step.Kind: StepKind.Write });
        var late = right.Last(o => o is { Outcome: Outcome.Done, Step.Kind: StepKind.Read });
        var found = Assert.Single(HistoryChecker.Check(
            [.. right.Select(o => o.Id == late.Id ? o with { Steps = [o.Step with { Value = old.Step.Value }] } : o)]));
        Assert.InRange(found.Operations.Count, 2, 4);
    }

    [Fact]
    public void Lists_Of20000Operations_AreDecided()
    {
        var size = new SimulatedSize(Clients: 8, Operations: 20_000, Keys: 150, Unknown: 0.003, Failed: 0.001);
        Assert.Empty(HistoryChecker.Check(SimulatedStore.Lists(1, size)));
    }

    [Fact]
    public void HistoryFile_ReadAgain_IsTheSame()
    {
        string path = Path.GetTempFileName();
        try
        {
            var history = SimulatedStore.Lists(1).Concat(SimulatedStore.Registers(2)).ToArray();
            HistoryFile.Save(path, history);
            Assert.Equal(history.Select(o => o.ToString()), HistoryFile.Load(path).Select(o => o.ToString()));
            Assert.Equal(history.Select(o => o.Outcome), HistoryFile.Load(path).Select(o => o.Outcome));
        }
        finally
        {
            File.Delete(path);
        }
    }

    private static SimulatedSize Size(int seed) => new(Clients: 2 + (seed % 7), Operations: 40 + (seed % 100), Keys: 1 + (seed % 3),
        Unknown: 0.02 * (seed % 8), Failed: 0.02 * (seed % 3));

    private static void AllPass(Func<int, IReadOnlyList<Operation>> make)
    {
        for (int seed = 1; seed <= Seeds; seed++)
        {
            var found = HistoryChecker.Check(make(seed));
            Assert.True(found.Count == 0, $"seed {seed}: {string.Join('\n', found)}");
        }
    }

    private static void SameVerdicts(Func<int, IReadOnlyList<Operation>> make)
    {
        int wrong = 0, passedOver = 0;
        for (int seed = 1; seed <= SeedsTiny; seed++)
        {
            var history = make(seed);
            bool isRight = BruteForce.HasOrder(history);
            wrong += isRight ? 0 : 1;
            var found = HistoryChecker.Check(history);
            // What a refused compare-and-set says is passed over where a write without an answer may have been in its way.
            if (!isRight && history.Any(o => o.Step.Succeeded == false)
                && history.Any(o => o is { Outcome: Outcome.Unknown, Step.Value: not null }))
            {
                passedOver += found.Count == 0 ? 1 : 0;
                continue;
            }

            Assert.True(isRight == (found.Count == 0),
                $"seed {seed}: is {(isRight ? "right" : "wrong")}\n{string.Join('\n', history)}\n{string.Join('\n', found)}");
        }

        Assert.InRange(wrong, SeedsTiny / 10, SeedsTiny * 9 / 10);
        Assert.InRange(passedOver, 0, wrong / 50);
    }
}

// A store that is given what the reducer leaves holds what a store holds that was given everything, at each window's end: random commands,
// random windows, on top of whatever there was before. And with any rule switched off it does not.
// SLOGGER_TEST_REDUCTIONS=n for longer runs; SLOGGER_TEST_SEED to repeat one.
using System.Globalization;
using Slogger.Redis.Reduction;

namespace Slogger.Redis.Tests.Reduction;

public sealed class ReductionEquivalenceTests(ReductionServers servers, ITestOutputHelper output) : IClassFixture<ReductionServers>
{
    private const int MutantSeedsMax = 400;
    private static readonly int s_seeds = Number("SLOGGER_TEST_REDUCTIONS") ?? 100;

    public static IEnumerable<TheoryDataRow<int>> Rules =>
        Enum.GetValues<ReductionMutation>().Where(m => m is not (ReductionMutation.None or ReductionMutation.AnyTrimJoins))
            .Select(m => new TheoryDataRow<int>((int)m) { TestDisplayName = $"RuleSwitchedOff_IsCaught: {m}" });

    [Fact]
    public async Task RandomCommands_RandomWindows_LeaveTheSameStore()
    {
        int seed = Number("SLOGGER_TEST_SEED") ?? Random.Shared.Next(1_000_000);
        output.WriteLine($"seeds {seed} to {seed + s_seeds - 1}");
        var reducer = new EffectReducer();
        for (int i = 0; i < s_seeds; i++)
        {
            string? difference = await servers.DifferenceAsync(await servers.RecordAsync(seed + i), reducer);
            Assert.True(difference is null, $"seed {seed + i}: {difference}");
        }
        (long before, long after, int windows) = servers.Totals;
        output.WriteLine($"{windows} windows, {before} commands, {after} left");
        Assert.True(after < before * 9 / 10, "hardly anything was reduced");
    }

    [Theory]
    [MemberData(nameof(Rules))]
    public async Task RuleSwitchedOff_IsCaught(int rule)
    {
        var mutation = (ReductionMutation)rule;
        var reducer = new EffectReducer(null, null, mutation);
        for (int seed = 1; seed <= MutantSeedsMax; seed++)
        {
            // Those that meet the rules.
            if (await servers.DifferenceAsync(await servers.RecordAsync((2 * seed) + 1, isKept: true), reducer) is { } difference)
            {
                output.WriteLine($"{mutation}: seed {(2 * seed) + 1}, number {seed}: {difference}");
                return;
            }
        }
        Assert.Fail($"{mutation} was not caught by {MutantSeedsMax} seeds");
    }

    // The feed announces an offset so far below the target as there are bytes.
    [Fact]
    public async Task Restore_FromReducedWindows_EndsAtTheOffsetOfTheLog()
    {
        int seed = Number("SLOGGER_TEST_SEED") ?? Random.Shared.Next(1_000_000);
        var reducer = new EffectReducer();
        for (int i = 0; i < 6; i++)
        {
            output.WriteLine($"seed {seed + i}");
            RecordedEffects effects = await servers.RecordAsync(seed + i);
            byte[] reduced = servers.Reduced(effects, reducer);
            Assert.InRange(reduced.Length, 0, effects.Bytes.Length);
            long target = 1_000_000 + effects.Bytes.Length;
            StoreView all = await servers.RestoreAsync(effects.Bytes, effects.Database, target);
            Assert.Null(all.DifferenceTo(await servers.RestoreAsync(reduced, effects.Database, target)));
        }
    }

    // Redis 7.0 propagates no LTRIM that trims nothing. Others may.
    [Theory]
    [InlineData((int)ReductionMutation.None)]
    [InlineData((int)ReductionMutation.AnyTrimJoins)]
    public async Task TrimThatTrimsNothing_IsOneOfAnotherRun(int rule)
    {
        RecordedEffects effects = RecordedEffects.Of("RPUSH l x y z", "LPUSH l a; LTRIM l 0 0; LPUSH l b; LTRIM l 0 3");
        string? difference = await servers.DifferenceAsync(effects, new EffectReducer(null, null, (ReductionMutation)rule));
        Assert.Equal(rule != (int)ReductionMutation.None, difference is not null);
    }

    private static int? Number(string variable) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), CultureInfo.InvariantCulture, out int number) ? number : null;
}

// The model of the lag, in simulated time.
using Slogger.Simulation.Sites;

namespace Slogger.Simulation.Tests;

public sealed class LagModelTests
{
    // Versions that end before the first piece goes out.
    private const int Greeting = 60;

    private static readonly LagCosts s_free = new() { Marker = (0, 0), Sync = (0, 0), Record = (0, 0), Message = 0, Service = (0, 0),
        Way = (12_500, 0) };

    [Fact]
    public void Lag_NothingCostsAnything_IsTheWay() =>
        Assert.All(LagModel.Run(4, 500, s_free, seed: 1).Skip(Greeting), l => Assert.Equal(0, l, 3));

    // Of what happens at the backup only the sync of the note comes after the commit.
    [Fact]
    public void Lag_OneShard_IsWhatComesAfterTheCommit()
    {
        LagCosts costs = s_free with { Sync = (100, 0), Message = 10, Way = (12_500, 20), Service = (5, 5) };
        Assert.All(LagModel.Run(1, 500, costs, seed: 1).Skip(Greeting),
            l => Assert.InRange(l, 10 + 10 + 100 + 20 + 5, 10 + 10 + 200 + 20 + 5 + 10));
    }

    [Fact]
    public void Lag_ThirtyTwoShards_GrowsByATwentiethAtMost()
    {
        double Whole(int shards) => 12_500 + LagModel.Run(shards, 5_000, new LagCosts(), seed: 1).Skip(200).Average();
        Assert.InRange(Whole(32) / Whole(2), 1, 1.05);
    }
}

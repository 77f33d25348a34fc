// Processes that work on a store and are killed with kill -9, in a few rounds. Many: --kills.
namespace Slogger.Faster.Tests.Kills;

public sealed class KillTests : IDisposable
{
    private readonly string _root = Directory.CreateTempSubdirectory("slogger-kills-").FullName;

    public void Dispose() => Directory.Delete(_root, recursive: true);

    [Fact]
    public async Task Store_OfAProcessKilledAtAnyMoment_HoldsAPrefixWithAllThatWasDurable()
    {
        int seed = Random.Shared.Next();
        var kills = new KillRounds(_root, seed);
        for (int round = 1; round <= 10; round++)
        {
            List<string> wrong = await kills.RoundAsync();
            Assert.True(wrong.Count == 0, $"round {round} of seed {seed}: {string.Join("; ", wrong.Take(5))}");
        }

        Assert.True(kills.Commits > 0 && kills.Operations > 0);
    }
}

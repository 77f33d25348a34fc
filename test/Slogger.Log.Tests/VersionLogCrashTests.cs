// The promises of VersionLog.cs, checked under crashes, torn writes, full disks and failing syncs. SLOGGER_LOG_SEEDS sets how many
// seeds are tried (default 300), SLOGGER_LOG_SEED the first one: to replay a failure, set it and one seed.
using System.Globalization;
using Slogger.Log.Tests.Simulation;

namespace Slogger.Log.Tests;

public class VersionLogCrashTests
{
    private const int LivesPerSeed = 6;

    private static int FirstSeed => Number("SLOGGER_LOG_SEED", 1);
    private static int Seeds => Number("SLOGGER_LOG_SEEDS", 300);

    [Fact]
    public void Recovery_AfterAnyCrash_KeepsWhatWasDurableAndAPrefixOfTheRest()
    {
        for (int seed = FirstSeed; seed < FirstSeed + Seeds; seed++)
        {
            string? wrong;
            try
            {
                wrong = new LogDriver(seed).Run(LivesPerSeed);
            }
            catch (Exception e)
            {
                wrong = e.ToString();
            }
            Assert.True(wrong is null, $"seed {seed}: {wrong}");
        }
    }

    [Fact]
    public void Recovery_WhenDataSyncsAreSkipped_IsCaughtByTheSameTest() =>
        Assert.True(IsCaught(seed => new LogDriver(seed, ignoresDataSync: true)));

    [Fact]
    public void Recovery_WhenDirectorySyncsAreSkipped_IsCaughtByTheSameTest() =>
        Assert.True(IsCaught(seed => new LogDriver(seed, ignoresDirectorySync: true)));

    private static bool IsCaught(Func<int, LogDriver> driver) =>
        Enumerable.Range(1, 100).Any(seed => driver(seed).Run(LivesPerSeed) is not null);

    private static int Number(string variable, int otherwise) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), CultureInfo.InvariantCulture, out int value) ? value : otherwise;
}

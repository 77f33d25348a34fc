// The promises of VersionLog.cs, checked under crashes, torn writes, full disks and failing syncs; of a log in several directories, too,
// each of which is a disk that crashes in its own way. SLOGGER_LOG_SEEDS sets how many seeds are tried (default 300, of several
// directories half as many), SLOGGER_LOG_SEED the first one: to replay a failure, set it and one seed.
using System.Globalization;
using Slogger.Log.Tests.Simulation;

namespace Slogger.Log.Tests;

public class VersionLogCrashTests
{
    private const int LivesPerSeed = 6;

    private static int FirstSeed => Number("SLOGGER_LOG_SEED", 1);
    private static int Seeds => Number("SLOGGER_LOG_SEEDS", 300);

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    public void Recovery_AfterAnyCrash_KeepsWhatWasDurableAndAPrefixOfTheRest(int directories)
    {
        int seeds = directories == 1 ? Seeds : (Seeds + 1) / 2;
        for (int seed = FirstSeed; seed < FirstSeed + seeds; seed++)
        {
            string? wrong;
            try
            {
                wrong = new LogDriver(seed, directories).Run(LivesPerSeed);
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
        Assert.True(IsCaught(1, seed => new SimulatedDisk(seed) { IgnoresDataSync = true }));

    [Fact]
    public void Recovery_WhenDirectorySyncsAreSkipped_IsCaughtByTheSameTest() =>
        Assert.True(IsCaught(1, seed => new SimulatedDisk(seed) { IgnoresDirectorySync = true }));

    // What is reported durable has a hole then: the blocks that one of the disks was to keep.
    [Theory]
    [InlineData("/log")]
    [InlineData("/log1")]
    public void Recovery_WhenDataSyncsOfOneDirectoryAreSkipped_IsCaughtByTheSameTest(string directory) =>
        Assert.True(IsCaught(2, seed => new SimulatedDisk(seed) { IgnoresDataSyncIn = directory, HasDisksOfDirectories = true }));

    // Then what lies behind a hole is not void for good when something is appended.
    [Fact]
    public void Recovery_WhenSyncsOfHeadersAreSkipped_IsCaughtByTheSameTest() =>
        Assert.True(IsCaught(2, seed => new SimulatedDisk(seed) { IgnoresHeaderSync = true, HasDisksOfDirectories = true }));

    private static bool IsCaught(int directories, Func<int, SimulatedDisk> disk) =>
        Enumerable.Range(1, 100).Any(seed => new LogDriver(seed, directories, disk).Run(LivesPerSeed) is not null);

    private static int Number(string variable, int otherwise) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), CultureInfo.InvariantCulture, out int value) ? value : otherwise;
}

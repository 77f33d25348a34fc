// The file that is prepared beside the one that fills.
using Slogger.Core.Identities;
using Slogger.Log.Tests.Simulation;

namespace Slogger.Log.Tests;

public class SegmentFactoryTests
{
    // It ends a test that hangs, and decides nothing: the rest would be three hours.
    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(2);

    // A process that was stopped in a write took that for its disk's slowness, and rested three times as long. Whoever needed the file waited.
    [Fact]
    public async Task Take_TheProcessWasStoppedInAWrite_DoesNotWaitForTheRest()
    {
        var disk = new SimulatedDisk(seed: 1);
        disk.CreateDirectory("/log");
        var clock = new HourlyClock();
        var factory = new SegmentFactory(new() { Directory = "/log", Shard = new ShardId(0), Files = disk, SegmentBytes = 4 << 20 }, clock);
        factory.Prepare(1, isWanted: true);
        await clock.WriteTimed;
        await Task.Run(() => factory.Take(1).Dispose()).WaitAsync(Limit);
        factory.Dispose();
    }

    // Each look at it is an hour after the one before.
    private sealed class HourlyClock : TimeProvider
    {
        private readonly TaskCompletionSource _timed = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private long _looks;

        /// <summary>Completes when the time of a write was taken.</summary>
        public Task WriteTimed => _timed.Task;

        public override long TimestampFrequency => TimeSpan.TicksPerSecond;

        public override long GetTimestamp()
        {
            long looks = Interlocked.Increment(ref _looks);
            if (looks == 2) { _timed.TrySetResult(); }
            return looks * TimeSpan.TicksPerHour;
        }
    }
}

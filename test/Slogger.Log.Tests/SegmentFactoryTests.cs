// The file that is prepared beside the one that fills.
using System.Diagnostics;
using Slogger.Core.Identities;
using Slogger.Log.Files;
using Slogger.Log.Tests.Simulation;

namespace Slogger.Log.Tests;

public class SegmentFactoryTests
{
    private static readonly TimeSpan Stopped = TimeSpan.FromSeconds(2);

    // A process that was stopped in a write took that for its disk's slowness, and rested three times as long. Whoever needed the file waited.
    [Fact]
    public async Task Take_TheWriteBeforeTookLong_DoesNotWaitForItsRest()
    {
        var disk = new SimulatedDisk(1);
        disk.CreateDirectory("/log");
        var slow = new SlowLayer(disk);
        using var factory = new SegmentFactory(new()
        {
            Directory = "/log", Shard = new ShardId(0), Files = slow, SegmentBytes = 4 << 20, PrepareInBackground = true, ZeroFill = true,
        });
        factory.Prepare(1, isWanted: true);
        await slow.Writing;
        await Task.Delay(Stopped);
        slow.LetGo();
        // The writer rests by now.
        await Task.Delay(TimeSpan.FromMilliseconds(50));
        long began = Stopwatch.GetTimestamp();
        await Task.Run(() => factory.Take(1).Dispose());
        Assert.True(Stopwatch.GetElapsedTime(began) < 2 * Stopped, $"{Stopwatch.GetElapsedTime(began)}");
    }

    // The first write waits.
    private sealed class SlowLayer(SimulatedDisk disk) : IFileLayer
    {
        private readonly TaskCompletionSource _writing = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private readonly ManualResetEventSlim _goesOn = new();

        public Task Writing => _writing.Task;

        public void LetGo() => _goesOn.Set();

        public void CreateDirectory(string path) => disk.CreateDirectory(path);

        public IReadOnlyList<string> List(string directory) => disk.List(directory);

        public ILogFile Create(string path) => new SlowFile(this, disk.Create(path));

        public ILogFile Open(string path, bool writable) => disk.Open(path, writable);

        public void Rename(string from, string to) => disk.Rename(from, to);

        public void LinkOrCopy(string from, string to) => disk.LinkOrCopy(from, to);

        public void Delete(string path) => disk.Delete(path);

        public void SyncDirectory(string directory) => disk.SyncDirectory(directory);

        public IDisposable? TryLock(string path) => disk.TryLock(path);

        private sealed class SlowFile(SlowLayer layer, ILogFile file) : ILogFile
        {
            public long Length => file.Length;

            public int Read(Span<byte> destination, long position) => file.Read(destination, position);

            public void Write(ReadOnlySpan<byte> source, long position)
            {
                layer._writing.TrySetResult();
                layer._goesOn.Wait();
                file.Write(source, position);
            }

            public void Allocate(long length) => file.Allocate(length);

            public void SetLength(long length) => file.SetLength(length);

            public void SyncData() => file.SyncData();

            public void Dispose() => file.Dispose();
        }
    }
}

// Which version ends at an offset of a log: one that was closed there, and none of those that were closed together with it.
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Tests.Past;

public sealed class LogPlacesTests : IDisposable
{
    private const long Origin = 1000;

    private readonly string _directory = Directory.CreateTempSubdirectory("log-places").FullName;

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    [Fact]
    public void EndAtOrBelow_RandomLog_IsTheFirstVersionThatWasClosedThere()
    {
        for (int seed = 0; seed < 20; seed++)
        {
            var random = new Random(seed);
            using VersionLog log = VersionLog.Open(new VersionLogOptions
            {
                Directory = Path.Combine(_directory, $"{seed}"), Shard = new ShardId(1), PrepareInBackground = false, ZeroFill = false,
                SegmentBytes = 16 << 10, BlockBytes = 1 << 10, BufferBytes = 8 << 10,
            });
            long version = 10, first = 0;
            log.Begin(new StreamOrigin(new string('a', 40), Origin, 0), WorldLine.First, new VersionNumber(version));
            // Each place with the first version that ends there.
            List<(long Offset, long Version)> ends = [];
            for (int i = 0; i < 400; i++)
            {
                log.Append(Encoding.ASCII.GetBytes(new string('x', random.Next(1, 200))));
                // Those that it leaves out end nowhere.
                version += random.Next(1, 5);
                log.AppendBoundary(new Boundary(WorldLine.First, new(version), log.EndOffset, 0, default(HybridTimestamp)));
                ends.Add((log.EndOffset, version));
                if (random.Next(3) > 0) { continue; }
                version += random.Next(1, 5);
                log.AppendEmptyRun(new(version), default);
            }
            log.Sync();
            if (random.Next(2) == 0)
            {
                log.TrimBefore(ends[random.Next(200)].Offset);
                first = log.StartOffset;
            }
            Assert.Null(LogPlaces.EndAtOrBelow(log, Math.Max(Origin, first) - 1));
            foreach ((long offset, long closed) in ends.Where(e => e.Offset > first))
            {
                (Boundary at, bool isExact) = LogPlaces.EndAtOrBelow(log, offset)!.Value;
                Assert.Equal((offset, closed, true), (at.Offset, at.Version.Number, isExact));
                Assert.Equal(at, log.BoundaryAtOrBelow(at.Version) is { } same ? same with { Time = at.Time } : default);
            }
        }
    }
}

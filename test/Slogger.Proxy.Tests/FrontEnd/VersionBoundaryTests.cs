// The end of a version, as the gate awaits it where other shards close the same versions.
using Slogger.Core.Shards;
using Slogger.FrontEnd;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class VersionBoundaryTests
{
    private const long UntilTheEnd = 50_000_000, Kept = 5_000;

    // While it asks its thread loses the processor: what is done after the end must not be of the version.
    [Fact]
    public void Deadline_ThreadIsKeptFromGoingOn_IsNoLaterThanTheEnd()
    {
        var source = new SlowSource();
        var gate = new VersionGate(new() { IsVersioned = true, IsPunctual = true });
        new VersionBoundary(null!, source, gate).OnFastForward();
        Assert.True(source.AskedAt > 0);
        Assert.InRange(gate.EndsUs, 1, source.AskedAt + UntilTheEnd);
    }

    private sealed class SlowSource : IVersionSource
    {
        public long AskedAt { get; private set; }

        public bool IsVersioned => true;

        public bool IsPunctual => true;

        public long OpenVersion => 1;

        public bool NeedsMarker => false;

        public long MicrosecondsToNextTick()
        {
            AskedAt = FrontEndLoop.Microseconds();
            while (FrontEndLoop.Microseconds() < AskedAt + Kept)
            {
            }
            return UntilTheEnd;
        }

        public long MicrosecondsToReplies() => 0;

        public MarkerToSend? Tick(bool busy, bool inFlight) => null;

        public void MarkerAnswered(bool counts)
        {
        }

        public void MarkerLost()
        {
        }
    }
}

// The door to the store: shut by any suspicion, opened only by a recovery that began after the last one, never again at the end.
using Slogger.Proxy.Shards;

namespace Slogger.Proxy.Tests.Shards;

public sealed class StoreDoorTests
{
    [Fact]
    public void Suspicion_SinceTheRecoveryBegan_KeepsItShut()
    {
        var door = new StoreDoor();
        Assert.True(door.TryOpen(door.Take()));
        door.Suspect("first");
        Assert.False(door.IsOpen);
        long taken = door.Take();
        door.Suspect("second");
        Assert.False(door.TryOpen(taken));
        Assert.True(door.IsSuspected);
        Assert.True(door.TryOpen(door.Take()));
        Assert.True(door.IsOpen);
    }

    [Fact]
    public void Shut_WhileARecoveryIsUnderWay_ItsEndDoesNotOpen()
    {
        var door = new StoreDoor();
        door.Suspect("lost");
        long taken = door.Take();
        door.Shut();
        Assert.False(door.TryOpen(taken));
        Assert.False(door.IsOpen);
    }
}

// How the loop's thread waits for events.
using Slogger.FrontEnd.Transports;

namespace Slogger.Proxy.Tests.Transports;

public sealed class PollerTests
{
    [Fact]
    public async Task Wait_ThatMayYieldWithoutEnd_StillEnds()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "epoll is there on Linux only");
        // Each yield takes as long as the others on the core like; as many as are allowed might be hours.
        Task<int> wait = Task.Factory.StartNew(
            () =>
            {
                using var poller = new EpollPoller();
                return poller.Wait(timeoutMicroseconds: 20_000, yields: int.MaxValue);
            },
            TestContext.Current.CancellationToken, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        Assert.Equal(0, await wait.WaitAsync(TimeSpan.FromSeconds(60), TestContext.Current.CancellationToken));
    }
}

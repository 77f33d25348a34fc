// Nothing is compiled in a failover that could have been before: neither methods nor what the framework makes of them for types of the program.
using System.Runtime;
using Slogger.Proxy.Following;

namespace Slogger.Proxy.Tests.Following;

public class ReadinessTests
{
    [Fact]
    public async Task Assembly_Prepared_IsNotCompiledWhenItIsCalled()
    {
        Assert.True(await Readiness.PrepareAsync([typeof(ReadinessTests).Assembly]) > 0);
        long before = JitInfo.GetCompiledMethodCount(currentThread: true);
        long sum = Sample();
        Assert.Equal((0, 12), (JitInfo.GetCompiledMethodCount(currentThread: true) - before, sum));
    }

    // An await that waits, a dictionary and a query over structs, a generic method, something behind an interface: each of this test alone.
    private static long Sample()
    {
        var first = new TaskCompletionSource<Key>();
        Task<long> waits = WaitsAsync(first.Task);
        first.SetResult(new(2));
        return waits.GetAwaiter().GetResult() + Made<Key>().Take(new(3)).Value;
    }

    private static async Task<long> WaitsAsync(Task<Key> of)
    {
        Key key = await of.ConfigureAwait(false);
        var all = new Dictionary<Key, long> { [key] = 3, [new(4)] = 4 };
        return all.Where(p => p.Key.Value > 0).Select(p => new Key(p.Value)).Sum(k => k.Value) + key.Value;
    }

    private static ITaker<T> Made<T>() => new Taker<T>();

    private readonly record struct Key(long Value);

    private interface ITaker<T>
    {
        T Take(T value);
    }

    private sealed class Taker<T> : ITaker<T>
    {
        public T Take(T value) => new List<T> { value }[0];
    }
}

// What is compiled ahead: nothing of a sample is left for its first call, whatever it takes to find it.
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime;
using Slogger.Replication.Following;
using Xunit;

namespace Slogger.Sites.Tests.Following;

public sealed class ReadinessTests
{
    [Fact]
    public void Prepared_TheFirstCall_CompilesNothing()
    {
        long unprepared = Compiled(() => Measured(new Unprepared()));

        Readiness.Prepare([typeof(Sample), typeof(Point)], default);
        // The test's own part, which is an action.
        long own = Compiled(() => { });
        long prepared = Compiled(() => Measured(new Sample()));

        Assert.True(unprepared > own);
        Assert.Equal(own, prepared);
    }

    [Fact]
    public void Walk_AnOverrideThatNobodyCalls_IsLeftOut()
    {
        var walk = new CodeWalk([typeof(Sample)]);
        HashSet<string> found = [];
        while (walk.Next() is { } method) { found.Add($"{method.DeclaringType!.Name}.{method.Name}"); }

        Assert.Contains("Heir`1.Called", found);
        Assert.DoesNotContain("Heir`1.Uncalled", found);
    }

    [Fact]
    public void Walk_AMethodUsesAnAssemblyThatIsNotThere_TheOthersAreFound()
    {
        var missing = new PersistedAssemblyBuilder(new("Missing"), typeof(object).Assembly);
        TypeBuilder absent = missing.DefineDynamicModule("Missing").DefineType("Absent");
        var present = new PersistedAssemblyBuilder(new("Present"), typeof(object).Assembly);
        TypeBuilder uses = present.DefineDynamicModule("Present").DefineType("Uses");
        foreach ((string name, Type local) in new[] { ("First", absent), ("Second", typeof(int)) })
        {
            ILGenerator code = uses.DefineMethod(name, MethodAttributes.Public | MethodAttributes.Static).GetILGenerator();
            code.DeclareLocal(local);
            code.Emit(OpCodes.Call, typeof(Array).GetMethod(nameof(Array.Empty))!.MakeGenericMethod(typeof(int)));
            code.Emit(OpCodes.Pop);
            code.Emit(OpCodes.Ret);
        }
        absent.CreateType();
        uses.CreateType();
        using var file = new MemoryStream();
        present.Save(file);
        Type loaded = Assembly.Load(file.ToArray()).GetType("Uses")!;
        Assert.Throws<FileNotFoundException>(() => loaded.GetMethod("First")!.GetMethodBody());

        var walk = new CodeWalk([loaded]);
        List<string> found = [];
        while (walk.Next() is { } method) { found.Add(method.Name); }

        Assert.Contains("First", found);
        Assert.Contains("Second", found);
        Assert.Contains("Empty", found);
    }

    private static long Compiled(Action what)
    {
        long before = JitInfo.GetCompiledMethodCount(currentThread: true);
        what();
        return JitInfo.GetCompiledMethodCount(currentThread: true) - before;
    }

    private static void Measured(ISample sample) => sample.Run(7);

    private interface ISample
    {
        int Run(int number);
    }

    private readonly record struct Point(int X);

    private abstract class Base<T>
    {
        public virtual int Called(T value) => 1;

        public virtual int Uncalled(T value) => 2;
    }

    private sealed class Heir<T> : Base<T>
    {
        private static readonly List<T> s_all = [];

        public override int Called(T value)
        {
            s_all.Add(value);
            return s_all.Count;
        }

        public override int Uncalled(T value) => 3;
    }

    // By an interface; a generic type's static constructor; a dictionary of a type of ours; an override of a type that is generic over it;
    // what awaits, and is suspended.
    private sealed class Sample : ISample
    {
        int ISample.Run(int number)
        {
            var points = new Dictionary<Point, long> { [new(number)] = number };
            Base<Point> heir = new Heir<Point>();
            foreach ((Point point, long _) in points) { number += heir.Called(point); }
            var late = new TaskCompletionSource<Point>();
            Task<Point> waits = AwaitAsync(late.Task);
            late.SetResult(new(number));
            return waits.Result.X;
        }

        private static async Task<T> AwaitAsync<T>(Task<T> what) => await what.ConfigureAwait(false);
    }

    private sealed class Unprepared : ISample
    {
        int ISample.Run(int number) => new Queue<(Point, byte)>([(new(number), 1)]).Dequeue().Item1.X;
    }
}

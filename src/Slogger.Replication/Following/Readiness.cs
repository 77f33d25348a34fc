// What is done for the first time takes the runtime tens of milliseconds, since methods are compiled when they are first called; and a
// failover should take few. So what a failover will need is compiled while nobody waits for it, on a thread of its own.
//
// The framework is compiled when it is built, but for its generic code over types that it does not know: a list of ours, and what it makes
// of each method that awaits. CodeWalk finds such code.
using System.Diagnostics;
using System.Reflection;
using System.Runtime.CompilerServices;
using Slogger.Faster;

namespace Slogger.Replication.Following;

/// <summary>Compiles methods ahead of their first call.</summary>
internal static class Readiness
{
    private static readonly string[] s_ours = ["Slogger.", "Grpc."];

    // The runtime counts the calls of new methods from 100 ms after the last of them on. It begins with all at once, and nobody can call
    // anything new meanwhile: with thousands that takes longer than a leader's lease. So it gets few, and the time.
    private static readonly TimeSpan s_work = TimeSpan.FromMilliseconds(40), s_rest = TimeSpan.FromMilliseconds(120);

    /// <summary>Begins to compile all methods of this program, and of gRPC, with the generic code that they use. That takes half a minute.
    /// Completes when it is done, or given up.</summary>
    /// <param name="program">The assembly that uses all others.</param>
    /// <param name="isEmbedded">Whether the embedded store is needed.</param>
    /// <param name="log">Is told when it cannot go on.</param>
    /// <param name="stop">Gives up.</param>
    public static Task PrepareAsync(Assembly program, bool isEmbedded, ILogger log, CancellationToken stop = default)
    {
        var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        // Not at a lower priority than the others: when the runtime collects garbage all have to wait for this thread.
        var thread = new Thread(() =>
        {
            try
            {
                Prepare(WithWhatItUses(program, isEmbedded).SelectMany(a => a.GetTypes()).Where(t => !t.ContainsGenericParameters), stop);
            }
            catch (Exception e)
            {
                // The process lives without it.
                log.Warn($"not all code is compiled ahead, so a first takeover or failover may take longer: {e.Message}");
            }
            done.SetResult();
        })
        { Name = "readiness", IsBackground = true };
        thread.Start();
        return done.Task;
    }

    /// <summary>Compiles all methods of types that are not generic, with the generic code that they use.</summary>
    public static void Prepare(IEnumerable<Type> types, CancellationToken stop)
    {
        var walk = new CodeWalk(types);
        long began = Stopwatch.GetTimestamp();
        while (!stop.IsCancellationRequested && walk.Next() is { } method)
        {
            Prepare(method);
            if (Stopwatch.GetElapsedTime(began) < s_work) { continue; }
            Thread.Sleep(s_rest);
            began = Stopwatch.GetTimestamp();
        }
    }

    private static List<Assembly> WithWhatItUses(Assembly program, bool isEmbedded)
    {
        Assembly? but = isEmbedded ? null : typeof(FasterStore).Assembly;
        List<Assembly> all = [program];
        for (int i = 0; i < all.Count; i++)
        {
            foreach (AssemblyName name in all[i].GetReferencedAssemblies())
            {
                bool isWanted = s_ours.Any(w => name.Name!.StartsWith(w, StringComparison.Ordinal));
                if (isWanted && Assembly.Load(name) is var used && used != but && !all.Contains(used)) { all.Add(used); }
            }
        }
        return all;
    }

    private static void Prepare(MethodBase method)
    {
        try
        {
            // Without an address the runtime compiles no method that an interface calls.
            if (method.IsVirtual) { _ = method.MethodHandle.GetFunctionPointer(); }
            Type[] ofType = method.DeclaringType is { IsGenericType: true } type ? type.GenericTypeArguments : [];
            Type[] arguments = method.IsGenericMethod ? [.. ofType, .. method.GetGenericArguments()] : ofType;
            if (arguments.Length == 0) { RuntimeHelpers.PrepareMethod(method.MethodHandle); }
            else { RuntimeHelpers.PrepareMethod(method.MethodHandle, [.. arguments.Select(t => t.TypeHandle)]); }
        }
        catch (Exception)
        {
            // Not for this machine, or not by itself: whatever it is, it comes again when somebody calls it.
        }
    }
}

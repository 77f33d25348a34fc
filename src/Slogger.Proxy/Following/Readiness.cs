// What is done for the first time takes the runtime tens of milliseconds, since methods are compiled when they are first called; and a failover should take few. So what a failover will need of
// this program is compiled while nobody waits for it, on a thread of its own.
using System.Reflection;
using System.Runtime.CompilerServices;

namespace Slogger.Proxy.Following;

/// <summary>Compiles methods ahead of their first call.</summary>
internal static class Readiness
{
    private const BindingFlags All = BindingFlags.DeclaredOnly | BindingFlags.Instance | BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic;

    /// <summary>Begins to compile all methods of some assemblies. Completes when that is done.</summary>
    public static Task PrepareAsync(IReadOnlyList<Assembly> assemblies)
    {
        var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var thread = new Thread(() =>
        {
            foreach (Type type in assemblies.SelectMany(a => a.GetTypes()).Where(t => !t.ContainsGenericParameters))
            {
                foreach (MethodBase method in type.GetMembers(All).OfType<MethodBase>())
                {
                    if (!method.IsAbstract && !method.ContainsGenericParameters) { Prepare(method); }
                }
            }
            done.SetResult();
        })
        { Name = "readiness", IsBackground = true };
        thread.Start();
        return done.Task;
    }

    private static void Prepare(MethodBase method)
    {
        try
        {
            RuntimeHelpers.PrepareMethod(method.MethodHandle);
        }
        catch (Exception)
        {
            // Not for this machine, or not by itself: whatever it is, it comes again when somebody calls it.
        }
    }
}

// What is done for the first time takes the runtime tens of milliseconds, since methods are compiled when they are first called; and a
// failover should take few. So what a failover will need of this program is compiled while nobody waits for it, on a thread of its own.
//
// Of a method that awaits, most of what there is to compile is not its own: what the framework makes for it when it is first suspended,
// once for each. A rehearsal does not reach that everywhere, since what is awaited may have come already.
using System.Reflection;
using System.Runtime.CompilerServices;
using Slogger.Faster;

namespace Slogger.Replication.Following;

/// <summary>Compiles methods ahead of their first call.</summary>
internal static class Readiness
{
    private const BindingFlags All =
        BindingFlags.DeclaredOnly | BindingFlags.Instance | BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic;

    /// <summary>Begins to compile all methods of this program, and what the framework makes for them. Completes when that is done, or
    /// given up.</summary>
    /// <param name="program">The assembly that uses all others.</param>
    /// <param name="isEmbedded">Whether the embedded store is needed.</param>
    /// <param name="stop">Gives up.</param>
    public static Task PrepareAsync(Assembly program, bool isEmbedded, CancellationToken stop = default)
    {
        var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var thread = new Thread(() =>
        {
            Niceness.PutThreadBehind();
            foreach (Type type in WithWhatItUses(program, isEmbedded).SelectMany(a => a.GetTypes()).Where(t => !t.ContainsGenericParameters))
            {
                if (stop.IsCancellationRequested) { break; }
                PrepareAll(type);
                PrepareAwaiting(type);
            }
            done.SetResult();
        })
        { Name = "readiness", IsBackground = true };
        thread.Start();
        return done.Task;
    }

    // Of what is not ours gRPC alone is in the way of a failover, and not compiled yet.
    private static List<Assembly> WithWhatItUses(Assembly program, bool isEmbedded)
    {
        Assembly? but = isEmbedded ? null : typeof(FasterStore).Assembly;
        List<Assembly> all = [program];
        for (int i = 0; i < all.Count; i++)
        {
            foreach (AssemblyName name in all[i].GetReferencedAssemblies())
            {
                bool isWanted = name.Name!.StartsWith("Slogger.", StringComparison.Ordinal)
                    || name.Name.StartsWith("Grpc.", StringComparison.Ordinal);
                if (isWanted && Assembly.Load(name) is var used && used != but && !all.Contains(used)) { all.Add(used); }
            }
        }
        return all;
    }

    private static void PrepareAll(Type type)
    {
        foreach (MethodBase method in type.GetMembers(All).OfType<MethodBase>())
        {
            if (!method.IsAbstract && !method.ContainsGenericParameters) { Prepare(method, null); }
        }
    }

    // A method that awaits is a type of its own, with its builder, and an awaiter for each kind of what it awaits.
    private static void PrepareAwaiting(Type machine)
    {
        if (!machine.IsAssignableTo(typeof(IAsyncStateMachine)) || machine.GetField("<>t__builder", All)?.FieldType is not { } builder)
        {
            return;
        }
        Type[] awaiters = [.. machine.GetFields(All).Where(f => f.Name.StartsWith("<>u__", StringComparison.Ordinal))
            .Select(f => f.FieldType).Where(t => t.IsAssignableTo(typeof(ICriticalNotifyCompletion)))];
        foreach (Type type in BuildersBehind(builder))
        {
            foreach (MethodInfo method in type.GetMethods(All))
            {
                foreach (Type[] arguments in ArgumentsOf(method, machine, awaiters))
                {
                    Prepare(method, [.. type.GenericTypeArguments, .. arguments]);
                }
            }
            if (type.GetNestedType("AsyncStateMachineBox`1", BindingFlags.NonPublic) is { } box)
            {
                PrepareAll(box.MakeGenericType([.. type.GenericTypeArguments, machine]));
            }
            if (type.GenericTypeArguments is [{ IsValueType: true } result])
            {
                PrepareAll(type);
                PrepareAll(typeof(Task<>).MakeGenericType(result));
            }
        }
        foreach (Type awaiter in awaiters.Where(a => a.GenericTypeArguments is [{ IsValueType: true }]))
        {
            PrepareAll(awaiter);
            if (awaiter.DeclaringType is { } declaring) { PrepareAll(declaring.MakeGenericType(awaiter.GenericTypeArguments)); }
        }
    }

    // Those without a result are one with an empty one.
    private static IEnumerable<Type> BuildersBehind(Type builder)
    {
        yield return builder;
        if (builder.GenericTypeArguments is [var result])
        {
            if (builder.GetGenericTypeDefinition() != typeof(AsyncTaskMethodBuilder<>))
            {
                yield return typeof(AsyncTaskMethodBuilder<>).MakeGenericType(result);
            }
        }
        else if (typeof(Task).Assembly.GetType("System.Threading.Tasks.VoidTaskResult") is { } none)
        {
            yield return typeof(AsyncTaskMethodBuilder<>).MakeGenericType(none);
        }
    }

    private static IEnumerable<Type[]> ArgumentsOf(MethodInfo method, Type machine, Type[] awaiters)
    {
        if (!method.IsGenericMethodDefinition) { return []; }
        bool IsMachine(Type parameter) => parameter.GetGenericParameterConstraints().Contains(typeof(IAsyncStateMachine));
        return method.GetGenericArguments() switch
        {
            [var one] => IsMachine(one) ? [[machine]] : awaiters.Select(a => new[] { a }),
            [_, var two] when IsMachine(two) => awaiters.Select(a => new[] { a, machine }),
            _ => [],
        };
    }

    private static void Prepare(MethodBase method, Type[]? instantiation)
    {
        try
        {
            if (instantiation is null && method.DeclaringType!.IsGenericType) { instantiation = method.DeclaringType.GenericTypeArguments; }
            if (instantiation is null) { RuntimeHelpers.PrepareMethod(method.MethodHandle); }
            else { RuntimeHelpers.PrepareMethod(method.MethodHandle, [.. instantiation.Select(t => t.TypeHandle)]); }
        }
        catch (Exception)
        {
            // Not for this machine, or not by itself: whatever it is, it comes again when somebody calls it.
        }
    }
}

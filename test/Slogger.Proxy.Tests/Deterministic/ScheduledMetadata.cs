// The metadata of a process, seen through a network: a call comes to the database when the schedule says so, and its answer comes back when
// the schedule says so, or never does.
using System.Reflection;
using Slogger.Metadata;

namespace Slogger.Proxy.Tests.Deterministic;

/// <summary>A call under way.</summary>
internal sealed class MetadataCall(string name, Action perform, Action answer, Action lose)
{
    public string Name => name;

    public bool IsPerformed { get; private set; }

    /// <summary>The database does it. The schedule's thread.</summary>
    public void Perform()
    {
        IsPerformed = true;
        perform();
    }

    /// <summary>The process gets the answer.</summary>
    public void Answer() => answer();

    /// <summary>The process is told that the connection broke.</summary>
    public void Lose() => lose();
}

/// <summary>Hands each call to the schedule. What answers it is a real store over SQLite.</summary>
internal class ScheduledMetadata : DispatchProxy
{
    private static readonly MethodInfo s_call =
        typeof(ScheduledMetadata).GetMethod(nameof(Call), BindingFlags.NonPublic | BindingFlags.Instance)!;
    private IMetadataStore _store = null!;
    private Action<MetadataCall> _schedule = null!;

    /// <summary>The metadata as one process has it.</summary>
    public static IMetadataStore For(IMetadataStore store, Action<MetadataCall> schedule)
    {
        IMetadataStore seen = Create<IMetadataStore, ScheduledMetadata>();
        (((ScheduledMetadata)seen)._store, ((ScheduledMetadata)seen)._schedule) = (store, schedule);
        return seen;
    }

    protected override object? Invoke(MethodInfo? targetMethod, object?[]? args)
    {
        Type type = targetMethod!.ReturnType;
        if (type == typeof(string)) { return _store.Description; }
        if (type == typeof(ValueTask)) { return ValueTask.CompletedTask; }
        Type result = type == typeof(Task) ? typeof(bool) : type.GetGenericArguments()[0];
        return s_call.MakeGenericMethod(result).Invoke(this, [targetMethod, args]);
    }

    private Task<T> Call<T>(MethodInfo method, object?[] arguments)
    {
        var stop = (CancellationToken)arguments[^1]!;
        var done = new TaskCompletionSource<T>(TaskCreationOptions.RunContinuationsAsynchronously);
        Task? performed = null;
        // The database does not know whether who has asked still lives.
        arguments[^1] = CancellationToken.None;
        _schedule(new(
            method.Name,
            () =>
            {
                performed = (Task)method.Invoke(_store, arguments)!;
                ((IAsyncResult)performed).AsyncWaitHandle.WaitOne();
            },
            () =>
            {
                if (performed!.Exception?.InnerException is { } failure) { done.TrySetException(failure); }
                else { done.TrySetResult(performed is Task<T> answered ? answered.Result : default!); }
            },
            () => done.TrySetException(new MetadataUnavailableException("simulated: the connection broke"))));
        stop.Register(() => done.TrySetCanceled(stop));
        return done.Task;
    }
}

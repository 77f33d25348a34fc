// Whether a shard goes on: what ends it, why it has failed, and the tasks that run until then.
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Shards;

/// <summary>From the start of a shard to its end. Any thread.</summary>
internal sealed class ShardLifetime(ServeOptions options, StoreAccess access, ILogger report) : IDisposable
{
    private static readonly TimeSpan AttentionPeriod = TimeSpan.FromSeconds(1);
    private readonly SemaphoreSlim _attention = new(0, 1);
    private readonly TaskCompletionSource<ProxyExit> _failure = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private volatile string _state = "starting";
    private volatile bool _isStopping;
    private volatile bool _isBroken;

    /// <summary>Cancelled when the shard ends, with all that it runs.</summary>
    public CancellationTokenSource Ending { get; } = new();

    /// <summary>Its token.</summary>
    public CancellationToken End => Ending.Token;

    /// <summary>Whether an ordered end is under way.</summary>
    public bool IsStopping => _isStopping;

    /// <summary>Whether nothing can be promised any more.</summary>
    public bool IsBroken => _isBroken;

    /// <summary>Whether the store runs on when the shard ends: the process begins another one with it.</summary>
    public bool KeepsStore { get; set; }

    /// <summary>Completes when the shard cannot go on.</summary>
    public Task<ProxyExit> Failure => _failure.Task;

    /// <summary>Whether it cannot.</summary>
    public bool HasFailed => _failure.Task.IsCompleted;

    /// <summary>What it does, for people.</summary>
    public string State
    {
        get => _state;
        set => _state = value;
    }

    /// <summary>The ordered end begins.</summary>
    public void BeginStop()
    {
        _isStopping = true;
        _state = "stopping";
    }

    /// <summary>The shard cannot go on. False if that was known already.</summary>
    public bool Fail(ProxyExit exit)
    {
        // For good: a recovery under way must not open it again.
        access.Shut();
        return _failure.TrySetResult(exit);
    }

    /// <summary>Nothing can be promised any more: better no process than one that commits wrongly.</summary>
    public void Fatal(string what)
    {
        if (options.IsRehearsal)
        {
            Fail(ProxyExit.Failed(what, "report this"));
            return;
        }
        report.Error($"{what} The proxy stops at once, so that nothing is reported as committed that may not be; start it again, "
            + "and report this.");
        // The end of the process waits for the log, whose reader may be slow. Clients do not hear anything meanwhile.
        _isBroken = true;
        access.Loop?.Halt();
        Environment.Exit(70);
    }

    /// <summary>Runs something until the end. Nobody would miss a task that ends by a mistake of this program: commits would cease without
    /// a word. So the shard fails.</summary>
    public Task Work(string what, Func<CancellationToken, Task> work) => Task.Run(
        async () =>
        {
            try
            {
                await work(Ending.Token).ConfigureAwait(false);
            }
            catch (Exception e) when (!Ending.IsCancellationRequested)
            {
                Fail(ProxyExit.Failed($"shard {options.Shard}: {what} failed: {e}", "start it again, and report this"));
            }
        },
        CancellationToken.None);

    /// <summary>The store may be lost.</summary>
    public void Suspect(string reason)
    {
        if (Ending.IsCancellationRequested) { return; }
        access.Suspect(reason);
        Wake();
    }

    /// <summary>Has the control task look at what there is to do.</summary>
    public void Wake()
    {
        try
        {
            _attention.Release();
        }
        catch (SemaphoreFullException)
        {
            // Already awake.
        }
    }

    /// <summary>Returns when there may be something to do, and after a second at the latest. The control task.</summary>
    public Task AttentionAsync(CancellationToken stop) => _attention.WaitAsync(AttentionPeriod, stop);

    public void Dispose()
    {
        Ending.Dispose();
        _attention.Dispose();
    }
}

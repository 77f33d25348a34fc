// A session over the network (Slogger.Client) of the tests of co-location: it takes the same steps as those in the shard's process, and
// looks at their counters. Ends when its shard is gone.
using System.Globalization;
using Slogger.Client;
using Slogger.Resp;

namespace Slogger.Integration.Tests.Embedded;

internal sealed class HostingSession(string worker, string other, long steps)
{
    private const int CommitPeriod = 20;
    private readonly List<(long Step, Task Committed)> _waits = [];
    private readonly TaskCompletionSource _committing = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public string Name => worker;

    /// <summary>Completes when something of it was committed, or it has ended.</summary>
    public Task Committing => _committing.Task;

    /// <summary>The last step that was begun.</summary>
    public long Begun { get; private set; } = steps;

    /// <summary>The last step that was said to be committed; once the session has ended.</summary>
    public long Committed => _waits.Where(w => w.Committed.IsCompletedSuccessfully).Select(w => w.Step).DefaultIfEmpty(0).Max();

    public async Task RunAsync(int port)
    {
        try
        {
            await using SloggerClient client = await SloggerClient.ConnectAsync(
                new SloggerClientOptions { Endpoints = [string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}")],
                    GiveUpAfter = TimeSpan.FromSeconds(1) });
            await using SloggerSession session = client.OpenSession();
            while (true)
            {
                await StepAsync(session, ++Begun);
                if (Begun % CommitPeriod != 0) { continue; }
                Task committed = session.WaitForCommitAsync();
                _waits.Add((Begun, committed));
                if (_waits.Count > 1 && _waits[0].Committed.IsCompletedSuccessfully) { _committing.TrySetResult(); }
            }
        }
        catch (SloggerException)
        {
            // The shard is gone.
        }
        finally
        {
            _committing.TrySetResult();
        }

        foreach ((_, Task committed) in _waits) { await committed.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing); }
    }

    private async Task StepAsync(SloggerSession session, long n)
    {
        Step step = HostingWorkload.StepOf(worker, n);
        Argument key = HostingWorkload.Key(worker, step.Key);
        Task change = step.Kind switch
        {
            StepKind.Set => session.SetAsync(key, step.Value).AsTask(),
            StepKind.SetForATime => session.SetAsync(key, step.Value, HostingWorkload.Life).AsTask(),
            StepKind.Delete => session.DeleteAsync(key).AsTask(),
            StepKind.Increment => session.IncrementAsync(key, step.By).AsTask(),
            StepKind.Expire => session.ExpireAsync(key, HostingWorkload.Life).AsTask(),
            _ => session.ExecuteAsync("PERSIST", key).AsTask(),
        };
        Task<Result<long>> count = session.IncrementAsync(HostingWorkload.Counter(worker)).AsTask();
        Task<Result<string?>>? look = HostingWorkload.Looks(n) ? session.GetAsync(HostingWorkload.Counter(other)).AsTask() : null;
        try
        {
            await change;
        }
        catch (RedisErrorException e) when (e.Message.Contains("not an integer", StringComparison.Ordinal))
        {
            // As the model has it.
        }

        if ((await count).Value != n) { throw new InvalidOperationException($"the counter of {worker} is not {n}"); }
        if (look is not null && (await look).Value is { } saw) { await session.SetAsync(HostingWorkload.Saw(worker), saw); }
        await session.IncrementAsync(HostingWorkload.Shared);
    }
}

// Keeps apart the processes that own a shard one after the other, where their Redis lives on (I6). Who takes the shard, takes an epoch in
// SQL, and then has Redis close every connection; from then on nothing is executed that an older process has sent. An older process
// that sleeps, or is cut off, has to find that out before it sends anything more:
//
//   A connection to Redis may change something only if, after Redis has answered on it, this process was found to own the shard.
//
// Whoever takes the shard after that closes the connection. SQL need not be asked for each: one connection, the guard, has been found so,
// and as long as it lives nobody has taken the shard. A guard that does not answer is replaced, by one that SQL is asked for again.
using System.Diagnostics;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Stores;

/// <summary>The fence around a shard's store. Any thread.</summary>
/// <param name="store">Where the store is now.</param>
/// <param name="seat">The shard's place in the metadata, with the epoch that this process has taken.</param>
/// <param name="report">Told when the processes before this one cannot be shut out.</param>
/// <param name="deposed">Called with the new owner when another process has taken the shard.</param>
internal sealed class StoreFence(Func<RedisEndpoint> store, ClusterSeat seat, ILogger report, Action<string> deposed) : IDisposable
{
    private static readonly TimeSpan AnswerLimit = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan SqlLimit = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan KeepPeriod = TimeSpan.FromSeconds(1);
    private long _keptAt;
    private readonly SemaphoreSlim _turn = new(1, 1);
    private RedisConnection? _guard;

    /// <summary>The store, for what changes something there: a connection to it is proved before it is used.</summary>
    public RedisEndpoint Endpoint => store() with { Admission = ProveAsync };

    /// <summary>Whether whoever had the shard before is shut out.</summary>
    public bool HasShutOut { get; private set; }

    /// <summary>Shuts out whoever had the shard before. Once; before the store is looked at.</summary>
    /// <exception cref="RedisException">The store cannot be reached, or another process has the shard by now.</exception>
    public async Task ShutOutAsync(CancellationToken stop)
    {
        await _turn.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            if (!HasShutOut) { await RenewAsync(isPatient: true, stop).ConfigureAwait(false); }
        }
        finally
        {
            _turn.Release();
        }
    }

    /// <summary>Connections on which Redis has answered before this was called may be used when it returns. Waits for the metadata only
    /// if the guard is gone.</summary>
    /// <exception cref="RedisException">They may not: the store cannot be reached, or another process has the shard.</exception>
    public async Task ProveAsync(CancellationToken stop)
    {
        await _turn.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            if (!await GuardLivesAsync().ConfigureAwait(false)) { await RenewAsync(isPatient: false, stop).ConfigureAwait(false); }
        }
        finally
        {
            _turn.Release();
        }
    }

    /// <summary>Keeps the guard, or finds another while the metadata can be asked: it would be missed when that is away. Now and
    /// then.</summary>
    public async Task KeepAsync(CancellationToken stop)
    {
        if (!HasShutOut || Stopwatch.GetElapsedTime(_keptAt) < KeepPeriod || !await _turn.WaitAsync(0, stop).ConfigureAwait(false))
        {
            return;
        }
        try
        {
            if (!await GuardLivesAsync().ConfigureAwait(false)) { await RenewAsync(isPatient: false, stop).ConfigureAwait(false); }
        }
        catch (RedisException)
        {
            // Next time, or by whoever needs it.
        }
        finally
        {
            _keptAt = Stopwatch.GetTimestamp();
            _turn.Release();
        }
    }

    // Whoever asks may give up: the guard is everybody's, and a command that is broken off ends it.
    private async Task<bool> GuardLivesAsync()
    {
        if (_guard is not { } guard || guard.Endpoint != store()) { return false; }
        try
        {
            // Any answer will do: a busy script's, or a refusal.
            await guard.CommandAsync(["PING"], CancellationToken.None).ConfigureAwait(false);
            return true;
        }
        catch (RedisException)
        {
            return false;
        }
    }

    private async Task RenewAsync(bool isPatient, CancellationToken stop)
    {
        if (_guard is { } old) { await old.DisposeAsync().ConfigureAwait(false); }
        _guard = null;
        RedisConnection guard = await RedisConnection.ConnectOnceAsync(store(), AnswerLimit, stop).ConfigureAwait(false);
        try
        {
            await guard.CommandAsync(["PING"], stop).ConfigureAwait(false);
            if (!HasShutOut) { await CloseConnectionsAsync(guard, stop).ConfigureAwait(false); }
            (long epoch, string owner) = await (isPatient ? seat.OwnerAsync(stop) : OwnerAsync(stop)).ConfigureAwait(false);
            if (epoch != seat.Epoch)
            {
                deposed(owner);
                throw new RedisException(RedisProblem.Closed, $"shard {seat.Shard} has been taken by another process ({owner})");
            }
            _guard = guard;
        }
        catch
        {
            await guard.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    // Not for ever: others wait for their turn, and the guard may be found to live when it is theirs.
    private async Task<(long Epoch, string Name)> OwnerAsync(CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(SqlLimit);
        try
        {
            return await seat.OwnerAsync(limit.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            throw new RedisException(
                RedisProblem.NotNow, $"shard {seat.Shard}: the metadata does not say whether the shard is still this proxy's");
        }
    }

    // All but the guard, of whomever: whose a connection is cannot be told, since clients give theirs users and names of their own. At one
    // stroke, or one could change its type between two.
    private async Task CloseConnectionsAsync(RedisConnection guard, CancellationToken stop)
    {
        if (seat.Epoch > 1)
        {
            RedisReply reply = await guard.CommandAsync(["CLIENT", "KILL", "SKIPME", "yes"], stop).ConfigureAwait(false);
            if (reply.IsError)
            {
                RedisProblem problem = RedisProblems.Classify(reply.Text);
                if (problem.IsTransient())
                {
                    throw new RedisException(problem, $"Redis does not close the connections of the proxy before this one: {reply.Text}");
                }
                report.Warn($"shard {seat.Shard}: requests of the proxy before this one may still be executed, since Redis does not "
                    + $"close its connections ({reply.Text}): make sure that it has ended. Allow the proxy's user +client|kill");
            }
        }
        HasShutOut = true;
    }

    public void Dispose()
    {
        _guard?.DisposeAsync().AsTask().Wait();
        _turn.Dispose();
    }
}

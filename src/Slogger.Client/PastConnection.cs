// A connection of a view of the past to one shard. It is no part of any session: what is asked on it is in no version. So each question can
// be asked again, and a connection that broke is made anew for the next one.
using Slogger.Client.Wire;
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>Asks one question after the other. Any thread.</summary>
internal sealed class PastConnection(SloggerClient client, Address address) : IDisposable
{
    private readonly SemaphoreSlim _turn = new(1, 1);
    private readonly Lock _gate = new();
    private RespChannel? _channel;
    private bool _isDisposed;

    /// <summary>Asks, and does so once.</summary>
    /// <returns>The bytes of the reply.</returns>
    /// <exception cref="ObjectDisposedException">The view has been closed.</exception>
    public Task<byte[]> AskAsync(Argument[] request, CancellationToken cancellation) => UseAsync(async channel =>
    {
        await channel.Write(request).SendAsync(cancellation).ConfigureAwait(false);
        return await channel.ReadRawAsync(cancellation).ConfigureAwait(false);
    }, cancellation);

    /// <summary>Asks whether a world-line goes on, and does so once.</summary>
    /// <returns>Where it was left; null: it goes on.</returns>
    public async Task<Branch?> BranchOfAsync(Core.WorldLines.WorldLine line, CancellationToken cancellation)
    {
        try
        {
            await UseAsync(channel => Probe.SendAsync(channel, client.NextProbe(line, default), cancellation), cancellation)
                .ConfigureAwait(false);
            return null;
        }
        catch (RefusedException refused) when (refused.Branch is { } branch)
        {
            return branch;
        }
    }

    public void Dispose()
    {
        lock (_gate)
        {
            _isDisposed = true;
            _channel?.Dispose();
        }
    }

    private async Task<T> UseAsync<T>(Func<RespChannel, Task<T>> use, CancellationToken cancellation)
    {
        await _turn.WaitAsync(cancellation).ConfigureAwait(false);
        try
        {
            return await use(await OpenAsync(cancellation).ConfigureAwait(false)).ConfigureAwait(false);
        }
        catch
        {
            // Half of a question, or of an answer, may be on it.
            lock (_gate)
            {
                _channel?.Dispose();
                _channel = null;
                ObjectDisposedException.ThrowIf(_isDisposed, typeof(PastView));
            }

            throw;
        }
        finally
        {
            _turn.Release();
        }
    }

    private async Task<RespChannel> OpenAsync(CancellationToken cancellation)
    {
        if (_channel is { } open) { return open; }
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        limit.CancelAfter(client.Options.ConnectTimeout);
        RespChannel? channel = null;
        try
        {
            channel = await client.Discovery.OpenAsync(address, limit.Token).ConfigureAwait(false);
            Hello hello = await client.Discovery.AskAsync(channel, limit.Token).ConfigureAwait(false);
            client.Discovery.CheckCluster(hello, address.ToString());
            lock (_gate)
            {
                ObjectDisposedException.ThrowIf(_isDisposed, typeof(PastView));
                _channel = channel;
            }

            Telemetry.Connections.Add(1);
            return channel;
        }
        catch (Exception e)
        {
            channel?.Dispose();
            if (e is OperationCanceledException && !cancellation.IsCancellationRequested)
            {
                throw new IOException($"no connection within {client.Options.ConnectTimeout.TotalSeconds:0.#} s", e);
            }

            throw;
        }
    }
}

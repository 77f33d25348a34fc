// Keeps the store's one connection: runs one call at a time on it, turns the provider's exceptions into the store's, and
// replaces the connection when it fails. Reconnecting goes on in the background with growing pauses; until it succeeds
// callers fail at once instead of each waiting for a dead server.
using System.Data.Common;

namespace Slogger.Metadata.Sql;

internal sealed class ConnectionKeeper(SqlDialect dialect, MetadataStoreOptions options) : IAsyncDisposable
{
    private const int ConflictAttemptsMax = 5;

    private readonly SemaphoreSlim gate = new(1, 1);
    private readonly CancellationTokenSource closing = new();
    private SqlSession? session;
    private Task reconnecting = Task.CompletedTask;
    private int waiting;

    // Why there is no connection; null when there is one, or none was tried yet. Written under the gate.
    private volatile MetadataUnavailableException? down;

    /// <summary>Runs work on the connection, opening it if this is the first call.</summary>
    public async Task<T> RunAsync<T>(Func<SqlSession, Task<T>> work, CancellationToken cancellation)
    {
        ObjectDisposedException.ThrowIf(closing.IsCancellationRequested, typeof(IMetadataStore));
        FailWhileDown();
        if (Interlocked.Increment(ref waiting) > options.WaitingCallsMax)
        {
            Interlocked.Decrement(ref waiting);
            throw new MetadataUnavailableException(
                $"More than {options.WaitingCallsMax} calls wait for the metadata database {dialect.Description}: it is too slow.");
        }

        try
        {
            await gate.WaitAsync(cancellation).ConfigureAwait(false);
        }
        finally
        {
            Interlocked.Decrement(ref waiting);
        }

        try
        {
            ObjectDisposedException.ThrowIf(closing.IsCancellationRequested, typeof(IMetadataStore));
            FailWhileDown();
            return dialect.IsSynchronous
                ? await Task.Run(() => RunHeldAsync(work, cancellation), cancellation).ConfigureAwait(false)
                : await RunHeldAsync(work, cancellation).ConfigureAwait(false);
        }
        finally
        {
            gate.Release();
        }
    }

    private void FailWhileDown()
    {
        if (down is { } reason)
        {
            // A new exception for each caller: a thrown one carries its thrower's stack.
            throw new MetadataUnavailableException(reason.Message, reason.InnerException);
        }
    }

    private async Task<T> RunHeldAsync<T>(Func<SqlSession, Task<T>> work, CancellationToken cancellation)
    {
        for (int attempt = 1; ; attempt++)
        {
            try
            {
                session ??= await SqlSession.OpenAsync(dialect, cancellation).ConfigureAwait(false);
                return await work(session).ConfigureAwait(false);
            }
            catch (Exception exception) when (!cancellation.IsCancellationRequested && IsDatabaseFailure(exception))
            {
                SqlFailure failure = Classify(exception);
                if (failure.Kind == FailureKind.Conflict && attempt < ConflictAttemptsMax)
                {
                    await DropIfBrokenAsync().ConfigureAwait(false);
                    continue;
                }

                throw await FailAsync(exception, failure).ConfigureAwait(false);
            }
            catch (Exception exception)
            {
                // Refusals of the work itself, and cancellation, for which the provider may have had to break the connection:
                // the next call opens another.
                await DropIfBrokenAsync().ConfigureAwait(false);
                if (cancellation.IsCancellationRequested && IsDatabaseFailure(exception))
                {
                    // Providers say it in their own ways; none of those texts is for callers.
                    throw new OperationCanceledException(cancellation);
                }

                throw;
            }
        }
    }

    // InvalidOperationException and its kin come from providers whose connection breaks under a command; with a good
    // connection they are bugs, and not hidden.
    private bool IsDatabaseFailure(Exception exception) =>
        exception is DbException or IOException or System.Net.Sockets.SocketException or TimeoutException
        || (exception is InvalidOperationException or OperationCanceledException && session is not { IsOpen: true });

    private SqlFailure Classify(Exception exception)
    {
        SqlFailure failure = exception is InvalidOperationException or OperationCanceledException
            ? new(FailureKind.ConnectionLost, string.Empty)
            : dialect.Classify(exception);

        // Whatever the database said, a connection that was good and is gone is worth another. One that could not be opened
        // at all is as permanent as the dialect says.
        bool lost = session is { IsOpen: false } || (session is { IsGood: false } && failure.Kind == FailureKind.Unavailable);
        return lost ? failure with { Kind = FailureKind.ConnectionLost } : failure;
    }

    private async Task<MetadataException> FailAsync(Exception exception, SqlFailure failure)
    {
        string reason = Describe(exception);
        string advice = failure.Advice.Length == 0 ? string.Empty : " " + failure.Advice;
        Exception? inner = dialect.Inner(exception);
        switch (failure.Kind)
        {
            case FailureKind.Permanent:
                await DropAsync().ConfigureAwait(false);
                return new MetadataException($"The metadata database {dialect.Description} refuses: {reason}{advice}", inner);
            case FailureKind.ConnectionLost:
                await DropAsync().ConfigureAwait(false);
                MetadataUnavailableException unavailable = new(
                    $"The metadata database {dialect.Description} cannot be used: {reason}{advice}", inner);
                down = unavailable;
                reconnecting = Task.Run(ReconnectAsync);
                return unavailable;
            default:
                await DropIfBrokenAsync().ConfigureAwait(false);
                return new MetadataUnavailableException(
                    $"The metadata database {dialect.Description} cannot do this now: {reason}{advice}", inner);
        }
    }

    // The outer message of a network failure says little; its innermost one says which address refused.
    private string Describe(Exception exception)
    {
        string outer = exception.Message.Trim();
        string innermost = exception.GetBaseException().Message.Trim();
        string text = outer.Contains(innermost, StringComparison.Ordinal) ? outer : $"{outer} ({innermost})";
        text = dialect.Redact(text);
        return text.EndsWith('.') ? text : text + ".";
    }

    private async Task ReconnectAsync()
    {
        TimeSpan delay = options.ReconnectDelayMin;
        while (!closing.IsCancellationRequested)
        {
            try
            {
                // Jitter keeps many proxies from coming back in step.
                await Task.Delay(delay * (0.75 + (Random.Shared.NextDouble() / 2)), closing.Token).ConfigureAwait(false);
                SqlSession fresh = await SqlSession.OpenAsync(dialect, closing.Token).ConfigureAwait(false);
                await gate.WaitAsync().ConfigureAwait(false);
                try
                {
                    session = fresh;
                    down = null;
                }
                finally
                {
                    gate.Release();
                }

                return;
            }
            catch (OperationCanceledException) when (closing.IsCancellationRequested)
            {
                return;
            }
            catch (Exception exception)
            {
                // Of any kind: what worked once is worth trying for as long as someone wants it, and callers see the reason.
                string reason = exception is MetadataException ? exception.Message : Describe(exception);
                down = new MetadataUnavailableException(
                    $"The metadata database {dialect.Description} cannot be used: {reason}", dialect.Inner(exception));
                delay = delay * 2 < options.ReconnectDelayMax ? delay * 2 : options.ReconnectDelayMax;
            }
        }
    }

    private Task DropIfBrokenAsync() => session is { IsGood: false } ? DropAsync() : Task.CompletedTask;

    private async Task DropAsync()
    {
        SqlSession? old = session;
        session = null;
        if (old is null)
        {
            return;
        }

        try
        {
            await old.DisposeAsync().ConfigureAwait(false);
        }
        catch (Exception exception) when (IsDatabaseFailure(exception))
        {
            // Closing what is broken may fail; it is gone either way.
        }
    }

    public async ValueTask DisposeAsync()
    {
        if (closing.IsCancellationRequested)
        {
            return;
        }

        await closing.CancelAsync().ConfigureAwait(false);
        await reconnecting.ConfigureAwait(false);
        await gate.WaitAsync().ConfigureAwait(false);
        try
        {
            await DropAsync().ConfigureAwait(false);
        }
        finally
        {
            gate.Release();
        }
    }
}

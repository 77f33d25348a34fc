// A Redis with default settings waits 5 s (repl-diskless-sync-delay) for further replicas before it begins a full
// synchronisation. Where CONFIG SET is allowed that wait is turned off for the moment of attaching, and then put back.
using Slogger.Redis.Connections;

namespace Slogger.Redis.Replication;

/// <summary>Attaches and fetches without Redis's diskless synchronisation delay. Where it may not be changed, it is waited out.</summary>
public static class QuickAttach
{
    private static readonly Dictionary<string, string> NoDelay = new() { ["repl-diskless-sync-delay"] = "0" };

    /// <summary>As <see cref="ReplicationLink.AttachAsync"/>.</summary>
    /// <param name="control">A control connection to the same Redis.</param>
    /// <param name="link">A fresh link.</param>
    /// <param name="request">How to attach.</param>
    /// <param name="undoFile">Keeps the setting to return to, should the proxy die meanwhile; null: nothing does.</param>
    /// <param name="cancellation">Gives up.</param>
    public static Task<AttachResult> AttachAsync(RedisConnection control, ReplicationLink link, AttachRequest request,
        string? undoFile = null, CancellationToken cancellation = default) =>
        RunAsync<AttachResult>(control, undoFile, () => link.AttachAsync(request, cancellation),
            e => new AttachResult.Failed(e.Problem, e.Message), cancellation);

    /// <summary>As <see cref="CheckpointFetcher.FetchAsync"/>.</summary>
    public static Task<CheckpointResult> FetchAsync(RedisConnection control, string path, string? undoFile = null,
        TimeSpan? silenceMax = null, CancellationToken cancellation = default, Action? onTaken = null) =>
        RunAsync<CheckpointResult>(control, undoFile, () =>
            CheckpointFetcher.FetchAsync(control.Endpoint, path, silenceMax, cancellation, onTaken),
            e => new CheckpointResult.Failed(e.Problem, e.Message), cancellation);

    private static async Task<T> RunAsync<T>(RedisConnection control, string? undoFile, Func<Task<T>> act,
        Func<RedisException, T> failed, CancellationToken cancellation)
    {
        ConfigScope scope;
        try
        {
            scope = await ConfigScope.EnterAsync(control, NoDelay, undoFile, cancellation).ConfigureAwait(false);
        }
        catch (RedisException e)
        {
            return failed(e);
        }
        try
        {
            return await act().ConfigureAwait(false);
        }
        finally
        {
            try
            {
                await scope.LeaveAsync(control, CancellationToken.None).ConfigureAwait(false);
            }
            catch (RedisException)
            {
                // Redis is gone, and the setting with it; or the undo file stays.
            }
        }
    }
}

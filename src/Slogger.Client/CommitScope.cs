// Commits for applications that keep their own Redis client (StackExchange.Redis or any other) and send plain commands through the
// proxies. A scope asks every shard by a session of its own, beside that client's connections: a PING at each shard has
// a version no lower than all that the shard has answered before, to anybody; when the PINGs are committed, so is that. And as a
// session lives in one world-line, PINGs of the same one before and after say that there was no rollback in between. That holds with
// every finder: a cut takes of each shard all versions up to one. Order between shards is another matter, see the type.
using Slogger.Core.WorldLines;

namespace Slogger.Client;

/// <summary>A stretch of work done by another Redis client, whose commit can be waited for. Made by
/// <see cref="SloggerClient.BeginScopeAsync"/>. Thread-safe.</summary>
/// <remarks>With the finders exact and hybrid a commit means the same, but a rollback may keep a later call of the other client and lose
/// an earlier one at another shard: plain calls do not say what was seen before them. Sessions do.</remarks>
public sealed class CommitScope : IAsyncDisposable
{
    private readonly SloggerSession _session;

    private CommitScope(SloggerSession session, WorldLine line) => (_session, WorldLine) = (session, line);

    /// <summary>The timeline in which it began.</summary>
    public WorldLine WorldLine { get; }

    internal static async Task<CommitScope> BeginAsync(SloggerSession session, CancellationToken cancellation)
    {
        while (true)
        {
            try
            {
                WorldLine line = session.WorldLine;
                await session.PingAllAsync(cancellation).ConfigureAwait(false);
                if (session.WorldLine == line) { return new(session, line); }
            }
            catch (RollbackException rollback)
            {
                // It was over before it began.
                session.Resume(rollback);
            }
        }
    }

    /// <summary>Waits until everything that any shard of the cluster had answered before this call, to this process or another, is
    /// committed. To be called after the other client's calls have been awaited.</summary>
    /// <param name="cancellation">Ends the wait.</param>
    /// <exception cref="ScopeRolledBackException">There was a rollback since the scope began: some of what was done in it may be lost.
    /// Look at what is there, do it again if need be, in a new scope.</exception>
    /// <exception cref="SloggerException">A shard cannot be reached, or broke its connection. The scope goes on: wait again.</exception>
    public async Task WaitForCommitAsync(CancellationToken cancellation = default)
    {
        try
        {
            if (_session.WorldLine == WorldLine)
            {
                await _session.PingAllAsync(cancellation).ConfigureAwait(false);
                await _session.WaitForCommitAsync(cancellation).ConfigureAwait(false);
            }
        }
        catch (RollbackException)
        {
            // Said below, whether the session itself has lost something or not.
        }

        if (_session.WorldLine != WorldLine) { throw new ScopeRolledBackException(WorldLine, _session.WorldLine); }
    }

    /// <summary>Ends the scope. Nothing is waited for.</summary>
    public ValueTask DisposeAsync() => _session.DisposeAsync();
}

/// <summary>The cluster was rolled back during a <see cref="CommitScope"/>.</summary>
public sealed class ScopeRolledBackException : SloggerException
{
    internal ScopeRolledBackException(WorldLine abandoned, WorldLine worldLine)
        : base($"The cluster went from world-line {abandoned} to {worldLine} since the scope began: what was done in it may be lost, as "
            + "far as it was not committed. Look at what is there, and go on in a new scope.") =>
        (Abandoned, WorldLine) = (abandoned, worldLine);

    /// <summary>The timeline that is over.</summary>
    public WorldLine Abandoned { get; }

    /// <summary>The present one.</summary>
    public WorldLine WorldLine { get; }
}

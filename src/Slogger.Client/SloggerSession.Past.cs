// Views of the past. They are no operations of the session: what is read there has no number, and waits for nothing that is under way.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client;

public sealed partial class SloggerSession
{
    /// <summary>Shows what was there at a time: at the end of the last version that had ended then, by the cluster's clock, at all
    /// shards.</summary>
    /// <param name="time">The time.</param>
    /// <param name="cancellation">Gives up.</param>
    /// <exception cref="PastNotKeptException">That is further back than the shards keep.</exception>
    /// <exception cref="PastNotClosedException">That is in the future, or was not committed within 10 s.</exception>
    /// <exception cref="PastException">A shard cannot show its past: the message says why.</exception>
    /// <exception cref="SloggerException">A shard could not be asked.</exception>
    /// <exception cref="RollbackException">The session was rolled back.</exception>
    public Task<PastView> AsOfAsync(DateTimeOffset time, CancellationToken cancellation = default)
    {
        long milliseconds = time.ToUnixTimeMilliseconds();
        ArgumentOutOfRangeException.ThrowIfNegative(milliseconds, nameof(time));
        return ViewAsync("TIME", milliseconds, null, cancellation);
    }

    /// <summary>Shows what was there so long ago, as <see cref="AsOfAsync(DateTimeOffset, CancellationToken)"/>. Zero: now, with all that
    /// any shard has answered before, to anybody; that is waited for until it is committed.</summary>
    /// <param name="ago">How long ago, in whole milliseconds.</param>
    /// <param name="cancellation">Gives up.</param>
    public Task<PastView> AsOfAsync(TimeSpan ago, CancellationToken cancellation = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(ago, TimeSpan.Zero);
        return ViewAsync("AGO", (long)ago.TotalMilliseconds, null, cancellation);
    }

    /// <summary>Shows what was there at the end of a version, as <see cref="AsOfAsync(DateTimeOffset, CancellationToken)"/>; or of the last
    /// one before it that all shards have closed. It is waited for until it is committed. An operation of that version is in it only if its
    /// shard has closed that version by itself, and not together with later ones.</summary>
    /// <param name="version">The version.</param>
    /// <param name="worldLine">The timeline that it is of; null: whichever has it now.</param>
    /// <param name="cancellation">Gives up.</param>
    /// <exception cref="PastVoidException">A recovery has taken back that version of that timeline.</exception>
    public Task<PastView> AsOfAsync(VersionNumber version, WorldLine? worldLine = null, CancellationToken cancellation = default)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(version.Number, nameof(version));
        return ViewAsync("VERSION", version.Number, worldLine, cancellation);
    }

    private Task<PastView> ViewAsync(string by, long number, WorldLine? line, CancellationToken cancellation)
    {
        ThrowIfClosed();
        return PastView.OpenAsync(_client, by, number, line, cancellation);
    }
}

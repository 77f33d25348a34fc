// The clock grid as a shard knows it. Others may change its interval while the shard runs: they propose a time, and it happens only if
// every shard has agreed. Who agrees ends no version beyond that time before it has read how it came out (GridFollower). So
// nobody goes by an old grid when another goes by the new one, and nobody is bound to anything while nothing is proposed.
namespace Slogger.Core.Versions;

/// <summary>The grid, and until when it is the grid.</summary>
/// <param name="Grid">The grid.</param>
/// <param name="ChangeUs">The change that is proposed: microseconds since the Unix epoch. 0: none.</param>
public sealed record GridView(VersionGrid Grid, long ChangeUs)
{
    /// <summary>No stretch that is not in the grid begins before. In microseconds since the Unix epoch.</summary>
    public long ValidUntilUs => ChangeUs == 0 ? long.MaxValue : ChangeUs;
}

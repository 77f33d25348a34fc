using Slogger.Core.Versions;

namespace Slogger.Core.Tests.Versions;

internal static class GridChanges
{
    /// <summary>The grid with another interval from the first grid point after a time on.</summary>
    public static VersionGrid WithInterval(this VersionGrid grid, long intervalUs, long afterUs) =>
        new(grid.Stretches.Add(grid.Stretches[^1].Successor(intervalUs, afterUs + 1)));
}

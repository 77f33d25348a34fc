// By which grids versions went that are followed: kept for the next process, and never replaced by what was told before.
using Slogger.Core.Versions;
using Slogger.Proxy.Shards;

namespace Slogger.Proxy.Tests.Shards;

public sealed class FollowedGridTests : IDisposable
{
    private static readonly VersionGrid s_first = VersionGrid.OfHistory([new(new(1), 1_000_000, 5000)]);
    private static readonly VersionGrid s_second = VersionGrid.OfHistory([new(new(1), 1_000_000, 5000), new(new(7), 9_000_000, 1000)]);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-grid-").FullName;

    [Fact]
    public void Note_TheNextProcessKnowsIt_AndALaterOneCounts()
    {
        var grid = new FollowedGrid(_directory);
        Assert.Null(grid.Grid);
        grid.Note(s_first);
        Assert.Equal(s_first.Stretches, new FollowedGrid(_directory).Grid!.Stretches);
        grid.Note(s_second);
        // Of a process that was replaced.
        grid.Note(s_first);
        Assert.Equal(s_second.Stretches, grid.Grid!.Stretches);
        Assert.Equal(s_second.Stretches, new FollowedGrid(_directory).Grid!.Stretches);
    }

    [Theory]
    [InlineData("")]
    [InlineData("x")]
    [InlineData("1 2")]
    [InlineData("1 1000000 5000\n1 1000000 5000\n")]
    [InlineData("99999999999999999999 1 1\n")]
    public void Open_WhatIsDamaged_SaysNothing_AndIsToldAgain(string text)
    {
        File.WriteAllText(Path.Combine(_directory, "followed-grid"), text);
        var grid = new FollowedGrid(_directory);
        Assert.Null(grid.Grid);
        grid.Note(s_first);
        Assert.Equal(s_first.Stretches, new FollowedGrid(_directory).Grid!.Stretches);
    }

    public void Dispose() => Directory.Delete(_directory, recursive: true);
}

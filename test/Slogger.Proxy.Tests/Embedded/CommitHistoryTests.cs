using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Proxy.Embedded;

namespace Slogger.Proxy.Tests.Embedded;

public sealed class CommitHistoryTests : IDisposable
{
    private static readonly WorldLine One = new(1), Two = new(2), Three = new(3);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-history-").FullName;
    private readonly List<CommitRecord> _commits = [];

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    [Fact]
    public void Extend_VersionsWithoutAnything_AreOfTheCommitBeforeThem()
    {
        CommitHistory history = Open();
        Commit(One, 8);
        Commit(One, 24);
        history.Extend(One, new(16));
        history.Extend(One, new(12)); // told late
        Assert.Equal((8, 16), At(history, One, 16));
        Assert.Equal((8, 12), At(history, One, 12));
        Assert.Equal((8, 16), At(history, One, 23));
        Assert.Equal((24, 24), At(history, One, long.MaxValue));
        Assert.Equal((8, 16), At(Open(), One, 16));
    }

    [Fact]
    public void Latest_AfterABranch_IsNothingThatWasTakenBack()
    {
        CommitHistory history = Open();
        Commit(One, 8);
        Commit(One, 16);
        history.Extend(One, new(20));
        Commit(One, 24);
        VersionNumber LastValid(WorldLine line) => line == One ? new(18) : new(long.MaxValue);
        // Nobody has noted yet that the line was entered.
        KeptState before = history.Latest(Two, LastValid, new(long.MaxValue))!.Value;
        Assert.Equal((One, 16L, 18L), (before.Line, before.Commit.Version.Number, before.Last.Number));
        history.Enter(Two, new(18), before.Commit);
        KeptState entered = Open().Latest(Two, LastValid, new(long.MaxValue))!.Value;
        Assert.Equal((Two, 16L, 18L), (entered.Line, entered.Commit.Version.Number, entered.Last.Number));
        // Versions without anything are of the line that was entered.
        history.Extend(Two, new(30));
        Assert.Equal((16, 30), At(history, Two, long.MaxValue, LastValid));
        Commit(Two, 40);
        Assert.Equal((40, 40), At(history, Two, long.MaxValue, LastValid));
        Assert.Equal((16, 30), At(history, Two, 39, LastValid));
        // The next line branches within them.
        VersionNumber LastValidInThree(WorldLine line) => line == One ? new(18) : new(25);
        Assert.Equal((16, 25), At(history, Three, long.MaxValue, LastValidInThree));
    }

    [Fact]
    public void OldestNeeded_IsTheCommitOfTheCut()
    {
        CommitHistory history = Open();
        Commit(One, 8);
        Commit(One, 16);
        Commit(One, 24);
        Assert.Equal(new WorldPoint(One, new(8)), history.OldestNeeded(new(One, new(15)), _ => default));
        Assert.Equal(new WorldPoint(One, new(16)), history.OldestNeeded(new(One, new(16)), _ => default));
        Assert.Null(history.OldestNeeded(new(One, new(7)), _ => default));
    }

    [Fact]
    public void Notes_OfCommitsThatAreGone_AreForgotten()
    {
        CommitHistory history = Open();
        Commit(One, 8);
        history.Extend(One, new(10));
        Commit(One, 16);
        _commits.RemoveAt(0);
        history.Extend(One, new(20));
        Assert.Equal((16, 20), At(Open(), One, long.MaxValue));
        Assert.Single(Open().All);
        // It is not noted for one of the same version that is made anew.
        _commits.Clear();
        Commit(One, 8);
        Assert.Equal((8, 8), At(Open(), One, long.MaxValue));
    }

    [Fact]
    public void DamagedNotes_AreAnError()
    {
        File.WriteAllText(Path.Combine(_directory, "states.json"), "[{");
        Assert.Throws<InvalidDataException>(() => Open());
    }

    private CommitHistory Open() => new(_directory, () => [.. _commits]);

    private void Commit(WorldLine line, long version) =>
        _commits.Add(new(Guid.NewGuid(), _commits.Count + 1, new(line, new(version)), 0, 0));

    // The commit, and the last version that it stands for.
    private static (long Commit, long Last) At(CommitHistory history, WorldLine line, long atMost,
        Func<WorldLine, VersionNumber>? lastValid = null)
    {
        KeptState state = history.Latest(line, lastValid ?? (_ => default), new(atMost))!.Value;
        return (state.Commit.Version.Number, state.Last.Number);
    }
}

// The checker itself: it has to find what is wrong.
namespace Slogger.Integration.Tests.Sites;

public sealed class SiteHistoryTests
{
    private readonly SiteHistory _history = new();

    [Fact]
    public void Flaw_APrefix_IsNone()
    {
        Pushed("a", 10, 20);
        Pushed("b", 30, 40);
        Assert.Null(Check(("a", 1), ("b", 0)));
        Assert.Null(Check(("a", 1), ("b", 1)));
        Assert.Null(Check(("a", 0), ("b", 0)));
    }

    [Fact]
    public void Flaw_LaterWithoutTheEarlier_IsFound()
    {
        Pushed("a", 10, 20);
        Pushed("b", 30, 40);
        Assert.Contains("(I4, I6)", Check(("a", 0), ("b", 1)), StringComparison.Ordinal);
    }

    [Fact]
    public void Flaw_OneOfTwoAtTheSameTime_IsNone()
    {
        Pushed("a", 10, 40);
        Pushed("b", 30, 50);
        Assert.Null(Check(("a", 0), ("b", 1)));
        Assert.Null(Check(("a", 1), ("b", 0)));
    }

    [Fact]
    public void Flaw_AReadHasPutThemInOrder_IsFound()
    {
        Pushed("a", 10, 90);
        Pushed("b", 10, 95);
        _history.Saw("a", 1, 20, 30);
        _history.Saw("b", 0, 40, 50);
        Assert.Contains("(I4, I6)", Check(("a", 0), ("b", 1)), StringComparison.Ordinal);
        Assert.Null(Check(("a", 1), ("b", 0)));
    }

    [Fact]
    public void Flaw_NotAnswered_MayBeMissing()
    {
        _ = _history.Begin("a", 10);
        Pushed("b", 30, 40);
        Assert.Null(Check(("a", 0), ("b", 1)));
    }

    [Fact]
    public void Flaw_HeldByTheBackupAndGone_IsFound()
    {
        Pushed("a", 10, 20);
        _history.Keep("a", 0);
        Assert.Contains("(I7)", Check(("a", 0)), StringComparison.Ordinal);
    }

    [Fact]
    public void Flaw_SeenAtTheBackupAndGone_IsFound()
    {
        Pushed("a", 10, 20);
        Assert.Contains("(I7)", _history.Flaw(new Dictionary<string, IReadOnlyList<int>>(), new Dictionary<string, int> { ["a"] = 1 }),
            StringComparison.Ordinal);
    }

    [Fact]
    public void Flaw_AHole_IsFound()
    {
        Pushed("a", 10, 20);
        Pushed("a", 30, 40);
        Assert.NotNull(_history.Flaw(new Dictionary<string, IReadOnlyList<int>> { ["a"] = [1] }, new Dictionary<string, int>()));
    }

    private void Pushed(string list, long from, long until) => _history.End(list, _history.Begin(list, from), until);

    private string? Check(params (string List, int Count)[] there) =>
        _history.Flaw(there.ToDictionary(t => t.List, t => (IReadOnlyList<int>)[.. Enumerable.Range(0, t.Count)]),
            new Dictionary<string, int>());
}

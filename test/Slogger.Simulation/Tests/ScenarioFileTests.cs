// The scenario files, one test for each, and what becomes of a file that is wrong.
using Slogger.Simulation.Scenarios;

namespace Slogger.Simulation.Tests;

public class ScenarioFileTests
{
    private const string Head = "# A title\n# What it shows,\n# and why it matters.\n\n";

    public static IEnumerable<TheoryDataRow<string>> Files() => ScenarioRun.Names().Select(name => new TheoryDataRow<string>(name));

    [Theory]
    [MemberData(nameof(Files))]
    public void Scenario_IsPlayed_HappensAsItSays(string name)
    {
        ScenarioFile file = ScenarioRun.Read(name);
        if (file.Difference(ScenarioRun.Play(file)) is { } difference)
            Assert.Fail($"{difference}\nIf that is as it should be: Slogger.Simulation --rewrite {name}");
    }

    [Fact]
    public void Scenarios_AreThere_AtLeastThirty() => Assert.True(ScenarioRun.Names().Length >= 30);

    // Few sentences, so that they are learned from a few files.
    [Fact]
    public void Language_EachSentence_IsUsed()
    {
        string[] steps = [.. ScenarioRun.Names().SelectMany(n => ScenarioRun.Read(n).Scenes).SelectMany(s => s.Steps).Select(s => s.Text)];
        Assert.Empty(Story.Unused(steps));
    }

    [Theory]
    [InlineData("shards 0 1\nclient a wirtes x=1 at shard 0\n----\n", "made up.txt:6: nothing is said like that")]
    [InlineData("shards 0 1\ntime passes until doomsday\n----\n", "made up.txt:6: nothing can be waited for like that")]
    [InlineData("client a writes x=1 at shard 0\n----\n", "made up.txt:5: that cannot be done now")]
    [InlineData("shards 0 1\nclient a writes x=1 at shard 7\n----\n", "made up.txt:6: that cannot be done now")]
    [InlineData("shards 0 1\ntime passes until world-line 2 begins\n----\n", "made up.txt:6: it does not come to that")]
    [InlineData("shards 0 1\n----\n\nagain, with the fault NoSuchThing\n----\n", "made up.txt:8: there is no fault NoSuchThing")]
    [InlineData("shards 0 1\n----\n\nagain, with the fault StoreNotFenced\n----\n", "made up.txt:8: no invariant is broken")]
    [InlineData("shards 0 1\n", "made up.txt:6: steps end with a line of four dashes")]
    public void Scenario_IsWrong_SaysInWhichLine(string text, string error)
    {
        ScenarioException e = Assert.Throws<ScenarioException>(() => ScenarioRun.Play(ScenarioFile.Parse("made up.txt", Head + text)));
        Assert.StartsWith(error, e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Scenario_HappensOtherwise_SaysWhatWasExpectedAndIsWrittenAnew()
    {
        ScenarioFile file = ScenarioFile.Parse("made up.txt", Head + "shards 0 1\n----\nthe cut is at version 9\nthe moon rises\n");
        IReadOnlyList<IReadOnlyList<string>> happened = ScenarioRun.Play(file);
        string difference = file.Difference(happened)!;
        Assert.Contains("expected: the moon rises", difference, StringComparison.Ordinal);
        Assert.Contains("happened: shards 0 1: serving in world-line 1", difference, StringComparison.Ordinal);
        ScenarioFile rewritten = ScenarioFile.Parse("made up.txt", file.With(happened));
        Assert.Null(rewritten.Difference(happened));
        Assert.StartsWith(Head + "shards 0 1\n----\n", file.With(happened), StringComparison.Ordinal);
    }
}

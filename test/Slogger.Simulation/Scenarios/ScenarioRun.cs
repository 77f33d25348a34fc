// Plays scenario files: each with several dice, which decide in what order the processes take their turns and must not matter, and again
// with the faults that it names, each of which must break an invariant.
using System.Runtime.CompilerServices;
using System.Text.RegularExpressions;
using Slogger.Core.Identities;

namespace Slogger.Simulation.Scenarios;

internal static partial class ScenarioRun
{
    // One is like the other in all that settings draw from a seed.
    private static readonly int[] Seeds = [1, 1 + 4620, 1 + (2 * 4620)];

    [GeneratedRegex("^again, with (?:the fault (?<fault>[\\w.]+)|the finder (?<finder>\\w+))(?: and the fault (?<other>[\\w.]+))?$")]
    private static partial Regex Again();

    /// <summary>The folder of the files.</summary>
    public static string Folder { get; } = Path.GetDirectoryName(ThisFile())!;

    public static ScenarioFile Read(string name) => ScenarioFile.Parse(name, File.ReadAllText(Path.Combine(Folder, name)));

    public static string[] Names() => !Directory.Exists(Folder) ? [] :
        [.. Directory.EnumerateFiles(Folder, "*.txt").Select(f => Path.GetFileName(f)).Order(StringComparer.Ordinal)];

    /// <summary>What happens, scene by scene.</summary>
    /// <exception cref="ScenarioException">A step cannot be done, an invariant is broken although all rules are on, or none although one is
    /// off.</exception>
    public static IReadOnlyList<IReadOnlyList<string>> Play(ScenarioFile file)
    {
        List<IReadOnlyList<string>>? first = null;
        foreach (int seed in Seeds)
        {
            List<IReadOnlyList<string>> happened = Play(file, seed);
            first ??= happened;
            for (int i = 0; i < first.Count; i++)
                if (first[i].Count == 0 && IsWithFault(file.Scenes[i])) first[i] = happened[i];
            for (int i = 0; i < first.Count; i++)
            {
                // Where a rule is off something is broken, now here, now there.
                if (first[i].SequenceEqual(happened[i]) || IsWithFault(file.Scenes[i])) continue;
                throw file.Scenes[i].Steps[0].Error("what happens here hangs on the order in which the processes take their turns:\n"
                    + $"{string.Join('\n', first[i])}\nor\n{string.Join('\n', happened[i])}");
            }
        }

        for (int i = 0; i < first!.Count; i++)
            if (first[i].Count == 0 && IsWithFault(file.Scenes[i]))
                throw file.Scenes[i].Steps[0].Error("no invariant is broken: nothing tells that this rule is off");
        return first;
    }

    private static bool IsWithFault(Scene scene) =>
        Again().Match(scene.Steps[0].Text) is { Success: true } again && (again.Groups["fault"].Success || again.Groups["other"].Success);

    private static List<IReadOnlyList<string>> Play(ScenarioFile file, int seed)
    {
        Story story = new(seed);
        List<IReadOnlyList<string>> happened = [];
        List<Scene> told = [];
        bool isOver = false;
        foreach (Scene scene in file.Scenes)
        {
            if (Again().Match(scene.Steps[0].Text) is { Success: true } again)
            {
                if (!isOver) End(story, told[^1].Steps[^1]);
                isOver = true;
                happened.Add(PlayAgain(scene.Steps[0], again, told, happened, seed));
                continue;
            }

            if (isOver) throw scene.Steps[0].Error("the story has ended when it is told again");
            told.Add(scene);
            happened.Add([.. scene.Steps.SelectMany(step => Do(story, step))]);
        }

        if (!isOver) End(story, told[^1].Steps[^1]);
        return happened;
    }

    private static IReadOnlyList<string> Do(Story story, Step step)
    {
        try
        {
            return story.Do(step);
        }
        catch (Exception e) when (IsViolation(e))
        {
            throw step.Error(story.InWords(e.Message));
        }
    }

    private static void End(Story story, Step last)
    {
        try
        {
            story.End();
        }
        catch (Exception e) when (IsViolation(e))
        {
            throw last.Error($"when all goes on after the end of the story: {story.InWords(e.Message)}");
        }
    }

    // Tells the same story with something else, up to where it is another one.
    private static List<string> PlayAgain(Step step, Match again, List<Scene> told, List<IReadOnlyList<string>> before, int seed)
    {
        Story story = new(seed);
        string[] faults = [.. new[] { again.Groups["fault"], again.Groups["other"] }.Where(g => g.Success).Select(g => g.Value)];
        if (again.Groups["finder"].Success) story.UseFinder(step, again.Groups["finder"].Value);
        foreach (string fault in faults) story.UseFault(step, fault);
        for (int i = 0; i < told.Count; i++)
        {
            List<string> happens = [];
            foreach (Step toldAgain in told[i].Steps)
            {
                try
                {
                    happens.AddRange(story.Do(toldAgain));
                }
                catch (Exception e) when (IsViolation(e) && faults.Length > 0)
                {
                    return [$"at \"{toldAgain.Text}\"", $"broken: {story.InWords(e.Message)}"];
                }
            }

            if (faults.Length == 0 && !happens.SequenceEqual(before[i]))
                throw step.Error($"at \"{told[i].Steps[^1].Text}\" it is another story:\n{string.Join('\n', happens)}");
        }

        try
        {
            story.End();
        }
        catch (Exception e) when (IsViolation(e) && faults.Length > 0)
        {
            return ["when all goes on after the end of the story", $"broken: {story.InWords(e.Message)}"];
        }

        // With a rule off and nothing broken: nothing is told.
        return faults.Length == 0 ? ["it is the same story"] : [];
    }

    private static bool IsViolation(Exception e) => e is SimException or BrokenInvariantException;

    private static string ThisFile([CallerFilePath] string path = "") => path;
}

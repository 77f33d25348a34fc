// A scenario file: a story in plain English, with what is expected to happen. Steps stand above a line of four dashes, what happens stands
// below it, up to an empty line. Lines that begin with # are for the reader; the first of them is the title. The idea is that of
// etcd-io/raft's testdata.
namespace Slogger.Simulation.Scenarios;

/// <summary>A file that cannot be run, or a step that cannot be done. The text names the line.</summary>
internal sealed class ScenarioException(string message) : Exception(message);

/// <summary>A step: one line of a file.</summary>
internal sealed record Step(string Text, string File, int Line)
{
    public ScenarioException Error(string why) => new($"{File}:{Line}: {why}");
}

/// <summary>Some steps, and what is expected to happen at them.</summary>
internal sealed record Scene(IReadOnlyList<Step> Steps, IReadOnlyList<string> Expected, string Before);

internal sealed class ScenarioFile
{
    private const string Dashes = "----";

    private ScenarioFile(string name, IReadOnlyList<Scene> scenes, string end) => (Name, Scenes, _end) = (name, scenes, end);

    private readonly string _end;

    public string Name { get; }

    public IReadOnlyList<Scene> Scenes { get; }

    /// <summary>Reads a file.</summary>
    /// <exception cref="ScenarioException">It is not one.</exception>
    public static ScenarioFile Parse(string name, string text)
    {
        string[] lines = text.ReplaceLineEndings("\n").Split('\n');
        if (!lines[0].StartsWith("# ", StringComparison.Ordinal) || lines.Length < 3 || !lines[2].StartsWith('#'))
            throw new ScenarioException(
                $"{name}:1: a file begins with a title and two or more lines that say what it shows, all with a #");
        List<Scene> scenes = [];
        List<Step> steps = [];
        string before = "";
        for (int i = 0; i < lines.Length; i++)
        {
            string line = lines[i].TrimEnd();
            if (line == Dashes)
            {
                if (steps.Count == 0) throw new ScenarioException($"{name}:{i + 1}: there is no step above the dashes");
                List<string> expected = [];
                while (i + 1 < lines.Length && lines[i + 1].Length > 0) expected.Add(lines[++i].TrimEnd());
                scenes.Add(new([.. steps], expected, before));
                steps.Clear();
                before = "";
            }
            else if (line.Length > 0 && line[0] != '#')
            {
                steps.Add(new(line, name, i + 1));
            }
            else if (steps.Count > 0)
            {
                throw new ScenarioException($"{name}:{i + 1}: steps end with a line of four dashes");
            }
            else
            {
                before += line + "\n";
            }
        }

        if (steps.Count > 0) throw new ScenarioException($"{name}:{steps[^1].Line}: steps end with a line of four dashes");
        if (scenes.Count == 0) throw new ScenarioException($"{name}:1: nothing happens in it");
        return new(name, scenes, before.TrimEnd('\n'));
    }

    /// <summary>The file, with what has happened in place of what was expected.</summary>
    public string With(IReadOnlyList<IReadOnlyList<string>> happened)
    {
        string text = "";
        for (int i = 0; i < Scenes.Count; i++)
        {
            text += Scenes[i].Before;
            foreach (Step step in Scenes[i].Steps) text += step.Text + "\n";
            text += Dashes + "\n";
            foreach (string line in happened[i]) text += line + "\n";
        }

        return text + _end;
    }

    /// <summary>Where what has happened is not what was expected, for people; null: nowhere.</summary>
    public string? Difference(IReadOnlyList<IReadOnlyList<string>> happened)
    {
        string text = "";
        for (int i = 0; i < Scenes.Count; i++)
        {
            Scene scene = Scenes[i];
            if (scene.Expected.SequenceEqual(happened[i])) continue;
            text += $"{Name}:{scene.Steps[0].Line}\n{string.Concat(scene.Steps.Select(s => $"    {s.Text}\n"))}";
            text += string.Concat(scene.Expected.Select(e => $"{(happened[i].Contains(e) ? "            " : "  expected: ")}{e}\n"));
            text += string.Concat(happened[i].Where(h => !scene.Expected.Contains(h)).Select(h => $"  happened: {h}\n"));
        }

        return text.Length == 0 ? null : text;
    }
}

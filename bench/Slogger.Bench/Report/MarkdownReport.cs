// The report as Markdown: a file of bench/results, as it is.
using System.Text;

namespace Slogger.Bench.Report;

internal static class MarkdownReport
{
    public static string Write(Results results)
    {
        var text = new StringBuilder();
        text.AppendLine($"# {results.Machine.Date}: `{results.CommandLine}`").AppendLine();
        text.AppendLine($"- machine: {results.Machine.Cpu}, {results.Machine.Cores} cores, {results.Machine.MemoryGb} GB, Linux "
            + $"{results.Machine.Kernel}");
        text.AppendLine("- versions:");
        foreach ((string program, string version) in results.Machine.Versions) { text.AppendLine($"  - {program}: {version}"); }
        if (results.Samples.Count > 0)
        {
            text.AppendLine($"- noise: {results.NoisyShare:P0} of {results.Samples.Count} runs stayed noisy after repetition; median "
                + $"of foreign work {Statistics.Median(results.Samples.Select(s => s.NoiseCores)):0.00} cores");
        }

        text.AppendLine();
        if (results.Figures.Any(f => f.Pass is not null))
        {
            int met = results.Figures.Count(f => f.Pass == true);
            text.AppendLine($"Goals met: {met} of {results.Figures.Count(f => f.Pass is not null)}.").AppendLine();
        }

        foreach (IGrouping<string, Figure> suite in results.Figures.GroupBy(f => f.Suite))
        {
            text.AppendLine($"## {suite.Key}: figures").AppendLine();
            text.AppendLine("| figure | value | goal | | note |").AppendLine("| --- | ---: | --- | --- | --- |");
            foreach (Figure f in suite)
            {
                text.AppendLine($"| {f.Name} | {Value(f)} | {f.Goal} | {Mark(f)} | {f.Note} |");
            }

            text.AppendLine();
        }

        foreach ((string title, IReadOnlyList<string> lines) in results.Tables)
        {
            text.AppendLine($"## {title}").AppendLine().AppendJoin('\n', lines).AppendLine().AppendLine();
        }

        return text.ToString();
    }

    /// <summary>One figure on one line of the console.</summary>
    public static string Line(Figure f) =>
        $"{f.Name}: {Value(f)}{(f.Goal.Length > 0 ? $"  (goal {f.Goal}: {Mark(f)})" : "")}  {f.Note}".TrimEnd();

    private static string Mark(Figure f) =>
        f.Pass switch { true => "pass", false => "**MISS**", null => "" } + (f.Disturbed ? " (disturbed)" : "");

    private static string Value(Figure f)
    {
        double magnitude = Math.Abs(f.Value);
        string number = f.Value.ToString(magnitude < 1 ? "0.000" : magnitude < 1000 ? "0.00" : "0");
        return $"{number} {f.Unit}".TrimEnd();
    }
}

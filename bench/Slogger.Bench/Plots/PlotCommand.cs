// `plot RESULTS.md... --to DIR`: the past and log reduction beside what the papers say of theirs. Retroscope is by Charapko et al., beelog
// by Xavier et al.; their figures are of other machines, and so are to be compared by their order only.
namespace Slogger.Bench.Plots;

internal static class PlotCommand
{
    private const string Form = "plot RESULTS.md... --to DIR";

    // A figure of a file, or of a paper.
    private readonly record struct Known(string Label, Whose Whose, string Figure, double Value)
    {
        public static Known Ours(string label, string figure) => new(label, Whose.Ours, figure, 0);

        public static Known OfRedis(string label, string figure) => new(label, Whose.Redis, figure, 0);

        public static Known OfPaper(string label, double value) => new(label, Whose.Paper, "", value);
    }

    /// <summary>Draws each plot of which a file has something of ours.</summary>
    /// <exception cref="BenchException">The words, or a file, are not understood.</exception>
    public static int Run(string[] words)
    {
        if (words is not [.. { Length: > 0 } paths, "--to", var to]) { throw new BenchException($"it is {Form}"); }
        ResultFiles files = ResultFiles.Read(paths);
        Directory.CreateDirectory(to);
        bool[] drawn =
        [
            Bars(files, Path.Combine(to, "past-throughput.svg"), "Writes while all data is copied", "throughput, of without", "", false,
            [
                Known.Ours("slogger snapshot, 1 M keys of 100 B", "slogger snapshot: throughput while it is made"),
                Known.OfRedis("BGSAVE, the same keys", "BGSAVE of Redis alone: throughput while it is made"),
                Known.OfPaper("Retroscope, Voldemort, 10 M x 100 B, 50 % writes (fig. 12)", 0.82),
                Known.OfPaper("Retroscope, Hazelcast, the next second (fig. 17)", 0.927),
            ]),
            Bars(files, Path.Combine(to, "past-latency.svg"), "Latency of writes while all data is copied", "of without", "", false,
            [
                Known.Ours("slogger snapshot, p99", "slogger snapshot: p99 while it is made"),
                Known.OfRedis("BGSAVE, p99", "BGSAVE of Redis alone: p99 while it is made"),
                Known.OfPaper("Retroscope, Voldemort, average (fig. 12)", 1.25),
            ]),
            Bars(files, Path.Combine(to, "past-times.svg"), "How long it takes", "ms, logarithmic", "ms", true,
            [
                Known.Ours("one key as of an instant, p50", "a key as of one instant, p50"),
                Known.Ours("rolling: a step to the next version", "a step of a rolling store to the next version"),
                Known.Ours("incremental: 10,000 keys of 1 M", "snapshot of 10000 keys that were written"),
                Known.OfPaper("incremental: Retroscope, near a snapshot (I)", 100),
                Known.Ours("reset of 10,000 keys of 1 M: clients wait", "clients wait, 10000 keys of 1000000"),
                Known.OfPaper("reset: Retroscope, copying 1 GB (IX)", 8000),
                Known.Ours("all: 1 M keys of 100 B under load", "slogger snapshot: made in"),
                Known.OfRedis("all: BGSAVE, the same", "BGSAVE of Redis alone: made in"),
                Known.OfPaper("all: Retroscope, 2 GB of 10 nodes (I)", 15_000),
            ]),
            Bars(files, Path.Combine(to, "past-minute-ago.svg"), "The state a minute ago, under load", "ms, logarithmic", "ms", true,
            [
                Known.Ours("one key: slogger get --at", "one key a minute ago, slogger get"),
                Known.OfRedis("one key: AOF, truncated and loaded", "one key a minute ago, AOF cut and loaded"),
                Known.Ours("all: slogger snapshot --at, loaded", "all keys a minute ago, slogger snapshot and loaded"),
                Known.OfRedis("all: AOF, truncated and loaded", "all keys a minute ago, AOF cut and loaded"),
            ]),
            Reduction(files, Path.Combine(to, "reduce-left.svg")),
        ];
        return drawn.Any(d => d) ? 0 : throw new BenchException("these files have nothing that is plotted");
    }

    private static bool Bars(ResultFiles files, string path, string title, string axis, string unit, bool isLogarithmic, Known[] known)
    {
        List<PlotBar> bars = [];
        foreach (Known one in known)
        {
            if (one.Whose == Whose.Paper) { bars.Add(new(one.Label, one.Value, one.Whose)); }
            else if (files.Figure(one.Figure, unit) is { } value) { bars.Add(new(one.Label, value, one.Whose)); }
        }
        if (!bars.Any(b => b.Whose == Whose.Ours)) { return false; }
        Drawing.Bars(path, title, axis, isLogarithmic, bars);
        return true;
    }

    // The table has a column for each size of windows; the last of these is the whole, as many as there are writes.
    private static bool Reduction(ResultFiles files, string path)
    {
        if (files.Table("left of commands / of bytes, %") is not { } table) { return false; }
        const string Whole = "whole", Writes = "writes", Paper = "the paper, ";
        List<PlotLine> lines = [];
        List<(double, double)> paper = [];
        foreach (IReadOnlyList<string> row in table.Rows)
        {
            List<(double, double)> points = [];
            for (int i = 1; i < row.Count; i++)
            {
                string head = table.Heads[i];
                if (ResultFiles.Number(row[i]) is not { } left) { continue; }
                if (head.StartsWith(Paper, StringComparison.Ordinal)) { paper.Add((Size(head[Paper.Length..]), left)); }
                else if (head == Whole) { points.Add((Size(row[table.Heads.ToList().IndexOf(Writes)]), left)); }
                else if (Size(head) is > 0 and var size) { points.Add((size, left)); }
            }
            lines.Add(new(row[0], points, Whose.Ours));
        }
        if (paper.Count > 0) { lines.Add(new("beelog, the same two (fig. 4a)", paper, Whose.Paper)); }
        Drawing.Lines(path, "Commands that log reduction leaves", "commands of a window", "% left", lines);
        return true;
    }

    // "1,000", or in brackets: "a version (120)". 0: it is no size.
    private static double Size(string head)
    {
        string text = (head.Contains('(', StringComparison.Ordinal) ? head.Split('(')[1].TrimEnd(')') : head).Replace(",", "",
            StringComparison.Ordinal);
        return ResultFiles.Number(text) ?? 0;
    }
}

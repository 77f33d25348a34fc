// Medians, and ratios taken round by round: alternating runs share their moment's disturbances, so that the ratio
// within a round is steadier than the ratio of medians.
using Slogger.Bench.Load;

namespace Slogger.Bench.Report;

/// <summary>The median of per-round ratios, with the extremes.</summary>
internal readonly record struct Ratio(double Median, double Lowest, double Highest)
{
    public string Spread => $"{Lowest:0.00} to {Highest:0.00}";
}

internal static class Statistics
{
    public static double Median(IEnumerable<double> values)
    {
        double[] sorted = [.. values.Order()];
        return sorted.Length == 0 ? double.NaN
            : sorted.Length % 2 == 1 ? sorted[sorted.Length / 2] : (sorted[(sorted.Length / 2) - 1] + sorted[sorted.Length / 2]) / 2;
    }
}

/// <summary>Questions about the samples of one suite.</summary>
internal sealed class SampleQuery(IEnumerable<Sample> samples)
{
    private readonly Sample[] _samples = [.. samples];

    public IReadOnlyList<Cell> Cells => [.. _samples.Select(s => s.Cell).Distinct()];

    public IReadOnlyList<string> Labels => [.. _samples.Select(s => s.Label).Distinct()];

    public bool Has(string label, Cell cell) => _samples.Any(s => s.Label == label && s.Cell == cell);

    /// <summary>The median over the undisturbed runs, or over all when more than half were disturbed.</summary>
    public double Median(string label, Cell cell, Func<Sample, double> value)
    {
        Sample[] of = [.. _samples.Where(s => s.Label == label && s.Cell == cell)];
        return Statistics.Median(of.Where(s => !s.Noisy || IsNoisy(label, cell)).Select(value));
    }

    /// <summary>More than half of the runs behind a cell were disturbed.</summary>
    public bool IsNoisy(string label, Cell cell)
    {
        Sample[] of = [.. _samples.Where(s => s.Label == label && s.Cell == cell)];
        return of.Count(s => s.Noisy) * 2 > of.Length;
    }

    /// <summary>One contestant against another, by operations per second; null when either is missing.</summary>
    public Ratio? Compare(string label, string against, Cell cell) => Compare(label, against, cell, s => s.OperationsPerSecond);

    public Ratio? Compare(string label, string against, Cell cell, Func<Sample, double> value)
    {
        var pairs = from a in _samples
                    join b in _samples on a.Round equals b.Round
                    where a.Cell == cell && b.Cell == cell && a.Label == label && b.Label == against && value(b) > 0
                    select (Ratio: value(a) / value(b), Noisy: a.Noisy || b.Noisy);
        var all = pairs.ToList();
        // Rounds in which either was disturbed count only when too few others are left.
        double[] clean = [.. all.Where(p => !p.Noisy).Select(p => p.Ratio)];
        double[] ratios = clean.Length > 0 && clean.Length * 2 >= all.Count ? clean : [.. all.Select(p => p.Ratio)];
        return ratios.Length == 0 ? null : new Ratio(Statistics.Median(ratios), ratios.Min(), ratios.Max());
    }

    /// <summary>The label with the most operations per second among those present; null when none is.</summary>
    public string? Best(IEnumerable<string> labels, Cell cell) =>
        labels.Where(l => Has(l, cell)).OrderByDescending(l => Median(l, cell, s => s.OperationsPerSecond)).FirstOrDefault();

    /// <summary>A table: one line per cell, one column per contestant.</summary>
    public IReadOnlyList<string> Table()
    {
        var lines = new List<string>
        {
            "| thousand operations/s (of raw); proxy CPU us/op | " + string.Join(" | ", Labels) + " |",
            "| --- |" + string.Concat(Labels.Select(_ => " ---: |")),
        };
        foreach (Cell cell in Cells)
        {
            IEnumerable<string> columns = Labels.Select(label => Has(label, cell) ? Text(label, cell) : "");
            lines.Add($"| {cell} | {string.Join(" | ", columns)} |");
        }

        lines.Add("");
        lines.Add("`~`: more than half of its runs were disturbed by other work on the machine.");
        return lines;
    }

    private string Text(string label, Cell cell)
    {
        string text = $"{Median(label, cell, s => s.OperationsPerSecond) / 1e3:0.0}";
        if (label != "raw" && Compare(label, "raw", cell) is { } ratio)
        {
            text += $" ({ratio.Median:0.00})";
        }

        double cpu = Median(label, cell, s => s.ProxyCpuUs);
        return text + (cpu > 0 ? $"; {cpu:0.00}" : "") + (IsNoisy(label, cell) ? " ~" : "");
    }
}

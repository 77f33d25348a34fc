// Plots of plain text, for reports that are read as they are.
using System.Globalization;

namespace Slogger.Bench.Report;

internal static class TextPlot
{
    private const int Width = 60;

    /// <summary>A bar for each value, on a logarithmic scale that begins at the power of ten below the smallest.</summary>
    /// <param name="x">What the names are.</param>
    /// <param name="y">What the values are.</param>
    /// <param name="values">Above 0.</param>
    public static IReadOnlyList<string> Bars(string x, string y, IReadOnlyList<(string Name, double Value)> values)
    {
        double[] logarithms = [.. values.Select(v => Math.Log10(Math.Max(v.Value, 1e-9)))];
        double from = Math.Floor(logarithms.Min()), to = Math.Max(Math.Ceiling(logarithms.Max()), from + 1);
        int names = Math.Max(x.Length, values.Max(v => v.Name.Length));
        var lines = new List<string> { "```",
            $"{x.PadLeft(names)} | {y}, logarithmic, from {Number(Math.Pow(10, from))} to {Number(Math.Pow(10, to))}" };
        for (int i = 0; i < values.Count; i++)
        {
            int length = Math.Max(1, (int)Math.Round((logarithms[i] - from) / (to - from) * Width));
            lines.Add($"{values[i].Name.PadLeft(names)} | {new string('#', length)} {Number(values[i].Value)}");
        }

        return [.. lines, "```"];
    }

    private static string Number(double value) => value.ToString(value < 10 ? "0.00" : "#,0", CultureInfo.InvariantCulture);
}

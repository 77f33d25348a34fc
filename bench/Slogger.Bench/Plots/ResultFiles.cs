// What files of bench/results hold, as MarkdownReport has written them: figures by name, and tables.
using System.Globalization;
using Slogger.Bench.Report;

namespace Slogger.Bench.Plots;

/// <summary>A table.</summary>
/// <param name="Heads">Of its columns.</param>
/// <param name="Rows">Its cells.</param>
internal sealed record ResultTable(IReadOnlyList<string> Heads, IReadOnlyList<IReadOnlyList<string>> Rows);

/// <summary>Some files. What a later one has counts.</summary>
internal sealed class ResultFiles
{
    private const string FirstHead = "figure";
    private readonly Dictionary<string, (double Value, string Unit)> _figures = [];
    private readonly List<ResultTable> _tables = [];

    /// <exception cref="BenchException">One cannot be read, or has no table.</exception>
    public static ResultFiles Read(IEnumerable<string> paths)
    {
        var files = new ResultFiles();
        foreach (string path in paths)
        {
            try
            {
                if (!files.Add(File.ReadAllLines(path))) { throw new BenchException($"{path} has no table"); }
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException)
            {
                throw new BenchException($"{path} cannot be read: {e.Message}");
            }
        }
        return files;
    }

    /// <summary>The figure of that name, in a unit; null: no file has it.</summary>
    /// <param name="name">The name.</param>
    /// <param name="unit">"": a ratio; "ms": also of one in seconds.</param>
    /// <exception cref="BenchException">It has another unit.</exception>
    public double? Figure(string name, string unit) => !_figures.TryGetValue(name, out (double Value, string Unit) found) ? null
        : found.Unit == unit ? found.Value
        : (found.Unit, unit) == ("s", "ms") ? found.Value * 1000
        : throw new BenchException($"{name} is in \"{found.Unit}\", and not in \"{unit}\"");

    /// <summary>The last table whose first column has that head; null: there is none.</summary>
    public ResultTable? Table(string head) => _tables.LastOrDefault(t => t.Heads[0] == head);

    /// <summary>The first number of a cell; null: there is none.</summary>
    public static double? Number(string cell) => double.TryParse(cell.Split(' ')[0], CultureInfo.InvariantCulture, out double number)
        ? number : null;

    private bool Add(string[] lines)
    {
        int before = _tables.Count;
        for (int i = 0; i < lines.Length; i++)
        {
            if (!lines[i].StartsWith("| ", StringComparison.Ordinal)) { continue; }
            string[] heads = Cells(lines[i]);
            List<string[]> rows = [];
            // Behind the heads is the line that aligns them.
            for (i += 2; i < lines.Length && lines[i].StartsWith('|'); i++) { rows.Add(Cells(lines[i])); }
            _tables.Add(new(heads, rows));
            if (heads[0] != FirstHead) { continue; }
            foreach (string[] row in rows)
            {
                if (Number(row[1]) is { } value) { _figures[row[0]] = (value, row[1].Contains(' ') ? row[1].Split(' ')[1] : ""); }
            }
        }
        return _tables.Count > before;
    }

    private static string[] Cells(string line) => [.. line.Trim().Trim('|').Split('|').Select(c => c.Trim())];
}

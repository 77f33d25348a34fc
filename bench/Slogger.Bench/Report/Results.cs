// Everything a run of the bench has found: raw samples, figures with goals, and tables for people.
using System.Text.Json;
using Slogger.Bench.Host;
using Slogger.Bench.Load;

namespace Slogger.Bench.Report;

/// <summary>One measured run of one contestant.</summary>
/// <param name="Label">The contestant: its case, and its variant of the load if there is one.</param>
/// <param name="ProxyCpuUs">CPU microseconds of the proxy per operation; 0 without one.</param>
/// <param name="NoiseCores">Cores that others used meanwhile.</param>
/// <param name="Noisy">More than allowed, also after all repetitions.</param>
internal sealed record Sample(
    string Suite, string Label, Cell Cell, int Round, double OperationsPerSecond, double MeanMs, double P50Ms, double P99Ms,
    double ProxyCpuUs, double RedisCpuUs, double NoiseCores, bool Noisy);

/// <summary>A figure that the project cares about.</summary>
/// <param name="Goal">In words; empty: for information.</param>
/// <param name="Pass">Null without a goal.</param>
/// <param name="Note">Spread, conditions.</param>
internal sealed record Figure(string Suite, string Name, double Value, string Unit, string Goal, bool? Pass, string Note)
{
    /// <summary>Most of the runs behind it shared the machine with other work: its mark decides nothing.</summary>
    public bool Disturbed { get; init; }

    public static Figure AtLeast(string suite, string name, double value, string unit, double goal, string note = "") =>
        new(suite, name, value, unit, $">= {goal:0.##} {unit}".TrimEnd(), Rounded(value) >= goal, note);

    public static Figure AtMost(string suite, string name, double value, string unit, double goal, string note = "") =>
        new(suite, name, value, unit, $"<= {goal:0.##} {unit}".TrimEnd(), Rounded(value) <= goal, note);

    public static Figure Information(string suite, string name, double value, string unit, string note = "") =>
        new(suite, name, value, unit, "", null, note);

    // A goal is met when the figure as printed meets it.
    private static double Rounded(double value) => Math.Round(value, value < 1 ? 3 : 2);
}

/// <summary>Accumulates; written to a file after each step, so that an interrupted run leaves what it had.</summary>
internal sealed class Results(MachineInfo machine, BenchOptions options)
{
    private static readonly JsonSerializerOptions s_json = new() { WriteIndented = true };
    private readonly List<(string Title, IReadOnlyList<string> Lines)> _tables = [];

    public MachineInfo Machine { get; } = machine;

    public List<Sample> Samples { get; } = [];

    public List<Figure> Figures { get; } = [];

    public IReadOnlyList<(string Title, IReadOnlyList<string> Lines)> Tables => _tables;

    public string CommandLine => options.CommandLine;

    /// <summary>Share of all samples that stayed noisy.</summary>
    public double NoisyShare => Samples.Count == 0 ? 0 : Samples.Count(s => s.Noisy) / (double)Samples.Count;

    public void AddTable(string title, IReadOnlyList<string> lines)
    {
        _tables.Add((title, lines));
        Save();
    }

    public void Add(Figure figure)
    {
        Figures.Add(figure);
        Console.WriteLine("  " + MarkdownReport.Line(figure));
    }

    /// <summary>Writes the files that were asked for.</summary>
    public void Save()
    {
        if (options.OutFile is { } json)
        {
            var all = new { Machine, CommandLine, Samples, Figures, Tables = _tables.Select(t => new { t.Title, t.Lines }) };
            File.WriteAllText(json, JsonSerializer.Serialize(all, s_json));
        }

        if (options.MarkdownFile is { } markdown)
        {
            File.WriteAllText(markdown, MarkdownReport.Write(this));
        }
    }
}

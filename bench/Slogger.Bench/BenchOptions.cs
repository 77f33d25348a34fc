// The command line of the bench. One suite, then options; unknown words are errors.
using System.Globalization;

namespace Slogger.Bench;

/// <summary>Where processes run.</summary>
internal enum Layout
{
    /// <summary>Servers and proxy on core 0, the load on core 1: the steadier one.</summary>
    Pinned,

    /// <summary>Everything anywhere.</summary>
    Unpinned,
}

internal sealed record BenchOptions
{
    /// <summary>Which suite to run.</summary>
    public required string Suite { get; init; }

    /// <summary>Only these contestants; null: what the suite wants.</summary>
    public IReadOnlyList<string>? Cases { get; init; }

    /// <summary>More contestants: label and the arguments after `slogger serve`, the first of which may be another executable.</summary>
    public IReadOnlyList<(string Label, string Arguments)> Extra { get; init; } = [];

    /// <summary>The proxy: a .dll for `dotnet`, or an executable.</summary>
    public string ProxyPath { get; init; } = "src/Slogger.Cli/bin/Release/net10.0/slogger.dll";

    /// <summary>The words that run the proxy's program.</summary>
    public string[] ProxyProgram => ProxyPath.EndsWith(".dll", StringComparison.Ordinal) ? ["dotnet", Path.GetFullPath(ProxyPath)]
        : [Path.GetFullPath(ProxyPath)];

    /// <summary>Words added to every `slogger serve`.</summary>
    public string ProxyArguments { get; init; } = "";

    /// <summary>Alternating rounds per cell; null: the suite's (5, quick 3).</summary>
    public int? Rounds { get; init; }

    /// <summary>Seconds of one measured run; null: the suite's (1.5, quick 0.6; paced runs 10).</summary>
    public double? RunSeconds { get; init; }

    /// <summary>Overrides of the matrix; null: the suite's.</summary>
    public IReadOnlyList<int>? Clients { get; init; }

    public IReadOnlyList<int>? Pipelines { get; init; }

    public IReadOnlyList<int>? Sizes { get; init; }

    public IReadOnlyList<string>? Operations { get; init; }

    /// <summary>Overrides the layout of the suites that can run in both.</summary>
    public Layout? Layout { get; init; }

    /// <summary>Distinct keys of the load.</summary>
    public int KeySpace { get; init; } = 100_000;

    /// <summary>Keys of the suites restore, faster-local and co-location.</summary>
    public int RestoreKeys { get; init; } = 1_000_000;

    /// <summary>Length of the full-load memory run.</summary>
    public TimeSpan Duration { get; init; } = TimeSpan.FromMinutes(10);

    /// <summary>Idle connections of the memory suite.</summary>
    public int IdleConnections { get; init; } = 2000;

    /// <summary>First TCP port; the bench uses about thirty from there.</summary>
    public int PortBase { get; init; } = 23000;

    /// <summary>Where servers keep their data during the run: a directory on the disk to be measured.</summary>
    public string Directory { get; init; } = Path.GetTempPath();

    /// <summary>Cores of foreign work above which a run is noisy and is repeated.</summary>
    public double NoiseCores { get; init; } = 0.15;

    /// <summary>How often a noisy run is repeated before the least noisy one is taken and marked.</summary>
    public int Retries { get; init; } = 6;

    /// <summary>Longest wait for a quiet machine before one run.</summary>
    public TimeSpan QuietPatience { get; init; } = TimeSpan.FromSeconds(20);

    /// <summary>Take the idle contestants off the machine by SIGSTOP.</summary>
    public bool Freeze { get; init; } = true;

    /// <summary>Raw results as JSON; rewritten after every cell.</summary>
    public string? OutFile { get; init; }

    /// <summary>The report as Markdown, besides the console.</summary>
    public string? MarkdownFile { get; init; }

    /// <summary>Leave the data directory behind.</summary>
    public bool Keep { get; init; }

    /// <summary>Where the suite of sessions keeps its clusters' metadata, as for `slogger serve`; null: in SQLite.</summary>
    public string? Metadata { get; init; }

    /// <summary>How long versions are in the suites finders, sites and cohort; null: the suite's.</summary>
    public TimeSpan? VersionInterval { get; init; }

    /// <summary>As typed, for the report.</summary>
    public string CommandLine { get; init; } = "";

    public const string Help = """
        usage: dotnet run -c Release --project bench/Slogger.Bench -- <suite> [options]

        suites: quick none-pinned none-unpinned typical latency log aof commit memory restore rollback drain-study
                sessions finders faster faster-local co-location sites version-cost cohort grpc reduce past reset disks all
                selfcheck (of the bench itself)
                plot RESULTS.md... --to DIR (the past and log reduction beside the papers, as SVG)

          --cases a,b,c        only these: raw haproxy haproxy2 nutcracker none log5 log1 bgsave drain everysec always faster
          --extra LABEL=ARGS   one more contestant: [EXECUTABLE] and the options of its `slogger serve` (repeatable)
          --proxy PATH         slogger.dll or an executable (default src/Slogger.Cli/bin/Release/net10.0/slogger.dll)
          --proxy-args "..."   added to every `slogger serve`
                               (finders: approximate exact hybrid, with --clients 8,64,512 for the numbers of shards)
          --interval 5ms       how long versions are in the suites finders, sites, version-cost, cohort and disks
                               (version-cost: --clients are numbers of shards, --extra LABEL=DLL another build)
                               (cohort: takeover latency throughput conditional)
                               (reduce: zipf uniform latest typical hash counters ship)
                               (past: copies retention first steps aof)
                               (sites: lag rising load failover failures pipeline snapshots steps; --clients are numbers of shards)
          --rounds N --secs S  rounds per cell, seconds per run
          --clients 1,50 --pipelines 1,16,64 --sizes 64,512 --ops SET,GET   override the suite's matrix
          --layout pinned|unpinned
          --keys N             keys of the load (100000); --restore-keys N (1000000)
          --duration 10m       full-load memory run; --idle N connections (2000)
          --metadata SPEC      of the suite sessions (default: a PostgreSQL of its own)
          --port-base 23000    --dir DIR (data of the servers)    --keep (do not delete it)
          --noise 0.15 --retries 6 --patience 20s   foreign cores allowed, repetitions, wait for quiet
          --no-freeze          let idle contestants run
          --out FILE.json      raw results          --md FILE.md   the report
        """;

    /// <exception cref="BenchException">A word is not understood.</exception>
    public static BenchOptions Parse(IReadOnlyList<string> words)
    {
        if (words.Count == 0 || words[0].StartsWith('-'))
        {
            throw new BenchException(Help);
        }

        var o = new BenchOptions { Suite = words[0], CommandLine = string.Join(' ', words.Select(Quoted)) };
        for (int i = 1; i < words.Count; i++)
        {
            string name = words[i];
            string Value() => ++i < words.Count ? words[i] : throw new BenchException($"{name} needs a value");
            o = name switch
            {
                "--cases" => o with { Cases = List(Value()) },
                "--extra" => o with { Extra = [.. o.Extra, Labelled(Value())] },
                "--proxy" => o with { ProxyPath = Value() },
                "--proxy-args" => o with { ProxyArguments = Value() },
                "--rounds" => o with { Rounds = Int(Value()) },
                "--secs" => o with { RunSeconds = Double(Value()) },
                "--clients" => o with { Clients = Ints(Value()) },
                "--pipelines" => o with { Pipelines = Ints(Value()) },
                "--sizes" => o with { Sizes = Ints(Value()) },
                "--ops" => o with { Operations = [.. List(Value()).Select(x => x.ToUpperInvariant())] },
                "--layout" => o with { Layout = LayoutOf(Value()) },
                "--keys" => o with { KeySpace = Int(Value()) },
                "--restore-keys" => o with { RestoreKeys = Int(Value()) },
                "--duration" => o with { Duration = Time(Value()) },
                "--idle" => o with { IdleConnections = Int(Value()) },
                "--port-base" => o with { PortBase = Int(Value()) },
                "--dir" => o with { Directory = Value() },
                "--noise" => o with { NoiseCores = Double(Value()) },
                "--retries" => o with { Retries = Int(Value()) },
                "--patience" => o with { QuietPatience = Time(Value()) },
                "--no-freeze" => o with { Freeze = false },
                "--out" => o with { OutFile = Value() },
                "--md" => o with { MarkdownFile = Value() },
                "--metadata" => o with { Metadata = Value() },
                "--interval" => o with { VersionInterval = Time(Value()) },
                "--keep" => o with { Keep = true },
                _ => throw new BenchException($"unknown option {name}\n\n{Help}"),
            };
        }

        return o;
    }

    private static string[] List(string s) => s.Split(',', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries);

    private static int[] Ints(string s) => [.. List(s).Select(Int)];

    private static int Int(string s) =>
        int.TryParse(s, out int value) && value >= 0 ? value : throw new BenchException($"'{s}' is not a whole number");

    private static double Double(string s) => double.TryParse(s, NumberStyles.Float, CultureInfo.InvariantCulture, out double value)
        && value >= 0 ? value : throw new BenchException($"'{s}' is not a number");

    private static TimeSpan Time(string s) => s switch
    {
        _ when s.EndsWith("ms", StringComparison.Ordinal) => TimeSpan.FromMilliseconds(Double(s[..^2])),
        _ when s.EndsWith('s') => TimeSpan.FromSeconds(Double(s[..^1])),
        _ when s.EndsWith('m') => TimeSpan.FromMinutes(Double(s[..^1])),
        _ => throw new BenchException($"'{s}' is not a time: write 20s or 10m"),
    };

    private static Layout LayoutOf(string s) => s switch
    {
        "pinned" => Bench.Layout.Pinned,
        "unpinned" => Bench.Layout.Unpinned,
        _ => throw new BenchException($"'{s}' is not a layout: pinned or unpinned"),
    };

    private static (string Label, string Arguments) Labelled(string s)
    {
        int equals = s.IndexOf('=', StringComparison.Ordinal);
        return equals > 0 ? (s[..equals], s[(equals + 1)..]) : throw new BenchException("--extra needs LABEL=ARGUMENTS");
    }

    private static string Quoted(string s) => s.Contains(' ', StringComparison.Ordinal) ? $"\"{s}\"" : s;
}

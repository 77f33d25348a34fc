// The command line: a range of seeds with progress and totals, or the trace of one seed.
using Slogger.Core.Cohorts;
using Slogger.Core.Cuts;
using Slogger.Core.Replication;
using Slogger.Simulation.Cohorts;
using Slogger.Simulation.Past;
using Slogger.Simulation.Scenarios;
using Slogger.Simulation.Sites;
using System.Diagnostics;
using System.Globalization;

namespace Slogger.Simulation;

internal static class SimulationCommand
{
    private const string Help = """
        Runs a whole Slogger cluster in seeded cases, with everything going wrong that can, and checks the invariants of the design.

        dotnet run -c Release --project test/Slogger.Simulation -- --seeds 1..100000 [options]
        dotnet run -c Release --project test/Slogger.Simulation -- --trace 4711 [options]

          --seeds A..B      the cases to run: every seed from A to B
          --trace SEED      run one case and print all that happened in it
          --finder NAME     who finds the cut: approximate (default), exact, hybrid, or all of them, one after the other
          --shards N        how many shards, 1 to 16 (default: 2 to 5, by the seed)
          --steps N         how many steps a case has before the failures end (default 900)
          --threads N       how many cases at a time (default: one for each core)
          --moves yes|no    whether slots move (default: by the seed; with the approximate finder only)
          --members yes|no  whether shards join and leave (default: by the seed, in some cases in which slots move)
          --in-place yes|no whether stores that are alive go back in place (default: by the seed)
          --backup always|never  whether there is a backup site (default: by the seed, in a third of the cases of the approximate finder)
          --windows yes|no  whether the backup falls far behind now and then, and is sent windows (default: no; with a backup only)
          --disaster NAME   what befalls the primary: none, total, cutoff, mistaken, planned (default: by the seed; with a backup only)
          --mutation NAME   switch off one rule, by its name in the ...Mutation types, to see the checks notice
          --lag N,N...      no cases: the backup's lag with so many shards, from the costs of steps that --lag-costs names
          --lag-costs NAME=US,...   of marker, sync, record (each with -tail), message, wide, local, report, tell, interval
          --cohorts A..B    cases of another kind, by their seeds: a cohort of nodes that elects a leader and replicates its log
          --past A..B       cases of another kind: shards that keep, reduce and read their past
          --scenarios NAME,... play scenario files (all: every one), and show where something else happens than they say
          --rewrite NAME,...   play them, and write into the files what happens
          --language yes    the sentences that scenario files are written in
          --help            this text

        Prints progress, cases per second and how often each kind of thing happened. A failure is printed with its seed and trace.
        Exit code: 0 if every case held, 1 if one did not, 2 for options that cannot be used.
        Without any of these options the program runs its tests.
        """;

    private static readonly string[] Names = ["--seeds", "--trace", "--finder", "--shards", "--steps", "--threads", "--moves", "--members",
        "--in-place", "--backup", "--windows", "--disaster", "--mutation", "--lag", "--lag-costs", "--cohorts", "--past", "--scenarios",
        "--rewrite", "--language", "--help"];

    public static bool IsMeant(string[] args) => args.Any(Names.Contains);

    public static int Run(string[] args)
    {
        try
        {
            return RunChecked(args);
        }
        catch (FormatException e)
        {
            Console.Error.WriteLine($"{e.Message} Try --help.");
            return 2;
        }
    }

    private static int Lag(string[] args)
    {
        string Of(string name) => Array.IndexOf(args, name) is >= 0 and int i && i + 1 < args.Length ? args[i + 1] : "";
        int[] counts = [.. Of("--lag").Split(',')
            .Select(n => int.TryParse(n, NumberStyles.None, CultureInfo.InvariantCulture, out int count) && count is >= 1 and <= 1024
                ? count : throw new FormatException($"--lag: \"{n}\" is no number of shards, 1 to 1024."))];
        LagCosts costs = new();
        foreach (string pair in Of("--lag-costs").Split(',', StringSplitOptions.RemoveEmptyEntries))
        {
            string[] parts = pair.Split('=');
            if (parts.Length != 2 || !double.TryParse(parts[1], NumberStyles.Float, CultureInfo.InvariantCulture, out double us) || us < 0)
            {
                throw new FormatException($"--lag-costs: \"{pair}\" is not NAME=MICROSECONDS.");
            }
            costs = parts[0] switch
            {
                "marker" => costs with { Marker = costs.Marker with { Least = us } },
                "marker-tail" => costs with { Marker = costs.Marker with { Tail = us } },
                "sync" => costs with { Sync = costs.Sync with { Least = us } },
                "sync-tail" => costs with { Sync = costs.Sync with { Tail = us } },
                "record" => costs with { Record = costs.Record with { Least = us } },
                "record-tail" => costs with { Record = costs.Record with { Tail = us } },
                "message" => costs with { Message = us },
                "wide" => costs with { Way = costs.Way with { Wide = us } },
                "local" => costs with { Way = costs.Way with { Local = us } },
                "report" => costs with { Service = costs.Service with { Report = us } },
                "tell" => costs with { Service = costs.Service with { Tell = us } },
                "interval" => costs with { Interval = us },
                _ => throw new FormatException($"--lag-costs: no step is called {parts[0]}."),
            };
        }

        LagModel.Print(Console.Out, counts, costs, versions: 10_000);
        return 0;
    }

    private static int RunChecked(string[] args)
    {
        if (args.Contains("--help"))
        {
            Console.WriteLine(Help);
            return 0;
        }

        if (args.Contains("--lag")) { return Lag(args); }

        if (args.Contains("--language"))
        {
            foreach (string sentence in Story.Language) Console.WriteLine(sentence);
            return 0;
        }

        if (args is [("--scenarios" or "--rewrite"), ..])
            return Scenarios(args.ElementAtOrDefault(1) ?? "all", isRewritten: args[0] == "--rewrite");

        (int first, int last) = (0, -1);
        int? trace = null;
        FinderKind[] finders = [FinderKind.Approximate];
        SimSettings settings = new() { Seed = 0 };
        int threads = Environment.ProcessorCount;
        string kind = "";
        string mutation = "";
        for (int i = 0; i < args.Length; i += 2)
        {
            string name = args[i], value = i + 1 < args.Length ? args[i + 1] : throw new FormatException($"{name} needs a value.");
            switch (name)
            {
                case "--seeds" or "--cohorts" or "--past":
                    string[] ends = value.Split("..");
                    if (ends.Length != 2) throw new FormatException($"{name} takes a range like 1..1000, not \"{value}\".");
                    kind = name;
                    (first, last) = (Number(name, ends[0], 0), Number(name, ends[1], 0));
                    break;
                case "--trace": trace = Number(name, value, 0); break;
                case "--finder":
                    finders = value == "all" ? Enum.GetValues<FinderKind>()
                        : Enum.TryParse(value, ignoreCase: true, out FinderKind one) && Enum.IsDefined(one) ? [one]
                        : throw new FormatException($"There is no finder \"{value}\".");
                    break;
                case "--shards": settings = settings with { Shards = Number(name, value, 1, 16) }; break;
                case "--steps": settings = settings with { Steps = Number(name, value, 1) }; break;
                case "--threads": threads = Number(name, value, 1, 256); break;
                case "--moves": settings = settings with { Moves = YesOrNo(name, value) }; break;
                case "--members": settings = settings with { Members = YesOrNo(name, value) }; break;
                case "--in-place": settings = settings with { InPlace = YesOrNo(name, value) }; break;
                case "--backup":
                    settings = settings with { Backup = value switch { "always" => true, "never" => false, _ =>
                        throw new FormatException($"{name} takes always or never, not \"{value}\".") } };
                    break;
                case "--windows": settings = settings with { Windows = YesOrNo(name, value) }; break;
                case "--disaster": settings = settings with { Disaster = Named<Disaster>(value, "disaster") }; break;
                case "--mutation" when args.Contains("--cohorts") || args.Contains("--past"):
                    mutation = value;
                    break;
                case "--mutation":
                    settings = StoryFaults.With(settings, value)
                        ?? throw new FormatException($"{name} takes the name of one rule in SimSettings, not \"{value}\".");
                    break;
                default: throw new FormatException($"There is no option {name}.");
            }
        }

        if (trace is { } seed) return Trace(settings with { Seed = seed, Finder = finders[0], Trace = true });
        if (last < first) throw new FormatException("--seeds A..B, --cohorts A..B, --past A..B or --trace SEED is needed.");
        if (kind == "--past")
        {
            var past = new PastSettings { Seed = 0 };
            return PastRun.Seeds(first, last, threads, mutation.Length == 0 ? past : past.Without(mutation)
                ?? throw new FormatException($"--mutation takes the name of one rule in PastSettings, not \"{mutation}\".")) ? 0 : 1;
        }
        if (kind == "--cohorts")
        {
            return CohortRun.Seeds(first, last, threads, mutation.Length == 0 ? CohortMutation.None
                : Named<CohortMutation>(mutation, "rule of a cohort")) ? 0 : 1;
        }
        bool held = true;
        foreach (FinderKind finder in finders) held &= RunSeeds(settings with { Finder = finder }, first, last, threads);
        return held ? 0 : 1;
    }

    private static int Scenarios(string names, bool isRewritten)
    {
        bool isAsExpected = true;
        foreach (string name in names == "all" ? ScenarioRun.Names() : names.Split(','))
        {
            try
            {
                ScenarioFile file = ScenarioRun.Read(name.EndsWith(".txt", StringComparison.Ordinal) ? name : name + ".txt");
                IReadOnlyList<IReadOnlyList<string>> happened = ScenarioRun.Play(file);
                if (file.Difference(happened) is not { } difference) continue;
                isAsExpected = false;
                Console.WriteLine(isRewritten ? $"{file.Name}: written anew" : difference);
                if (isRewritten) File.WriteAllText(Path.Combine(ScenarioRun.Folder, file.Name), file.With(happened));
            }
            catch (Exception e) when (e is ScenarioException or IOException)
            {
                isAsExpected = false;
                Console.WriteLine(e.Message);
            }
        }

        return isAsExpected ? 0 : 1;
    }

    private static bool RunSeeds(SimSettings settings, int first, int last, int threads)
    {
        Stopwatch watch = Stopwatch.StartNew();
        TimeSpan shown = TimeSpan.Zero;
        IEnumerable<SimSettings> cases = Enumerable.Range(first, last - first + 1).Select(s => settings with { Seed = s });
        SimTotals totals = SimRun.All(cases, threads, failuresMax: 1, t =>
        {
            if (watch.Elapsed - shown < TimeSpan.FromSeconds(5)) return;
            shown = watch.Elapsed;
            Console.WriteLine(Invariant(
                $"{settings.Finder}: {t.Cases} of {last - first + 1} cases, {t.Cases / watch.Elapsed.TotalSeconds:F0} per second"));
        });
        double seconds = watch.Elapsed.TotalSeconds;
        string speed = Invariant($"{totals.Cases} cases in {seconds:F1} s, {totals.Cases / seconds:F0} per second");
        Console.WriteLine($"{settings.Finder}: {speed}, {totals.Failures.Count} failed");
        foreach ((string what, long n) in totals.Happened) Console.WriteLine(Invariant($"  {n,12}  {what}"));
        foreach (SimFailure failure in totals.Failures)
            Print(failure with { Notes = SimRun.Try(failure.Settings with { Trace = true }, out _)?.Notes ?? [] });
        return totals.Failures.Count == 0;
    }

    private static int Trace(SimSettings settings)
    {
        SimFailure? failure = SimRun.Try(settings, out Cluster cluster);
        if (failure is not null)
        {
            Print(failure);
            return 1;
        }

        foreach (string note in cluster.Notes) Console.WriteLine(note);
        Console.WriteLine("Every invariant held.");
        return 0;
    }

    private static void Print(SimFailure failure)
    {
        foreach (string note in failure.Notes) Console.WriteLine(note);
        Console.WriteLine($"seed {failure.Settings.Seed}, {failure.Settings.Finder}: {failure.Text}");
    }

    private static int Number(string name, string text, int min, int max = int.MaxValue) =>
        int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out int n) && n >= min && n <= max ? n
        : throw new FormatException($"{name} takes a number from {min} on, not \"{text}\".");

    private static T Named<T>(string text, string what)
        where T : struct, Enum =>
        Enum.TryParse(text, ignoreCase: true, out T named) && Enum.IsDefined(named) ? named
            : throw new FormatException($"There is no {what} \"{text}\".");

    private static bool YesOrNo(string name, string text) => text switch
    {
        "yes" => true,
        "no" => false,
        _ => throw new FormatException($"{name} takes yes or no, not \"{text}\"."),
    };

    private static string Invariant(FormattableString text) => FormattableString.Invariant(text);
}

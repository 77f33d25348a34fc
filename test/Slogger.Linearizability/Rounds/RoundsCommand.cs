// The command line of a long run, and the check of a history that was kept:
//   dotnet run -c Release --project test/Slogger.Linearizability -- --rounds 100 --seed 1 --system sentinel
using System.Diagnostics;
using System.Globalization;
using Slogger.Linearizability.Checking;
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Rounds;

internal static class RoundsCommand
{
    private const string Help = """
        Runs a system of real processes under eight clients, breaks it, mends it, and checks that what the clients heard is linearizable.

          --rounds N            how many rounds (default 1)
          --seed S              of the first round; the next has S + 1 (default 1). It chooses operations, faults and their moments
          --system NAME         redis           one redis-server, appendfsync always, killed and started again (default)
                                redis-forgetful the same without a file: every round must be found wrong
                                slogger         one shard whose processes stand still and whose clock jumps; the executable must be built
                                cohort          a shard on three nodes; it must stand every fault, and two at once
                                cohort-quorum   the same with --strong-reads quorum
                                cohort-early    the same with --replies early: an operation counts when DPR.WAIT says that it is committed
                                cohorts         two shards on the same three nodes
                                sentinel        three redis-servers with three sentinels, appendfsync everysec, WAIT 1 behind each write
                                sentinel-always the same with appendfsync always
          --seconds T           all faults of a round are mended after so many (default 10); clients work on for a fifth of that
          --soak MINUTES        no rounds: a cohort under writes, whose leader has to go every ten seconds; what was acknowledged must be
                                there, and nothing may grow
          --check FILE          no rounds: check a history that was kept
          --help                this text

        Each node has a network namespace of its own; that needs root. A line says how a round went, with the time from the end of the last
        fault until a write was acknowledged. Where something is wrong, the text behind it tells what, and its history is kept.
        Exit code: 0 if every round was right, 1 if not, 2 for options that cannot be used, 3 if a round could not be run.
        Without any of these options the program runs its tests.
        """;

    private static readonly string[] s_names = ["--rounds", "--seed", "--system", "--seconds", "--soak", "--check", "--help"];

    private static readonly Dictionary<string, Func<NodeSystem>> s_systems = new()
    {
        ["redis"] = () => new RedisSystem(appendOnly: true),
        ["redis-forgetful"] = () => new RedisSystem(appendOnly: false),
        ["slogger"] = () => new SloggerSystem(),
        ["cohort"] = () => new CohortSystem(),
        ["cohort-quorum"] = () => new CohortSystem(reads: "quorum"),
        ["cohort-early"] = () => new CohortSystem(replies: "early"),
        ["cohorts"] = () => new CohortSystem(shards: 2),
        ["sentinel"] = () => new SentinelSystem("everysec"),
        ["sentinel-always"] = () => new SentinelSystem("always"),
    };

    public static bool IsMeant(string[] args) => args.Any(s_names.Contains);

    public static async Task<int> RunAsync(string[] args)
    {
        try
        {
            return await RunCheckedAsync(args);
        }
        catch (FormatException e)
        {
            await Console.Error.WriteLineAsync($"{e.Message} Try --help.");
            return 2;
        }
        catch (Exception e) when (Isolation.IsEntered)
        {
            // The first process of its kind cannot be aborted.
            await Console.Error.WriteLineAsync($"A round could not be run: {e}");
            return 3;
        }
    }

    private static async Task<int> RunCheckedAsync(string[] args)
    {
        var (rounds, seed, seconds, system, soak) = (1, 1, 10, "redis", 0);
        for (int i = 0; i < args.Length; i += 2)
        {
            if (args[i] == "--help")
            {
                Console.WriteLine(Help);
                return 0;
            }

            string value = i + 1 < args.Length ? args[i + 1] : throw new FormatException($"{args[i]} needs a value.");
            switch (args[i])
            {
                case "--rounds": rounds = Number(args[i], value); break;
                case "--seed": seed = Number(args[i], value); break;
                case "--seconds": seconds = Number(args[i], value); break;
                case "--system" when s_systems.ContainsKey(value): system = value; break;
                case "--system": throw new FormatException($"no system is called {value}.");
                case "--soak": soak = Number(args[i], value); break;
                case "--check": return Check(value);
                default: throw new FormatException($"{args[i]} is no option.");
            }
        }

        if (Isolation.Lacking is { } lacking) { throw new FormatException($"{lacking}."); }
        Isolation.Enter(args);
        await Network.PrepareAsync();
        if (soak > 0) { return await SoakAsync(TimeSpan.FromMinutes(soak)); }
        return await RoundsAsync(rounds, seed, TimeSpan.FromSeconds(seconds), system);
    }

    private static async Task<int> RoundsAsync(int rounds, int seed, TimeSpan faultsWithin, string name)
    {
        int wrong = 0;
        Dictionary<string, int> kinds = [];
        List<double> served = [];
        for (int round = seed; round < seed + rounds; round++)
        {
            var system = s_systems[name]();
            await using var network = await Network.CreateAsync(system.Nodes);
            // Its processes end before their network goes.
            await using var started = system;
            var result = await Round.RunAsync(system, network, round, faultsWithin, calm: faultsWithin / 5);
            var (found, history) = (result.Found, result.History);
            List<string> verdict = [.. found.Select(f => f.Kind.ToString()).Distinct()];
            if (!result.IsServed || result.ServedAfter is null) { verdict.Add("NotServed"); }
            Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"""
                seed {round}: {(verdict.Count == 0 ? "right" : string.Join(", ", verdict))}; {history.Count} operations, {
                Count(history, Outcome.Unknown)} unknown, {Count(history, Outcome.Failed)} refused; served after {
                (result.ServedAfter is { } after ? $"{after.TotalMilliseconds:0} ms" : "never")}; {result.Faults}
                """));
            if (result.ServedAfter is { } t) { served.Add(t.TotalMilliseconds); }
            if (verdict.Count == 0) { continue; }
            wrong++;
            foreach (string kind in verdict) { kinds[kind] = kinds.GetValueOrDefault(kind) + 1; }
            foreach (var anomaly in found.DistinctBy(f => f.Kind))
            {
                Console.WriteLine($"  {anomaly.ToString().ReplaceLineEndings("\n  ")}");
            }

            string kept = Path.Combine(Path.GetTempPath(), $"slogger-history-{name}-{round}.jsonl");
            HistoryFile.Save(kept, history);
            await File.WriteAllTextAsync(kept + ".log", result.Logs);
            Console.WriteLine($"  kept in {kept}, with what the processes said beside it");
        }

        served.Sort();
        string how = string.Join(", ", kinds.OrderByDescending(k => k.Value).Select(k => $"{k.Key} {k.Value}"));
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"""
            {rounds} rounds of {name}, {wrong} wrong{(wrong == 0 ? "" : $" ({how})")}; served again after the last fault: median {
            At(0.5):0} ms, 95 % {At(0.95):0} ms, longest {At(1):0} ms
            """));
        return wrong == 0 ? 0 : 1;

        double At(double part) => served.Count == 0 ? double.NaN : served[(int)(part * (served.Count - 1))];
    }

    private static async Task<int> SoakAsync(TimeSpan length)
    {
        var system = new CohortSystem();
        await using var network = await Network.CreateAsync(system.Nodes);
        await using var started = system;
        await system.StartAsync();
        bool isRight = await new Soak(system, network).RunAsync(length);
        if (!isRight) { await File.WriteAllTextAsync(Path.Combine(Path.GetTempPath(), "slogger-soak.log"), system.Logs()); }
        return isRight ? 0 : 1;
    }

    private static int Check(string file)
    {
        var history = HistoryFile.Load(file);
        long began = Stopwatch.GetTimestamp();
        var found = HistoryChecker.Check(history);
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture,
            $"{history.Count} operations, {found.Count} findings in {Stopwatch.GetElapsedTime(began).TotalSeconds:0.0} s"));
        foreach (var anomaly in found) { Console.WriteLine(anomaly); }
        return found.Count == 0 ? 0 : 1;
    }

    private static int Count(IReadOnlyList<Operation> history, Outcome outcome) => history.Count(o => o.Outcome == outcome);

    private static int Number(string name, string value) =>
        int.TryParse(value, NumberStyles.None, CultureInfo.InvariantCulture, out int number) && number > 0
            ? number : throw new FormatException($"{name} takes a number, not \"{value}\".");
}

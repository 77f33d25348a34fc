// The command line of a long run of take-overs:
//   dotnet run -c Release --project test/Slogger.Integration.Tests -- --take-over --rounds 30 --seed 1
using System.Globalization;
using System.Runtime.InteropServices;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Fencing;

internal static class TakeOverCommand
{
    private const string Usage =
        """
        --take-over                     run take-overs of a shard whose old proxy sleeps, instead of the tests
          --rounds N                    how many (default: 30)
          --seed S                      chooses the moments (default: the clock)
          --metadata sqlite|postgres    default: sqlite
          --commit log|bgsave           default: log
        """;

    /// <returns>0 if nothing was done late, 1 if something was, 2 for a bad option.</returns>
    public static async Task<int> RunAsync(string[] args)
    {
        var given = new Dictionary<string, string>();
        string[] known = ["rounds", "seed", "metadata", "commit"];
        for (int i = 0; i < args.Length; i++)
        {
            if (args[i] == "--take-over") { continue; }
            if (args[i].StartsWith("--", StringComparison.Ordinal) && known.Contains(args[i][2..]) && i + 1 < args.Length)
            {
                given[args[i][2..]] = args[++i];
                continue;
            }
            await Console.Error.WriteLineAsync($"{args[i]} is not understood\n{Usage}");
            return 2;
        }
        int Number(string name, int otherwise) => given.TryGetValue(name, out string? text) ? int.Parse(text, CultureInfo.InvariantCulture)
            : otherwise;
        int seed = Number("seed", Environment.TickCount & 0xFFFFFF);
        int rounds = Number("rounds", 30);
        Console.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var run = new TakeOverRun(workspace, seed, Console.WriteLine, "--commit", given.GetValueOrDefault("commit", "log"))
        {
            Postgres = given.GetValueOrDefault("metadata") == "postgres",
        };
        using var interrupted = PosixSignalRegistration.Create(PosixSignal.SIGINT, _ =>
        {
            // The servers would outlive an interrupted run.
            run.DisposeAsync().AsTask().Wait();
            Environment.Exit(130);
        });
        await run.StartAsync();
        try
        {
            for (int round = 1; round <= rounds; round++) { await run.RoundAsync(round); }
            Console.WriteLine($"{rounds} take-overs, {run.Requests.Answered} of {run.Requests.Sent} requests answered, nothing done late");
            return 0;
        }
        catch (InvalidDataException e)
        {
            await Console.Error.WriteLineAsync(e.Message);
            return 1;
        }
    }
}

// The command line of a long run:
//   dotnet run -c Release --project test/Slogger.Integration.Tests -- --chaos --rounds 200 --seed 1
using System.Globalization;
using System.Runtime.InteropServices;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Chaos;

internal static class ChaosCommand
{
    private const string Usage =
        """
        --chaos                         run rounds of kill -9 instead of the tests
          --rounds N                    how many (default: SLOGGER_CHAOS_ROUNDS, else 200)
          --seed S                      chooses commands, faults and moments (default: SLOGGER_CHAOS_SEED, else the clock)
          --mode supervised|attached|raw   whose Redis (default: supervised; raw: the harness on Redis alone)
          --metadata sqlite|postgres    default: sqlite
          --commit log|bgsave           default: log
          --version-interval DURATION   default: 5ms
          --on-rollback close|error     default: close
          --log-dirs N                  so many further directories of the log (default: 0); the log is not replayed elsewhere then
          --fault NAME                  this fault only: redis, proxy, both, redis-twice, redis-then-proxy, sigterm
          --password PASSWORD           Redis wants it of everybody: the writers log in as the user that the proxy is
          --replay-every N              replay the log elsewhere after every N rounds (default: 10; 0: never)
        """;

    /// <returns>0 if every promise was kept, 1 if not, 2 for a bad option.</returns>
    public static async Task<int> RunAsync(string[] args)
    {
        Dictionary<string, string> given;
        try
        {
            given = Parse(args);
        }
        catch (ArgumentException e)
        {
            await Console.Error.WriteLineAsync(e.Message + "\n" + Usage);
            return 2;
        }

        var fromEnvironment = ChaosOptions.FromEnvironment(rounds: 200);
        var options = fromEnvironment with
        {
            Rounds = Number("rounds", fromEnvironment.Rounds),
            Seed = Number("seed", fromEnvironment.Seed),
            // Several directories cannot be copied at one moment.
            ReplayEvery = Number("log-dirs", 0) > 0 ? 0 : Number("replay-every", 10),
            Report = Console.WriteLine,
        };
        RespClient.Password = given.GetValueOrDefault("password");
        using var workspace = new Workspace();
        await using IDeployment deployment = given.GetValueOrDefault("mode") == "raw"
            ? new RawDeployment(workspace, appendOnly: true)
            : Proxy(workspace, given);
        using var interrupted = PosixSignalRegistration.Create(PosixSignal.SIGINT, _ =>
        {
            // The servers would outlive an interrupted run.
            deployment.DisposeAsync().AsTask().Wait();
            Environment.Exit(130);
        });
        var report = await new ChaosRun(deployment, options).RunAsync();
        if (report.Violations.Count > 0)
        {
            await Console.Error.WriteLineAsync(report.Text);
        }

        return report.Violations.Count == 0 ? 0 : 1;

        int Number(string name, int otherwise) =>
            given.TryGetValue(name, out string? text) ? int.Parse(text, CultureInfo.InvariantCulture) : otherwise;
    }

    private static ProxyDeployment Proxy(Workspace workspace, Dictionary<string, string> given)
    {
        var setup = new ProxySetup(
            Attached: given.GetValueOrDefault("mode") == "attached",
            Postgres: given.GetValueOrDefault("metadata") == "postgres",
            VersionInterval: given.GetValueOrDefault("version-interval", "5ms"))
        {
            Commit = given.GetValueOrDefault("commit", "log"),
            RedisPassword = RespClient.Password,
            Options = given.TryGetValue("on-rollback", out string? rollback) ? ["--on-rollback", rollback] : [],
            LogDirectories = int.Parse(given.GetValueOrDefault("log-dirs", "0"), CultureInfo.InvariantCulture),
        };
        return given.TryGetValue("fault", out string? fault)
            ? new ProxyDeployment(workspace, setup) { Faults = [ProxyDeployment.AllFaults.First(f => f.Name == fault)] }
            : new ProxyDeployment(workspace, setup);
    }

    private static Dictionary<string, string> Parse(string[] args)
    {
        string[] known = ["rounds", "seed", "mode", "metadata", "commit", "version-interval", "on-rollback", "fault", "replay-every",
            "password", "log-dirs"];
        var given = new Dictionary<string, string>();
        var rest = args.Where(a => a != "--chaos").ToArray();
        for (int i = 0; i < rest.Length; i += 2)
        {
            string name = rest[i].TrimStart('-');
            if (name is "help" or "h")
            {
                throw new ArgumentException("long run of kills against the proxy");
            }

            if (!known.Contains(name) || i + 1 == rest.Length)
            {
                throw new ArgumentException($"unknown or incomplete option {rest[i]}");
            }

            given[name] = rest[i + 1];
        }

        return given;
    }
}

// The command line of a long run of disasters:
//   dotnet run -c Release --project test/Slogger.Integration.Tests -- --sites-chaos --rounds 300 --seed 1
using System.Globalization;
using System.Runtime.InteropServices;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Sites;

internal static class SitesCommand
{
    private static readonly string Usage =
        $"""
        --sites-chaos                   run rounds of disasters of two sites instead of the tests
          --rounds N                    how many (default: 300)
          --seed S                      chooses faults, disasters, moments and what the writers do (default: the clock)
          --shards N                    default: 4
          --backup-shards N             of the other site. Default: as many
          --metadata sqlite|postgres    default: postgres
          --delay MS                    of the links between the sites, one way; default: 12.5
          --version-interval DURATION   default: 5ms
          --backup-store redis|faster   of the site that takes over; faster: embedded stores, which have no backup themselves, so each
                                        round has sites of its own. Default: redis
          --fault NAME                  this fault only: {string.Join(", ", SitesRun.Faults)}
        """;

    /// <returns>0 if every promise was kept, 1 if not, 2 for a bad option.</returns>
    public static async Task<int> RunAsync(string[] args)
    {
        var given = new Dictionary<string, string>();
        string[] known = ["rounds", "seed", "shards", "backup-shards", "metadata", "delay", "version-interval", "fault", "backup-store"];
        for (int i = 0; i < args.Length; i++)
        {
            if (args[i] == "--sites-chaos") { continue; }
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
        Console.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        bool embedded = given.GetValueOrDefault("backup-store") == "faster";
        TwoSites? sites = null;
        async Task<TwoSites> StartAsync()
        {
            sites = new TwoSites(
                workspace, Number("shards", 4), Number("backup-shards", Number("shards", 4)),
                    given.GetValueOrDefault("metadata") != "sqlite", embedded,
                        TimeSpan.FromMilliseconds(double.Parse(given.GetValueOrDefault("delay", "12.5"), CultureInfo.InvariantCulture)),
                "--version-interval", given.GetValueOrDefault("version-interval", "5ms"));
            await sites.StartAsync();
            return sites;
        }
        using var interrupted = PosixSignalRegistration.Create(PosixSignal.SIGINT, _ =>
        {
            // The servers would outlive an interrupted run.
            sites?.DisposeAsync().AsTask().Wait();
            Environment.Exit(130);
        });
        try
        {
            await new SitesRun(await StartAsync(), Number("rounds", 300), seed,
                Console.WriteLine) { Only = given.GetValueOrDefault("fault"), Anew = embedded ? StartAsync : null }.RunAsync();
            return 0;
        }
        catch (Exception e) when (e is InvalidDataException or TimeoutException or InvalidOperationException)
        {
            await Console.Error.WriteLineAsync(e is InvalidDataException ? e.Message : $"{e.Message}\n{sites?.Tail()}");
            return 1;
        }
        finally
        {
            if (sites is not null) { await sites.DisposeAsync(); }
        }
    }
}

// A switch-over on a machine that has much else to do: it may take longer, and it succeeds.
using System.Diagnostics;
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

public sealed class BusySwitchOverTests(ITestOutputHelper output)
{
    private const int LoadSeconds = 300;

    // SLOGGER_TEST_ROUNDS=10 SLOGGER_TEST_BUSY=100 for a longer run on a busier machine.
    [Fact]
    public async Task SwitchOver_OthersWantTheProcessors_SucceedsAndLosesNothing()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        int rounds = Given("SLOGGER_TEST_ROUNDS", 1), busy = Given("SLOGGER_TEST_BUSY", 12);
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: true, TimeSpan.FromMilliseconds(5));
        await sites.StartAsync();
        for (int round = 0; round < rounds; round++)
        {
            string word = FormattableString.Invariant($"round {round}");
            await WriteAsync(sites.Primary, word);
            using (new BusyProcesses(busy))
            {
                await Task.Delay(TimeSpan.FromSeconds(3));
                long began = Stopwatch.GetTimestamp();
                string text = await sites.SwitchOverAsync();
                double seconds = Stopwatch.GetElapsedTime(began).TotalSeconds;
                output.WriteLine(FormattableString.Invariant(
                    $"{word}: the other site serves after {seconds:0.0} s beside {busy} busy processes"));
                Assert.Contains("nothing is lost", text, StringComparison.Ordinal);
            }
            await ReadAsync(sites.Primary, word);
            if (round + 1 < rounds) { await sites.SeedBackAsync(); }
        }
    }

    private static async Task WriteAsync(Site site, string word)
    {
        for (int s = 0; s < 2; s++)
        {
            using RespClient client = await site.ConnectAsync(s);
            await client.DoAsync("SET", site.Key(s, "word"), word);
        }
    }

    private static async Task ReadAsync(Site site, string word)
    {
        for (int s = 0; s < 2; s++)
        {
            using RespClient client = await site.ConnectAsync(s);
            Assert.Equal(word, (await client.DoAsync("GET", site.Key(s, "word"))).Text);
        }
    }

    private static int Given(string variable, int otherwise) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), NumberStyles.None, CultureInfo.InvariantCulture, out int given) ? given
            : otherwise;

    /// <summary>Processes that do nothing but want a processor. They end by themselves, should nobody end them.</summary>
    private sealed class BusyProcesses : IDisposable
    {
        private readonly Process[] _all;

        public BusyProcesses(int count) => _all = [.. Enumerable.Range(0, count).Select(_ => Start())];

        private static Process Start()
        {
            string work = $"end=$(($(date +%s) + {LoadSeconds})); while [ $(date +%s) -lt $end ]; do i=0; while [ $i -lt 200000 ]; do "
                + "i=$((i + 1)); done; done";
            return Process.Start(new ProcessStartInfo("/bin/sh") { ArgumentList = { "-c", work } })!;
        }

        public void Dispose()
        {
            foreach (Process one in _all) { one.Kill(); }
            foreach (Process one in _all)
            {
                one.WaitForExit();
                one.Dispose();
            }
        }
    }
}

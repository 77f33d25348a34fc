// slogger roll: runs a program at one instant after the other, with the whole data of all shards as it was.
using System.ComponentModel;
using System.Diagnostics;
using System.Globalization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>What was gone through.</summary>
/// <param name="From">The first instant.</param>
/// <param name="To">The last.</param>
/// <param name="Steps">At how many the program was run.</param>
internal sealed record RollReport(PastInstant From, PastInstant To, int Steps) : Report
{
    protected override JsonTypeInfo Shape => PastReportJson.Default.RollReport;

    public override void Print(AppHost host)
    {
        host.Output.WriteLine(PastText.Head(From.Version, From.Time));
        host.Output.WriteLine(PastText.Head(To.Version, To.Time));
        host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture, $"# the program was run {Steps} times"));
    }
}

/// <summary>Goes through the past.</summary>
internal static class RollCommand
{
    public const string Name = "roll";

    private const string What = "What is done", From = "from", To = "to", Step = "step", Exec = "exec", Origin = "the command line";
    private const string Shell = "/bin/sh";
    private static readonly TimeSpan StepMin = TimeSpan.FromMilliseconds(1), StepMax = TimeSpan.FromDays(3650);

    // Else the shards would give it up while the program runs.
    private static readonly TimeSpan HeldFor = TimeSpan.FromSeconds(20);

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new(From, What, "TIME|DURATION|V", "The first instant: a time (as --at of slogger get), so long ago, or a version.", "none", ""),
        new(To, What, "TIME|DURATION|V", "The last.", "now, with all that was acknowledged", ""),
        new(Step, What, "DURATION", "How much time there is between two.", "none", ""),
        new(Exec, What, "COMMAND", "What is run at each, by /bin/sh.", "none", ""),
        .. PastArguments.Access,
    ];

    public static Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        List<OptionError> errors = [];
        string? since = texts.One(From, errors), until = texts.One(To, errors), every = texts.One(Step, errors);
        string? run = texts.One(Exec, errors);
        const string Form = "slogger roll --from 1h --step 1m --exec ./look.sh";
        if (since is null) { errors.Add(new OptionError($"--{From} is needed", Origin, Form)); }
        if (every is null) { errors.Add(new OptionError($"--{Step} is needed", Origin, Form)); }
        if (string.IsNullOrWhiteSpace(run)) { errors.Add(new OptionError($"--{Exec} is needed", Origin, Form)); }
        string[]? from = since is null ? null : PastArguments.InstantOf(From, since, errors);
        string[]? to = PastArguments.InstantOf(To, until ?? "0s", errors);
        if (!OptionText.Duration(StepMin, StepMax)(every ?? "1s", out TimeSpan step, out string problem))
        {
            errors.Add(new OptionError($"--{Step} \"{every}\" {problem}", Origin, $"write --{Step} 1s"));
        }
        TextWriter output = Report.Progress(host, texts.Values.ContainsKey(Report.Option));
        return PastArguments.RunAsync(texts, host, errors, async past =>
        {
            PastInstant first = await past.FindAsync(from!).ConfigureAwait(false), last = await past.FindAsync(to!).ConfigureAwait(false);
            await using PastRoll roll = await PastRoll.OpenAsync(past, first.Version, last.Version, host.Error)
                .ConfigureAwait(false);
            await roll.MoveToAsync(first.Version).ConfigureAwait(false);
            IReadOnlyList<(long Shard, string Socket)> sockets = await roll.OpenToReadersAsync().ConfigureAwait(false);
            int steps = 0;
            for (DateTimeOffset due = first.Time; due <= last.Time; due += step)
            {
                // The last version that had ended then at the shard that is asked, and from there the first that all have.
                string time = PastCluster.Text(due.ToUnixTimeMilliseconds());
                long version = Math.Min((await past.FindThereAsync(["TIME", time]).ConfigureAwait(false)).Version, last.Version);
                if (version > roll.At.Version) { await roll.MoveToAsync(version).ConfigureAwait(false); }
                await RunAsync(roll, sockets, run!, output).ConfigureAwait(false);
                steps++;
            }
            return new RollReport(first, roll.At, steps);
        });
    }

    private static async Task RunAsync(PastRoll roll, IReadOnlyList<(long Shard, string Socket)> sockets, string command,
        TextWriter output)
    {
        var start = new ProcessStartInfo(Shell, ["-c", command]) { RedirectStandardOutput = true };
        foreach ((long shard, string socket) in sockets)
        {
            start.Environment[string.Create(CultureInfo.InvariantCulture, $"SLOGGER_SOCKET_{shard}")] = socket;
        }
        start.Environment["SLOGGER_VERSION"] = PastCluster.Text(roll.At.Version);
        start.Environment["SLOGGER_TIME"] = roll.At.Time.UtcDateTime.ToString("yyyy-MM-ddTHH:mm:ss.fffZ", CultureInfo.InvariantCulture);
        try
        {
            using Process run = Process.Start(start)!;
            Task said = CopyAsync(run.StandardOutput, output), ended = run.WaitForExitAsync();
            try
            {
                while (await Task.WhenAny(ended, Task.Delay(HeldFor)).ConfigureAwait(false) != ended)
                {
                    await roll.MoveToAsync(roll.At.Version).ConfigureAwait(false);
                }
            }
            catch
            {
                // What it reads is gone.
                run.Kill(entireProcessTree: true);
                throw;
            }
            await said.ConfigureAwait(false);
            if (run.ExitCode == 0) { return; }
            throw new ProxyUnreachableException(string.Create(CultureInfo.InvariantCulture,
                $"at version {roll.At.Version} the program ended with exit code {run.ExitCode}"), "no further one was run");
        }
        catch (Win32Exception e)
        {
            throw new ProxyUnreachableException($"{Shell} cannot be started: {e.Message}", "run this command where there is one");
        }
    }

    private static async Task CopyAsync(StreamReader from, TextWriter to)
    {
        while (await from.ReadLineAsync().ConfigureAwait(false) is { } line) { await to.WriteLineAsync(line).ConfigureAwait(false); }
    }
}

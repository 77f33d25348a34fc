// What the executable takes from its process, so that tests can give their own: streams, environment, and the two long runs.
using System.Collections;
using Slogger.Cohorts;
using Slogger.Proxy;
using Slogger.Proxy.Configuration;
using Slogger.Sites;

namespace Slogger.Cli.Terminal;

/// <summary>The surroundings of one run of the executable.</summary>
public sealed record AppHost
{
    /// <summary>What the command answers.</summary>
    public required TextWriter Output { get; init; }

    /// <summary>What a person answers; null: nobody can be asked.</summary>
    public TextReader? Input { get; init; }

    /// <summary>Errors and log lines.</summary>
    public required TextWriter Error { get; init; }

    /// <summary>Environment variables.</summary>
    public required IDictionary Environment { get; init; }

    /// <summary>True if output is a terminal that shows colours.</summary>
    public bool Colours { get; init; }

    /// <summary>Width of the output in columns.</summary>
    public int Width { get; init; } = 100;

    /// <summary>Columns that a table may take. A file or another program gets each row as one line.</summary>
    public int TableWidth { get; init; } = 100;

    /// <summary>True if signals stop the command.</summary>
    public bool HandlesSignals { get; init; }

    /// <summary>When the command was started, a timestamp of <see cref="System.Diagnostics.Stopwatch"/>.</summary>
    public long Began { get; init; } = System.Diagnostics.Stopwatch.GetTimestamp();

    /// <summary>Ends a long run, as a signal does.</summary>
    public CancellationToken Stop { get; init; }

    /// <summary>Runs a proxy.</summary>
    public Func<ServeOptions, LiveOptions, ILogger, CancellationToken, Task<ProxyExit>> Serve { get; init; } = CohortHost.RunAsync;

    /// <summary>Runs a process of a backup.</summary>
    public Func<ServeOptions, LiveOptions, ILogger, CancellationToken, Task<ProxyExit>> Backup { get; init; } = BackupHost.RunAsync;

    /// <summary>Restores offline.</summary>
    public Func<RestoreOptions, ILogger, CancellationToken, Task<ProxyExit>> Restore { get; init; } = OfflineRestore.RunAsync;

    /// <summary>Has a cluster leave what a dead shard had.</summary>
    public Func<RecoverOptions, ILogger, CancellationToken, Task<ProxyExit>> Recover { get; init; } = DeadShard.RunAsync;

    /// <summary>Has a shard leave its cluster.</summary>
    public Func<RecoverOptions, ILogger, CancellationToken, Task<ProxyExit>> Leave { get; init; } = LeavingShard.RunAsync;

    /// <summary>The real process.</summary>
    public static AppHost Process => new()
    {
        Began = StartOfProcess(),
        Output = Console.Out,
        Error = Console.Error,
        Input = Console.IsInputRedirected ? null : Console.In,
        Environment = System.Environment.GetEnvironmentVariables(),
        Colours = !Console.IsOutputRedirected && System.Environment.GetEnvironmentVariable("NO_COLOR") is null,
        Width = Console.IsOutputRedirected ? 100 : TerminalWidth(),
        TableWidth = Console.IsOutputRedirected ? 1000 : TerminalWidth(),
        HandlesSignals = true,
    };

    private static int TerminalWidth() => Math.Clamp(Console.WindowWidth, 60, 140);

    // What a person waits for begins with the process, not with its first line of code.
    private static long StartOfProcess()
    {
        using var process = System.Diagnostics.Process.GetCurrentProcess();
        TimeSpan age = DateTime.UtcNow - process.StartTime.ToUniversalTime();
        return System.Diagnostics.Stopwatch.GetTimestamp() - (age > TimeSpan.Zero
            ? (long)(age.TotalSeconds * System.Diagnostics.Stopwatch.Frequency) : 0);
    }
}

// The other commands of slogger.
using Slogger.Cli;
using Slogger.Cli.Terminal;

namespace Slogger.Integration.Tests.Processes;

internal sealed partial class ProxyProcess
{
    private static readonly TimeSpan CommandLimit = TimeSpan.FromSeconds(120);

    /// <summary>Runs another command of slogger to its end, in this process: starting one costs half a second of a processor.</summary>
    /// <exception cref="TimeoutException">It did not end; the message has what it said.</exception>
    public static async Task<(int ExitCode, string Output)> CommandAsync(params string[] arguments)
    {
        // As root it becomes the owner of the data, for good.
        if (arguments[0] == "restore") { return await CommandProcessAsync(arguments); }
        using var stop = new CancellationTokenSource(CommandLimit);
        var said = new StringWriter();
        TextWriter both = TextWriter.Synchronized(said);
        var host = new AppHost
        {
            Output = both, Error = both, Environment = new Dictionary<string, string>(), TableWidth = 1000, Stop = stop.Token,
        };
        try
        {
            return (await Task.Run(() => SloggerApp.RunAsync(arguments, host)).WaitAsync(CommandLimit), said.ToString());
        }
        catch (TimeoutException e)
        {
            throw new TimeoutException($"slogger {string.Join(' ', arguments)} did not end in time\n{said}", e);
        }
    }

    /// <summary>The same in a process of its own.</summary>
    public static Task<(int ExitCode, string Output)> CommandProcessAsync(params string[] arguments) =>
        ChildProcess.RunAsync("dotnet", [Executable, .. arguments], CommandLimit);
}

// The product's other commands. What matters is what they answer, so they run in the tests' process: one of their own costs half a second
// of a processor. A restore starts a Redis, and holds memory, so it has one. What only a process has, its signals and modes, FileModeTests
// and the documents' pages show.
using System.Collections;
using Slogger.Cli;
using Slogger.Cli.Terminal;

namespace Slogger.Integration.Tests.Processes;

internal sealed partial class ProxyProcess
{
    private const int TableWidth = 1000;
    private static readonly TimeSpan CommandLimit = TimeSpan.FromSeconds(120);

    /// <summary>Runs another command than serve to its end.</summary>
    /// <exception cref="TimeoutException">It did not end within two minutes.</exception>
    public static async Task<(int ExitCode, string Output)> CommandAsync(params string[] arguments)
    {
        if (arguments[0] == "restore") { return await ChildProcess.RunAsync("dotnet", [Executable, .. arguments], CommandLimit); }
        using var said = new StringWriter();
        using var limit = new CancellationTokenSource(CommandLimit);
        TextWriter output = TextWriter.Synchronized(said);
        int code = await Task.Run(() => SloggerApp.RunAsync(arguments,
            new() { Output = output, Error = output, Environment = new Hashtable(), TableWidth = TableWidth, Stop = limit.Token }));
        if (limit.IsCancellationRequested) { throw new TimeoutException($"slogger {arguments[0]} did not end in time\n{said}"); }
        return (code, said.ToString());
    }
}

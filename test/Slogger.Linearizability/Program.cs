// The entry point of the test program: the tests as usual, or with options of its own rounds of a running system with faults.
namespace Slogger.Linearizability;

internal static class Program
{
    public static async Task<int> Main(string[] args) => await Xunit.Runner.InProc.SystemConsole.ConsoleRunner.Run(args);
}

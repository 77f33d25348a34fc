// The entry point of the test program: the tests as usual, or with options of its own rounds of a running system with faults.
using Slogger.Linearizability.Rounds;

namespace Slogger.Linearizability;

internal static class Program
{
    public static async Task<int> Main(string[] args)
    {
        if (RoundsCommand.IsMeant(args)) { return await RoundsCommand.RunAsync(args); }
        return args.Any(a => a is "--server" or "--internal-msbuild-node")
            ? await Xunit.MicrosoftTestingPlatform.TestPlatformTestFramework.RunAsync(
                args, SelfRegisteredExtensions.AddSelfRegisteredExtensions)
            : await Xunit.Runner.InProc.SystemConsole.ConsoleRunner.Run(args);
    }
}

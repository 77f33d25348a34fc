// The entry point of the test program: the tests as usual, or with options of its own as many seeds as one likes.
namespace Slogger.Simulation;

internal static class Program
{
    public static async Task<int> Main(string[] args)
    {
        if (SimulationCommand.IsMeant(args)) return SimulationCommand.Run(args);
        return args.Any(a => a is "--server" or "--internal-msbuild-node")
            ? await Xunit.MicrosoftTestingPlatform.TestPlatformTestFramework.RunAsync(
            args, SelfRegisteredExtensions.AddSelfRegisteredExtensions)
            : await Xunit.Runner.InProc.SystemConsole.ConsoleRunner.Run(args);
    }
}

// The entry point of the test program: the tests as usual, or a long run: --kills, --soak, --differential.
using Slogger.Faster.Tests.Commands.Differential;
using Slogger.Faster.Tests.Kills;

namespace Slogger.Faster.Tests;

internal static class Program
{
    public static async Task<int> Main(string[] args) => args switch
    {
        [KillChild.Option, ..] => await KillChild.RunAsync(args),
        ["--kills", ..] => await KillRounds.RunAsync(args),
        ["--soak", ..] => await Soak.RunAsync(args),
        ["--differential", ..] => DifferentialCommand.Run(args),
        _ when args.Any(a => a is "--server" or "--internal-msbuild-node") =>
            await Xunit.MicrosoftTestingPlatform.TestPlatformTestFramework.RunAsync(
                args, SelfRegisteredExtensions.AddSelfRegisteredExtensions),
        _ => await Xunit.Runner.InProc.SystemConsole.ConsoleRunner.Run(args),
    };
}

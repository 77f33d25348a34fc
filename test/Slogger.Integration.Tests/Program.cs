// The entry point of the test program: the tests as usual, or with --chaos, --cluster-chaos, --client-chaos, --multiplexer, --sites-chaos,
// --take-over or --fuzz a long run.
using Slogger.Integration.Tests.Chaos;

// The tests mostly wait; each has processes, ports and directories of its own.
[assembly: CollectionBehavior(MaxParallelThreads = 3)]

namespace Slogger.Integration.Tests;

internal static class Program
{
    public static async Task<int> Main(string[] args)
    {
        if (args.Contains("--chaos"))
        {
            return await ChaosCommand.RunAsync(args);
        }

        if (args.Contains("--cluster-chaos"))
        {
            return await Cluster.ClusterChaosCommand.RunAsync(args);
        }

        if (args.Contains("--client-chaos"))
        {
            return await Client.ClientChaosCommand.RunAsync(args);
        }

        if (args.Contains("--multiplexer"))
        {
            return await Multiplexer.MultiplexerCommand.RunAsync(args);
        }

        if (args.Contains("--take-over"))
        {
            return await Fencing.TakeOverCommand.RunAsync(args);
        }

        if (args is [Stores.FaultyStores.Option, ..])
        {
            return await Stores.FaultyStores.RunAsync(args);
        }

        if (args.Contains("--sites-chaos"))
        {
            return await Sites.SitesCommand.RunAsync(args);
        }

        if (args is [Sites.SitePartner.Option])
        {
            return await Sites.SitePartner.RunAsync();
        }

        if (args is ["--hosting-application", ..])
        {
            return await Embedded.HostingApplication.RunAsync(args);
        }

        if (args.Contains("--fuzz"))
        {
            return await Fuzzing.FuzzCommand.RunAsync(args);
        }

        return args.Any(a => a is "--server" or "--internal-msbuild-node")
            ? await Xunit.MicrosoftTestingPlatform.TestPlatformTestFramework.RunAsync(
            args, SelfRegisteredExtensions.AddSelfRegisteredExtensions)
            : await Xunit.Runner.InProc.SystemConsole.ConsoleRunner.Run(args);
    }
}

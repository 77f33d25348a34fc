// The command line of a long run: --chaos [--rounds N] [--seed S] [--mode supervised|attached] [--metadata sqlite|postgres].
namespace Slogger.Integration.Tests.Chaos;

internal static class ChaosCommand
{
    public static Task<int> RunAsync(string[] args) => Task.FromResult(args.Length);
}

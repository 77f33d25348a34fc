// The command line of a long comparison with Redis:
//   dotnet run -c Release --project test/Slogger.Faster.Tests -- --differential 1000000 --seed 1
using System.Diagnostics;
using System.Globalization;

namespace Slogger.Faster.Tests.Commands.Differential;

internal static class DifferentialCommand
{
    private const string Usage =
        "--differential COMMANDS [--seed FIRST]   compare the engine's replies with a real redis-server's, instead of the tests";

    /// <returns>0 if no reply differed, 1 if one did, 2 for a bad option.</returns>
    public static int Run(string[] args)
    {
        int seed = Environment.TickCount & 0xFFFFFF;
        if (args is not ["--differential", string number, ..] || !long.TryParse(number, CultureInfo.InvariantCulture, out long commands)
            || !(args.Length == 2 || (args is [_, _, "--seed", string first]
            && int.TryParse(first, CultureInfo.InvariantCulture, out seed))))
        {
            Console.Error.WriteLine(Usage);
            return 2;
        }

        using var run = new DifferentialRun();
        long began = Stopwatch.GetTimestamp(), done = 0, shown = began;
        for (; done < commands; done += DifferentialRun.ChapterCommands, seed++)
        {
            if (run.Run(seed) is { } difference)
            {
                Console.WriteLine(difference);
                return 1;
            }

            if (Stopwatch.GetElapsedTime(shown).TotalSeconds < 5) continue;
            shown = Stopwatch.GetTimestamp();
            Console.WriteLine($"{done + DifferentialRun.ChapterCommands} commands, "
                + $"{(done + DifferentialRun.ChapterCommands) / Stopwatch.GetElapsedTime(began).TotalSeconds:F0} a second, seed {seed}");
        }

        Console.WriteLine($"{done} commands without a difference, {done / Stopwatch.GetElapsedTime(began).TotalSeconds:F0} a second; "
            + $"seeds up to {seed - 1}");
        return 0;
    }
}

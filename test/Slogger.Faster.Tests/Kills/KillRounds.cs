// Rounds of kill -9: a process works on a store and is killed at a random moment; the store that is left is opened and compared with what
// was reported durable, and with what the operations that are there have to leave. --kills --rounds N --seed S.
using System.Diagnostics;
using System.Globalization;
using Slogger.Core.WorldLines;

namespace Slogger.Faster.Tests.Kills;

internal sealed class KillRounds(string root, int seed)
{
    private const int RoundsOfOneStore = 8;
    private readonly Random _random = new(seed);
    private string _directory = "";
    private int _loadSeed, _round;
    private long[] _durable = new long[PrefixLoad.Threads];
    private WorldPoint? _point;

    public long Operations { get; private set; }

    public int Commits { get; private set; }

    public int Rollbacks { get; private set; }

    public static async Task<int> RunAsync(string[] args)
    {
        int rounds = Value(args, "--rounds", 300), seed = Value(args, "--seed", 1);
        string root = Directory.CreateTempSubdirectory("slogger-kills-").FullName;
        var kills = new KillRounds(root, seed);
        var clock = Stopwatch.StartNew();
        for (int round = 1; round <= rounds; round++)
        {
            List<string> wrong = await kills.RoundAsync();
            if (wrong.Count > 0)
            {
                Console.WriteLine($"round {round} of seed {seed}: the directory is {root}");
                foreach (string line in wrong.Take(20)) Console.WriteLine("  " + line);
                return 1;
            }

            if (round % 10 == 0 || round == rounds)
                Console.WriteLine($"{round} rounds, {kills.Commits} commits reported durable, {kills.Rollbacks} rollbacks, "
                    + $"{kills.Operations} operations found and compared, {clock.Elapsed.TotalSeconds:0} s");
        }

        Directory.Delete(root, recursive: true);
        return 0;
    }

    /// <summary>One process, killed.</summary>
    /// <returns>What is wrong with what it has left.</returns>
    public async Task<List<string>> RoundAsync()
    {
        if (_round++ % RoundsOfOneStore == 0) Begin();
        int interval = _random.Next(3) switch { 0 => 5, 1 => 20, _ => 50 };
        using Process child = Start(interval);
        Task<string> errors = child.StandardError.ReadToEndAsync();
        var wrong = new List<string>();
        // However busy the machine is: some while after it has said so many things. At 0 while the store is being opened.
        var said = new TaskCompletionSource();
        int words = _random.Next(12);
        Task heard = Task.Run(() => Hear(child, wrong, words, said));
        if (words > 0) await Task.WhenAny(heard, said.Task);
        await Task.WhenAny(heard, Task.Delay(_random.Next(150)));
        child.Kill();
        await child.WaitForExitAsync();
        await heard;
        if (await errors is { Length: > 0 } text) wrong.Add(text);
        Examine(wrong);
        return wrong;
    }

    private static int Value(string[] args, string name, int otherwise) =>
        Array.IndexOf(args, name) is >= 0 and int at ? int.Parse(args[at + 1], CultureInfo.InvariantCulture) : otherwise;

    private void Begin()
    {
        if (_directory.Length > 0) Directory.Delete(_directory, recursive: true);
        _loadSeed = _random.Next(1, 1 << 20);
        _directory = Path.Combine(root, $"store-{_loadSeed}");
        (_durable, _point) = (new long[PrefixLoad.Threads], null);
    }

    private Process Start(int intervalMs)
    {
        var start = new ProcessStartInfo(Environment.ProcessPath!) { RedirectStandardOutput = true, RedirectStandardError = true };
        // Under dotnet itself the program is its first argument.
        if (Path.GetFileNameWithoutExtension(Environment.ProcessPath) == "dotnet")
            start.ArgumentList.Add(typeof(KillRounds).Assembly.Location);
        foreach (string word in new[] { KillChild.Option, _directory, _loadSeed.ToString(CultureInfo.InvariantCulture),
            intervalMs.ToString(CultureInfo.InvariantCulture) }) start.ArgumentList.Add(word);
        return Process.Start(start)!;
    }

    private void Hear(Process child, List<string> wrong, int wanted, TaskCompletionSource said)
    {
        while (child.StandardOutput.ReadLine() is { } line)
        {
            string[] words = line.Split(' ');
            if (--wanted == 0) said.SetResult();
            if (words[0] is "durable" or "back" && words.Length == 3 + PrefixLoad.Threads)
            {
                _point = new(new(long.Parse(words[1], CultureInfo.InvariantCulture)),
                    new(long.Parse(words[2], CultureInfo.InvariantCulture)));
                _durable = [.. words.Skip(3).Select(w => long.Parse(w, CultureInfo.InvariantCulture))];
                if (words[0] == "durable") Commits++;
                else Rollbacks++;
            }
            else if (words[0] == "broken")
            {
                wrong.Add(line);
            }
        }
    }

    private void Examine(List<string> wrong)
    {
        using FasterStore store = FasterStore.OpenAt(KillChild.Options(_directory));
        WorldPoint? newest = store.Commits.Count == 0 ? null : store.Commits[^1].Point;
        if (_point is { } point && (newest is null || newest < point))
            wrong.Add($"version {point} was durable, the newest is {newest?.ToString() ?? "none"}");
        (List<string> found, long operations) = new PrefixLoad(_loadSeed, new(1)).Check(store, _durable);
        wrong.AddRange(found);
        Operations += operations;
    }
}

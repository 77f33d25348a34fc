// The process that is killed: it changes, commits, goes back, and writes to its standard output what is durable. It ends by kill -9 only.
using System.Globalization;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;

namespace Slogger.Faster.Tests.Kills;

internal static class KillChild
{
    public const string Option = "--kill-child";

    public static FasterOptions Options(string directory) =>
        new() { Directory = directory, IndexBytes = 1 << 20, MemoryBytes = 8 << 20, PageBits = 16, SegmentBits = 18 };

    /// <summary>DIRECTORY SEED COMMIT_MS: opens the store at its newest commit, in the next world-line.</summary>
    public static async Task<int> RunAsync(string[] args)
    {
        int seed = int.Parse(args[2], CultureInfo.InvariantCulture);
        var interval = TimeSpan.FromMilliseconds(int.Parse(args[3], CultureInfo.InvariantCulture));
        var random = new Random();
        FasterStore store = FasterStore.OpenAt(Options(args[1]));
        WorldLine line = store.Commits.Count == 0 ? new(1) : store.Commits[^1].Point.WorldLine.Next;
        var load = new PrefixLoad(seed, line);
        _ = load.Start(store).ContinueWith(t => { Say($"broken {t.Exception!.InnerException}"); Environment.Exit(3); },
            TaskContinuationOptions.OnlyOnFaulted);
        var done = new Dictionary<WorldPoint, long[]>();
        Say("started");
        while (true)
        {
            await Task.Delay(interval);
            long[] atLeast = load.Done;
            CommitRecord commit = await store.CommitAsync(line, new(store.Open.Number + random.Next(1, 5)));
            done[commit.Point] = atLeast;
            Say("durable", commit, atLeast);
            if (random.Next(4) == 0)
            {
                store.Keep(commit.Point);
                // Nobody goes back behind what he has said is not needed.
                foreach (WorldPoint before in done.Keys.Where(p => p < commit.Point).ToList()) done.Remove(before);
            }

            if (random.Next(6) == 0) line = await GoBack(store, load, line, done, random);
        }
    }

    // Once, or twice in short succession, to one of the newest commits.
    private static async Task<WorldLine> GoBack(FasterStore store, PrefixLoad load, WorldLine line, Dictionary<WorldPoint, long[]> done,
        Random random)
    {
        IReadOnlyList<CommitRecord> commits = [.. store.Commits.Where(c => done.ContainsKey(c.Point))];
        CommitRecord to = commits[^Math.Min(commits.Count, random.Next(1, 3))];
        store.Keep(to.Point);
        await Task.Delay(random.Next(20));
        Say("back", to, done[to.Point]);
        int times = random.Next(1, 4);
        var under = new List<Task<CommitRecord?>>();
        for (int i = 0; i < times; i++)
        {
            line = line.Next;
            WorldLine next = line;
            under.Add(store.RollbackAsync(to.Point, next, new(store.Open.Number + (10 * (i + 1))), () => load.Begin(next, done[to.Point])));
            if (i + 1 < times) await Task.Delay(random.Next(5));
        }

        CommitRecord?[] made = await Task.WhenAll(under);
        if (made[^1] is not { } last) throw new InvalidOperationException("The last rollback has made no commit.");
        done[last.Point] = done[to.Point];
        Say("durable", last, done[to.Point]);
        return line;
    }

    private static void Say(string word, CommitRecord commit, long[] done) =>
        Say($"{word} {commit.Point.WorldLine.Number} {commit.Point.Version.Number} {string.Join(' ', done)}");

    // One write to the pipe, at once.
    private static void Say(string text) => Console.Out.WriteLine(text);
}

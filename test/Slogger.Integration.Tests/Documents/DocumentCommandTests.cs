// Every command of the documents that can be run on a machine alone is run: docs/internals/TESTING.md, "Commands in the documents".
using System.Runtime.CompilerServices;

namespace Slogger.Integration.Tests.Documents;

/// <summary>Runs pages.</summary>
public sealed class DocumentCommandTests
{
    // A page that hangs says what it had done: less than a test may take.
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(9);

    private static readonly string[] s_marks = ["sh", "text", "console", "conf", "csharp", "json", "xml", "python"];

    // It fetches packages.
    private const string FetchesPackages = "docs/start/4-from-dotnet.md";

    public static TheoryData<string> Pages => [.. All().Where(page => PageRun.BlocksOf(Read(page)).Any(b => b.Mark == "sh"))];

    // All are begun by the first test that waits for one: mostly they wait. They have nothing in common.
    private static readonly SemaphoreSlim s_places = new(4);
    private static readonly Lazy<Dictionary<string, Task<string>>> s_runs =
        new(() => Pages.ToDictionary(p => p.Data, p => RunAsync(p.Data)));

    [Theory]
    [MemberData(nameof(Pages))]
    public async Task Commands_OfAPage_DoWhatItSays(string page)
    {
        string problem = await s_runs.Value[page];
        Assert.True(problem.Length == 0, $"{page}, {problem}");
    }

    private static async Task<string> RunAsync(string page)
    {
        await s_places.WaitAsync();
        try
        {
            using var limit = new CancellationTokenSource(s_limit);
            using var run = new PageRun(Root(), page == FetchesPackages, limit.Token);
            return await run.RunAsync(Read(page));
        }
        finally
        {
            s_places.Release();
        }
    }

    // Who marks a block so that nothing knows it would have it pass by unseen.
    [Fact]
    public void Blocks_OfAllPages_AreMarkedByAWordThatIsKnown()
    {
        string[] unknown = [.. All().SelectMany(page => PageRun.BlocksOf(Read(page)).Where(b => !s_marks.Contains(b.Mark))
            .Select(b => $"{page}, line {b.Line}: {b.Mark}"))];
        Assert.Empty(unknown);
        Assert.True(Pages.Count > 10);
    }

    private static IEnumerable<string> All() => ((string[])["start", "operate", "reference"])
        .SelectMany(folder => Directory.EnumerateFiles(Path.Combine(Root(), "docs", folder), "*.md"))
        .Select(file => Path.GetRelativePath(Root(), file)).Append("README.md").Order(StringComparer.Ordinal);

    private static string Read(string page) => File.ReadAllText(Path.Combine(Root(), page));

    private static string Root([CallerFilePath] string here = "") =>
        Path.GetFullPath(Path.Combine(Path.GetDirectoryName(here)!, "..", "..", ".."));
}

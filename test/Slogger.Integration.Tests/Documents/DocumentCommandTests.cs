// Every command of the documents that can be run on a machine alone is run: docs/internals/TESTING.md, "Commands in the documents".
using System.Runtime.CompilerServices;

namespace Slogger.Integration.Tests.Documents;

/// <summary>Runs pages.</summary>
public sealed class DocumentCommandTests
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(6);

    private static readonly string[] s_marks = ["sh", "text", "console", "conf", "csharp", "json", "xml", "python"];

    // It fetches packages.
    private const string FetchesPackages = "docs/start/4-from-dotnet.md";

    public static TheoryData<string> Pages => [.. All().Where(page => PageRun.BlocksOf(Read(page)).Any(b => b.Mark == "sh"))];

    [Theory]
    [MemberData(nameof(Pages))]
    public async Task Commands_OfAPage_DoWhatItSays(string page)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(TestContext.Current.CancellationToken);
        limit.CancelAfter(s_limit);
        using var run = new PageRun(Root(), page == FetchesPackages, limit.Token);
        string problem = await run.RunAsync(Read(page));
        Assert.True(problem.Length == 0, $"{page}, {problem}");
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

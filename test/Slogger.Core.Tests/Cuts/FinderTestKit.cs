using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cuts;

/// <summary>Short forms for scenarios: shards are A, B, C..., a token is a shard and a version, as in the paper.</summary>
internal static class FinderTestKit
{
    public static Cut Start(int shards) => Cut.Uniform(WorldLine.First, shards, VersionNumber.Zero);

    /// <summary>A report like <c>"B(1,2] A1 C2"</c>: shard B, versions above 1 up to 2, which depend on A-1 and C-2.</summary>
    public static VersionReport Report(string text, long stride = 1, long worldLine = 1)
    {
        string[] words = text.Split(' ');
        string[] range = words[0][2..^1].Split(',');
        Dependency[] on = [.. words.Skip(1).Select(w => new Dependency(new(w[0] - 'A'), new(Number(w[1..]))))];
        return new(new(words[0][0] - 'A'), new(new(worldLine), new(Number(range[1]))), stride, new(Number(range[0])), DependencySet.Of(on));
    }

    /// <summary>Reports, then advances; what the cut is then: <c>"5 7"</c>.</summary>
    public static string After(this IDprFinder finder, params string[] reports)
    {
        foreach (string report in reports) finder.Report(Report(report));
        finder.Advance();
        return string.Join(' ', finder.Current.Versions.ToArray());
    }

    private static long Number(string text) => long.Parse(text, System.Globalization.CultureInfo.InvariantCulture);
}

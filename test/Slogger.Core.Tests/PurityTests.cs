// Convention 1: the core has no Task, socket, clock, Random or logger; inputs carry the time. Checked on the compiled
// assembly (what it refers to) and on the sources (what a reader would see).
using System.Reflection;
using System.Reflection.Metadata;
using System.Reflection.PortableExecutable;
using System.Runtime.CompilerServices;
using System.Text.RegularExpressions;
using Slogger.Core.Shards;

namespace Slogger.Core.Tests;

public partial class PurityTests
{
    private static readonly string[] ForbiddenNamespaces =
    [
        "System.Threading", "System.Net", "System.IO", "System.Diagnostics.Tracing", "Microsoft.Extensions", "System.Data",
    ];

    private static readonly string[] ForbiddenTypes =
    [
        "System.Random", "System.Security.Cryptography.RandomNumberGenerator", "System.DateTime", "System.DateTimeOffset",
        "System.TimeProvider", "System.Environment", "System.Diagnostics.Stopwatch", "System.Console", "System.Guid",
    ];

    [Fact]
    public void Assembly_RefersToNoEffectfulType()
    {
        using FileStream file = File.OpenRead(typeof(ShardMachine).Assembly.Location);
        using PEReader pe = new(file);
        MetadataReader reader = pe.GetMetadataReader();
        List<string> found = [];
        foreach (TypeReferenceHandle handle in reader.TypeReferences)
        {
            TypeReference type = reader.GetTypeReference(handle);
            string space = reader.GetString(type.Namespace), name = space + "." + reader.GetString(type.Name);
            if (ForbiddenNamespaces.Any(f => space == f || space.StartsWith(f + ".", StringComparison.Ordinal))
                || ForbiddenTypes.Contains(name))
                found.Add(name);
        }

        Assert.Empty(found);
    }

    [Fact]
    public void Assembly_RefersToNoOtherProject()
    {
        AssemblyName[] others = [.. typeof(ShardMachine).Assembly.GetReferencedAssemblies()
            .Where(a => a.Name!.StartsWith("Slogger", StringComparison.Ordinal))];
        Assert.Empty(others);
    }

    [Fact]
    public void Sources_NameNoClockTaskOrRandom()
    {
        string folder = Path.Combine(SourceFolder(), "..", "..", "src", "Slogger.Core");
        Assert.SkipUnless(Directory.Exists(folder), "The sources are not beside the tests.");
        string[] files = [.. Directory.GetFiles(folder, "*.cs", SearchOption.AllDirectories)
            .Where(f => !f.Contains($"{Path.DirectorySeparatorChar}obj{Path.DirectorySeparatorChar}", StringComparison.Ordinal))];
        Assert.NotEmpty(files);
        foreach (string file in files)
        {
            string code = Comment().Replace(File.ReadAllText(file), "");
            Match match = Forbidden().Match(code);
            Assert.False(match.Success, $"{file} names {match.Value}");
        }
    }

    private static string SourceFolder([CallerFilePath] string path = "") => Path.GetDirectoryName(path)!;

    [GeneratedRegex(@"//.*")]
    private static partial Regex Comment();

    [GeneratedRegex(@"\b(Task|ValueTask|async|await|Thread|Socket|DateTime|Stopwatch|TimeProvider|Random|ILogger|Console|lock)\b")]
    private static partial Regex Forbidden();
}

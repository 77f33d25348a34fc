// What shards and the coordinator of cuts say to each other: words with spaces between, one message a frame (the first character is its
// kind), in both directions at once.
//
//   shard to coordinator   R <world-line> <durable> <stride> <floor> <after> [<shard>:<version>]...
//                          W <version>                        somebody here waits for commits until this version is open
//                          L                                  a world-line has begun: look in SQL
//   coordinator to shard   C <world-line> <awaited until> <lowest version> <version of this shard> [<version of each shard>]...
//                          A                                  say again what you have said since the cut
//
// A message that is none of these ends the connection: both ends are of one program, or nearly.
using System.Globalization;
using System.Text;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;

namespace Slogger.Proxy.Coordination;

internal static class CoordinationText
{
    /// <summary>Up to so many shards, every message of a cut has the versions of all.</summary>
    public const int ListedShardsMax = 64;

    public const string Again = "A";

    public const string Look = "L";

    public static string Wait(VersionNumber until) => Invariant($"W {until}");

    /// <summary>What a shard has durable.</summary>
    public static string Report(in DurableClaim claim, VersionNumber after, DependencySet dependencies)
    {
        var text = new StringBuilder(64);
        text.Append(CultureInfo.InvariantCulture, $"R {claim.Point.WorldLine} {claim.Point.Version} {claim.Stride} {claim.Floor} {after}");
        foreach (Dependency d in dependencies.Items) { text.Append(CultureInfo.InvariantCulture, $" {d.Shard}:{d.Version}"); }
        return text.ToString();
    }

    /// <summary>Reads <see cref="Report"/>.</summary>
    public static VersionReport? ReadReport(ShardId from, string line)
    {
        string[] words = line.Split(' ');
        if (words.Length < 6 || words[0] != "R") { return null; }
        Span<long> numbers = stackalloc long[5];
        for (int i = 0; i < numbers.Length; i++)
        {
            if (!Number(words[i + 1], out numbers[i])) { return null; }
        }
        var dependencies = new Dependency[words.Length - 6];
        for (int i = 0; i < dependencies.Length; i++)
        {
            string[] pair = words[i + 6].Split(':');
            if (pair.Length != 2 || !Number(pair[0], out long shard) || shard >= Cut.ShardsMax || !Number(pair[1], out long version))
            {
                return null;
            }
            dependencies[i] = new(new((int)shard), new(version));
        }
        var claim = new DurableClaim(new(new(numbers[0]), new(numbers[1])), numbers[2], new(numbers[3]));
        return VersionReport.Of(from, claim, new(numbers[4]), DependencySet.Of(dependencies));
    }

    /// <summary>Reads <see cref="Wait"/>.</summary>
    public static VersionNumber? ReadWait(string line) =>
        line.StartsWith("W ", StringComparison.Ordinal) && Number(line[2..], out long until)
        ? new(until) : null;

    /// <summary>The recorded cut, for one shard; and who waits.</summary>
    public static string CutFor(ShardId shard, Cut cut, VersionNumber awaitedUntil, VersionNumber lowest)
    {
        var text = new StringBuilder(64);
        text.Append(CultureInfo.InvariantCulture, $"C {cut.WorldLine} {awaitedUntil} {lowest} {cut.Of(shard)}");
        if (cut.ShardCount <= ListedShardsMax)
        {
            foreach (VersionNumber version in cut.Versions) { text.Append(CultureInfo.InvariantCulture, $" {version}"); }
        }
        return text.ToString();
    }

    /// <summary>Reads <see cref="CutFor"/>.</summary>
    /// <returns>The cut as far as it was told, and what is committed of the shard it was told to.</returns>
    public static (ClusterCut Cut, VersionNumber Own)? ReadCut(string line)
    {
        string[] words = line.Split(' ');
        if (words.Length < 5 || words[0] != "C") { return null; }
        var numbers = new long[words.Length - 1];
        for (int i = 0; i < numbers.Length; i++)
        {
            if (!Number(words[i + 1], out numbers[i])) { return null; }
        }
        var world = new WorldLine(numbers[0]);
        VersionNumber[] versions = [.. numbers.Skip(4).Select(n => new VersionNumber(n))];
        bool isUniform = versions.Length == 0 || Array.TrueForAll(versions, v => v == versions[0]);
        return (new ClusterCut(new(world, new(numbers[2])), new(numbers[1])) { ByShard = isUniform ? null : new Cut(world, versions) },
            new(numbers[3]));
    }

    private static bool Number(string word, out long number) =>
        long.TryParse(word, NumberStyles.None, CultureInfo.InvariantCulture, out number);

    private static string Invariant(FormattableString text) => FormattableString.Invariant(text);
}

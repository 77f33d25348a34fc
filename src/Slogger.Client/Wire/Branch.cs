// Where a world-line begins, as a proxy tells it: what each shard went back to. The approximate finder's cuts have one version for
// all shards, those of the others one for each.
using System.Collections.Immutable;
using System.Globalization;
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client.Wire;

/// <summary>The end of one world-line and the beginning of another.</summary>
/// <param name="Abandoned">The world-line that is over.</param>
/// <param name="WorldLine">The new one.</param>
/// <param name="IsUniform">All shards went back to one version.</param>
/// <param name="Versions">That one; or one for each shard, by number.</param>
internal sealed record Branch(WorldLine Abandoned, WorldLine WorldLine, bool IsUniform, ImmutableArray<VersionNumber> Versions)
{
    /// <summary>Reads "... abandoned=3 worldline=5 branch=1200" or "... branches=1200,1198,1207".</summary>
    /// <returns>Null if it is neither.</returns>
    public static Branch? Parse(string text)
    {
        long abandoned = 0, line = 0;
        bool isUniform = false;
        ImmutableArray<VersionNumber> versions = [];
        foreach (string word in text.Split(' '))
        {
            if (word.Split('=', 2) is not [var name, var value]) { continue; }
            if (name is not ("abandoned" or "worldline" or "branch" or "branches")) { continue; }
            long[] numbers = [.. value.Split(',')
                .Select(v => long.TryParse(v, NumberStyles.None, CultureInfo.InvariantCulture, out long n) ? n : -1)];
            if (numbers.Contains(-1) || numbers.Length > (name == "branches" ? Cut.ShardsMax : 1)) { return null; }
            if (name == "abandoned") { abandoned = numbers[0]; }
            else if (name == "worldline") { line = numbers[0]; }
            else { (isUniform, versions) = (name == "branch", [.. numbers.Select(n => new VersionNumber(n))]); }
        }

        return abandoned > 0 && line > 0 && !versions.IsEmpty ? new(new(abandoned), new(line), isUniform, versions) : null;
    }

    /// <summary>Tells a session. As ClientSession.OnRollback.</summary>
    public ClientRollback? Tell(ClientSession session) => IsUniform
        ? session.OnRollback(Abandoned, new WorldPoint(WorldLine, Versions[0]))
        : session.OnRollback(Abandoned, WorldLine, Versions.AsSpan());

    /// <summary>The versions.</summary>
    public override string ToString() => string.Join(',', Versions);
}

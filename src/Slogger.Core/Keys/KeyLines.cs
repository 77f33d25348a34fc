// What versions of keys mean where world-lines have begun: a version of an older world-line is true if that world-line had kept its place.
// What lies above a branch is void, and what is there now is something else.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Keys;

/// <summary>The world-lines that a shard's stream has passed through. Immutable.</summary>
/// <param name="Shard">Whose stream.</param>
/// <param name="Oldest">Of older world-lines nothing is known.</param>
/// <param name="Begins">Which have begun since, and where, in order.</param>
public sealed record KeyLines(ShardId Shard, WorldLine Oldest, ImmutableArray<(WorldLine Line, long Offset)> Begins)
{
    /// <summary>The version of a key that was not written since this place.</summary>
    public KeyVersion At(long offset)
    {
        int i = Begins.Length - 1;
        while (i >= 0 && Begins[i].Offset >= offset) { i--; }
        return new(i < 0 ? Oldest : Begins[i].Line, offset, Shard);
    }

    /// <summary>Whether a version's place is in this history, and not beyond an offset.</summary>
    public bool Holds(in KeyVersion version, long end)
    {
        if (version.Shard != Shard || version.Offset > end || version.WorldLine < Oldest) { return false; }
        bool isKnown = version.WorldLine == Oldest;
        foreach ((WorldLine line, long offset) in Begins)
        {
            if (line > version.WorldLine && version.Offset > offset) { return false; }
            isKnown |= line == version.WorldLine;
        }
        return isKnown;
    }

    /// <summary>Whether a conditional write may be done to a key.</summary>
    /// <param name="expected">The version that it names.</param>
    /// <param name="known">The key was not written above this place, up to <paramref name="end"/>.</param>
    /// <param name="end">Up to there the stream has been read.</param>
    public bool Accepts(in KeyVersion expected, long known, long end) => Holds(expected, end) && known <= expected.Offset;
}

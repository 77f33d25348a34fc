// Which streams a backup has whose number of shards is another one than the primary's. Both divide the hash slots evenly, by tables of
// their own; for each pair of a primary's shard (source) and a backup's whose slots overlap there is a stream: all of the source's log, of
// which the backup's shard keeps what concerns its own slots. Streams are numbered by the backup's shard, then by source. With as many
// shards on either side that is one stream for each, of the same number.
using System.Collections.Immutable;
using Slogger.Core.Ownership;

namespace Slogger.Core.Sites;

/// <summary>The streams between two sites. The default: as many shards on either side, however many.</summary>
/// <param name="Sources">The primary's shards.</param>
/// <param name="Shards">The backup's.</param>
public readonly record struct StreamLayout(int Sources, int Shards)
{
    /// <summary>Of two sites: the default if they have as many shards.</summary>
    public static StreamLayout Of(int sources, int shards) => sources == shards ? default : new(sources, shards);

    /// <summary>Whether stream, source and shard are of one number.</summary>
    public bool IsPlain => Sources == Shards;

    /// <summary>The pairs, by the stream's number; none if it is plain.</summary>
    public ImmutableArray<(int Source, int Shard)> Pairs
    {
        get
        {
            var pairs = ImmutableArray.CreateBuilder<(int, int)>();
            for (int shard = 0; shard < Shards && !IsPlain; shard++)
            {
                for (int source = 0; source < Sources; source++)
                {
                    if (SlotMap.EvenSlots(Sources, source).Overlaps(SlotMap.EvenSlots(Shards, shard))) pairs.Add((source, shard));
                }
            }
            return pairs.ToImmutable();
        }
    }

    /// <summary>Of which source and shard a stream is.</summary>
    public (int Source, int Shard) this[int stream] => IsPlain ? (stream, stream) : Pairs[stream];

    /// <summary>The streams of a backup's shard, by number.</summary>
    public ImmutableArray<int> StreamsOf(int shard) => IsPlain ? [shard]
        : [.. Pairs.Select((pair, stream) => (pair.Shard, Stream: stream)).Where(s => s.Shard == shard).Select(s => s.Stream)];

    /// <summary>The slots that a stream brings to its shard.</summary>
    public SlotRange SlotsOf(int stream)
    {
        (int source, int shard) = this[stream];
        SlotRange theirs = SlotMap.EvenSlots(Sources, source), own = SlotMap.EvenSlots(Shards, shard);
        return new(new(Math.Max(theirs.First.Number, own.First.Number)), new(Math.Min(theirs.Last.Number, own.Last.Number)));
    }
}

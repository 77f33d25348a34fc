// How a backup comes by the state of a shard that its log does not reach back to (the paper, section 5.5.5): a copy of the store at an
// offset of the stream, in chunks; then the log goes on from there (Shipper). The receiver asks for what it lacks, so a transfer goes on
// after any break, of either side, with what is on its disk. The source may have another copy by then: it begins anew. What it has must go
// on to exist at the primary until the transfer ends, and so must the log from there.
//
// A copy belongs to no version: it holds part of the one that was open. The first version that the log on top of it can be brought to is
// the first whose end lies behind it (Floor). Until a recorded cut has come to that, the store is not loaded, and the stream does not count
// (I7). A world-line that branches off before the copy's offset makes it worthless: then its source has it no more.
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>A copy of a shard's store.</summary>
/// <param name="Id">Names it; no two are called alike.</param>
/// <param name="Generation">The life of the stream that it was made for. It is made anew for each: so all that the stream has held before,
/// and may have let others apply, lies below its floor.</param>
/// <param name="Bytes">Its length.</param>
/// <param name="History">The history of the log on top of it.</param>
/// <param name="Base">Where that begins: at the copy's offset.</param>
/// <param name="Floor">The first version whose end is at or behind the copy's offset. The shard knows it a version later than the copy
/// itself. Not before that is durable there is the copy offered: else a crash of the shard could have it go on without what the copy
/// holds.</param>
public sealed record Seed(string Id, long Generation, long Bytes, StreamHistory History, LogIndex Base, WorldPoint Floor)
{
    /// <summary>CRC-32C of it: one that has another is not loaded.</summary>
    public uint Checksum { get; init; }
}

/// <summary>The receiver asks.</summary>
/// <param name="Generation">The life of the stream that is to begin.</param>
/// <param name="Id">The copy that it has a part of; null: of none.</param>
/// <param name="HasBytes">How much of it, durably.</param>
public readonly record struct SeedAsk(long Generation, string? Id, long HasBytes)
{
    /// <summary>A copy that came whole, and was not what it should be; null: none. It is not wanted again.</summary>
    public string? Bad { get; init; }
}

/// <summary>The source answers: with a piece of a copy, which the driver fills in.</summary>
/// <param name="Seed">The copy.</param>
/// <param name="At">Where the piece begins.</param>
/// <param name="Bytes">Its length; 0: it is complete.</param>
public readonly record struct SeedChunk(Seed Seed, long At, int Bytes);

/// <summary>The source's half: it remembers nothing.</summary>
public static class SeedSource
{
    /// <summary>What to answer.</summary>
    /// <param name="ask">What the receiver has.</param>
    /// <param name="seed">The copy that there is; null: none (any more).</param>
    /// <param name="chunkBytesMax">How much goes into one message.</param>
    /// <returns>Null: there is none of this generation; make one.</returns>
    public static SeedChunk? Answer(SeedAsk ask, Seed? seed, int chunkBytesMax)
    {
        if (seed is null || seed.Generation != ask.Generation) return null;
        long at = ask.Id == seed.Id ? Math.Min(ask.HasBytes, seed.Bytes) : 0;
        return new(seed, at, (int)Math.Min(chunkBytesMax, seed.Bytes - at));
    }
}

/// <summary>The receiver's half. Not thread-safe.</summary>
public sealed class SeedSink
{
    private readonly long _generation;
    private readonly ShipMutation _mutation;

    /// <summary>Begins with what is on the disk.</summary>
    /// <param name="generation">The life of the stream that is to begin.</param>
    /// <param name="seed">The copy of which there is a part; null: of none.</param>
    /// <param name="hasBytes">How much of it, durably.</param>
    public SeedSink(long generation, Seed? seed, long hasBytes)
        : this(generation, seed, hasBytes, ShipMutation.None)
    {
    }

    internal SeedSink(long generation, Seed? seed, long hasBytes, ShipMutation mutation)
    {
        (_generation, _mutation) = (generation, mutation);
        if (seed?.Generation == generation) (Seed, HasBytes) = (seed, hasBytes);
    }

    /// <summary>The copy.</summary>
    public Seed? Seed { get; private set; }

    /// <summary>How much of it is here.</summary>
    public long HasBytes { get; private set; }

    /// <summary>Whether all of it is here: once it is durable the log begins at its base, and SQL is told
    /// (<see cref="Slogger.Core.Sites.SiteState.Seeded"/>).</summary>
    public bool IsComplete => Seed is not null && HasBytes == Seed.Bytes;

    /// <summary>What to ask for; again after a while without an answer.</summary>
    public SeedAsk Ask => new(_generation, Seed?.Id, HasBytes);

    /// <summary>A piece has come.</summary>
    /// <returns>Whether it is to be written, at its place. If that is the beginning, whatever there was is of another copy: it is to be
    /// deleted first, durably.</returns>
    public bool Take(in SeedChunk chunk)
    {
        if (chunk.Seed.Generation != _generation) return false;
        bool isSame = Seed?.Id == chunk.Seed.Id || (_mutation == ShipMutation.SeedsMixed && Seed is not null);
        if (!isSame)
        {
            // Of a copy before this one, late: it begins at the beginning, or nowhere.
            if (chunk.At != 0) return false;
            (Seed, HasBytes) = (chunk.Seed, 0);
        }
        else if (chunk.At != HasBytes)
        {
            return false;
        }

        HasBytes += chunk.Bytes;
        return chunk.Bytes > 0;
    }
}

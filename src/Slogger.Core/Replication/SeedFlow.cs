// Sends a copy ahead of what its receiver asks for, so that a far link is full: SeedSource says what comes next, as if that were asked for
// already. The receiver takes the chunks in order, and passes over all others (SeedSink); each ask says how far it has come.
namespace Slogger.Core.Replication;

/// <summary>What of a copy is sent next. For one connection: another begins anew. Not thread-safe.</summary>
/// <param name="options">A chunk is as large as a piece of the log, and as much is under way.</param>
public sealed class SeedFlow(ShipperOptions options)
{
    private long _sent;
    private long _progressUs;
    private bool _isEndSaid;

    /// <summary>The copy that is sent; null: none.</summary>
    public Seed? Seed { get; private set; }

    /// <summary>How much of it the receiver has.</summary>
    public long HasBytes { get; private set; }

    /// <summary>The receiver asks.</summary>
    /// <param name="ask">What it has.</param>
    /// <param name="seed">The copy that there is for it; null: none.</param>
    /// <param name="nowUs">The time.</param>
    public void Asked(SeedAsk ask, Seed? seed, long nowUs)
    {
        if (SeedSource.Answer(ask, seed, 0) is not { At: var at })
        {
            Seed = null;
            return;
        }

        bool isOther = Seed?.Id != seed!.Id;
        // What is asked for again after so long, was lost on the way.
        if (isOther || nowUs - _progressUs >= options.ResendUs) _sent = at;
        if (isOther || at > HasBytes || _sent == at) _progressUs = nowUs;
        _isEndSaid = false;
        (Seed, HasBytes, _sent) = (seed, at, Math.Max(at, _sent));
    }

    /// <summary>The next chunk; null while nothing is to be sent.</summary>
    public SeedChunk? Next()
    {
        if (Seed is not { } seed || _sent - HasBytes >= options.WindowBytes || (_sent == seed.Bytes && (_sent > 0 || _isEndSaid)))
            return null;
        SeedChunk chunk = SeedSource.Answer(new(seed.Generation, seed.Id, _sent), seed, options.PieceBytesMax)!.Value;
        _sent += chunk.Bytes;
        // An empty copy is known by its name alone.
        _isEndSaid = chunk.Bytes == 0;
        return chunk;
    }
}

// A receiver that is being seeded: what is written of a copy, when it is made durable, and when the log may begin with it. All that it
// tells its source is what was written; what counts when a process begins again is what was synced. So the copy is used only when a sync
// has come to its end.
namespace Slogger.Core.Replication;

/// <summary>What a sync of a copy will have made durable.</summary>
/// <param name="Id">Of which copy.</param>
/// <param name="Bytes">Its first so many bytes.</param>
public readonly record struct SeedTicket(string Id, long Bytes);

/// <summary>What of a copy is on a disk, durably.</summary>
/// <param name="Seed">The copy; null: of none.</param>
/// <param name="DurableBytes">So much of it.</param>
public readonly record struct SeedPart(Seed? Seed, long DurableBytes);

/// <summary>A machine that may have to be given a copy first: by another site (<see cref="Receiver"/>), or by its leader
/// (<see cref="Slogger.Core.Cohorts.Follower"/>). Serialised with all else that it is told.</summary>
public interface ICopyReceiver
{
    /// <summary>The copy, and how much of it was written; null: there is none (yet).</summary>
    (Seed Of, long HasBytes)? Copy { get; }

    /// <summary>First of all: what a process before has left undone.</summary>
    void Begin(List<ReceiverEffect> effects);

    /// <summary>A sync of the copy has ended.</summary>
    void CopySynced(in SeedTicket ticket, List<ReceiverEffect> effects);

    /// <summary>The disk has refused to write or sync the copy.</summary>
    /// <param name="part">What there is durably: the rest is asked for again.</param>
    /// <param name="effects">Receives what is to be done.</param>
    void CopyRefused(in SeedPart part, List<ReceiverEffect> effects);
}

/// <summary>Receives a copy. Not thread-safe. Part of an <see cref="ICopyReceiver"/>, which has its effects.</summary>
internal sealed class SeedReceiver
{
    private readonly long _generation;
    private readonly string? _bad;
    private readonly long _syncBytes;
    private readonly ShipMutation _mutation;
    private SeedSink _sink;
    private long _durable;
    private bool _isSyncing;
    private bool _isNoted;             // the disk knows of the copy: an empty one has nothing else
    private bool _isWhole;

    /// <summary>Begins with what is on the disk.</summary>
    /// <param name="generation">The life of the stream that is to begin.</param>
    /// <param name="part">What there is of a copy.</param>
    /// <param name="bad">A copy that came whole, and was not what it should be; null: none.</param>
    /// <param name="syncBytes">How much may be lost by a crash, and has to come again.</param>
    /// <param name="mutation">A deliberate fault.</param>
    public SeedReceiver(long generation, in SeedPart part, string? bad, long syncBytes, ShipMutation mutation)
    {
        (_generation, _bad, _syncBytes, _mutation) = (generation, bad, syncBytes, mutation);
        _sink = Restart(part);
    }

    /// <summary>What there is of a copy, written or durable; null: of none.</summary>
    public Seed? Seed => _sink.Seed;

    /// <summary>How much of it.</summary>
    public long HasBytes => _sink.HasBytes;

    /// <summary>What is lacking.</summary>
    public SeedAsk Ask => _sink.Ask with { Bad = _bad };

    /// <summary>A piece has come.</summary>
    public void Take(in SeedChunk chunk, List<ReceiverEffect> effects)
    {
        if (_isWhole || _sink.IsComplete || chunk.Seed.Id == _bad) return;
        bool isNew = _sink.Seed?.Id != chunk.Seed.Id;
        bool isTaken = _sink.Take(chunk);
        // An empty copy is known by its name alone.
        if (!isTaken && !(isNew && _sink.Seed == chunk.Seed)) return;
        if (isNew) (_durable, _isNoted) = (0, false);
        effects.Add(new ReceiverEffect.WriteCopy(chunk));
        SyncIfDue(effects);
    }

    /// <summary>A sync has ended.</summary>
    public void Synced(in SeedTicket ticket, List<ReceiverEffect> effects)
    {
        _isSyncing = false;
        // Of a copy before this one.
        if (ticket.Id == _sink.Seed?.Id) (_durable, _isNoted) = (Math.Max(_durable, ticket.Bytes), true);
        SyncIfDue(effects);
    }

    /// <summary>The disk has refused: what is not durable is gone, and is asked for again.</summary>
    public void Refused(in SeedPart part, List<ReceiverEffect> effects)
    {
        _isSyncing = false;
        if (!_isWhole) _sink = Restart(part);
        SyncIfDue(effects);
    }

    /// <summary>Has durable what there is, if enough of it is not; or says that all is.</summary>
    public void SyncIfDue(List<ReceiverEffect> effects)
    {
        if (_isWhole || _sink.Seed is not { } seed) return;
        if ((_sink.IsComplete && _durable == seed.Bytes && _isNoted) || (_mutation == ShipMutation.CopyUsedUnsynced && _sink.IsComplete))
        {
            _isWhole = true;
            effects.Add(new ReceiverEffect.Copied(seed));
            return;
        }

        if (_isSyncing || (!_sink.IsComplete && _sink.HasBytes - _durable < _syncBytes)) return;
        _isSyncing = true;
        effects.Add(new ReceiverEffect.SyncCopy(new(seed.Id, _sink.HasBytes)));
    }

    private SeedSink Restart(in SeedPart part)
    {
        var sink = new SeedSink(_generation, part.Seed, part.DurableBytes, _mutation);
        (_durable, _isNoted) = sink.Seed is null ? (0, false) : (part.DurableBytes, true);
        return sink;
    }
}

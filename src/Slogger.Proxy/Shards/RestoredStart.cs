// What slogger restore has left for the next start (RestoredNote): a store that it has brought to an older version, or the word that the
// shard goes on from one. It is noted before the store is touched, so that a start that dies half-way is known by the next.
using Slogger.Core.Recovery;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Feeding;

namespace Slogger.Proxy.Shards;

/// <summary>The note, as a start reads and changes it. The control task; until the shard is attached, the caller of StartAsync.</summary>
internal sealed class RestoredStart(string dataDirectory)
{
    private const int FeedsNoted = 8;
    private RestoredNote? _note;

    private RestoredNote Note => _note ??= RestoredNote.Read(dataDirectory);

    /// <summary>The identity of the stream that fills the store with an older version; empty: none does.</summary>
    public string Feed { get; private set; } = "";

    /// <summary>What there is for this start; null: nothing, or it is done.</summary>
    /// <param name="last">The last boundary that is proved.</param>
    /// <param name="address">The store's, as it was given.</param>
    /// <param name="run">Which run of the store's program it is.</param>
    public RestoredState? Find(Boundary? last, string address, string run)
    {
        if (Note.GoesOn is not { } goesOn)
        {
            return Note.Find(address, run) is { } store ? new(new VersionNumber(store.Version), false, default) : null;
        }
        if (goesOn.WorldLine == 0 || last is null || last.Value.WorldLine.Number < goesOn.WorldLine)
        {
            return new(new VersionNumber(goesOn.Version), true, new(goesOn.WorldLine)) { AcceptsLoss = goesOn.AcceptsLoss };
        }
        // A process that has died before it could forget it.
        Forget();
        return null;
    }

    /// <summary>Whether a stream is one with which a start has filled the store, to go on from an older version.</summary>
    public bool IsFeed(string replicationId) => Note.GoesOn?.Feeds.Contains(replicationId) == true;

    /// <summary>A start is about to fill the store, and begins this world-line with it.</summary>
    public void NoteGoingOn(WorldLine line)
    {
        Feed = FeedPlan.NewReplicationId();
        _note = Note with { GoesOn = Note.GoesOn! with { WorldLine = line.Number, Feeds = [Feed, .. Note.GoesOn.Feeds.Take(FeedsNoted)] } };
        _note.Write(dataDirectory);
    }

    /// <summary>What was restored before is of no concern any more.</summary>
    public void ForgetAny()
    {
        RestoredNote note = RestoredNote.Read(dataDirectory);
        if (note.Stores.Count > 0 || note.GoesOn is not null) { Forget(); }
    }

    /// <summary>It is decided, and done.</summary>
    public void Forget()
    {
        _note = RestoredNote.None;
        _note.Write(dataDirectory);
    }
}

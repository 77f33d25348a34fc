// The lives of a stream at the backup, as the process decides them that has taken it. A life begins with a copy of the primary's store,
// goes on with the log from there, and ends when SQL says, or the stream's shipper, that it has to be seeded anew. The disk and SQL cannot
// change together: what comes next follows from what the two say.
//
// A log counts only if the disk says that it is of the life that SQL has. The disk says so when the log has begun, durably; then SQL is
// told. So a crash in between leaves a log that SQL does not know of yet, and it is told again; and a log of another life, or none, is what
// SQL has to hear of before anything is received.
//
// Contract with the caller: SQL is read when nobody else can write the log any more, and steps are performed in order.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sites;

/// <summary>What there is of a stream on a process's disk.</summary>
public sealed record StreamOnDisk
{
    /// <summary>Of which life of the stream the log is; null: there is no log.</summary>
    public long? Life { get; init; }

    /// <summary>With a log: its history.</summary>
    public StreamHistory History { get; init; }

    /// <summary>With a log: up to where it goes; all of it is durable.</summary>
    public LogIndex Log { get; init; }

    /// <summary>With a log: the last cut that is noted in it.</summary>
    public WorldPoint Held { get; init; }

    /// <summary>With a log: what it knows of windows.</summary>
    public LogWindows Windows { get; init; }

    /// <summary>See <see cref="ReceiverStart.TakesWindows"/>.</summary>
    public bool TakesWindows { get; init; }

    /// <summary>With a log: the offset at which it begins.</summary>
    public long Base { get; init; }

    /// <summary>With a log: the first version that it can be brought to.</summary>
    public WorldPoint Floor { get; init; }

    /// <summary>Without: what there is of a copy.</summary>
    public SeedPart Copy { get; init; }

    /// <summary>A copy that came whole, and was not what it should be; null: none.</summary>
    public string? BadCopy { get; init; }
}

/// <summary>What a stream's process does next.</summary>
public abstract record StreamStep
{
    private StreamStep()
    {
    }

    /// <summary>Have SQL note that the life has a log (<see cref="SiteState.Seeded"/>); then see what is next.</summary>
    public sealed record Seeded(long Generation) : StreamStep;

    /// <summary>Have SQL note that the stream is seeded anew (<see cref="SiteState.Reseed"/>); then see what is next.</summary>
    public sealed record Reseed(long Generation, string Why) : StreamStep;

    /// <summary>Receive: a receiver begins with this, and lives until it says that its life is over, or <see cref="StreamLife.Look"/> does.
    /// When it has a whole copy (<see cref="ReceiverEffect.Copied"/>) the log begins with that, durably; then see what is next.</summary>
    public sealed record Receive(ReceiverStart Start) : StreamStep;

    /// <summary>Have the receiver freeze (<see cref="Receiver.Freeze"/>): nobody else may have told it.</summary>
    public sealed record Freeze(SiteEpoch Number) : StreamStep;

    /// <summary>Tell the receiver what was decided (<see cref="Receiver.Decided"/>).</summary>
    public sealed record Decided(SiteEpoch Number, WorldPoint Final) : StreamStep;

    /// <summary>This life is over: end the receiver; then see what is next.</summary>
    public sealed record Over : StreamStep;

    /// <summary>Another process has the stream: end, for good.</summary>
    public sealed record Deposed(string Why) : StreamStep;
}

/// <summary>Decides a stream's lives in the process that has taken it. Remembers nothing. Source: the paper, section 5.5.5; design, section
/// 10.</summary>
public sealed class StreamLife
{
    private readonly ShardId _stream;
    private readonly long _owner;
    private readonly ShipMutation _mutation;

    /// <summary>Of a process that has taken a stream (<see cref="SiteState.TakeStream"/>).</summary>
    /// <param name="stream">Which.</param>
    /// <param name="owner">The process's epoch as its receiver.</param>
    public StreamLife(ShardId stream, long owner)
        : this(stream, owner, ShipMutation.None)
    {
    }

    internal StreamLife(ShardId stream, long owner, ShipMutation mutation) => (_stream, _owner, _mutation) = (stream, owner, mutation);

    /// <summary>Nothing is received: what is next.</summary>
    /// <param name="site">What SQL says.</param>
    /// <param name="disk">What there is on the disk.</param>
    /// <param name="applied">Where the store is.</param>
    public StreamStep Next(SiteState site, StreamOnDisk disk, WorldPoint applied)
    {
        StreamState state = site.Streams[_stream.Number];
        bool hasLog = disk.Life == state.Generation || (_mutation == ShipMutation.OldLifeCounts && disk.Life is not null);
        bool isKnown = state.Phase != StreamPhase.Empty;
        if (site.Role == SiteRole.Backup && hasLog != isKnown)
        {
            return hasLog ? new StreamStep.Seeded(state.Generation)
                : new StreamStep.Reseed(state.Generation, "the data directory holds no log of it");
        }

        var start = new ReceiverStart
        {
            Stream = _stream, Generation = state.Generation, Owner = _owner, Counts = state.Phase == StreamPhase.Counts,
                Newest = state.Newest, Site = site.Epoch,
            // Who takes the stream while a failover is under way, or after it, accepts nothing.
            IsFrozen = site.Role != SiteRole.Backup,
        };
        return new StreamStep.Receive(!hasLog || !isKnown ? start with { Copy = disk.Copy, BadCopy = disk.BadCopy }
            : start with { History = disk.History, Log = disk.Log, Held = disk.Held, Base = disk.Base, Floor = disk.Floor,
            Windows = disk.Windows, TakesWindows = disk.TakesWindows, Applied = applied });
    }

    /// <summary>A life is under way, and SQL was read.</summary>
    /// <param name="site">What SQL says.</param>
    /// <param name="generation">Which life.</param>
    /// <param name="isFrozen">Whether its receiver knows of the failover that is under way.</param>
    /// <param name="steps">Receives what follows from that: mostly nothing.</param>
    public void Look(SiteState site, long generation, bool isFrozen, List<StreamStep> steps)
    {
        if (_stream.Number >= site.Streams.Length) return;
        StreamState state = site.Streams[_stream.Number];
        if (state.Owner != _owner)
            steps.Add(new StreamStep.Deposed($"another process has taken it (owner {state.Owner}, this one is {_owner})"));
        else if (state.Generation != generation) steps.Add(new StreamStep.Over());
        else if (site.Role == SiteRole.FailingOver)
        {
            bool isForgetful = _mutation is ShipMutation.FreezeForgotten or ShipMutation.FrozenGoesOn;
            if (!isFrozen && !isForgetful) steps.Add(new StreamStep.Freeze(site.Epoch));
            if (site.Final is { } final) steps.Add(new StreamStep.Decided(site.Epoch, final));
        }
    }
}

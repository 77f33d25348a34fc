// An oracle of the backup's own SQL: the site's row, changed by the rules that the product's store will apply (SiteState), each method one
// transaction.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Sites;

internal sealed class SiteSql(BackupSite site, SiteState state)
{
    private readonly Dictionary<int, long> _openedFor = [];

    /// <summary>The newest epoch that it has given to a process, of any stream.</summary>
    public long EpochLast { get; private set; }

    public SiteState State { get; private set; } = state;

    public bool IsDown { get; set; }

    public object Look() => State;

    /// <summary>A process takes a stream.</summary>
    /// <returns>Its epoch; what it is to begin with is read behind that. 0: the site receives nothing any more.</returns>
    public object TakeStream(int stream)
    {
        State = State.TakeStream(new(stream), ++EpochLast);
        return State.Streams[stream].Owner == EpochLast ? EpochLast : 0;
    }

    public object Admit(int stream, Sender sender)
    {
        (State, Sender? newest) = State.Admit(new(stream), sender);
        return newest is { } known ? known : false;
    }

    public object Reseed(int stream, long generation)
    {
        if (State.Reseed(new(stream), generation).After is { } after)
        {
            if (after != State) site.Count("stream to be seeded anew");
            State = after;
        }

        return State;
    }

    public object Seeded(int stream, long generation)
    {
        State = State.Seeded(new(stream), generation);
        return State;
    }

    public object Counted(int stream, long generation)
    {
        State = State.Count(new(stream), generation);
        return State;
    }

    public object Take(ImmutableArray<int> losing)
    {
        SiteChange change = State.Take(losing, site.Mutation);
        if (change.After is { } after)
        {
            if (after.Epoch != State.Epoch) site.OnTaken(after.Epoch);
            State = after;
        }

        return change;
    }

    /// <summary>The primary has offered to hand over.</summary>
    public object TakeOffered(long number)
    {
        SiteChange change = State.TakeOffered(number);
        if (change.After is { } after)
        {
            if (after.Epoch != State.Epoch) site.OnTaken(after.Epoch);
            State = after;
        }

        return change;
    }

    public object CallOff(long number)
    {
        SiteChange change = State.CallOff(number);
        if (change.After is { } after) State = after;
        return change;
    }

    public object Decide(SiteEpoch number, WorldPoint final)
    {
        if (State.Decide(number, final).After is { } after)
        {
            if (State.Final is null) site.Checks.OnDecided(final);
            State = after;
        }

        return State;
    }

    /// <summary>Streams are ready. One that is refused keeps none of the others from it.</summary>
    /// <returns>What the site is, and why the first that was refused was.</returns>
    public object Open(SiteEpoch number, IReadOnlyList<ReadyStream> streams)
    {
        string? refused = null;
        foreach (ReadyStream ready in streams)
        {
            (SiteState? after, string? error) = State.Open(number, ready, site.Mutation);
            refused ??= error;
            if (after is null) continue;
            if (after != State) _openedFor[ready.Stream.Number] = ready.Owner;
            bool isDone = State.Role != SiteRole.Primary && after.Role == SiteRole.Primary;
            State = after;
            if (isDone) site.OnPrimary();
        }

        return new SiteChange(State, refused);
    }

    /// <summary>The epoch of the process that a stream's shard was opened for.</summary>
    public long OpenedFor(int stream) => _openedFor.GetValueOrDefault(stream);
}

// An oracle of the backup's own SQL: the site's row, changed by the rules that the product's store will apply (SiteState), each method one
// transaction.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Sites;

internal sealed class SiteSql(BackupSite site, SiteState state)
{
    private long _epochLast;

    public SiteState State { get; private set; } = state;

    public bool IsDown { get; set; }

    public object Look() => State;

    /// <summary>A process takes a stream.</summary>
    /// <returns>Its epoch; what it is to begin with is read behind that.</returns>
    public object TakeStream(int stream)
    {
        State = State.TakeStream(new(stream), ++_epochLast);
        return _epochLast;
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

    public object Open(SiteEpoch number, int stream)
    {
        if (State.Open(number, new(stream)).After is { } after)
        {
            bool isDone = State.Role != SiteRole.Primary && after.Role == SiteRole.Primary;
            State = after;
            if (isDone) site.OnPrimary();
        }

        return State;
    }
}

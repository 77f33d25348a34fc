// When a shard that leaves its cluster may go: it serves nobody any more, and the cut has come to all that it has answered.
using Slogger.Core.Shards;
using Slogger.Core.Versions;

namespace Slogger.Core.Lifecycle;

/// <summary>A shard that leaves.</summary>
public sealed class Leaver
{
    private readonly LifecycleMutation _mutation;
    private VersionNumber? _servedIn;

    /// <summary>Its cluster has it leave.</summary>
    public Leaver() : this(LifecycleMutation.None)
    {
    }

    internal Leaver(LifecycleMutation mutation) => _mutation = mutation;

    /// <summary>The version that the cut has to come to, once it is known.</summary>
    public VersionNumber? Last { get; private set; }

    /// <summary>Whether the cut has come to it.</summary>
    public bool MayLeave { get; private set; }

    /// <summary>Looks whether the shard may leave. Nobody is served any more, and all that was let through is forwarded.</summary>
    public bool Look(ShardMachine machine)
    {
        // All that was forwarded is in the version that is open now, or before it. Whether that holds anything only the front end knows
        // until the version ends.
        _servedIn ??= machine.OpenVersion;
        if (machine.NeedsMarker || machine.MarkerInFlight) { return false; }
        if (machine.LastBoundary.Version < _servedIn && _mutation != LifecycleMutation.OpenVersionForgotten) { return false; }
        Last ??= machine.LastBoundary.Version;
        return MayLeave |= machine.Committed.Version >= Last || _mutation == LifecycleMutation.LeavesUncommitted;
    }

    /// <summary>Whether the membership may be ended when the process has stopped in order: else something that was answered may be in no
    /// durable version, and a world-line has to say that it is lost.</summary>
    public bool MayEnd(ShardMachine? machine) => MayLeave && machine is { IsClosed: true };
}

// The embedded shard for sessions in its own process (Slogger.Hosting). The front end holds requests back while the store is not to be
// used, and knows where each version ends by its own requests' places. Nobody holds back such a session: the store itself says at each
// operation's moment whether its world-line is the right one, and which version is open (FasterStore.Local). So both are kept in step with
// the machine's here:
// - the store is shut before the shard says that it has left a world-line, and opened when the front end is: only while the door is open,
//   which who closes shuts first;
// - a version passes empty only while nobody can change anything, and if nobody has;
// - the store's open version follows the machine's before anything is done in it;
// - among other shards nothing begins between a version's end by the clock and its end in the store.
using System.Diagnostics;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commands;
using Slogger.FrontEnd;
using Slogger.Proxy.Embedded;

namespace Slogger.Proxy.Shards;

internal partial class FasterShard : ILocalPort
{
    /// <summary>Whether there are such sessions.</summary>
    public bool AdmitsLocal { get; init; }

    // Such sessions do something that the loop does not see.
    internal override bool MayRest => !AdmitsLocal;

    internal override void Tick(ShardMachine machine, bool hasChanged)
    {
        if (!AdmitsLocal || hasChanged || _faster is not { } store)
        {
            base.Tick(machine, hasChanged);
            return;
        }
        // A marker ends the version at its place; until then the store stays in it.
        store.PassVersions(changed =>
        {
            base.Tick(machine, changed);
            return machine.MarkerInFlight ? null : machine.OpenVersion;
        });
    }

    // Until the first end of a version is awaited nobody knows when that is.
    private void SuspendLocalIfPunctual(FasterStore store)
    {
        if (AdmitsLocal && IsPunctual) { store.LocalUntil = 0; }
    }

    internal override void OnBoundaryAwaited(long monotonicUs)
    {
        if (AdmitsLocal && _faster is { } store) { store.LocalUntil = (long)(monotonicUs * (Stopwatch.Frequency / 1e6)); }
    }

    internal override void OnOpened()
    {
        if (!AdmitsLocal) { return; }
        lock (Versions.Lock)
        {
            // Who closes the store meanwhile has shut the door before.
            if (IsOpen)
            {
                _faster!.AdmitLocal(new WorldLine(WorldLine), Versions.Machine is { MarkerInFlight: false } machine ? machine.OpenVersion
                    : VersionNumber.Zero);
            }
        }
    }

    internal override void OnClosing()
    {
        if (!AdmitsLocal) { return; }
        lock (Versions.Lock) { _faster?.ShutOutLocal(); }
    }

    /// <inheritdoc />
    public event Action? Ending;

    ShardId ILocalPort.Shard => _options.Shard;

    bool ILocalPort.NeedsDependencies => Batches.Finder.NeedsDependencies;

    LocalConnection ILocalPort.Connect() => _engine!.ConnectLocal();

    // Asked ahead of an operation: slots move neither to nor from an embedded store.
    bool ILocalPort.Owns(ReadOnlySpan<byte> key) => Moves.Watch?.View is not { } slots || slots.Served.Serves(slots.Partitions.Of(key));

    WorldPoint ILocalPort.Committed
    {
        get
        {
            IBatchPort port = Batches;
            if (!MayTell) { return new(new WorldLine(WorldLine), VersionNumber.Zero); }
            if (!port.Finder.HasGridCuts) { return port.CommittedEverywhere; }
            lock (Versions.Lock) { return Versions.Machine!.Committed; }
        }
    }

    bool ILocalPort.Tell(in LocalTerms terms, ReadOnlySpan<Dependency> dependencies) =>
        _faster is { } store && store.Open >= terms.AtLeast && NoteDependencies(terms.Line, dependencies, () => store.Open);

    string? ILocalPort.WhyNot(in BatchHeader header)
    {
        // Whoever still asks when the shard has ended learns that from it.
        if (_faster is not { } store || store.Admitted is not { Number: not 0 } admitted) { return null; }
        try
        {
            string? why = WhyNot(header, admitted, store.Open);
            return store.Admitted == admitted ? why : null;
        }
        catch (BrokenInvariantException) when (store.Admitted != admitted)
        {
            // Asked of a world-line that was left meanwhile.
            return null;
        }
    }

    private string? WhyNot(in BatchHeader header, WorldLine admitted, VersionNumber open)
    {
        IBatchPort port = Batches;
        GateDecision decision = port.Decide(header, open);
        switch (decision.Verdict)
        {
            case GateVerdict.Rollback:
                // Where world-lines branched off is known of the one that is open.
                return decision.Branch.WorldLine == admitted ? ClientBatches.RollbackText(port, header, decision) : null;
            case GateVerdict.RefuseAhead:
                return ClientBatches.AheadText(header, open.Number);
            case GateVerdict.FastForward:
                Versions.FastForwardSoon(decision.Version);
                return null;
            default:
                return null;
        }
    }
}

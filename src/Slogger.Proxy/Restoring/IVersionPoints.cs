// What the kinds of kept history have in common for an offline restore: which versions there are, and what each is restored from. Only
// reads.
using Slogger.Core.Time;
using Slogger.Core.Versions;

namespace Slogger.Proxy.Restoring;

/// <summary>Versions with one state, in order: mostly one, more if nothing was done in the later ones.</summary>
/// <param name="First">The first.</param>
/// <param name="Last">The last.</param>
/// <param name="Time">When the last was closed; zero if that is not known.</param>
internal readonly record struct ListedVersions(VersionNumber First, VersionNumber Last, HybridTimestamp Time);

internal interface IVersionPoints
{
    /// <summary>The newest durable version of the current world-line; null: there is none.</summary>
    VersionNumber? Newest { get; }

    /// <summary>Offset at which what is kept ends.</summary>
    long End { get; }

    /// <summary>Identities of the streams that it knows.</summary>
    IEnumerable<string> Identities { get; }

    /// <summary>What exactly this version is restored from.</summary>
    FoundPoint At(VersionNumber version);

    /// <summary>What can be restored, oldest first.</summary>
    IEnumerable<ListedVersions> All();
}

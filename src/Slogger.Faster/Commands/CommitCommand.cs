// SLOGGER.COMMIT: how the owner of a store has a version end at a place among its requests. No client can send it, since only connections
// that were made for the owner know it.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Faster.Commands;

/// <summary>The end of a version, at the place of this command among the others of its connection.</summary>
/// <param name="Line">The timeline.</param>
/// <param name="Next">The version that is to be open from here on.</param>
public sealed record CommitCommand(WorldLine Line, VersionNumber Next)
{
    /// <summary>Why it was not done, set by who was called; null: it was, or has at least begun. The connection answers with an error or
    /// OK.</summary>
    public string? Refusal { get; set; }
}

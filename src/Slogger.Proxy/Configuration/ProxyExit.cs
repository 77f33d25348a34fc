// How a run of the proxy (or of an offline restore) ended. Expected failures are values: a port in use, a Redis that is a
// replica, a metadata store that refuses. The executable prints them in one place and turns them into the exit code.
namespace Slogger.Proxy.Configuration;

/// <summary>The end of a run. <see cref="Problem"/> is null after an orderly stop.</summary>
/// <param name="Problem">What happened, and on which shard; a whole sentence without secrets.</param>
/// <param name="Remedy">What to do next; may be empty.</param>
public sealed record ProxyExit(string? Problem, string Remedy)
{
    /// <summary>An orderly end: exit code 0.</summary>
    public static readonly ProxyExit Done = new(null, "");

    /// <summary>A node of a cohort leads no more: it follows again.</summary>
    public static readonly ProxyExit LeadsNoMore = new("this node does not lead any more", "");

    /// <summary>True after an orderly end.</summary>
    public bool IsDone => Problem is null;

    /// <summary>A failure that a person can act on: exit code 1.</summary>
    public static ProxyExit Failed(string problem, string remedy = "") => new(problem, remedy);
}

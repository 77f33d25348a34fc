namespace Slogger.Core.Cuts;

/// <summary>Who finds the cut of a cluster, and what it knows. Chosen when the cluster is made (DPR, sections 3.3 and 3.4).</summary>
public enum FinderKind
{
    /// <summary>The cut is one version of the clock grid at every shard: <see cref="GridCut"/>. The only cuts that respect real time,
    /// and so the only ones for clients without sessions.</summary>
    Approximate,

    /// <summary>The maximal closure of a precedence graph whose rows are durable in the metadata: <see cref="ExactFinder"/>.</summary>
    Exact,

    /// <summary>The same graph in the memory of the coordinator, and the grid's cut when that has died: <see cref="HybridFinder"/>.</summary>
    Hybrid,
}

namespace Slogger.Core.Cuts;

/// <summary>Who finds the cut of a cluster, and what it knows. Chosen when the cluster is made (DPR, sections 3.3 and 3.4).</summary>
public enum FinderKind
{
    /// <summary>The cut is one version of the clock grid at every shard: <see cref="GridCut"/>. The only cuts that respect real time,
    /// and so the only ones for clients without sessions.</summary>
    Approximate,

    /// <summary>The maximal closure of a precedence graph whose rows are durable in the metadata: <see cref="ExactFinder"/>.</summary>
    Exact,

    /// <summary>The same graph in the memory of the coordinator, and the grid's cut when that has died:
    /// <see cref="HybridFinder"/>.</summary>
    Hybrid,
}

/// <summary>What follows from a cluster's finder. Nobody else asks which of the three it is.</summary>
public static class FinderRules
{
    extension(FinderKind finder)
    {
        /// <summary>Whether each cut is one version of the clock grid, the same at every shard.</summary>
        public bool HasGridCuts => finder == FinderKind.Approximate;

        /// <summary>Whether the finder must be told what versions depend on: then sessions name what they have seen, and shards keep
        /// it.</summary>
        public bool NeedsDependencies => finder != FinderKind.Approximate;

        /// <summary>Whether what versions depend on is durable in the metadata before a finder hears of it. Then it goes by these rows
        /// alone: a claim without its row says nothing.</summary>
        public bool RecordsRows => finder == FinderKind.Exact;

        /// <summary>Its name in options, in the metadata and on the wire.</summary>
        public string Name => finder switch
        {
            FinderKind.Exact => "exact",
            FinderKind.Hybrid => "hybrid",
            _ => "approximate",
        };

        /// <summary>Makes a finder that starts from a recorded cut.</summary>
        /// <param name="recorded">The cut.</param>
        /// <param name="rows">The rows above it in the metadata, if the finder records any.</param>
        /// <param name="counts">By number, whether a shard counts: some have not joined yet, or have left.</param>
        public IDprFinder Start(Cut recorded, IEnumerable<PrecedenceRow> rows, IReadOnlyList<bool> counts) => finder switch
        {
            FinderKind.Exact => new ExactFinder(recorded, rows),
            FinderKind.Hybrid => new HybridFinder(recorded),
            _ => new ApproximateFinder(recorded, counts),
        };
    }

    /// <summary>The finder of a name; null: there is none.</summary>
    public static FinderKind? Find(string name)
    {
        foreach (FinderKind finder in Enum.GetValues<FinderKind>()) if (finder.Name == name) return finder;
        return null;
    }
}

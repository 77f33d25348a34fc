// Deliberate faults, each one line of a finder switched. Only tests can select one: they prove that the property tests
// would notice if the line were wrong. Production always runs with None.
namespace Slogger.Core.Cuts;

internal enum FinderMutation
{
    None,

    /// <summary>Approximate: the cut is one stride above what is durable everywhere.</summary>
    GridOneTooFar,

    /// <summary>Approximate: the cut is not rounded to what every shard can be restored to.</summary>
    StrideIgnored,

    /// <summary>Approximate: the cut is rounded to the largest stride also where strides do not nest.</summary>
    LargestStride,

    /// <summary>Approximate: the cut moves a shard to a version that it has skipped.</summary>
    FloorIgnored,

    /// <summary>Reports of other world-lines count.</summary>
    AnyWorldLine,

    /// <summary>What was reported in the world-line before still counts in the next.</summary>
    OldWorldLineKept,

    /// <summary>Graph: the first version whose dependencies are not met is taken too.</summary>
    GraphOneTooFar,

    /// <summary>Graph: a version stays in although one that it depends on was taken out.</summary>
    NoTransitivity,

    /// <summary>Graph: versions whose dependencies are not known are taken as if they had none.</summary>
    LostIsTrusted,

    /// <summary>Graph: a gap between two reports is not noticed.</summary>
    GapIsClosed,

    /// <summary>Graph: a late report of a part of a gap fills all of it.</summary>
    FillsWholeGap,

    /// <summary>Graph: of two merged ranges only the later one's dependencies are kept.</summary>
    MergeForgets,
}

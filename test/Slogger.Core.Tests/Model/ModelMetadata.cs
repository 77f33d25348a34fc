// An oracle of the metadata in SQL: compare-and-set on world-line, monotone cut; a request may be applied although its
// answer is lost, and answers arrive late.
using Slogger.Core.Recovery;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Model;

internal enum RecordOutcome { Recorded, Refused, Unavailable }

internal sealed class ModelMetadata
{
    public WorldPoint Recorded { get; private set; } = new(WorldLine.First, VersionNumber.Zero);

    public List<WorldLineBranch> Branches { get; } = [new(WorldLine.First, VersionNumber.Zero)];

    public bool Down;

    public RecordOutcome Record(WorldPoint point)
    {
        if (Down) return RecordOutcome.Unavailable;
        if (point.WorldLine != Recorded.WorldLine || point.Version < Recorded.Version) return RecordOutcome.Refused;
        Recorded = point;
        return RecordOutcome.Recorded;
    }

    public void BeginWorldLine(WorldLine next, VersionNumber branch)
    {
        if (next != Recorded.WorldLine.Next) throw new ModelException($"I5: world-line {next} after {Recorded.WorldLine}");
        if (branch < Recorded.Version)
            throw new ModelException($"I3: world-line {next} branches at {branch}, below the recorded cut {Recorded}");
        Recorded = new(next, branch);
        Branches.Add(new(next, branch));
    }
}

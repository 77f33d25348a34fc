// The parts of the seeded world around ClientSession and BatchGate: operations, shards, connections, and the metadata that
// records cuts and world-lines.
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Sessions;

internal enum Fate { Unknown, Committed, Survived, Lost, Uncertain }

/// <summary>One operation, with all that is true of it, and what its session was told.</summary>
internal sealed class WorldOp
{
    public required int Session { get; init; }
    public required long Sequence { get; init; }
    public required int Shard { get; init; }
    public required long Begun { get; init; }
    public required WorldLine Line { get; init; }
    public long Answered { get; set; }
    public VersionNumber Version { get; set; }
    public WorldLine ExecutedIn { get; set; }
    public Fate Told { get; set; }

    public bool IsExecuted => Version > VersionNumber.Zero;

    public bool IsAnswered => Answered > 0;

    public override string ToString() =>
        $"operation {Sequence} of session {Session} (world-line {Line}, shard {Shard}, "
            + $"{(IsExecuted ? $"executed in {ExecutedIn}:{Version}" : "not executed")}, {(IsAnswered ? "answered" : "unanswered")})";
}

internal sealed record WorldBatch(BatchHeader Header, WorldOp[] Ops);

internal sealed record WorldReply(SequenceNumber First, WorldOp[] Ops, BatchReply Reply, long LeavesUs);

/// <summary>A session's connection to a shard: first-in-first-out towards the shard.</summary>
internal sealed class WorldConnection
{
    public Queue<WorldBatch> ToShard { get; } = new();
    public List<WorldReply> ToSession { get; } = [];
}

internal sealed class WorldShard(int number)
{
    public int Number => number;
    public WorldLine Line { get; set; } = WorldLine.First;
    public VersionNumber Open { get; set; } = new(1);
    public VersionNumber Durable { get; set; }
    public bool IsDown { get; set; }
    public long SkewUs { get; set; }

    /// <summary>Connections that their sessions have given up: what is in them may still be executed.</summary>
    public List<WorldConnection> Zombies { get; } = [];

    /// <summary>For the exact finder: what each version depends on.</summary>
    public List<(VersionNumber Version, Dependency On)> Rows { get; } = [];
}

/// <summary>What SQL holds: the cut, and where each world-line branched off.</summary>
internal sealed class WorldMetadata(int shards)
{
    public WorldLine Line { get; private set; } = WorldLine.First;
    public VersionNumber[] Cut { get; private set; } = new VersionNumber[shards];
    public List<(WorldLine Line, VersionNumber[] Branch)> Branches { get; } = [];

    /// <summary>Everything that was ever recorded: it may still be on its way to somebody.</summary>
    public List<(WorldLine Line, VersionNumber[] Cut)> Recorded { get; } = [(WorldLine.First, new VersionNumber[shards])];

    public void Record(VersionNumber[] cut)
    {
        Cut = cut;
        Recorded.Add((Line, cut));
    }

    public void BeginWorldLine(VersionNumber[] branch)
    {
        Line = Line.Next;
        Branches.Add((Line, branch));
        Record(branch);
    }

    /// <summary>What every branch kept since a world-line, up to another one.</summary>
    public VersionNumber[] Kept(WorldLine since, WorldLine upTo)
    {
        VersionNumber[] kept = new VersionNumber[Cut.Length];
        Array.Fill(kept, new(long.MaxValue));
        foreach ((WorldLine line, VersionNumber[] branch) in Branches)
            if (line > since && line <= upTo)
                for (int s = 0; s < kept.Length; s++) kept[s] = VersionNumber.Min(kept[s], branch[s]);
        return kept;
    }

    /// <summary>Whether an operation is part of a world-line's history; of the current one's, if none is given.</summary>
    public bool Holds(WorldOp op, WorldLine? of = null)
    {
        if (!op.IsExecuted) return false;
        foreach ((WorldLine line, VersionNumber[] branch) in Branches)
            if (line > op.ExecutedIn && line <= (of ?? Line) && op.Version > branch[op.Shard]) return false;
        return true;
    }
}

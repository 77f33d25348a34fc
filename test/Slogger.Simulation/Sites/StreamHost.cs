// What a stream has at the backup that outlives processes: the disk with its log and the seed that is being copied, and the store that
// follows.
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Sites;

/// <summary>What comes with a piece: commands of the stream, and ends of versions.</summary>
internal sealed record Payload(Command[] Commands, Boundary[] Entries);

internal sealed class StreamHost(int number, int keys)
{
    public int Number => number;

    public ShardLog Log { get; set; } = new(forgetsAtGap: false);

    /// <summary>Which life of the stream the log is of.</summary>
    public long LogGeneration { get; set; } = 1;

    /// <summary>The seed on the disk, as far as it goes.</summary>
    public Seed? Seed { get; private set; }

    public List<Command> SeedContent { get; } = [];

    public int SeedDurable { get; private set; }

    /// <summary>How much of copies has ever come, pieces that came again included.</summary>
    public long CopiedCommands { get; private set; }

    // ---- The store ----

    public Op?[] Values { get; } = new Op?[keys];

    /// <summary>Commands of the log that it has executed.</summary>
    public long Offset { get; private set; }

    /// <summary>The last version whose end it has come to: what readers see.</summary>
    public WorldPoint At { get; set; }

    /// <summary>The world-line that it has entered, durably, to be opened as a primary's.</summary>
    public WorldLine Entered { get; set; }

    public void Execute(in Command command)
    {
        if (command.Key >= 0) Values[command.Key] = command.Value;
        Offset++;
    }

    public void StoreDies()
    {
        Array.Clear(Values);
        (Offset, At) = (0, default);
    }

    // ---- The seed ----

    public void Write(in SeedChunk chunk, Command[] commands)
    {
        if (chunk.At == 0)
        {
            // What there was of the life before is void.
            (Seed, LogGeneration) = (chunk.Seed, 0);
            SeedContent.Clear();
            SeedDurable = 0;
        }

        SeedContent.AddRange(commands);
        CopiedCommands += commands.Length;
    }

    /// <summary>What was written when that was asked for survives a crash; if no other copy has begun since.</summary>
    public void SyncSeed(in SeedTicket ticket)
    {
        if (Seed?.Id == ticket.Id) SeedDurable = Math.Max(SeedDurable, (int)ticket.Bytes);
    }

    /// <summary>The log begins with the copy. What of that is not durable a crash takes away.</summary>
    public void BeginLog()
    {
        Log.BeginSeeded(Seed!, [.. SeedContent], SeedDurable);
        LogGeneration = Seed!.Generation;
    }

    /// <summary>What a process finds that takes the stream.</summary>
    public StreamOnDisk Found => LogGeneration == 0 ? new() { Copy = new(Seed, SeedDurable) } : new()
    {
        Life = LogGeneration, History = Log.History, Log = Log.EndIndex, Held = Log.DurableCut, Base = Log.BaseOffset, Floor = Log.Floor,
        Windows = Log.Windows, TakesWindows = true,
    };

    /// <summary>Of the seed only what is durable counts for who begins anew.</summary>
    public void ForgetUnsynced() => SeedContent.RemoveRange(SeedDurable, SeedContent.Count - SeedDurable);

    public void PowerCut(Random random)
    {
        StoreDies();
        Log.PowerCut(random);
        ForgetUnsynced();
    }

    /// <summary>The disk is gone, and another one in its place.</summary>
    public void DiskDies()
    {
        StoreDies();
        Entered = default;
        long fence = Log.FencedBy;
        Log = new(forgetsAtGap: false);
        Log.Open(fence);
        LogGeneration = 0;
        (Seed, SeedDurable) = (null, 0);
        SeedContent.Clear();
    }
}

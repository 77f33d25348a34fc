// An oracle of Redis: one serial history, each command one byte long; connections are queues in both directions. A
// connection that dies on the proxy's side lives on as a zombie: what it still holds may be executed later.
using Slogger.Core.Shards;

namespace Slogger.Core.Tests.Model;

internal sealed class ModelOp
{
    public int Session;
    public long Sequence;
    public bool OpenEnded;
    public bool Blocked;

    /// <summary>Its place in the history, or -1 if it is not part of it.</summary>
    public int Position = -1;
    public bool Committed;
}

/// <summary>A command: an operation, a marker, or (neither) a write of somebody else.</summary>
internal readonly record struct Command(ModelOp? Op, Marker? Marker);

internal readonly record struct Reply(ModelOp? Op, Marker? Marker, bool Ok);

internal sealed class ModelConnection
{
    public readonly Queue<Command> ToStore = new();
    public readonly Queue<Reply> ToProxy = new();
}

internal sealed class ModelStore
{
    public readonly List<Command> History = [];
    public readonly List<ModelConnection> Zombies = [];
    public bool Busy;

    /// <summary>Where each save was taken (mode bgsave).</summary>
    public readonly Dictionary<Marker, long> Saves = [];

    public void Execute(ModelConnection connection, bool unblock)
    {
        if (connection.ToStore.Count == 0) return;
        Command command = connection.ToStore.Peek();
        if (command.Op is { Blocked: true } && !unblock) return;
        connection.ToStore.Dequeue();
        if (command.Marker is { } m)
        {
            if (!Busy)
            {
                History.Add(command);
                Saves[m] = History.Count;
            }

            connection.ToProxy.Enqueue(new(null, m, !Busy));
            return;
        }

        command.Op!.Position = History.Count;
        History.Add(command);
        connection.ToProxy.Enqueue(new(command.Op, null, true));
    }

    public void WriteOfSomebodyElse() => History.Add(default);

    /// <summary>The store holds exactly the first so many commands from now on. All connections are gone, unless it was
    /// restored in place and nobody killed those of a proxy that is gone.</summary>
    public void RestoreTo(long offset, bool inPlace = false)
    {
        for (int i = (int)offset; i < History.Count; i++)
            if (History[i].Op is { } op) op.Position = -1;
        History.RemoveRange((int)offset, History.Count - (int)offset);
        if (!inPlace) Zombies.Clear();
        Busy = false;
    }
}

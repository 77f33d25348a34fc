// An oracle of Redis: one serial history, values by key, connections as queues in both directions. A connection that
// died on the proxy's side lives on here: what it still holds may be executed later, until somebody kills it.
using Slogger.Core.Cuts;
using Slogger.Core.Membership;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

/// <summary>An operation with all that is true of it. Times are counts of events.</summary>
internal sealed class Op
{
    public required int Client { get; init; }
    public required bool IsPlain { get; init; }
    public required int Shard { get; init; }
    public required long Begun { get; init; }

    /// <summary>What it writes; -1: nothing, so that any shard executes it.</summary>
    public required int Key { get; init; }

    /// <summary>Its number within its session or connection.</summary>
    public long Sequence { get; set; }

    /// <summary>The world-line in which it was forwarded.</summary>
    public WorldLine Line { get; set; }

    /// <summary>The version it was forwarded in; the lower bound of a blocked one.</summary>
    public VersionNumber Label { get; set; }

    /// <summary>Up to which version it may be, once it was answered: that of the label, unless it is open-ended.</summary>
    public VersionNumber Upper { get; set; } = new(long.MaxValue);

    public bool OpenEnded { get; set; }
    public bool Blocked { get; set; }

    /// <summary>What its session had newly seen elsewhere. For finders that want it.</summary>
    public Dependency[]? Dependencies { get; set; }

    /// <summary>The batch or the plain connection that it belongs to.</summary>
    public object? Via { get; set; }

    /// <summary>Its place in the store's history, or -1 if it is not part of it.</summary>
    public int Position { get; set; } = -1;

    /// <summary>The operation whose value it read.</summary>
    public Op? Read { get; set; }

    /// <summary>When its client had the answer; 0 if never.</summary>
    public long Answered { get; set; }

    /// <summary>The shard that its client was sent on to, without its being executed; -1: it was not.</summary>
    public int RedirectedTo { get; set; } = -1;

    public bool IsRedirected => RedirectedTo >= 0;

    /// <summary>It is inside the recorded cut, or survived a branch.</summary>
    public bool Covered { get; set; }

    /// <summary>Its client was told that it is committed.</summary>
    public bool ToldCommitted { get; set; }

    /// <summary>Its client was told that its fate is uncertain or that it is lost.</summary>
    public bool ToldGone { get; set; }

    public override string ToString() =>
        $"operation {Sequence} of {(IsPlain ? "plain client" : "session")} {Client} at shard {Shard} (forwarded in "
            + $"{Line}:{Label}{(OpenEnded ? "+" : "")}, position {Position}, begun {Begun}, answered {Answered})";
}

/// <summary>A write of a move: a key as it was copied, or its deletion.</summary>
internal sealed record KeyWrite(int Key, Op? Value);

/// <summary>An operation, a marker, or a write of a move.</summary>
internal readonly record struct Command(Op? Op, Marker? Marker, KeyWrite? Write = null)
{
    /// <summary>A window has come without it, since it changes nothing there: only the checks know of it.</summary>
    public bool IsSpared { get; init; }

    /// <summary>The key that it writes; -1 if none.</summary>
    public int Key => IsSpared ? -1 : Op?.Key ?? Write?.Key ?? -1;

    /// <summary>What it makes of the key.</summary>
    public Op? Value => Op ?? Write?.Value;
}

internal readonly record struct Reply(Op? Op, Marker? Marker, bool Ok);

internal sealed class StoreConnection(long epoch)
{
    /// <summary>The epoch of the process that made it.</summary>
    public long Epoch => epoch;

    /// <summary>The store has closed it, or died.</summary>
    public bool IsDead { get; set; }

    /// <summary>Its process has closed it: what is executed on it yet, nobody hears of.</summary>
    public bool IsGivenUp { get; set; }

    public Queue<Command> ToStore { get; } = new();
    public Queue<Reply> ToProxy { get; } = new();
}

internal sealed class Store
{
    private readonly Cluster _cluster;
    private readonly int _shard;
    private readonly List<StoreConnection> _connections = [];
    private readonly Op?[] _values;
    private long _fence;

    public Store(Cluster cluster, int shard)
    {
        (_cluster, _shard, _values) = (cluster, shard, new Op?[cluster.Keys.Count]);
    }

    public List<Command> History { get; } = [];

    /// <summary>Identity of the history: two are the same only if one is a beginning of the other.</summary>
    public int HistoryId { get; private set; } = 1;

    /// <summary>The world-line of what it holds. For the checks: Redis does not know.</summary>
    public WorldLine Line { get; private set; } = WorldLine.First;

    public bool IsUp { get; private set; } = true;

    /// <summary>It answers -BUSY to markers.</summary>
    public bool IsBusy { get; set; }

    /// <summary>Its backlog no longer reaches back to where the replication link was.</summary>
    public bool HasGap { get; set; }

    public Op? ValueOf(int key) => _values[key];

    /// <summary>Those that it reads from, the oldest first.</summary>
    public IReadOnlyList<StoreConnection> Connections => _connections;

    /// <summary>Nothing of what a connection still holds is executed any more.</summary>
    public void Kill(StoreConnection connection) => Kill(c => c == connection);

    public StoreConnection Connect(long epoch)
    {
        StoreConnection made = new(epoch) { IsDead = !IsUp || epoch < _fence };
        if (!made.IsDead) _connections.Add(made);
        return made;
    }

    /// <summary>Shuts out all processes of older epochs.</summary>
    public void Fence(long epoch)
    {
        if (epoch < _fence) return;
        _fence = epoch;
        Kill(c => c.Epoch < epoch);
    }

    public bool Admits(long epoch) => epoch >= _fence;

    /// <summary>One connection breaks.</summary>
    public void BreakOne(Random random)
    {
        if (_connections.Count == 0) return;
        StoreConnection broken = _connections[random.Next(_connections.Count)];
        // What it holds may be executed yet.
        broken.IsDead = true;
    }

    public void Die()
    {
        IsUp = false;
        IsBusy = HasGap = false;
        Kill(_ => true);
        _cluster.ForgetPositions(History, 0);
        History.Clear();
        Array.Clear(_values);
    }

    public void StartEmpty()
    {
        IsUp = true;
        HistoryId = _cluster.NewHistoryId();
    }

    /// <summary>It holds nothing, and is in a world-line from now on. For the checks.</summary>
    public void BeginEmpty(WorldLine line)
    {
        KillAll();
        Line = line;
    }

    /// <summary>It holds exactly this history from now on; all connections are gone.</summary>
    public void Restore(IReadOnlyList<Command> history, int count, int historyId, WorldLine line)
    {
        Kill(_ => true);
        _cluster.ForgetPositions(History, Math.Min(count, History.Count));
        History.Clear();
        Array.Clear(_values);
        for (int i = 0; i < count; i++)
        {
            History.Add(history[i]);
            if (history[i].Op is { } op) op.Position = i;
            if (history[i].Key >= 0) _values[history[i].Key] = history[i].Value;
        }

        (HistoryId, Line) = (historyId, line);
        IsBusy = HasGap = false;
    }

    /// <summary>In one transaction: keys get the values of a branch back, and with that it is in its world-line. Its history goes
    /// on.</summary>
    public void PutBack(int branch, IEnumerable<KeyWrite> values, WorldLine line)
    {
        _cluster.ForgetPositions(History, branch);
        foreach (KeyWrite write in values) Put(write);
        Line = line;
    }

    /// <summary>A key's time is over.</summary>
    public void Expire(int key)
    {
        if (_values[key] is not null) Put(new(key, null));
    }

    /// <summary>A key's time, which was far away, is what it was. Its value is the same.</summary>
    public void GiveExpiryBack(int key)
    {
        if (_values[key] is { } value) Put(new(key, value));
    }

    /// <summary>All connections end.</summary>
    public void KillAll() => Kill(_ => true);

    private void Put(KeyWrite write)
    {
        _values[write.Key] = write.Value;
        History.Add(new(null, null, write));
    }

    /// <summary>The next command of some connection, if there is one.</summary>
    public void ExecuteSome(Random random, bool unblock)
    {
        if (!IsUp || _connections.Count == 0) return;
        StoreConnection connection = _connections[random.Next(_connections.Count)];
        if (connection.ToStore.Count == 0) return;
        Command command = connection.ToStore.Peek();
        if (command.Op is { Blocked: true } && !unblock) return;
        connection.ToStore.Dequeue();
        Execute(connection, command);
    }

    /// <summary>All that one connection holds.</summary>
    public void ExecuteAllOf(StoreConnection connection)
    {
        while (connection.ToStore.TryDequeue(out Command command)) Execute(connection, command);
    }

    public void ExecuteAll()
    {
        for (int i = 0; IsUp && i < _connections.Count; i++)
            ExecuteAllOf(_connections[i]);
    }

    private void Execute(StoreConnection connection, in Command command)
    {
        if (command.Marker is { } m)
        {
            if (!IsBusy) History.Add(command);
            else _cluster.Count("marker refused");
            connection.ToProxy.Enqueue(new(null, m, !IsBusy));
            return;
        }

        if (command.Write is { } write)
        {
            Put(write);
            connection.ToProxy.Enqueue(new(null, null, true));
            return;
        }

        Op op = command.Op!;
        // What a process has left behind that ended with its shard's membership nobody will read, and nobody hears of.
        bool isOver = _cluster.Sql.Members.States[_shard] == MemberState.Left;
        if (!isOver) _cluster.Checks.OnExecuted(op, _shard, connection, Line);
        op.Position = History.Count;
        if (op.Key >= 0)
        {
            op.Read = _values[op.Key];
            if (_cluster.Keys.Move && !isOver) _cluster.Histories.OnExecuted(op, _shard);
            _values[op.Key] = op;
        }

        History.Add(command);
        connection.ToProxy.Enqueue(new(op, null, true));
    }

    private void Kill(Predicate<StoreConnection> which)
    {
        foreach (StoreConnection c in _connections)
            if (which(c)) c.IsDead = true;
        _connections.RemoveAll(which);
    }
}

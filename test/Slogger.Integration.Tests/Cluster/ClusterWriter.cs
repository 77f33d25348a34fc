// One client program that works on all shards, one operation after the other, so that each depends on all before it. It also
// sees how far others are, by memory that no store knows of, and so depends on what they did. What it did is to come back as
// a prefix: an operation without one that it depends on, or a committed one lost, is a violation.
using System.Globalization;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cluster;

internal sealed class ClusterWriter(int id, ClusterDeployment cluster, int seed)
{
    private const int WaitEvery = 12;
    private const int PieceOperations = 100;
    private readonly Random _random = new(seed);
    private readonly List<(long Operation, int Shard)> _sentTo = [];
    private readonly List<(long Operation, ClusterWriter Other, long Seen)> _observed = [];
    private readonly ClusterSession _session = new(cluster);
    private readonly List<(long Operation, long Sequence)> _answered = [];
    private readonly string[] _keys = [.. Enumerable.Range(0, cluster.MadeWith).Select(s => cluster.Key(s, $"writer{id}"))];
    private readonly int[] _owners = [.. Enumerable.Range(0, cluster.MadeWith)];   // of each key, as last heard

    /// <summary>The keys that it writes; when the cluster was made there was one at each shard.</summary>
    public IReadOnlyList<string> Keys => _keys;

    /// <summary>How often it was sent to another shard.</summary>
    public long Redirections { get; private set; }

    /// <summary>The last operation that was answered; others read it.</summary>
    public long Done;

    public int Id => id;

    /// <summary>The last operation that was sent: one more than <see cref="Done"/> if its answer never came.</summary>
    public long Sent { get; private set; }

    /// <summary>The last operation that was reported as committed.</summary>
    public long Committed { get; private set; }

    /// <summary>Whether the connections ended in this round.</summary>
    public bool IsBroken { get; private set; }

    /// <summary>Works until told to stop, or until a connection ends.</summary>
    public async Task RunAsync(IReadOnlyList<ClusterWriter> all, CancellationToken stop)
    {
        IsBroken = false;
        if (cluster.Finder != "approximate")
        {
            await RunSessionAsync(all, stop);
            return;
        }

        var clients = new List<RespClient>();
        try
        {
            for (int i = 0; i < cluster.Shards; i++) { clients.Add(await cluster.ConnectAsync(i)); }
            while (!stop.IsCancellationRequested)
            {
                long operation = Sent + 1;
                if (_random.Next(4) == 0)
                {
                    ClusterWriter other = all[_random.Next(all.Count)];
                    _observed.Add((operation, other, Volatile.Read(ref other.Done)));
                }

                int key = _random.Next(_keys.Length);
                Sent = operation;
                (RespValue reply, int shard) = await FollowAsync(s => ClientAsync(clients, s), key, Note(key, operation));
                _sentTo.Add((operation, shard));
                if (reply.IsError) { throw new ConnectionLostException(reply.Compact); }
                Volatile.Write(ref Done, operation);
                if (operation % WaitEvery != 0) { continue; }
                RespValue waited = await clients[shard].CallAsync("DPR.WAIT", "*", "300");
                if (waited.IsError) { throw new ConnectionLostException(waited.Compact); }
                if (waited.Items[2].Number == 1) { Committed = operation; }
            }
        }
        catch (ConnectionLostException)
        {
            IsBroken = true;
        }
        finally
        {
            foreach (RespClient client in clients) { client.Dispose(); }
        }
    }

    // An embedded store knows strings only: a list there is a row of them, which do not grow without end.
    private string[] Note(int key, long operation)
    {
        string text = operation.ToString(CultureInfo.InvariantCulture);
        return cluster.Embedded == 0 ? ["RPUSH", _keys[key], text] : ["APPEND", Piece(key, operation / PieceOperations), text + ","];
    }

    // What is there of a list.
    private string[] Look(int key) => cluster.Embedded == 0
        ? ["LRANGE", _keys[key], "0", "-1"]
        : ["MGET", .. Enumerable.Range(0, (int)(Sent / PieceOperations) + 1).Select(i => Piece(key, i))];

    private static IEnumerable<string> Items(RespValue looked) => looked.Items
        .SelectMany(i => i.Text.Split(',', StringSplitOptions.RemoveEmptyEntries));

    private string Piece(int key, long number) => string.Create(CultureInfo.InvariantCulture, $"{{{_keys[key]}}}{number}");

    // A shard may have joined since.
    private async Task<RespClient> ClientAsync(List<RespClient> clients, int shard)
    {
        while (clients.Count <= shard) { clients.Add(await cluster.ConnectAsync(clients.Count)); }
        return clients[shard];
    }

    // The same with a session: what it sees of others it reads from a shard, as part of the batch.
    private async Task RunSessionAsync(IReadOnlyList<ClusterWriter> all, CancellationToken stop)
    {
        try
        {
            await _session.ConnectAsync(_keys);
            while (!stop.IsCancellationRequested)
            {
                long operation = Sent + 1;
                int shard = _random.Next(cluster.Shards);
                ClusterWriter? other = _random.Next(4) == 0 ? all[_random.Next(all.Count)] : null;
                string[] push = ["RPUSH", _keys[shard], operation.ToString(CultureInfo.InvariantCulture)];
                Sent = operation;
                _sentTo.Add((operation, shard));
                if (other is null)
                {
                    await _session.ExecuteAsync(shard, push);
                }
                else
                {
                    IReadOnlyList<RespValue> replies = await _session.ExecuteAsync(shard, ["LINDEX", other._keys[shard], "-1"], push);
                    if (long.TryParse(replies[0].Text, NumberStyles.None, CultureInfo.InvariantCulture, out long seen) && other != this)
                    {
                        _observed.Add((operation, other, seen));
                    }
                }

                Volatile.Write(ref Done, operation);
                _answered.Add((operation, _session.Begun.Number));
                if (operation % WaitEvery == 0) { await AwaitCommitAsync(shard, stop); }
            }
        }
        catch (ConnectionLostException)
        {
            IsBroken = true;
        }
        finally
        {
            _session.Dispose();
        }
    }

    private async Task AwaitCommitAsync(int shard, CancellationToken stop)
    {
        for (int i = 0; i < 60 && !stop.IsCancellationRequested; i++)
        {
            await _session.LearnCutAsync(shard);
            int committed = _answered.FindLastIndex(a => a.Sequence <= _session.Committed.Number);
            if (committed >= 0)
            {
                Committed = Math.Max(Committed, _answered[committed].Operation);
                _answered.RemoveRange(0, committed + 1);
            }

            if (_answered.Count == 0) { return; }
            await Task.Delay(5, CancellationToken.None);
        }
    }

    /// <summary>What the shards hold of this writer now: how many of its operations, if they are a prefix.</summary>
    /// <exception cref="InvalidDataException">They are not: the text says what is wrong, and names the invariant.</exception>
    public async Task<long> SurvivedAsync()
    {
        var found = new SortedSet<long>();
        var places = new List<string>();
        for (int i = 0; i < _keys.Length; i++)
        {
            var opened = new List<RespClient>();
            long last = 0;
            (RespValue list, int shard) = await FollowAsync(
                async s =>
                {
                    opened.Add(await cluster.ConnectAsync(s));
                    return opened[^1];
                }, i, Look(i));
            foreach (RespClient client in opened) { client.Dispose(); }
            if (list.IsError) { throw new InvalidDataException($"writer {id}: {_keys[i]} cannot be read at shard {shard}: {list.Text}"); }
            foreach (string item in Items(list))
            {
                long operation = long.Parse(item, CultureInfo.InvariantCulture);
                if (operation <= last)
                {
                    throw new InvalidDataException($"I1: writer {id}: operation {operation} stands behind {last} at shard {shard}");
                }
                if (!found.Add(operation)) { throw new InvalidDataException($"I1: writer {id}: operation {operation} is there twice"); }
                last = operation;
            }

            places.Add(string.Create(CultureInfo.InvariantCulture, $"{_keys[i]} at shard {shard} up to {last}"));
        }

        if (found.Count > 0 && found.Max != found.Count)
        {
            long missing = 1;
            while (found.Contains(missing)) { missing++; }
            throw new InvalidDataException(
                $"I1: writer {id}: operation {found.Max} is there and {missing} is not ({string.Join(", ", places)}; {Done} answered, "
                    + $"{Committed} committed, sent to {string.Join(", ", _sentTo.Where(s => s.Operation >= missing).Take(40))})");
        }

        if (found.Count > Sent)
        {
            throw new InvalidDataException($"I1: writer {id}: {found.Count} operations are there, {Sent} were sent");
        }
        if (found.Count < Committed)
        {
            throw new InvalidDataException($"I2: writer {id}: {Committed} operations were committed, {found.Count} are there");
        }
        return found.Count;
    }

    // Has a key's owner do a request, wherever it has moved.
    private async Task<(RespValue Reply, int Shard)> FollowAsync(Func<int, Task<RespClient>> to, int key, params string[] request)
    {
        while (true)
        {
            int shard = _owners[key];
            RespValue reply = await (await to(shard)).CallAsync(request);
            if (!reply.IsError || !reply.Text.StartsWith("MOVED ", StringComparison.Ordinal)) { return (reply, shard); }
            Redirections++;
            _owners[key] = cluster.ShardAt(int.Parse(reply.Text.Split(':')[^1], CultureInfo.InvariantCulture));
        }
    }

    /// <summary>What was seen of others must be there too.</summary>
    public string? Unsupported(IReadOnlyDictionary<ClusterWriter, long> survived)
    {
        foreach ((long operation, ClusterWriter other, long seen) in _observed)
        {
            if (operation <= survived[this] && seen > survived[other])
            {
                return $"I1: writer {id}: operation {operation} is there, which saw {seen} of writer {other.Id}, of which "
                    + $"{survived[other]} are there";
            }
        }

        return null;
    }

    /// <summary>Goes on from what is there. After a rollback that is the branch, and committed.</summary>
    public void ContinueFrom(long survived, bool isBranch)
    {
        Volatile.Write(ref Done, survived);
        Sent = survived;
        _sentTo.RemoveAll(s => s.Operation > survived);
        // What was answered is in a session's past, or was lost with its world-line.
        _answered.Clear();
        if (isBranch) { Committed = survived; }
        _observed.RemoveAll(o => o.Operation > survived || o.Operation <= Committed);
    }
}

// Writers that work on keys whose slots move, each with a cluster-aware client that follows MOVED. Every key is a list of the numbers
// that were pushed to it, 1, 2, 3...: one that is lost, doubled or out of order shows. A push whose connection broke is looked up, at
// another process if this one is not there any more.
using System.Globalization;
using System.Net;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Past;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Moves;

internal sealed class MovingKeys(IEnumerable<int> ports, string[] keys) : IDisposable
{
    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(1), Pause = TimeSpan.FromMilliseconds(20);
    private readonly long[] _pushed = new long[keys.Length];
    private readonly List<int> _ports = [.. ports];
    private readonly int[] _owners = new int[keys.Length];      // of the ports
    private readonly Dictionary<int, RespClient> _clients = [];

    public MovingKeys(ClusterDeployment cluster, string[] keys)
        : this([cluster.Port(0)], keys)
    {
    }

    /// <summary>How often a request was sent elsewhere.</summary>
    public int Redirections { get; private set; }

    public long Pushed => _pushed.Sum();

    /// <summary>How often was pushed to each key, as far as it was acknowledged.</summary>
    public long[] Counts => [.. Enumerable.Range(0, _pushed.Length).Select(i => Volatile.Read(ref _pushed[i]))];

    /// <summary>Keys in different slots of a range.</summary>
    public static string[] In(int firstSlot, int lastSlot, int count, string name)
    {
        var found = new List<string>();
        for (int i = 0; found.Count < count; i++)
        {
            string key = string.Create(CultureInfo.InvariantCulture, $"{name}{i}");
            int slot = HashSlot.Of(Encoding.ASCII.GetBytes(key)).Number;
            if (slot >= firstSlot && slot <= lastSlot) { found.Add(key); }
        }

        return [.. found];
    }

    /// <summary>Pushes until told to stop.</summary>
    public async Task RunAsync(int seed, CancellationToken stop)
    {
        var random = new Random(seed);
        while (!stop.IsCancellationRequested)
        {
            int key = random.Next(keys.Length);
            await PushAsync(key);
        }
    }

    /// <summary>Notes versions, each with what the keys had at least and at most, until a task ends.</summary>
    public async Task NoteUntilAsync(ClusterDeployment cluster, Task ended, TimeSpan pause,
        List<(string Version, long[] Least, long[] Most)> instants)
    {
        using RespClient client = await cluster.ConnectAsync(0);
        do
        {
            long[] least = Counts;
            string version = await StoreView.VersionNowAsync(client);
            // One push of each may be under way.
            instants.Add((version, least, [.. Counts.Select(n => n + 1)]));
            await Task.Delay(pause);
        }
        while (!ended.IsCompleted);
        await ended;
    }

    /// <summary>Compares every key with what was pushed to it.</summary>
    public async Task CheckAsync()
    {
        for (int key = 0; key < keys.Length; key++)
        {
            RespValue list = await ReadAsync(key, "LRANGE", keys[key], "0", "-1");
            Assert.Equal(Enumerable.Range(1, (int)_pushed[key]).Select(n => n.ToString(CultureInfo.InvariantCulture)),
                list.Items.Select(i => i.Text));
        }
    }

    private async Task PushAsync(int key)
    {
        while (true)
        {
            try
            {
                RespValue reply = await DoAsync(key, "RPUSH", keys[key], (_pushed[key] + 1).ToString(CultureInfo.InvariantCulture));
                Assert.Equal(_pushed[key] + 1, reply.Number);
                _pushed[key]++;
                return;
            }
            catch (ConnectionLostException)
            {
                // Done or not: the list tells.
                if ((await ReadAsync(key, "LLEN", keys[key])).Number is var length && length == _pushed[key] + 1)
                {
                    _pushed[key]++;
                    return;
                }
                else
                {
                    Assert.Equal(_pushed[key], length);
                }
            }
        }
    }

    private async Task<RespValue> ReadAsync(int key, params string[] request)
    {
        while (true)
        {
            try
            {
                return await DoAsync(key, request);
            }
            catch (ConnectionLostException)
            {
                await Task.Delay(Pause);
            }
        }
    }

    private async Task<RespValue> DoAsync(int key, params string[] request)
    {
        string last = "nothing";
        for (long began = Environment.TickCount64; Environment.TickCount64 - began < Limit.TotalMilliseconds;)
        {
            int owner = _owners[key];
            try
            {
                if (!_clients.TryGetValue(owner, out RespClient? client))
                {
                    client = _clients[owner] = await RespClient.ConnectAsync(new IPEndPoint(IPAddress.Loopback, _ports[owner]));
                }
                RespValue reply = await client.CallAsync(request);
                if (!reply.IsError) { return reply; }
                last = reply.Text;
                if (last.StartsWith("CLUSTERDOWN ", StringComparison.Ordinal))
                {
                    await Task.Delay(Pause);
                    continue;
                }
                Assert.StartsWith("MOVED ", last, StringComparison.Ordinal);
                Redirections++;
                int port = int.Parse(last.Split(':')[^1], CultureInfo.InvariantCulture);
                if (!_ports.Contains(port)) { _ports.Add(port); }
                // Of a leader that is gone, maybe, by who has not heard yet.
                if (_ports.IndexOf(port) == owner) { await Task.Delay(Pause); }
                _owners[key] = _ports.IndexOf(port);
            }
            catch (ConnectionLostException)
            {
                if (_clients.Remove(owner, out RespClient? lost)) { lost.Dispose(); }
                _owners[key] = (owner + 1) % _ports.Count;
                throw;
            }
        }

        throw new InvalidDataException($"{string.Join(' ', request)} was sent on and on; the last answer: {last}");
    }

    public void Dispose()
    {
        foreach (RespClient client in _clients.Values) { client.Dispose(); }
    }
}

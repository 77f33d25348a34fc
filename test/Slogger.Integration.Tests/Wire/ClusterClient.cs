// A client of several shards, as clients of Redis Cluster are: it learns the slots from any of them, asks the owner of a key,
// and follows MOVED. Counts what it was sent elsewhere for.
using System.Globalization;
using System.Net;
using System.Text;
using Slogger.Core.Ownership;

namespace Slogger.Integration.Tests.Wire;

internal sealed class ClusterClient : IDisposable
{
    private const int RedirectionsMax = 5;
    private readonly Dictionary<int, RespClient> _byPort = [];
    private readonly int[] _owners = new int[HashSlot.Count];

    private ClusterClient()
    {
    }

    /// <summary>How often a request was sent elsewhere.</summary>
    public int Redirections { get; private set; }

    /// <summary>Learns the slots from the shard on a port.</summary>
    public static async Task<ClusterClient> ConnectAsync(int port)
    {
        var client = new ClusterClient();
        var slots = await (await client.ToAsync(port)).DoAsync("CLUSTER", "SLOTS");
        foreach (var row in slots.Items)
        {
            Array.Fill(client._owners, (int)row.Items[2].Items[1].Number, (int)row.Items[0].Number,
                (int)(row.Items[1].Number - row.Items[0].Number) + 1);
        }

        return client;
    }

    /// <summary>The port of a key's owner, as far as is known.</summary>
    public int OwnerOf(string key) => _owners[HashSlot.Of(Encoding.Latin1.GetBytes(key)).Number];

    /// <summary>Forgets everything but one port.</summary>
    public void Misguide(int port) => Array.Fill(_owners, port);

    /// <summary>Has the owner of a key do a request.</summary>
    public async Task<RespValue> DoAsync(string key, params string[] arguments)
    {
        for (int i = 0; i <= RedirectionsMax; i++)
        {
            var reply = await (await ToAsync(OwnerOf(key))).CallAsync(arguments);
            if (!reply.IsError) { return reply; }
            string[] words = reply.Text.Split(' ');
            if (words[0] != "MOVED") { throw new InvalidDataException($"{string.Join(' ', arguments.Take(3))}: {reply}"); }
            Redirections++;
            _owners[int.Parse(words[1], CultureInfo.InvariantCulture)] = int.Parse(words[2].Split(':')[1], CultureInfo.InvariantCulture);
        }

        throw new InvalidDataException($"{string.Join(' ', arguments.Take(3))} was sent on and on");
    }

    public async Task<RespClient> ToAsync(int port) =>
        _byPort.TryGetValue(port, out RespClient? there) ? there
            : _byPort[port] = await RespClient.ConnectAsync(new IPEndPoint(IPAddress.Loopback, port));

    public void Dispose()
    {
        foreach (var client in _byPort.Values) { client.Dispose(); }
    }
}

// Two nodes of Redis Cluster, and two proxies that are two shards, each with half of the slots: what the one says the other has
// to say.
using Microsoft.Data.Sqlite;
using Slogger.Core.Identities;
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;
using Slogger.TestSupport;

namespace Slogger.Proxy.Tests.Harness;

public sealed class SlotServers : IDisposable
{
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-sl-").FullName;
    private readonly List<IDisposable> _servers = [];
    private readonly RedisServer[] _stores, _nodes;
    private readonly TestProxy[] _proxies;

    public SlotServers()
    {
        _stores = [Keep(new RedisServer()), Keep(new RedisServer())];
        _proxies = [Keep(NewProxy(0)), Keep(NewProxy(1))];
        int[] bus = [TestPorts.Next(), TestPorts.Next()];
        _nodes = [.. bus.Select(port => Keep(new RedisServer(null, "--cluster-enabled", "yes", "--cluster-port", $"{port}")))];
        Ask(_nodes[0].Port, "CLUSTER", "ADDSLOTSRANGE", "0", "8191");
        Ask(_nodes[1].Port, "CLUSTER", "ADDSLOTSRANGE", "8192", "16383");
        Ask(_nodes[0].Port, "CLUSTER", "SET-CONFIG-EPOCH", "1");
        Ask(_nodes[1].Port, "CLUSTER", "SET-CONFIG-EPOCH", "2");
        Ask(_nodes[0].Port, "CLUSTER", "MEET", "127.0.0.1", $"{_nodes[1].Port}", $"{bus[1]}");
        foreach (int port in (int[])[_proxies[0].Port, _proxies[1].Port, _nodes[0].Port, _nodes[1].Port])
        {
            for (int i = 0; !Knows(port); i++)
            {
                Assert.True(i < 2000, $"{Ask(port, "CLUSTER", "INFO")}\n{_proxies[0].Log}\n{_proxies[1].Log}");
                Thread.Sleep(20);
            }
        }
    }

    internal TestProxy First => _proxies[0];

    /// <summary>The port of the first node, or of the first shard.</summary>
    internal int FirstPort(bool node) => node ? _nodes[0].Port : _proxies[0].Port;

    /// <summary>The Redis behind the first shard.</summary>
    internal RedisServer FirstStore => _stores[0];

    /// <summary>A reply, with the ports of nodes and shards by their numbers.</summary>
    internal string Named(string reply)
    {
        for (int i = 0; i < 2; i++)
        {
            foreach (int port in (int[])[_proxies[i].Port, _nodes[i].Port])
            {
                reply = reply.Replace($":{port}", $":port{i}", StringComparison.Ordinal);
            }
        }
        return reply;
    }

    /// <summary>Gives each shard the other's slots.</summary>
    internal void Swap()
    {
        using var database = new SqliteConnection($"Data Source={Path.Combine(_directory, "m")}");
        database.Open();
        using SqliteCommand command = database.CreateCommand();
        command.CommandText = "UPDATE slogger_slots SET shard = 1 - shard, revision = revision + 1";
        command.ExecuteNonQuery();
    }

    /// <summary>All data is gone.</summary>
    internal void Clear()
    {
        foreach (RedisServer server in _stores.Concat(_nodes))
        {
            using RespConnection connection = server.Connect();
            Assert.Equal("+OK\r\n", connection.Call("FLUSHALL"));
        }
    }

    public void Dispose()
    {
        foreach (IDisposable server in Enumerable.Reverse(_servers)) { server.Dispose(); }
        Directory.Delete(_directory, recursive: true);
    }

    private TestProxy NewProxy(int shard) => new(_stores[shard], TransportKind.Auto, o => o with
    {
        Commit = CommitMode.Log,
        Shards = 2,
        Shard = new ShardId(shard),
        Metadata = MetadataSpec.SqliteFile(Path.Combine(_directory, "m")),
    });

    private T Keep<T>(T server)
        where T : IDisposable
    {
        _servers.Add(server);
        return server;
    }

    private static bool Knows(int port) => Ask(port, "CLUSTER", "INFO") is var info
        && info.Contains("cluster_state:ok", StringComparison.Ordinal)
        && info.Contains("cluster_slots_ok:16384", StringComparison.Ordinal) && info.Contains("cluster_size:2", StringComparison.Ordinal);

    private static string Ask(int port, params string[] arguments)
    {
        using RespConnection connection = RespConnection.To(port);
        return connection.Call(arguments);
    }
}

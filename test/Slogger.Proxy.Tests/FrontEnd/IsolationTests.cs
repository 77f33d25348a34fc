// Many clients over few connections: no command may run in another client's database, nor be answered in its protocol, nor
// out of order. Random sequences, the same for the proxy and for raw Redis, must give the same bytes.
using System.Globalization;
using System.Text;
using System.Text.RegularExpressions;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed partial class IsolationTests(BothTransports servers, ITestOutputHelper output) : IClassFixture<BothTransports>
{
    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public async Task ManyClients_OfDifferentDatabasesAndProtocols_NeverMeet(TransportKind transport)
    {
        servers.Fresh(transport).Dispose();
        int seed = Random.Shared.Next();
        output.WriteLine($"seed {seed}");
        await Task.WhenAll(Enumerable.Range(0, 24).Select(i => Task.Factory.StartNew(() => Wander(transport, i, new Random(seed + i)),
            TestContext.Current.CancellationToken, TaskCreationOptions.LongRunning, TaskScheduler.Default)));
    }

    // Each database holds its own number under "db"; each client counts its own key in each database.
    private void Wander(TransportKind transport, int id, Random random)
    {
        using RespConnection client = servers.Proxy(transport).Connect();
        int db = 0, protocol = 2;
        int[] counts = new int[8];
        string key = $"n{id}";
        for (int step = 0; step < 250; step++)
        {
            var expected = new List<string>();
            for (int i = random.Next(1, 6); i > 0; i--)
            {
                switch (random.Next(12))
                {
                    case 0 or 1:
                        db = random.Next(counts.Length);
                        client.Send("SELECT", db.ToString(CultureInfo.InvariantCulture));
                        expected.Add("+OK\r\n");
                        break;
                    case 2:
                        protocol = 5 - protocol;
                        client.Send("HELLO", protocol.ToString(CultureInfo.InvariantCulture));
                        expected.Add(protocol == 3 ? "%7" : "*14");
                        break;
                    case 3:
                        client.Send("MULTI");
                        client.Send("INCR", key);
                        client.Send("EXEC");
                        expected.AddRange(["+OK\r\n", "+QUEUED\r\n", $"*1\r\n:{++counts[db]}\r\n"]);
                        break;
                    case 4:
                        client.Send("EVAL", "return redis.call('INCR', KEYS[1])", "1", key);
                        expected.Add($":{++counts[db]}\r\n");
                        break;
                    case 5:
                        client.Send("BLPOP", "nothing" + key, "0.001");
                        expected.Add(protocol == 3 ? "_\r\n" : "*-1\r\n");
                        break;
                    case 6:
                        client.Send("HGETALL", "nothing");
                        expected.Add(protocol == 3 ? "%0\r\n" : "*0\r\n");
                        break;
                    case 7 when step % 20 == 0:
                        client.Send("RESET");
                        (db, protocol) = (0, 2);
                        expected.Add("+RESET\r\n");
                        break;
                    case 8:
                        client.Send("GET", "nothing");
                        expected.Add(protocol == 3 ? "_\r\n" : "$-1\r\n");
                        break;
                    default:
                        client.Send("INCR", key);
                        expected.Add($":{++counts[db]}\r\n");
                        break;
                }
            }
            foreach (string reply in expected)
            {
                string answer = client.Read();
                Assert.True(answer.StartsWith(reply, StringComparison.Ordinal),
                    $"client {id} step {step} db {db} protocol {protocol}: expected {reply} got {answer}");
            }
        }
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void RandomSequence_InOnePipeline_IsAnsweredAsByRedis(TransportKind transport)
    {
        int first = Random.Shared.Next(1_000_000);
        for (int seed = first; seed < first + 60; seed++)
        {
            string bytes = Sequence(new Random(seed));
            string[] answers = new string[2];
            for (int i = 0; i < 2; i++)
            {
                using RespConnection client = i == 0 ? servers.Fresh(transport) : servers.Redis.Connect();
                if (i == 1) { client.Call("FLUSHALL"); }
                client.SendRaw(bytes);
                try
                {
                    answers[i] = Ids().Replace(client.ReadToEnd(), "id\r\n:N");
                }
                catch (IOException e)
                {
                    Assert.Fail($"seed {seed}, {(i == 0 ? "proxy" : "redis")}: {e.Message}\n{bytes}\n--- came\n{client.Unread}");
                }
            }
            Assert.True(answers[0] == answers[1], $"seed {seed}\n--- sent\n{bytes}\n--- redis\n{answers[1]}\n--- proxy\n{answers[0]}");
        }
    }

    private static string Sequence(Random random)
    {
        var text = new StringBuilder();
        bool queueing = false, subscribing = random.Next(3) == 0;
        for (int i = random.Next(5, 60); i > 0; i--)
        {
            string key = $"k{random.Next(4)}";
            string[] command = random.Next(subscribing ? 40 : 34) switch
            {
                0 => ["SET", key, $"{random.Next(100)}"],
                1 => ["GET", key],
                2 => ["INCR", key],
                3 => ["APPEND", key, new string('a', random.Next(0, 3000))],
                4 => ["DEL", key, "k1"],
                5 or 6 => ["MULTI"],
                7 or 8 or 9 => ["EXEC"],
                10 => ["DISCARD"],
                11 => ["WATCH", key],
                12 => ["UNWATCH"],
                13 => ["RPUSH", "l", $"{i}", "x"],
                14 => ["BLPOP", "l", "0.001"],
                15 => ["BRPOP", "l", key, "0.001"],
                16 => ["EVAL", "return redis.call('INCR', KEYS[1])", "1", key],
                17 => ["SELECT", $"{random.Next(5)}"],
                18 => ["SELECT", random.Next(2) == 0 ? "99" : "x"],
                19 => ["HELLO", random.Next(2) == 0 ? "3" : "2"],
                20 => ["CLIENT", "SETNAME", $"name{i}"],
                21 => ["CLIENT", "GETNAME"],
                // Queued it would break Redis's own protocol: the proxy differs on purpose.
                22 when !queueing && !subscribing => ["CLIENT", "REPLY", random.Next(3) switch { 0 => "SKIP", 1 => "OFF", _ => "ON" }],
                23 => ["HGETALL", "h"],
                24 => ["HSET", "h", "f", $"{i}"],
                25 => ["RESET"],
                26 => ["NOSUCH", "x"],
                27 => ["GET"],
                28 => ["XADD", "s", $"{(61 - i).ToString(CultureInfo.InvariantCulture)}-1", "f", "v"],
                29 => ["XREAD", "BLOCK", "1", "STREAMS", "s", "0"],
                30 => ["XREAD", "COUNT", "2", "STREAMS", "s", "0"],
                31 => ["DBSIZE"],
                34 => ["SUBSCRIBE", "c"],
                35 => ["UNSUBSCRIBE", random.Next(2) == 0 ? "c" : "d"],
                36 => ["UNSUBSCRIBE"],
                37 => ["PING"],
                38 => ["MULTI", "x"],
                39 => [random.Next(2) == 0 ? "EXEC" : "DISCARD", "x"],
                32 => ["SETRANGE", "big", $"{random.Next(300_000)}", "x"],
                _ => ["GET", "big"],
            };
            if (command[0] == "MULTI") { queueing = true; }
            if (command is ["EXEC" or "DISCARD" or "RESET"]) { queueing = false; }
            if (random.Next(15) == 0 && command.All(a => a.Length > 0 && !a.Contains(' ', StringComparison.Ordinal)))
            {
                text.Append(string.Join(' ', command)).Append("\r\n");
            }
            else
            {
                text.Append(Encoding.Latin1.GetString(RespConnection.Request(command)));
            }
        }
        // RESET also ends what Redis would not let QUIT end: a connection that is silent.
        return text.Append("RESET\r\nQUIT\r\n").ToString();
    }

    [GeneratedRegex("id\r\n:[0-9]+")]
    private static partial Regex Ids();
}

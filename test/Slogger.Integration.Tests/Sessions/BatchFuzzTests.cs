// Headers as no client would send them: the proxy lives on, and a client that works meanwhile notices nothing.
using System.Buffers;
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Functional;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sessions;

public sealed class BatchFuzzTests(Servers servers) : IClassFixture<Servers>
{
    private static readonly string[] s_odd =
    [
        "", "0", "-1", "1", "2", "65536", "65537", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e3", " 1", "1 ",
            "+1", "\0", "\r\n",
        "DEP", "dep", "*", "$", "00000000000000000000000000000001", "0000000000000000000000000000000G", "DPR.BATCH", "DPR.HELLO", "MULTI",
            "ECHO",
    ];

    [Theory]
    [InlineData(20260803, 600)]
    public async Task Headers_ThatAreMutilated_HarmNobody(int seed, int rounds)
    {
        TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}");
        var random = new Random(seed);
        using var worker = await RespClient.ConnectAsync(await servers.EmptyAsync(Target.Proxy));
        SessionId id = SessionClient.NewId();
        long done = 0;
        for (int round = 0; round < rounds; round++)
        {
            using var client = await SessionClient.ConnectAsync((await servers.ProxyAsync()).Endpoint);
            long line = (await worker.DoAsync("DPR.WORLDLINE")).Number;
            byte[] bytes = Mutilated(random, SessionClient.Header(SessionClient.HeaderOf(id, line, 0, 1, 3)));
            try
            {
                await client.Wire.WriteAsync(bytes);
                await client.Wire.WriteAsync(
                    SessionClient.Bytes(SessionClient.HeaderOf(id, line, 0, 4, 1), ["SET", "fuzz", "x"], ["ECHO", "x"]));
                // Some hang up at once, some when something was answered, if anything is.
                if (random.Next(2) == 0) { await client.Wire.ReadAsync(TimeSpan.FromMilliseconds(50)); }
            }
            catch (Exception e) when (e is ConnectionLostException or TimeoutException)
            {
                // Closed, or waiting for more: both are fine.
            }

            for (int i = 0; i < 3; i++) { Assert.Equal(++done, (await worker.DoAsync("INCR", "worker")).Number); }
        }

        ProxyProcess proxy = (await servers.ProxyAsync()).Proxy;
        Assert.False(proxy.HasExited, proxy.Tail());
        Assert.Equal(1, (await worker.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
        // And batches still work.
        using var after = await SessionClient.ConnectAsync((await servers.ProxyAsync()).Endpoint);
        await after.SendAsync(SessionClient.HeaderOf(id, (await worker.DoAsync("DPR.WORLDLINE")).Number, 0, 1, 1), ["GET", "worker"]);
        Assert.Equal($"${done}", (await after.ReadAsync(1)).Replies[0].Compact);
    }

    private static byte[] Mutilated(Random random, string[] header)
    {
        var arguments = header.ToList();
        for (int edits = random.Next(0, 3); edits > 0; edits--)
        {
            int place = random.Next(arguments.Count);
            switch (random.Next(4))
            {
                case 0 when arguments.Count > 1:
                    arguments.RemoveAt(place);
                    break;
                case 1:
                    arguments.Insert(place, s_odd[random.Next(s_odd.Length)]);
                    break;
                default:
                    // Not the name: it would be another command, and is for other tests.
                    arguments[Math.Max(1, place) % arguments.Count] = s_odd[random.Next(s_odd.Length)];
                    break;
            }
        }

        var writer = new ArrayBufferWriter<byte>();
        RespClient.Append(writer, arguments);
        byte[] bytes = writer.WrittenSpan.ToArray();
        // And sometimes bytes: behind the name, so that no other command comes about.
        int from = Math.Min(bytes.Length - 1, 24);
        for (int edits = random.Next(4) == 0 ? random.Next(1, 6) : 0; edits > 0; edits--)
        {
            bytes[random.Next(from, bytes.Length)] = (byte)random.Next(256);
        }

        return random.Next(8) == 0 ? bytes[..random.Next(1, bytes.Length)] : bytes;
    }
}

// The load of a pipelining client written by hand: a socket for each shard, batches of SET in one piece, replies counted by their
// length (each is +OK). One thread, nothing allocated: about the best that a client can do.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Slogger.Bench.Sessions;

internal static class PlainLoad
{
    private const int ReplyBytes = 5;

    public static Measurement Throughput(string[] endpoints, Keys keys, int batch, TimeSpan warmUp, TimeSpan length)
    {
        Shard[] shards = [.. endpoints.Select(e => new Shard(e))];
        Run(shards, keys, batch, warmUp);
        (long operations, TimeSpan took) = Run(shards, keys, batch, length);
        foreach (Shard shard in shards) { shard.Dispose(); }
        return new(operations / took.TotalSeconds, 0, 0);
    }

    private static (long Operations, TimeSpan Took) Run(Shard[] shards, Keys keys, int batch, TimeSpan length)
    {
        int perShard = Math.Max(4096, batch * shards.Length * 4) / shards.Length;
        long operations = 0, began = Stopwatch.GetTimestamp();
        uint random = 12345;
        while (Stopwatch.GetElapsedTime(began) < length)
        {
            for (int i = 0; i < 1024; i++)
            {
                random = (random * 1664525) + 1013904223;
                int key = (int)(random % (uint)keys.Count);
                Shard shard = shards[keys.ShardOf(key)];
                shard.Add(keys[key]);
                operations++;
                if (shard.Gathered < batch) { continue; }
                shard.Send();
                while (shard.InFlight > perShard - batch) { shard.Receive(); }
            }
        }

        foreach (Shard shard in shards)
        {
            shard.Send();
            while (shard.InFlight > 0) { shard.Receive(); }
        }

        return (operations, Stopwatch.GetElapsedTime(began));
    }

    public static Measurement Latency(string[] endpoints, Keys keys, TimeSpan warmUp, TimeSpan length)
    {
        Shard[] shards = [.. endpoints.Select(e => new Shard(e))];
        var latencies = new List<double>();
        long began = Stopwatch.GetTimestamp();
        for (int i = 0; Stopwatch.GetElapsedTime(began) < warmUp + length; i++)
        {
            int key = (i * 7919) % keys.Count;
            Shard shard = shards[keys.ShardOf(key)];
            long start = Stopwatch.GetTimestamp();
            shard.Add(keys[key]);
            shard.Send();
            while (shard.InFlight > 0) { shard.Receive(); }
            if (Stopwatch.GetElapsedTime(began) > warmUp) { latencies.Add(Stopwatch.GetElapsedTime(start).TotalMicroseconds); }
        }

        foreach (Shard shard in shards) { shard.Dispose(); }
        latencies.Sort();
        return new(latencies.Count / length.TotalSeconds, Percentile.Of(latencies, 0.5), Percentile.Of(latencies, 0.99));
    }

    private sealed class Shard : IDisposable
    {
        private static readonly byte[] s_tail = [.. "\r\n$64\r\n"u8, .. Keys.Value, .. "\r\n"u8];
        private readonly Socket _socket = new(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        private readonly byte[] _received = new byte[256 << 10];
        private byte[] _out = new byte[64 << 10];
        private int _length, _left;

        public Shard(string endpoint) => _socket.Connect(IPEndPoint.Parse(endpoint));

        public int Gathered { get; private set; }

        public int InFlight { get; private set; }

        public void Add(byte[] key)
        {
            if (_out.Length - _length < key.Length + s_tail.Length + 32) { Array.Resize(ref _out, _out.Length * 2); }
            Span<byte> to = _out.AsSpan(_length);
            "*3\r\n$3\r\nSET\r\n$"u8.CopyTo(to);
            int at = 14;
            key.Length.TryFormat(to[at..], out int digits, default, CultureInfo.InvariantCulture);
            at += digits;
            "\r\n"u8.CopyTo(to[at..]);
            key.CopyTo(to[(at + 2)..]);
            at += 2 + key.Length;
            s_tail.CopyTo(to[at..]);
            _length += at + s_tail.Length;
            Gathered++;
        }

        public void Send()
        {
            // Both sides may be full: replies are taken while sending.
            for (int at = 0; at < _length;)
            {
                if (_socket.Poll(0, SelectMode.SelectRead)) { Receive(); }
                at += _socket.Send(_out, at, _length - at, SocketFlags.None);
            }

            InFlight += Gathered;
            _length = Gathered = 0;
        }

        public void Receive()
        {
            int got = _socket.Receive(_received);
            if (got == 0 || _received[0] is (byte)'-') { throw new IOException($"the server says: {System.Text.Encoding.ASCII.GetString(_received, 0, Math.Min(got, 200))}"); }
            _left += got;
            InFlight -= _left / ReplyBytes;
            _left %= ReplyBytes;
        }

        public void Dispose() => _socket.Dispose();
    }
}

// The load of a pipelining client written by hand: a socket for each shard, batches of SET in one piece, replies counted by their
// '+' (each is +OK). One thread, hardly anything allocated: about the best that a client can do. With headers it sends what a session
// sends, and so shows what the session protocol costs the proxies, whatever a client costs.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Slogger.Bench.Sessions;

internal static class PlainLoad
{
    public static Measurement Throughput(string[] endpoints, Keys keys, int batch, bool withHeaders, TimeSpan warmUp, TimeSpan length)
    {
        Shard[] shards = [.. endpoints.Select(e => new Shard(e, withHeaders))];
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

    public static Measurement Latency(string[] endpoints, Keys keys, bool withHeaders, TimeSpan warmUp, TimeSpan length)
    {
        Shard[] shards = [.. endpoints.Select(e => new Shard(e, withHeaders))];
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
        private readonly string? _header;
        private int _length;
        private long _sent;

        public Shard(string endpoint, bool withHeaders)
        {
            _socket.Connect(IPEndPoint.Parse(endpoint));
            if (!withHeaders) { return; }
            // A session of its own for each shard, which has seen nothing elsewhere.
            _socket.Send("*1\r\n$13\r\nDPR.WORLDLINE\r\n"u8);
            int got = _socket.Receive(_received);
            string line = System.Text.Encoding.ASCII.GetString(_received, 1, got - 3);
            _header = $"*6\r\n$9\r\nDPR.BATCH\r\n$32\r\n{Guid.NewGuid():n}\r\n${line.Length}\r\n{line}\r\n$1\r\n0\r\n";
        }

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
            if (Gathered == 0) { return; }
            if (_header is not null) { SendHeader(); }
            // Both sides may be full: replies are taken while sending.
            for (int at = 0; at < _length;)
            {
                if (_socket.Poll(0, SelectMode.SelectRead)) { Receive(); }
                at += _socket.Send(_out, at, _length - at, SocketFlags.None);
            }

            InFlight += Gathered;
            _length = Gathered = 0;
        }

        // In one piece with what follows, as a session sends it.
        private void SendHeader()
        {
            string first = (_sent + 1).ToString(CultureInfo.InvariantCulture), count = Gathered.ToString(CultureInfo.InvariantCulture);
            byte[] header = System.Text.Encoding.ASCII.GetBytes($"{_header}${first.Length}\r\n{first}\r\n${count.Length}\r\n{count}\r\n");
            if (_out.Length - _length < header.Length) { Array.Resize(ref _out, _out.Length * 2); }
            _out.AsSpan(0, _length).CopyTo(_out.AsSpan(header.Length));
            header.CopyTo(_out, 0);
            _length += header.Length;
            _sent += Gathered;
            // The verdict is +OK, too.
            InFlight++;
        }

        public void Receive()
        {
            int got = _socket.Receive(_received);
            if (got == 0 || _received[0] is (byte)'-')
            {
                throw new IOException($"the server says: {System.Text.Encoding.ASCII.GetString(_received, 0, Math.Min(got, 200))}");
            }
            InFlight -= _received.AsSpan(0, got).Count((byte)'+');
        }

        public void Dispose() => _socket.Dispose();
    }
}

// `paced JSON`: the open-loop load generator. redis-benchmark cannot limit its rate, and a closed loop hides a stall by
// not sending during it; here requests are due at even intervals and latency counts from then. One thread that spins
// on epoll, so that no timer's slack is in the figures: it needs a core of its own. Prints a PacedResult as JSON.
using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.Json;
using Slogger.Bench.Host;

namespace Slogger.Bench.Load;

internal sealed unsafe class PacedLoad
{
    // The kernel packs epoll_event on x64: 12 bytes, data at 4; elsewhere 16 bytes, data at 8.
    private static readonly int s_eventBytes = RuntimeInformation.ProcessArchitecture == Architecture.X64 ? 12 : 16;
    private static readonly int s_dataOffset = s_eventBytes - 8;
    private static readonly double s_ticksToNs = 1e9 / Stopwatch.Frequency;

    private readonly PacedOptions _options;
    private readonly Random _random;
    private readonly PacedConnection[] _connections;
    private readonly PacedConnection[] _probes;
    private readonly byte[] _request;
    private readonly int[] _keyOffsets;
    private readonly byte[] _probeRequest;
    private readonly int[] _probeKeyOffsets;
    private readonly LatencyHistogram _requests = new();
    private readonly LatencyHistogram _lateness = new();
    private readonly LatencyHistogram _commits = new();
    private long _now, _errors, _answered;
    private bool _measuring;
    private string _firstError = "";

    private PacedLoad(PacedOptions options)
    {
        _options = options;
        _random = new Random(options.Seed);
        _connections = [.. Enumerable.Range(0, options.RatePerSecond > 0 ? options.Connections : 0)
            .Select(_ => new PacedConnection(options.Port))];
        _probes = [.. Enumerable.Range(0, options.ProbeConnections).Select(_ => new PacedConnection(options.Port))];
        (_request, _keyOffsets) = BuildRequest(options);
        (byte[] set, _probeKeyOffsets) = BuildRequest(options with { Pipeline = 1, Operation = "SET" });
        _probeRequest = [.. set, .. Encode(options.WaitCommand.Split(' '))];
    }

    public static int Run(string json)
    {
        PacedResult result = new PacedLoad(PacedOptions.FromJson(json)).Execute();
        Console.WriteLine(JsonSerializer.Serialize(result));
        return 0;
    }

    private PacedResult Execute()
    {
        int epoll = Native.EpollCreate(0);
        byte* one = stackalloc byte[16];
        PacedConnection[] all = [.. _connections, .. _probes];
        for (int i = 0; i < all.Length; i++)
        {
            *(uint*)one = Native.EpollIn;
            *(long*)(one + s_dataOffset) = i;
            _ = Native.EpollControl(epoll, Native.EpollCtlAdd, all[i].Handle, one);
        }

        long start = Stopwatch.GetTimestamp();
        long measureFrom = start + Ticks(_options.WarmUpSeconds);
        long end = measureFrom + Ticks(_options.Seconds);
        double interval = _options.RatePerSecond > 0 ? Stopwatch.Frequency / _options.RatePerSecond * _options.Pipeline : double.MaxValue;
        double nextDue = start + (_options.RatePerSecond > 0 ? interval : 1e18);
        foreach (PacedConnection probe in _probes)
        {
            probe.NextAt = start + RandomGap();
        }

        byte* events = stackalloc byte[16 * 128];
        int turn = 0;
        ReplyHandler onReply = OnReply, onProbeReply = OnProbeReply;
        while ((_now = Stopwatch.GetTimestamp()) < end)
        {
            if (!_measuring && _now >= measureFrom)
            {
                _measuring = true;
                _requests.Clear();
                _lateness.Clear();
                _commits.Clear();
                (_errors, _answered) = (0, 0);
            }

            // At most one round over the connections before replies are read again.
            for (int i = 0; i < _connections.Length && nextDue <= _now; i++)
            {
                PacedConnection c = _connections[turn++ % _connections.Length];
                DrawKeys(_request, _keyOffsets);
                c.Send(_request, (long)nextDue);
                _lateness.Record(Ns(_now - (long)nextDue));
                nextDue += interval;
            }

            foreach (PacedConnection probe in _probes)
            {
                if (probe.Outstanding == 0 && probe.NextAt <= _now)
                {
                    DrawKeys(_probeRequest, _probeKeyOffsets);
                    probe.FirstReplyAt = 0;
                    probe.Send(_probeRequest, _now);
                }
            }

            int ready = Native.EpollWait(epoll, events, 128, 0);
            for (int i = 0; i < ready; i++)
            {
                long index = *(long*)(events + (i * s_eventBytes) + s_dataOffset);
                if (index < _connections.Length)
                {
                    all[index].Receive(_options.Pipeline, onReply);
                }
                else
                {
                    all[index].Receive(2, onProbeReply);
                }
            }

            if (ready == 0)
            {
                foreach (PacedConnection c in all)
                {
                    c.Flush();
                }

                // The disk's interrupts may come to this core: the kernel's own workers must not wait for a slice of its time.
                _ = Native.Yield();
            }
        }

        foreach (PacedConnection c in all)
        {
            c.Dispose();
        }

        return new PacedResult(_answered / _options.Seconds, LatencySummary.Of(_requests), LatencySummary.Of(_lateness),
            LatencySummary.Of(_commits), _errors, _firstError);
    }

    private void OnReply(PacedConnection c, long dueAt, bool last, string? error)
    {
        _answered++;
        Note(error);
        if (last)
        {
            _requests.Record(Ns(Stopwatch.GetTimestamp() - dueAt));
        }
    }

    private void OnProbeReply(PacedConnection c, long dueAt, bool last, string? error)
    {
        long now = Stopwatch.GetTimestamp();
        Note(error);
        if (!last)
        {
            c.FirstReplyAt = now;
            return;
        }

        if (error is null)
        {
            _commits.Record(Ns(now - c.FirstReplyAt));
        }

        c.NextAt = now + RandomGap();
    }

    private void Note(string? error)
    {
        if (error is not null)
        {
            _firstError = _errors++ == 0 ? error : _firstError;
        }
    }

    private long RandomGap() => Ticks(_random.NextDouble() * 2 * _options.ProbeGapMs / 1e3);

    // Keys are twelve digits: overwritten in place, so that nothing is allocated while the clock runs.
    private void DrawKeys(byte[] request, ReadOnlySpan<int> offsets)
    {
        foreach (int offset in offsets)
        {
            int key = _random.Next(_options.KeySpace);
            for (int i = 11; i >= 0; i--)
            {
                request[offset + i] = (byte)('0' + (key % 10));
                key /= 10;
            }
        }
    }

    private static (byte[] Bytes, int[] KeyOffsets) BuildRequest(PacedOptions o)
    {
        byte[] one = o.Operation == "SET" ? Encode("SET", o.Key + "key:000000000000", new string('x', o.SizeBytes))
            : Encode(o.Operation, o.Key + "key:000000000000");
        int keyOffset = one.AsSpan().IndexOf("key:"u8) + 4;
        var all = new List<byte>();
        var offsets = new int[o.Pipeline];
        for (int i = 0; i < o.Pipeline; i++)
        {
            offsets[i] = all.Count + keyOffset;
            all.AddRange(one);
        }

        return ([.. all], offsets);
    }

    private static byte[] Encode(params string[] words) => Encoding.ASCII.GetBytes(
        $"*{words.Length}\r\n" + string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n")));

    private static long Ticks(double seconds) => (long)(seconds * Stopwatch.Frequency);

    private static long Ns(long ticks) => (long)(ticks * s_ticksToNs);
}

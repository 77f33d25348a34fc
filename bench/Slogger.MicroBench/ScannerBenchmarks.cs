// The scanners on the bytes that the throughput rows are made of: pipelines of 16 requests, and their replies. What counts
// is time per request and that nothing is allocated.
using System.Runtime.InteropServices;
using System.Text;
using BenchmarkDotNet.Attributes;
using Slogger.FrontEnd;
using Slogger.Resp;

namespace Slogger.MicroBench;

/// <summary>Requests and replies of redis-benchmark's GET and SET.</summary>
[MemoryDiagnoser]
public unsafe class ScannerBenchmarks
{
    private const int Depth = 16;
    private byte* _requests, _replies;
    private int _requestBytes, _replyBytes;

    /// <summary>The command.</summary>
    [Params("GET", "SET")]
    public string Command { get; set; } = "GET";

    /// <summary>Bytes of the value.</summary>
    [Params(64, 512)]
    public int ValueBytes { get; set; }

    /// <summary>Makes the bytes.</summary>
    [GlobalSetup]
    public void SetUp()
    {
        string value = $"${ValueBytes}\r\n{new string('v', ValueBytes)}\r\n";
        string request = Command == "GET" ? "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n"
            : $"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n{value}";
        _requests = Native(request, out _requestBytes);
        _replies = Native(Command == "GET" ? value : "+OK\r\n", out _replyBytes);
    }

    /// <summary>Gives the memory back.</summary>
    [GlobalCleanup]
    public void CleanUp()
    {
        NativeMemory.Free(_requests);
        NativeMemory.Free(_replies);
    }

    /// <summary>As each read from a client is cut into requests.</summary>
    [Benchmark(OperationsPerInvoke = Depth)]
    public int ScanRequests()
    {
        int count = 0;
        CommandScanner.ScanRun(_requests, _requests + _requestBytes, CommandKinds.Special, 256 << 10, ref count, out _, out _);
        return count;
    }

    /// <summary>As each read from Redis is cut into replies.</summary>
    [Benchmark(OperationsPerInvoke = Depth)]
    public int ScanReplies()
    {
        ReplyState state = default;
        int remaining = Depth;
        ReplyScanner.Consume(_replies, _replies + _replyBytes, ref state, ref remaining);
        return remaining;
    }

    private static byte* Native(string one, out int length)
    {
        byte[] bytes = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat(one, Depth)));
        length = bytes.Length;
        byte* memory = (byte*)NativeMemory.Alloc((nuint)length);
        bytes.CopyTo(new Span<byte>(memory, length));
        return memory;
    }
}

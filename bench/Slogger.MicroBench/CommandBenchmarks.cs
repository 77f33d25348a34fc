// Commands on the embedded store, as they come from a pipelining client: 64 in a buffer, on one of a million keys each. What counts is time
// per command and that nothing is allocated.
using System.Runtime.InteropServices;
using System.Text;
using BenchmarkDotNet.Attributes;
using Slogger.Faster;
using Slogger.Faster.Commands;

namespace Slogger.MicroBench;

/// <summary>GET, SET and INCR of keys with 24 bytes, of values with 64, uniformly.</summary>
[MemoryDiagnoser]
public unsafe class CommandBenchmarks
{
    private const int Depth = 64, Keys = 1_000_000, Buffers = 1024;
    private readonly byte*[] _requests = new byte*[Buffers];
    private readonly int[] _lengths = new int[Buffers];
    private string _directory = "";
    private FasterStore? _store;
    private CommandEngine? _engine;
    private CommandConnection? _connection;
    private ReplyBuffer? _replies;
    private int _next;

    /// <summary>The command.</summary>
    [Params("GET", "SET", "INCR", "MGET")]
    public string Command { get; set; } = "GET";

    /// <summary>Fills the store, and makes the requests.</summary>
    [GlobalSetup]
    public void SetUp()
    {
        _directory = Directory.CreateTempSubdirectory("slogger-bench-").FullName;
        _store = FasterStore.OpenAt(new() { Directory = _directory, MemoryBytes = 1L << 30, IndexBytes = 64 << 20 });
        _engine = new(_store, new());
        _connection = _engine.Connect();
        _replies = new();
        string value = new('v', 64);
        for (int i = 0; i < Keys; i++) Execute(Encoding.ASCII.GetBytes(Request("SET", Key(i), Command == "INCR" ? "1" : value)));
        var random = new Random(1);
        for (int b = 0; b < Buffers; b++)
        {
            var text = new StringBuilder();
            if (Command == "MGET") text.Append(Request(["MGET", .. Enumerable.Range(0, Depth).Select(_ => Key(random.Next(Keys)))]));
            else for (int i = 0; i < Depth; i++)
                text.Append(Command == "SET" ? Request("SET", Key(random.Next(Keys)), value) : Request(Command, Key(random.Next(Keys))));
            _lengths[b] = text.Length;
            _requests[b] = (byte*)NativeMemory.Alloc((nuint)text.Length);
            Encoding.ASCII.GetBytes(text.ToString(), new Span<byte>(_requests[b], text.Length));
        }
    }

    /// <summary>Gives it all back.</summary>
    [GlobalCleanup]
    public void CleanUp()
    {
        foreach (byte* requests in _requests) NativeMemory.Free(requests);
        _connection?.Dispose();
        _replies?.Dispose();
        _engine?.Dispose();
        _store?.Dispose();
        Directory.Delete(_directory, recursive: true);
    }

    /// <summary>A buffer of requests.</summary>
    [Benchmark(OperationsPerInvoke = Depth)]
    public nint Execute()
    {
        int b = _next++ & (Buffers - 1);
        nint done = _connection!.Execute(_requests[b], _lengths[b], _replies!);
        _replies!.Consume(_replies.Count);
        return done;
    }

    private void Execute(byte[] request)
    {
        fixed (byte* at = request) _ = _connection!.Execute(at, request.Length, _replies!);
        _replies!.Consume(_replies.Count);
    }

    private static string Key(int number) => $"user:{number:D19}";

    private static string Request(params string[] arguments) =>
        $"*{arguments.Length}\r\n{string.Concat(arguments.Select(a => $"${a.Length}\r\n{a}\r\n"))}";
}

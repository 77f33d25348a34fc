// What is compared in-process: FASTER as it comes, and the store that Slogger makes of it.
using FASTER.core;
using Slogger.Faster;
using Slogger.Faster.Records;

namespace Slogger.Bench.Faster;

/// <summary>One thread's way to a store of keys of eight bytes.</summary>
internal abstract class LocalWorker : IDisposable
{
    public abstract void Read(ReadOnlySpan<byte> key);

    public abstract void Write(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value);

    public abstract void Dispose();
}

/// <summary>FASTER without our locks, with its own, with keys and values of any length, and without commits.</summary>
internal sealed class PlainFaster : IDisposable
{
    private readonly NullDevice _device = new();
    private readonly FasterKV<SpanByte, SpanByte> _kv;

    public PlainFaster(long indexBytes, int memoryBits) =>
        _kv = new(indexBytes / 64, new LogSettings { LogDevice = _device, MemorySizeBits = memoryBits, PageSizeBits = 25 },
            concurrencyControlMode: ConcurrencyControlMode.LockTable);

    public LocalWorker NewWorker() => new Worker(_kv);

    public void Dispose()
    {
        _kv.Dispose();
        _device.Dispose();
    }

    private sealed unsafe class Worker(FasterKV<SpanByte, SpanByte> kv) : LocalWorker
    {
        private readonly ClientSession<SpanByte, SpanByte, SpanByte, SpanByteAndMemory, Empty, SpanByteFunctions<Empty>> _session =
            kv.For(new SpanByteFunctions<Empty>()).NewSession<SpanByteFunctions<Empty>>();
        private readonly byte[] _output = GC.AllocateUninitializedArray<byte>(4096, pinned: true);

        public override void Read(ReadOnlySpan<byte> key)
        {
            fixed (byte* at = key, into = _output)
            {
                SpanByte name = SpanByte.FromPointer(at, key.Length);
                SpanByteAndMemory output = new(SpanByte.FromPointer(into, _output.Length));
                _session.Read(ref name, ref output);
            }
        }

        public override void Write(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value)
        {
            fixed (byte* at = key, bytes = value)
            {
                SpanByte name = SpanByte.FromPointer(at, key.Length), record = SpanByte.FromPointer(bytes, value.Length);
                _session.Upsert(ref name, ref record);
            }
        }

        public override void Dispose() => _session.Dispose();
    }
}

/// <summary>The store.</summary>
internal sealed class StoreWorker(FasterStore store) : LocalWorker
{
    private readonly FasterWorker _worker = store.NewWorker();
    private readonly ValueBuffer _buffer = new();

    public override void Read(ReadOnlySpan<byte> key) => _worker.TryRead(key, _buffer, out _, out _);

    public override void Write(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value)
    {
        store.Throttle();
        int entered = _worker.Enter(key);
        try
        {
            _worker.Write(key, value, 0);
        }
        finally
        {
            _worker.Exit(entered);
        }
    }

    public override void Dispose() => _worker.Dispose();
}

// Which keys of some slots have changed since a moment, as the replication stream tells: every write in it is an effect, with all of
// its keys in place, whoever caused it (clients, scripts, transactions, expiry, eviction). Fed by the replication link's thread; read
// by the task that copies. Bounded: what changes more keys than that is begun again.
using System.Collections.Immutable;
using System.Runtime.InteropServices;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.Proxy.Moves;

/// <summary>The changed keys of some slots.</summary>
internal sealed class ChangedKeys
{
    private const int KeysMax = 2_000_000;
    private const long BytesMax = 256 << 20;
    private readonly KeyFinder _finder;
    private readonly Partitioning _partitions;
    private readonly bool[] _slots;
    private readonly TaskCompletionSource _begun = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly List<(int Offset, int Length)> _arguments = [];
    private readonly Lock _lock = new();
    private readonly HashSet<byte[]> _keys = new(KeyBytes.Instance);
    private readonly HashSet<byte[]>.AlternateLookup<ReadOnlySpan<byte>> _lookup;
    private byte[] _partial = [];
    private int _partialLength;
    private long _bytes;
    private string? _failure;

    public ChangedKeys(KeyFinder finder, Partitioning partitions, ImmutableArray<SlotRange> slots)
    {
        _finder = finder;
        _partitions = partitions;
        _slots = new bool[partitions.Count];
        _lookup = _keys.GetAlternateLookup<ReadOnlySpan<byte>>();
        foreach (SlotRange range in slots) { Array.Fill(_slots, true, range.First.Number, range.Count); }
    }

    /// <summary>Completes when every change from then on is seen: at the first end of a command in the stream.</summary>
    public Task Begun => _begun.Task;

    /// <summary>How many keys have changed and were not taken.</summary>
    public int Count
    {
        get
        {
            lock (_lock) { return _keys.Count; }
        }
    }

    /// <summary>Why nobody can tell any more which keys have changed; null if it can be told.</summary>
    public string? Failure => Volatile.Read(ref _failure);

    /// <summary>Takes some of the changed keys: from here on they count as unchanged.</summary>
    public IReadOnlyList<byte[]> Take(int most)
    {
        lock (_lock)
        {
            byte[][] taken = [.. _keys.Take(most)];
            foreach (byte[] key in taken)
            {
                _keys.Remove(key);
                _bytes -= key.Length;
            }
            return taken;
        }
    }

    /// <summary>The next bytes of the stream, without a gap. The link's thread.</summary>
    /// <param name="bytes">The bytes.</param>
    /// <param name="endsCommand">Whether they end with the end of a command.</param>
    public unsafe void OnBytes(ReadOnlySpan<byte> bytes, bool endsCommand)
    {
        if (Failure is not null) { return; }
        if (!_begun.Task.IsCompleted)
        {
            if (endsCommand) { _begun.TrySetResult(); }
            return;
        }
        if (_partialLength > 0 || !endsCommand)
        {
            // One command that is longer than what the link reads at a time.
            if (_partial.Length < _partialLength + bytes.Length)
            {
                Array.Resize(ref _partial, Math.Max(2 * _partial.Length, _partialLength + bytes.Length));
            }
            bytes.CopyTo(_partial.AsSpan(_partialLength));
            _partialLength += bytes.Length;
            if (!endsCommand) { return; }
            bytes = _partial.AsSpan(0, _partialLength);
        }
        fixed (byte* start = bytes)
        {
            byte* at = start, end = start + bytes.Length;
            while (at < end)
            {
                if (*at == (byte)'\n')
                {
                    at++;
                    continue;
                }
                long length = CommandScanner.ReadArguments(at, end, _arguments);
                if (length <= 0)
                {
                    Fail("the replication stream is not understood");
                    break;
                }
                Look(new ReadOnlySpan<byte>(at, (int)length));
                at += length;
            }
        }
        _partialLength = 0;
        if (_partial.Length > 1 << 20) { _partial = []; }
    }

    private void Look(ReadOnlySpan<byte> command)
    {
        Span<(int Offset, int Length)> arguments = CollectionsMarshal.AsSpan(_arguments);
        ReadOnlySpan<byte> name = command.Slice(arguments[0].Offset, arguments[0].Length);
        if (Ascii.EqualsIgnoreCase(name, "FLUSHALL"u8) || Ascii.EqualsIgnoreCase(name, "FLUSHDB"u8)
            || Ascii.EqualsIgnoreCase(name, "SWAPDB"u8))
        {
            Fail($"{Encoding.Latin1.GetString(name)} has changed all keys");
            return;
        }
        if (!_finder.TryFind(command, arguments, out KeyPlaces keys))
        {
            Fail($"it is not known where {Encoding.Latin1.GetString(name)} has its keys");
            return;
        }
        for (int i = 0; i < keys.Total; i++)
        {
            ReadOnlySpan<byte> key = command.Slice(arguments[keys[i]].Offset, arguments[keys[i]].Length);
            if (_slots[_partitions.Of(key).Number]) { Add(key); }
        }
    }

    private void Add(ReadOnlySpan<byte> key)
    {
        lock (_lock)
        {
            if (!_lookup.Add(key)) { return; }
            _bytes += key.Length;
            if (_keys.Count > KeysMax || _bytes > BytesMax) { Fail($"more than {KeysMax} keys change while they are copied"); }
        }
    }

    /// <summary>Nobody can tell any more what has changed.</summary>
    public void Fail(string why)
    {
        Volatile.Write(ref _failure, _failure ?? why);
        _begun.TrySetResult();
        lock (_lock)
        {
            _keys.Clear();
            _bytes = 0;
        }
    }

    private sealed class KeyBytes : IEqualityComparer<byte[]>, IAlternateEqualityComparer<ReadOnlySpan<byte>, byte[]>
    {
        public static readonly KeyBytes Instance = new();

        public bool Equals(byte[]? x, byte[]? y) => x.AsSpan().SequenceEqual(y);

        public bool Equals(ReadOnlySpan<byte> alternate, byte[] other) => alternate.SequenceEqual(other);

        public int GetHashCode(byte[] key) => GetHashCode(key.AsSpan());

        public int GetHashCode(ReadOnlySpan<byte> key)
        {
            var hash = new HashCode();
            hash.AddBytes(key);
            return hash.ToHashCode();
        }

        public byte[] Create(ReadOnlySpan<byte> alternate) => alternate.ToArray();
    }
}

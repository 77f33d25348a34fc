// The requests between MULTI and EXEC, copied, since their bytes are gone when they are executed.
using System.Runtime.InteropServices;

namespace Slogger.Faster.Commands;

/// <summary>The queued requests of one connection.</summary>
/// <param name="isFeed">Whether it feeds a store that follows: then a transaction may name any number of keys.</param>
internal sealed unsafe class TransactionQueue(bool isFeed) : IDisposable
{
    private const long BytesMax = 256 << 20;
    private const long BytesKept = 1 << 20;
    private const int CountKept = 1024;
    private readonly List<(Command Command, int FirstArgument, int Count)> _commands = [];
    private readonly List<(long From, int Length)> _arguments = [];
    private byte* _bytes;
    private long _capacity;
    private int _names;

    /// <summary>Whether requests are queued: after MULTI, until EXEC begins.</summary>
    public bool IsOpen { get; private set; }

    /// <summary>Whether a request of it was not understood, or refused.</summary>
    public bool IsSpoilt { get; private set; }

    /// <summary>Whether what was queued is being executed.</summary>
    public bool IsRunning { get; set; }

    public bool NeedsMemory { get; private set; }

    public bool IsWrite { get; private set; }

    /// <summary>How many requests are queued.</summary>
    public int Count => _commands.Count;

    /// <summary>How many bytes their arguments have.</summary>
    public long Bytes { get; private set; }

    /// <summary>MULTI.</summary>
    public void Open() => IsOpen = true;

    /// <summary>EXEC: what was queued stays until <see cref="Clear"/>, and nothing more is queued.</summary>
    public void Close() => IsOpen = false;

    /// <summary>A request was not understood, or refused: nothing of an open transaction is executed.</summary>
    public void Spoil() => IsSpoilt |= IsOpen;

    /// <summary>Queues a request.</summary>
    /// <returns>Why not: an error; null: it is queued, or need not be since the transaction is spoilt.</returns>
    public string? Add(Command command, Request request)
    {
        long bytes = 0;
        for (int i = 0; i < request.Count; i++) bytes += request.LengthOf(i);
        long places = (24L * _commands.Count) + (16L * (_arguments.Count + request.Count));
        if (Bytes + bytes + places > BytesMax) return $"ERR SLOGGER a transaction has at most {BytesMax} bytes";
        _names += command.NamesOf(request.Count);
        if (_names > CommandEngine.KeysMax && !isFeed) return ErrorText.TooManyNames(_names);
        if (IsSpoilt) return null;
        _commands.Add((command, _arguments.Count, request.Count));
        NeedsMemory |= command.NeedsMemory;
        IsWrite |= command.IsWrite;
        if (Bytes + bytes > _capacity)
        {
            _capacity = Math.Max(Bytes + bytes, _capacity * 2);
            _bytes = (byte*)NativeMemory.Realloc(_bytes, (nuint)_capacity);
        }

        for (int i = 0; i < request.Count; i++)
        {
            request[i].CopyTo(new(_bytes + Bytes, request.LengthOf(i)));
            _arguments.Add((Bytes, request.LengthOf(i)));
            Bytes += request.LengthOf(i);
        }

        return null;
    }

    /// <summary>Makes a queued request the present one.</summary>
    /// <returns>Its command.</returns>
    public Command Take(int index, Request request)
    {
        (Command command, int first, int count) = _commands[index];
        Argument[] arguments = request.Own(count);
        for (int i = 0; i < count; i++)
        {
            (long from, int length) = _arguments[first + i];
            arguments[i] = new() { At = _bytes + from, Length = length };
        }

        request.Count = count;
        return command;
    }

    /// <summary>Forgets everything: the connection is as before MULTI.</summary>
    public void Clear()
    {
        (IsOpen, IsSpoilt, NeedsMemory, IsWrite) = (false, false, false, false);
        (_names, Bytes) = (0, 0);
        _commands.Clear();
        _arguments.Clear();
        if (_commands.Capacity > CountKept) _commands.Capacity = CountKept;
        if (_arguments.Capacity > CountKept) _arguments.Capacity = CountKept;
        if (_capacity > BytesKept) Dispose();
    }

    /// <inheritdoc />
    public void Dispose()
    {
        NativeMemory.Free(_bytes);
        _bytes = null;
        _capacity = 0;
    }
}

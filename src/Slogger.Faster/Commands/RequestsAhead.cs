// Looking ahead: of requests that came together several are taken apart before the first is executed, and what they will need of the store
// is fetched into the processor's caches meanwhile. So they wait for memory together, not one after the other.
using Slogger.Resp;

namespace Slogger.Faster.Commands;

/// <summary>A request that was taken apart.</summary>
internal unsafe struct RequestAhead
{
    public byte* End;
    public int First;
    public int Count;
    public Command? Command;
    public long Hash;
}

/// <summary>The next requests of a connection, as long as they are of the usual kind.</summary>
internal sealed unsafe class RequestsAhead(FasterWorker worker)
{
    // More than the processor can fetch at a time gains nothing, and what is fetched too early is driven out again.
    private const int RequestsMax = 16;
    private const int ArgumentsMax = 64;
    private readonly RequestAhead[] _requests = new RequestAhead[RequestsMax];

    /// <summary>The arguments of all of them.</summary>
    public Argument[] Arguments { get; } = new Argument[ArgumentsMax];

    public ref RequestAhead this[int index] => ref _requests[index];

    /// <summary>Takes apart the next requests.</summary>
    /// <returns>How many; 0: the next one is for <see cref="RequestReader"/>.</returns>
    public int Look(byte* p, byte* end)
    {
        int found = 0, used = 0;
        for (; found < RequestsMax; found++)
        {
            ref RequestAhead ahead = ref _requests[found];
            ahead.First = used;
            p = TakeApart(p, end, ref used);
            if (p == null) break;
            ahead.End = p;
            ahead.Count = used - ahead.First;
            ref Argument name = ref Arguments[ahead.First];
            Command? command = CommandTable.Find(name.At, name.Length);
            ahead.Command = command;
            ahead.Hash = 0;
            if (command is null || command.FirstKey == 0 || command.FirstKey >= ahead.Count) continue;
            ref Argument key = ref Arguments[ahead.First + command.FirstKey];
            ahead.Hash = FasterWorker.HashOf(new(key.At, key.Length));
            worker.PrefetchBucket(ahead.Hash);
        }

        if (found > 1) for (int i = 0; i < found; i++) if (_requests[i].Hash != 0) worker.PrefetchRecord(_requests[i].Hash);
        return found;
    }

    // A whole request of few and short arguments; null: it is none.
    private byte* TakeApart(byte* p, byte* end, ref int used)
    {
        if (end - p < 4 || *p != (byte)'*') return null;
        p++;
        long arguments = CommandScanner.ReadLength(ref p, end);
        if (arguments < 1 || arguments > ArgumentsMax - used) return null;
        int at = used;
        for (long i = 0; i < arguments; i++)
        {
            if (p >= end || *p != (byte)'$') return null;
            p++;
            long length = CommandScanner.ReadLength(ref p, end);
            if (length < 0 || length > CommandEngine.ValueBytesMax || end - p < length + 2) return null;
            Arguments[at++] = new() { At = p, Length = (int)length };
            p += length + 2;
        }

        used = at;
        return p;
    }
}

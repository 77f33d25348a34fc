// Looking ahead: of requests that came together several are taken apart before the first is executed, and what they will need of the store
// is fetched into the processor's caches meanwhile. So they wait for memory together, not one after the other.
using Slogger.Resp;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    // More than the processor can fetch at a time gains nothing, and what is fetched too early is driven out again.
    private const int AheadMax = 16;
    private const int AheadArgumentsMax = 64;
    private readonly Ahead[] _ahead = new Ahead[AheadMax];
    private readonly Argument[] _aheadArguments = new Argument[AheadArgumentsMax];

    /// <summary>A request that was taken apart.</summary>
    private struct Ahead
    {
        public byte* End;
        public int First;
        public int Count;
        public Command? Command;
        public long Hash;
    }

    // Takes apart the next requests, as long as they are of the usual kind. Returns how many; 0: the next one is for Read.
    private int LookAhead(byte* p, byte* end)
    {
        if (_wanted > 0 || _partCount > 0 || _skippedBytes > 0 || _skippedArguments > 0) return 0;
        int found = 0, used = 0;
        for (; found < AheadMax; found++)
        {
            ref Ahead ahead = ref _ahead[found];
            ahead.First = used;
            p = TakeApart(p, end, ref used);
            if (p == null) break;
            ahead.End = p;
            ahead.Count = used - ahead.First;
            ref Argument name = ref _aheadArguments[ahead.First];
            Command? command = CommandTable.Find(name.At, name.Length);
            ahead.Command = command;
            ahead.Hash = 0;
            if (command is null || command.FirstKey == 0 || command.FirstKey >= ahead.Count) continue;
            ref Argument key = ref _aheadArguments[ahead.First + command.FirstKey];
            ahead.Hash = FasterWorker.HashOf(new(key.At, key.Length));
            _worker.PrefetchBucket(ahead.Hash);
        }

        if (found > 1) for (int i = 0; i < found; i++) if (_ahead[i].Hash != 0) _worker.PrefetchRecord(_ahead[i].Hash);
        return found;
    }

    // A whole request of few and short arguments; null: it is none.
    private byte* TakeApart(byte* p, byte* end, ref int used)
    {
        if (end - p < 4 || *p != (byte)'*') return null;
        p++;
        long arguments = CommandScanner.ReadLength(ref p, end);
        if (arguments < 1 || arguments > AheadArgumentsMax - used) return null;
        int at = used;
        for (long i = 0; i < arguments; i++)
        {
            if (p >= end || *p != (byte)'$') return null;
            p++;
            long length = CommandScanner.ReadLength(ref p, end);
            if (length < 0 || length > CommandEngine.ValueBytesMax || end - p < length + 2) return null;
            _aheadArguments[at++] = new() { At = p, Length = (int)length };
            p += length + 2;
        }

        used = at;
        return p;
    }
}

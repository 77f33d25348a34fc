// What a primary's replication stream says, done by a store in this process. Redis has decided everything already: what is here are
// effects. Only such are taken as the engine executes to the same end, whatever the time is: an expiry is a moment, never a duration.
// Whether a stretch has others can be seen beforehand, without doing anything.
using System.Text;
using Slogger.Faster.Commands;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Redis.Rollback;

namespace Slogger.Replication.Following;

/// <summary>A place in a log from which a store is fed, or from which a stretch is only looked at. Not thread-safe.</summary>
internal sealed unsafe class StreamFeed : IDisposable
{
    /// <summary>The longest command that the engine takes, about.</summary>
    internal const int CommandBytesMax = 48 << 20;
    private const int BufferBytes = 1 << 20;

    private readonly FollowedLog _history;
    private readonly CommandConnection? _into;
    private readonly ReplyBuffer? _replies;
    private readonly long _recordBytesMax;
    private readonly Effect _effect = new();
    private byte[] _buffer = new byte[BufferBytes];
    private int _filled;            // behind Offset

    /// <summary>Begins at the end of a version, or at a base.</summary>
    /// <param name="log">The log.</param>
    /// <param name="offset">Where.</param>
    /// <param name="database">The database selected there.</param>
    /// <param name="engine">Of the store.</param>
    /// <param name="feeds">No: it is only looked whether the store knows everything.</param>
    public StreamFeed(VersionLog log, long offset, int database, CommandEngine engine, long recordBytesMax, bool feeds)
    {
        (_history, Offset, Database, _recordBytesMax) = (new FollowedLog(log), offset, database, recordBytesMax);
        if (!feeds) { return; }
        _into = engine.ConnectFeed();
        _replies = new ReplyBuffer();
    }

    /// <summary>Bytes of history that are done.</summary>
    public long Offset { get; private set; }

    /// <summary>The database selected there.</summary>
    public int Database { get; private set; }

    /// <summary>Goes on to an offset, which is the end of a version.</summary>
    /// <exception cref="UnknownToStoreException">There is something that the store does not know, at <see cref="Offset"/>; nothing of it
    /// was done.</exception>
    /// <exception cref="FeedFailedException">The store has refused something: what it holds is no state of the history any
    /// more.</exception>
    /// <exception cref="LogHistoryChangedException">The log is not what was read before.</exception>
    /// <exception cref="LogException">It cannot be read.</exception>
    public void GoTo(long until, CancellationToken stop)
    {
        _filled = 0;
        while (Offset < until)
        {
            stop.ThrowIfCancellationRequested();
            Fill(until);
            int done = Pass();
            if (done > 0)
            {
                Buffer.BlockCopy(_buffer, done, _buffer, 0, _filled - done);
                _filled -= done;
            }
            else if (_filled == until - Offset)
            {
                throw new LogHistoryChangedException(
                    $"A command at offset {Offset} of the log does not end before offset {until}, where a version ends");
            }
            else if (_filled == _buffer.Length) { Grow(); }
        }
    }

    public void Dispose()
    {
        _into?.Dispose();
        _replies?.Dispose();
        _history.Dispose();
    }

    private void Fill(long until)
    {
        int wanted = (int)Math.Min(_buffer.Length, until - Offset);
        while (_filled < wanted)
        {
            int count = _history.Read(Offset + _filled, _buffer.AsSpan(_filled, wanted - _filled));
            if (count == 0)
            {
                throw new LogHistoryChangedException($"The log ends at offset {Offset + _filled}, and a version at {until}");
            }
            _filled += count;
        }
    }

    private void Grow()
    {
        if (_buffer.Length >= CommandBytesMax) { throw Unknown($"a command of more than {CommandBytesMax >> 20} MB"); }
        Array.Resize(ref _buffer, Math.Min(CommandBytesMax, _buffer.Length * 4));
    }

    // Passes the whole commands in the buffer; those that change data are done in runs. Returns how many bytes that were.
    private int Pass()
    {
        int at = 0, run = 0;
        // Empty lines count in the offset, and may be the last that there is.
        while (at < _filled && (_buffer[at] == '\n' || _effect.TryRead(_buffer, at, _filled)))
        {
            if (_buffer[at] == '\n')
            {
                Do(run, at);
                run = ++at;
                continue;
            }
            FeedCommand command = FeedCommand.Of(_effect, Database, _recordBytesMax);
            if (command.Flaw is { } flaw)
            {
                Do(run, at);
                Offset += at;
                throw Unknown(flaw);
            }
            if (!command.ChangesData)
            {
                Do(run, at);
                Database = command.Database;
                run = _effect.End;
            }
            at = _effect.End;
        }
        Do(run, at);
        Offset += at;
        return at;
    }

    private void Do(int from, int to)
    {
        if (_into is null) { return; }
        fixed (byte* start = _buffer)
        {
            while (from < to)
            {
                from += (int)_into.Execute(start + from, to - from, _replies!);
                if (_into.FeedError is { } error) { throw new FeedFailedException(error); }
                _replies!.Consume(_replies.Count);
            }
        }
    }

    private UnknownToStoreException Unknown(string what) =>
        new($"the embedded store cannot follow beyond offset {Offset} of the stream: {what}. {Advice}");

    /// <summary>What to do about a primary that is more than this store.</summary>
    public const string Advice = "What came before stays as it is, and can be taken over. Have this shard's backup follow with a Redis: "
        + "stop this process, and start slogger backup with --redis-server or --redis and an empty --data; it is seeded by itself";
}

/// <summary>A store has refused what the primary's has done.</summary>
internal sealed class FeedFailedException(string message) : Exception(message);

/// <summary>What a command of the stream is to an embedded store.</summary>
/// <param name="ChangesData">Whether it is to be executed.</param>
/// <param name="Database">The database selected behind it.</param>
/// <param name="Flaw">Why it cannot be; null: it can, or need not.</param>
internal readonly record struct FeedCommand(bool ChangesData, int Database, string? Flaw)
{
    private const int LongestName = 16, ShownBytesMax = 64;

    private enum Form
    {
        /// <summary>It changes no data here.</summary>
        Nothing,
        Select,
        /// <summary>Of one key, or of several: all that a string can be done with, whatever the time.</summary>
        Data,
        /// <summary>Key, value, and options.</summary>
        Set,
        /// <summary>Keys and values.</summary>
        Pairs,
        Copy,
        FlushDatabase,
        FlushAll,
    }

    private static readonly Dictionary<string, Form> s_forms = Forms();
    private static readonly Dictionary<string, Form>.AlternateLookup<ReadOnlySpan<char>> s_lookup =
        s_forms.GetAlternateLookup<ReadOnlySpan<char>>();

    /// <summary>Looks at a command.</summary>
    /// <param name="effect">The command.</param>
    /// <param name="database">The database selected before it.</param>
    /// <param name="recordBytesMax">The most bytes of a key and its value.</param>
    public static FeedCommand Of(Effect effect, int database, long recordBytesMax)
    {
        ReadOnlySpan<byte> name = effect[0];
        if (name.Length > LongestName) { return Refuse($"{Shown(name)} is no command that it knows"); }
        Span<char> upper = stackalloc char[LongestName];
        for (int i = 0; i < name.Length; i++) { upper[i] = (char)(name[i] is >= (byte)'a' and <= (byte)'z' ? name[i] - 32 : name[i]); }
        if (!s_lookup.TryGetValue(upper[..name.Length], out Form form))
        {
            return Refuse(effect.Count > 1 ? $"{Shown(name)} of {Shown(effect[1])} is no command that it knows: it has strings only, and "
                + $"expiries that are moments" : $"{Shown(name)} is no command that it knows");
        }
        switch (form)
        {
            case Form.Nothing: return new(false, database, null);
            case Form.Select: return EffectScope.DatabaseOf(effect) is { } selected ? new(false, selected, null)
                : Refuse("a SELECT without a database");
            case Form.FlushAll: return new(true, database, null);
            case Form.FlushDatabase: return new(database == 0, database, null);
        }
        if (effect.Count < 2) { return Refuse($"{Shown(name)} without a key"); }
        if (database != 0) { return Refuse($"{Shown(name)} of {Shown(effect[1])} is in database {database}, and it has database 0 only"); }
        return form switch
        {
            Form.Set => OfSet(effect, recordBytesMax),
            Form.Pairs => OfPairs(effect, recordBytesMax),
            Form.Copy => OfCopy(effect),
            _ => new(true, 0, null),
        };

        FeedCommand Refuse(string why) => new(false, database, why);
    }

    /// <summary>A key as people can read it.</summary>
    public static string Shown(ReadOnlySpan<byte> bytes)
    {
        var text = new StringBuilder("\"");
        foreach (byte b in bytes[..Math.Min(bytes.Length, ShownBytesMax)])
        {
            if (b is >= 0x20 and < 0x7F && b is not ((byte)'"' or (byte)'\\')) { text.Append((char)b); }
            else { text.Append(System.Globalization.CultureInfo.InvariantCulture, $"\\x{b:x2}"); }
        }
        return text.Append(bytes.Length > ShownBytesMax ? "...\"" : "\"").ToString();
    }

    /// <summary>Why a key and its value are too large; null: they are not.</summary>
    public static string? TooLarge(ReadOnlySpan<byte> key, long valueBytes, long recordBytesMax) =>
        key.Length > CommandEngine.KeyBytesMax
            ? $"key {Shown(key)} has {key.Length} bytes, and it takes {CommandEngine.KeyBytesMax} at most"
        : valueBytes > CommandEngine.ValueBytesMax
        ? $"the value of key {Shown(key)} has {valueBytes} bytes, and it takes {CommandEngine.ValueBytesMax} at most"
        : key.Length + valueBytes > recordBytesMax ? $"key {Shown(key)} and its value have {key.Length + valueBytes} bytes, and with this "
        + $"--faster-page it takes {recordBytesMax} at most" : null;

    private static FeedCommand OfSet(Effect effect, long recordBytesMax)
    {
        if (effect.Count < 3) { return new(false, 0, $"SET of {Shown(effect[1])} without a value"); }
        for (int i = 3; i < effect.Count; i++)
        {
            if (effect.Is(i, "PXAT"u8) || effect.Is(i, "EXAT"u8)) { i++; }
            else if (!effect.Is(i, "KEEPTTL"u8) && !effect.Is(i, "NX"u8) && !effect.Is(i, "XX"u8) && !effect.Is(i, "GET"u8))
            {
                return new(false, 0, $"SET of {Shown(effect[1])} has the option {Shown(effect[i])}, which it cannot follow");
            }
        }
        return new(true, 0, TooLarge(effect[1], effect[2].Length, recordBytesMax));
    }

    private static FeedCommand OfPairs(Effect effect, long recordBytesMax)
    {
        string? flaw = null;
        for (int i = 1; i + 1 < effect.Count; i += 2) { flaw ??= TooLarge(effect[i], effect[i + 1].Length, recordBytesMax); }
        return new(true, 0, flaw);
    }

    private static FeedCommand OfCopy(Effect effect)
    {
        for (int i = 3; i + 1 < effect.Count; i++)
        {
            if (effect.Is(i, "DB"u8) && !effect[i + 1].SequenceEqual("0"u8))
            {
                return new(false, 0, $"COPY of {Shown(effect[1])} goes to database {Shown(effect[i + 1])}, and it has database 0 only");
            }
        }
        return new(true, 0, null);
    }

    private static Dictionary<string, Form> Forms()
    {
        var forms = new Dictionary<string, Form>(StringComparer.Ordinal);
        void Add(string names, Form form)
        {
            foreach (string name in names.Split(' ')) { forms.Add(name, form); }
        }
        // Transactions are executed bit by bit: nobody reads before the version's end.
        Add("PING REPLCONF MULTI EXEC PUBLISH SPUBLISH", Form.Nothing);
        Add("SELECT", Form.Select);
        Add("SETNX GETSET APPEND SETRANGE SETBIT INCR DECR INCRBY DECRBY DEL UNLINK GETDEL PEXPIREAT EXPIREAT PERSIST RENAME RENAMENX",
            Form.Data);
        Add("SET", Form.Set);
        Add("MSET MSETNX", Form.Pairs);
        Add("COPY", Form.Copy);
        Add("FLUSHDB", Form.FlushDatabase);
        Add("FLUSHALL", Form.FlushAll);
        return forms;
    }
}

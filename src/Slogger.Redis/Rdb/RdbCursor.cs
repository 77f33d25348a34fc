// Walks an RDB file: over the entries of all value types of Redis 7, without understanding their values. What it does not know (a
// module's value, a type of a later Redis) it says, since nothing behind it could be found.
using System.Buffers.Binary;
using System.Globalization;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Rdb;

/// <summary>A key's entry in an RDB file.</summary>
/// <param name="Database">The database it is in; 0 when it was read by itself.</param>
/// <param name="Start">Where the entry begins: with its expiry, if it has one.</param>
/// <param name="ExpiresAtMs">When it expires, in milliseconds since the Unix epoch; 0: never.</param>
/// <param name="Type">The value's type.</param>
/// <param name="Key">The key.</param>
/// <param name="ValueStart">Where the value begins, behind type and key.</param>
/// <param name="End">Where it ends.</param>
public readonly record struct RdbEntry(int Database, long Start, long ExpiresAtMs, byte Type, byte[] Key, long ValueStart, long End);

/// <summary>A place in an RDB file. Not thread-safe.</summary>
public sealed class RdbCursor : IDisposable
{
    private const int KeyBytesMax = 512 << 20;
    private readonly string _path;
    private readonly Stream _file;
    private readonly byte[] _window;
    private long _windowStart;
    private int _windowLength;
    private int _at;
    private int _database;
    private readonly List<(long Start, long End)> _libraries = [];

    /// <summary>Opens a file.</summary>
    /// <param name="path">The file.</param>
    /// <param name="windowBytes">How much is read at once.</param>
    /// <exception cref="IOException">It cannot be opened.</exception>
    public RdbCursor(string path, int windowBytes)
        : this(path, new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete, bufferSize: 0),
            windowBytes)
    {
    }

    /// <summary>Walks what is open already, and closes it at the end.</summary>
    /// <param name="name">What it is called in errors.</param>
    /// <param name="file">It can seek.</param>
    /// <param name="windowBytes">How much is read at once.</param>
    /// <exception cref="IOException">Its length cannot be told.</exception>
    public RdbCursor(string name, Stream file, int windowBytes)
    {
        ArgumentNullException.ThrowIfNull(file);
        (_path, _file, _window, Length) = (name, file, new byte[windowBytes], file.Length);
    }

    /// <summary>The file's length in bytes.</summary>
    public long Length { get; }

    /// <summary>Where the libraries of functions are that it has passed.</summary>
    public IReadOnlyList<(long Start, long End)> Libraries => _libraries;

    /// <summary>Where it stands.</summary>
    public long Position => _windowStart + _at;

    /// <summary>Whether functions have been passed.</summary>
    public bool HasFunctions { get; private set; }

    /// <summary>Reads the file's head; returns the format's version.</summary>
    /// <exception cref="RedisException">It is no RDB file (LocalFile).</exception>
    public int ReadHead()
    {
        Seek(0);
        Span<byte> head = stackalloc byte[9];
        Read(head);
        return head[..5].SequenceEqual("REDIS"u8) && int.TryParse(head[5..], CultureInfo.InvariantCulture, out int version)
            ? version : throw Unknown("it is no RDB file");
    }

    /// <summary>Reads the next entry; null at the end.</summary>
    /// <exception cref="RedisException">What comes is not known, or the file is cut short (LocalFile).</exception>
    /// <exception cref="IOException">It cannot be read.</exception>
    public RdbEntry? ReadEntry()
    {
        long start = Position;
        long expires = 0;
        while (true)
        {
            byte code = ReadByte();
            switch (code)
            {
                case 0xFF: return null;
                case 0xFE: // a database begins
                    _database = (int)ReadLength();
                    start = Position;
                    break;
                case 0xFC:
                    expires = ReadInt64();
                    break;
                case 0xFD:
                    expires = 1000L * (int)ReadUInt32();
                    break;
                case 0xF9: // how often it is used
                    Skip(1);
                    break;
                case 0xF8: // how long it was idle
                    ReadLength();
                    break;
                case 0xFA: // a field about the file
                    SkipString();
                    SkipString();
                    start = Position;
                    break;
                case 0xFB: // sizes of the tables
                    ReadLength();
                    ReadLength();
                    start = Position;
                    break;
                case 0xF5: // functions
                    HasFunctions = true;
                    SkipString();
                    _libraries.Add((start, Position));
                    start = Position;
                    break;
                case >= 0xF0:
                    throw Unknown($"it has a part of kind {code}, which is not known here (a module's data, or of a later Redis)");
                default:
                    byte[] key = ReadString();
                    long value = Position;
                    SkipValue(code);
                    return new RdbEntry(_database, start, expires, code, key, value, Position);
            }
        }
    }

    /// <summary>The type of a string, as an entry says it.</summary>
    public const byte StringType = 0;

    /// <summary>The name of an entry's type, as Redis's TYPE says it.</summary>
    public static string TypeName(byte type) => type switch
    {
        StringType => "string",
        1 or 10 or 14 or 18 => "list",
        2 or 11 or 20 => "set",
        3 or 5 or 12 or 17 => "zset",
        4 or 9 or 13 or 16 => "hash",
        15 or 19 or 21 => "stream",
        _ => $"type {type}",
    };

    /// <summary>Reads the value of an entry that is a string; the place moves behind the entry.</summary>
    /// <exception cref="RedisException">It is damaged (LocalFile).</exception>
    public byte[] ReadString(in RdbEntry entry)
    {
        if (entry.Type != StringType) { throw new ArgumentException($"An entry of type {entry.Type} is no string.", nameof(entry)); }
        Seek(entry.ValueStart);
        byte[] value = ReadString();
        Seek(entry.End);
        return value;
    }

    /// <summary>Moves on to a place, where an entry begins.</summary>
    public void Seek(long position)
    {
        long inWindow = position - _windowStart;
        if (inWindow >= 0 && inWindow <= _windowLength)
        {
            _at = (int)inWindow;
            return;
        }
        _windowStart = position;
        _windowLength = _at = 0;
    }

    /// <summary>Copies bytes of the file; the place moves behind them.</summary>
    public void CopyAt(long position, Span<byte> destination)
    {
        Seek(position);
        Read(destination);
    }

    /// <inheritdoc />
    public void Dispose() => _file.Dispose();

    private void SkipValue(byte type)
    {
        switch (type)
        {
            case 0 or 9 or 10 or 11 or 12 or 13 or 16 or 17 or 20: // a string, or what is packed into one
                SkipString();
                break;
            case 1 or 2 or 14: // list, set, list of packed pieces
                for (ulong n = ReadLength(); n > 0; n--) { SkipString(); }
                break;
            case 4: // hash
                for (ulong n = ReadLength(); n > 0; n--) { SkipString(); SkipString(); }
                break;
            case 3: // sorted set, scores as text
                for (ulong n = ReadLength(); n > 0; n--)
                {
                    SkipString();
                    byte length = ReadByte();
                    if (length < 253) { Skip(length); }
                }
                break;
            case 5: // sorted set
                for (ulong n = ReadLength(); n > 0; n--) { SkipString(); Skip(8); }
                break;
            case 18: // list of pieces, each with its kind
                for (ulong n = ReadLength(); n > 0; n--) { ReadLength(); SkipString(); }
                break;
            case 15 or 19 or 21:
                SkipStream(type);
                break;
            default:
                throw Unknown($"it has a value of type {type}, which is not known here (a module's, or of a later Redis)");
        }
    }

    private void SkipStream(byte type)
    {
        for (ulong n = ReadLength(); n > 0; n--) { SkipString(); SkipString(); }
        for (int i = type >= 19 ? 8 : 3; i > 0; i--) { ReadLength(); } // length, last id; first id, largest deleted id, entries ever
        for (ulong groups = ReadLength(); groups > 0; groups--)
        {
            SkipString();
            for (int i = type >= 19 ? 3 : 2; i > 0; i--) { ReadLength(); } // last id; entries read
            for (ulong pending = ReadLength(); pending > 0; pending--)
            {
                Skip(16 + 8);
                ReadLength();
            }
            for (ulong consumers = ReadLength(); consumers > 0; consumers--)
            {
                SkipString();
                Skip(type >= 21 ? 16 : 8);
                for (ulong pending = ReadLength(); pending > 0; pending--) { Skip(16); }
            }
        }
    }

    private ulong ReadLength()
    {
        ulong length = ReadLength(out int encoding);
        return encoding < 0 ? length : throw Unknown("a length is missing");
    }

    // Two bits of kind, then the value; kind 3 is a string in another form.
    private ulong ReadLength(out int encoding)
    {
        encoding = -1;
        byte first = ReadByte();
        switch (first >> 6)
        {
            case 0: return (ulong)(first & 63);
            case 1: return ((ulong)(first & 63) << 8) | ReadByte();
            case 2:
                Span<byte> big = stackalloc byte[8];
                Span<byte> used = big[..(first == 0x81 ? 8 : first == 0x80 ? 4 : throw Unknown("a length is not known here"))];
                Read(used);
                return used.Length == 8 ? BinaryPrimitives.ReadUInt64BigEndian(used) : BinaryPrimitives.ReadUInt32BigEndian(used);
            default:
                encoding = first & 63;
                return 0;
        }
    }

    private void SkipString()
    {
        ulong length = ReadLength(out int encoding);
        switch (encoding)
        {
            case -1:
                Skip((long)length);
                break;
            case 0 or 1 or 2:
                Skip(1 << encoding);
                break;
            case 3:
                ulong packed = ReadLength();
                ReadLength();
                Skip((long)packed);
                break;
            default:
                throw Unknown("a string is packed in a way that is not known here");
        }
    }

    private byte[] ReadString()
    {
        ulong length = ReadLength(out int encoding);
        Span<byte> number = stackalloc byte[4];
        switch (encoding)
        {
            case -1:
                var bytes = new byte[Checked(length)];
                Read(bytes);
                return bytes;
            case 0:
                return Digits((sbyte)ReadByte());
            case 1:
                Read(number[..2]);
                return Digits(BinaryPrimitives.ReadInt16LittleEndian(number));
            case 2:
                Read(number);
                return Digits(BinaryPrimitives.ReadInt32LittleEndian(number));
            case 3:
                var packed = new byte[Checked(ReadLength())];
                var plain = new byte[Checked(ReadLength())];
                Read(packed);
                return Lzf.TryUnpack(packed, plain) ? plain : throw Unknown("a packed string is damaged");
            default:
                throw Unknown("a string is packed in a way that is not known here");
        }
    }

    private static byte[] Digits(int value) => System.Text.Encoding.ASCII.GetBytes(value.ToString(CultureInfo.InvariantCulture));

    private int Checked(ulong length) => length <= KeyBytesMax ? (int)length : throw Unknown("a key is longer than a key can be");

    private byte ReadByte()
    {
        if (_at == _windowLength) { Fill(); }
        return _window[_at++];
    }

    private long ReadInt64()
    {
        Span<byte> bytes = stackalloc byte[8];
        Read(bytes);
        return BinaryPrimitives.ReadInt64LittleEndian(bytes);
    }

    private uint ReadUInt32()
    {
        Span<byte> bytes = stackalloc byte[4];
        Read(bytes);
        return BinaryPrimitives.ReadUInt32LittleEndian(bytes);
    }

    private void Read(Span<byte> destination)
    {
        while (!destination.IsEmpty)
        {
            if (_at == _windowLength) { Fill(); }
            int count = Math.Min(destination.Length, _windowLength - _at);
            _window.AsSpan(_at, count).CopyTo(destination);
            _at += count;
            destination = destination[count..];
        }
    }

    private void Skip(long count)
    {
        if (count < 0 || count > Length - Position) { throw Unknown("it is cut short, or damaged"); }
        Seek(Position + count);
    }

    private void Fill()
    {
        _windowStart = Position;
        _at = 0;
        _file.Position = _windowStart;
        _windowLength = _file.Read(_window);
        if (_windowLength == 0) { throw Unknown("it is cut short"); }
    }

    private RedisException Unknown(string what) => new(RedisProblem.LocalFile,
        string.Create(CultureInfo.InvariantCulture, $"The RDB file {_path} cannot be walked at byte {Position}: {what}."));
}

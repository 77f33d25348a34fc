// The commands of a stretch of history, one after the other, with the keys that they name.
using Slogger.Redis.Feeding;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>Reads the effects between two offsets. Not thread-safe.</summary>
/// <param name="history">The bytes.</param>
/// <param name="from">A command boundary.</param>
/// <param name="to">Another, at or above it: the end.</param>
/// <param name="database">The database selected at the first.</param>
public sealed class EffectReader(IHistorySource history, long from, long to, int database)
{
    /// <summary>Bytes of the largest command that is read.</summary>
    public const int CommandBytesMax = 64 << 20;

    // Of a command that was sought, most have less.
    private const int PieceBytes = 256 << 10, SoughtBytes = 4 << 10;

    private readonly EffectCutter _cutter = new();
    private readonly byte[] _piece = new byte[PieceBytes];
    private readonly List<EffectKey> _keys = [];
    private long _given = from;
    private int _pieceBytes = PieceBytes;

    /// <summary>The command that was found last; until the next one is.</summary>
    public Effect Effect => _cutter.Effect;

    /// <summary>The database selected where it stands.</summary>
    public int Database { get; private set; } = database;

    /// <summary>How far it reaches: never <see cref="EffectReach.Nothing"/> or <see cref="EffectReach.Select"/>.</summary>
    public EffectReach Reach { get; private set; }

    /// <summary>The keys that it names, if it is confined to them.</summary>
    public IReadOnlyList<EffectKey> Keys => _keys;

    /// <summary>Where it begins.</summary>
    public long Start { get; private set; }

    /// <summary>Where it ends.</summary>
    public long End { get; private set; } = from;

    /// <summary>Goes to the next command that may change data.</summary>
    /// <param name="stop">Gives up.</param>
    /// <returns>False: there is none before the end.</returns>
    /// <exception cref="PastException">The history has no more bytes, or a command is too large; the text says so.</exception>
    /// <exception cref="Connections.RedisException">The bytes are no replication stream (Protocol).</exception>
    public bool Next(CancellationToken stop)
    {
        while (true)
        {
            while (!_cutter.Next())
            {
                if (_given == to) { return false; }
                Give(stop);
            }
            (Start, End) = (End, _given - _cutter.Rest);
            Reach = EffectScope.Find(Effect, Database, _keys);
            if (Reach == EffectReach.Select) { Database = EffectScope.DatabaseOf(Effect) ?? Database; }
            else if (Reach != EffectReach.Nothing) { return true; }
        }
    }

    /// <summary>Leaves commands out.</summary>
    /// <param name="place">Where the next one begins that is read: at or above <see cref="End"/>.</param>
    /// <param name="selected">The database selected there.</param>
    public void SeekTo(long place, int selected)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(place, End);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(place, to);
        // What was read ahead may have it.
        if (place < _given) { _cutter.Skip((int)(place - (_given - _cutter.Rest))); }
        else
        {
            _cutter.Skip(_cutter.Rest);
            _given = place;
        }
        (End, Database, _pieceBytes) = (place, selected, SoughtBytes);
    }

    private void Give(CancellationToken stop)
    {
        stop.ThrowIfCancellationRequested();
        if (_cutter.Rest > CommandBytesMax)
        {
            throw new PastException($"a command of more than {CommandBytesMax >> 20} MB stands in the log: ask for the versions before or "
                + "behind it");
        }
        int read = history.Read(_given, _piece.AsSpan(0, (int)Math.Min(_pieceBytes, to - _given)));
        _pieceBytes = Math.Min(PieceBytes, 2 * _pieceBytes);
        if (read == 0) { throw new PastException("the log's bytes cannot be read up to that version"); }
        _cutter.Give(_piece.AsSpan(0, read));
        _given += read;
    }
}

// The versions of a shard's keys, from its replication stream. Nothing is noted before somebody uses them, since to look at the
// keys of each effect costs. From then on the link's thread notes keys. Those written before are read from the end of the log, once, and
// the first who asks waits for that.
//
// A new life of the stream (a start, a rollback) begins with nothing.
using Slogger.Core.Keys;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Redis.Connections;
using Slogger.Redis.Rollback;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

/// <summary>The versions of keys. The loop's thread asks; the link's thread reads.</summary>
/// <param name="post">Runs something in the loop.</param>
/// <param name="hurry">Has the stream read without a pause.</param>
internal sealed class ShardKeys(Action<Action> post, Action hurry) : IKeyVersions
{
    /// <summary>How many keys are known at least; twice as many at most. They take 64 MB, and those of before as much again.</summary>
    public const int KeysMin = 1_500_000;

    /// <summary>Bytes of the log, from its end, that are looked through when they are asked for first.</summary>
    public const int TailBytes = 64 << 20;

    // Who asks waits no longer than it takes to read as much.
    private const int SliceBytes = 32 << 10;

    private readonly Lock _lock = new();
    private readonly List<(long Offset, Action<bool> Then)> _waits = [];
    private VersionLog? _log;
    private KeyVersions? _table;
    private WrittenKeys? _stream;
    private bool _isWanted, _isReady;

    // Where the stream stands, if that is between two effects; else null.
    private (long Offset, int Database)? _place;
    private volatile KeyLines _lines = new(default, WorldLine.First, []);

    /// <inheritdoc />
    public KeyLines Lines => _lines;

    /// <summary>A new life of the stream begins, and the log has all before it.</summary>
    /// <param name="log">The log.</param>
    /// <param name="offset">Where it begins.</param>
    /// <param name="database">The database selected there; null: within a transaction.</param>
    public void Begin(VersionLog log, long offset, int? database)
    {
        WorldLine oldest = log.Branches.Count == LogBranch.KeptMax ? log.Branches[0].WorldLine : log.FirstWorldLine;
        lock (_lock)
        {
            End();
            _log = log;
            _lines = new(log.Shard, oldest, [.. log.Branches.Select(b => (b.WorldLine, b.Offset))]);
            _place = database is { } selected ? (offset, selected) : null;
        }
    }

    /// <summary>The stream has ended.</summary>
    public void OnEnded()
    {
        lock (_lock) { End(); }
    }

    private void End()
    {
        (_log, _table, _stream, _place, _isWanted, _isReady) = (null, null, null, null, false, false);
        Release(long.MaxValue, isRead: false);
    }

    // ---- The link's thread ----

    /// <summary>The stream goes on.</summary>
    /// <param name="bytes">The bytes.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="commandEnd">Where the last whole command ends.</param>
    /// <param name="database">The database selected there; null: within a transaction.</param>
    public void OnBytes(ReadOnlySpan<byte> bytes, long offset, long commandEnd, int? database)
    {
        long end = offset + bytes.Length;
        lock (_lock)
        {
            if (_stream is null)
            {
                _place = database is { } selected && commandEnd == end ? (end, selected) : null;
                if (_isWanted) { Open(); }
                return;
            }
        }
        while (bytes.Length > 0)
        {
            int length;
            lock (_lock)
            {
                if (_stream is not { } stream) { return; }
                // A large command is looked at from its beginning each time.
                length = (int)Math.Min(bytes.Length, Math.Max(SliceBytes, stream.End - stream.Position));
                stream.Read(bytes[..length]);
                if (_isReady) { Release(stream.Position, isRead: true); }
            }
            bytes = bytes[length..];
        }
    }

    private void Release(long position, bool isRead)
    {
        List<Action<bool>>? due = null;
        for (int i = _waits.Count - 1; i >= 0; i--)
        {
            if (_waits[i].Offset > position) { continue; }
            (due ??= []).Add(_waits[i].Then);
            _waits.RemoveAt(i);
        }
        if (due is null) { return; }
        due.Reverse();
        post(() =>
        {
            foreach (Action<bool> then in due) { then(isRead); }
        });
    }

    // ---- The first who asks ----

    private void Open()
    {
        if (_place is not { } place || _log is not { } log) { return; }
        KeyVersions table = new(KeysMin, place.Offset);
        (_table, _stream) = (table, new WrittenKeys(table, place.Offset, place.Database));
        Task.Run(async () =>
        {
            KeyVersions? before = await BeforeAsync(log, table, place.Offset).ConfigureAwait(false);
            lock (_lock)
            {
                if (_table != table) { return; }
                if (before is not null) { table.Prepend(before); }
                _isReady = true;
                Release(_stream!.Position, isRead: true);
            }
        });
    }

    // Null: nothing is known of it.
    private async Task<KeyVersions?> BeforeAsync(VersionLog log, KeyVersions table, long end)
    {
        try
        {
            while (log.DurableOffset < end)
            {
                lock (_lock) { if (_table != table) { return null; } }
                await Task.Delay(1).ConfigureAwait(false);
            }
            // In windows that were shipped keys are written at other offsets than they were at the primary.
            long start = log.ContiguousFrom(Math.Max(Math.Max(log.StartOffset, log.Windows.EndOffset), end - TailBytes));
            if ((LogPlaces.EndAtOrBelow(log, start)?.End ?? log.FirstBoundary) is not { } from || from.Offset > end) { return null; }
            using LogReader reader = log.OpenReader(from.Offset, end);
            var before = new KeyVersions(KeysMin, from.Offset);
            var keys = new WrittenKeys(before, from.Offset, from.Database);
            byte[] piece = new byte[1 << 20];
            int count;
            while ((count = reader.Read(piece)) > 0) { keys.Read(piece.AsSpan(0, count)); }
            return keys.Position == end ? before : null;
        }
        catch (Exception e) when (e is LogException or RedisException or ArgumentOutOfRangeException or ObjectDisposedException)
        {
            // It was trimmed meanwhile, or another history has begun.
            return null;
        }
    }

    // ---- The loop's thread ----

    /// <inheritdoc />
    public void Prepare()
    {
        hurry();
        if (_isWanted) { return; }
        lock (_lock)
        {
            if (_log is null) { return; }
            _isWanted = true;
            Open();
        }
    }

    /// <inheritdoc />
    public bool WhenReadTo(long offset, Action<bool> then)
    {
        lock (_lock)
        {
            if (_isReady && _stream!.Position >= offset) { return true; }
            _waits.Add((offset, then));
            if (_log is null) { Release(long.MaxValue, isRead: false); }
        }
        hurry();
        return false;
    }

    /// <inheritdoc />
    public long Find(int database, ReadOnlySpan<byte> key, byte[]? field)
    {
        lock (_lock)
        {
            // The stream has ended: everything may have been written since.
            if (_table is not { } table) { return long.MaxValue; }
            return field is null ? WrittenKeys.Find(table, database, key) : WrittenKeys.Find(table, database, key, field);
        }
    }
}

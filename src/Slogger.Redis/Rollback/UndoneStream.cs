// The stretch of the stream that a rollback in place undoes: from the boundary on, first out of the log, then as Redis sends it. It
// tells which keys were written there, and finds the rollback's own transaction in it: what stands before that one, and was not
// known when it was made, was written by somebody else meanwhile (a key that expired, a connection past the proxy).
using System.Globalization;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;

namespace Slogger.Redis.Rollback;

/// <summary>Reads the stretch. The link's thread fills it, one task reads it.</summary>
internal sealed class UndoneStream : IStreamSink
{
    private readonly Lock _lock = new();
    private readonly int _bytesMax;
    private readonly long _start;
    private readonly Effect _effect = new();
    private readonly List<EffectKey> _places = [];
    private byte[] _bytes;
    private int _filled;
    private int _parsed;
    private string? _ended;
    private TaskCompletionSource _arrived = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public UndoneStream(long start, int database, int bytesMax)
    {
        _start = start;
        _bytesMax = bytesMax;
        _bytes = new byte[64 << 10];
        Database = database;
    }

    /// <summary>The database selected where it was read up to.</summary>
    public int Database { get; private set; }

    /// <summary>Up to which offset it was read.</summary>
    public long ReadTo => _start + _parsed;

    /// <summary>Up to which offset it has come.</summary>
    public long Arrived
    {
        get
        {
            lock (_lock) { return _start + _filled; }
        }
    }

    /// <summary>Why it cannot be undone in place; null if nothing speaks against it so far.</summary>
    public string? Reason
    {
        get
        {
            lock (_lock) { return field ?? _ended; }
        }
        private set;
    }

    /// <summary>Takes the first part out of the log.</summary>
    public void Take(IHistorySource history, long end)
    {
        while (_start + _filled < end)
        {
            if (!Grow((int)Math.Min(end - _start - _filled, 1 << 20))) { return; }
            int read = history.Read(_start + _filled,
                _bytes.AsSpan(_filled, (int)Math.Min(_bytes.Length - _filled, end - _start - _filled)));
            if (read == 0)
            {
                _ended = "the log's end cannot be read";
                return;
            }
            _filled += read;
        }
    }

    /// <summary>Where it ends so far, for a link to go on there.</summary>
    public StreamScanner Position()
    {
        var scanner = new StreamScanner(_start, Database);
        int at = 0;
        while (at < _filled) { scanner.Next(_bytes.AsSpan(0, _filled), ref at); }
        return scanner;
    }

    /// <summary>Waits until the stream has come up to an offset. False: it will not.</summary>
    public async Task<bool> ArrivesAsync(long offset, TimeSpan limit, CancellationToken stop)
    {
        using var limited = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limited.CancelAfter(limit);
        while (true)
        {
            Task arrived;
            lock (_lock)
            {
                if (_start + _filled >= offset) { return true; }
                if (_ended is not null) { return false; }
                arrived = _arrived.Task;
            }
            try
            {
                await arrived.WaitAsync(limited.Token).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (!stop.IsCancellationRequested)
            {
                lock (_lock) { _ended ??= "Redis's stream does not come on"; }
                return false;
            }
        }
    }

    /// <summary>Reads on, up to what has come, or to behind the transaction that carries a mark.</summary>
    /// <param name="mark">The message of that transaction's SPUBLISH commands; empty: there is none yet.</param>
    /// <param name="touched">Receives the keys that were written, except by that transaction.</param>
    /// <returns>Whether the transaction was found.</returns>
    public bool Read(ReadOnlySpan<byte> mark, HashSet<StoreKey> touched)
    {
        lock (_lock)
        {
            var held = new List<StoreKey>();
            bool isIn = false, isOwn = false;
            int at = _parsed;
            int database = Database;
            string? reason = null;
            while (_effect.TryRead(_bytes, at, _filled))
            {
                at = _effect.End;
                if (_effect.Is(0, "MULTI"u8)) { isIn = true; }
                else if (_effect.Is(0, "SPUBLISH"u8) && isIn && !mark.IsEmpty && _effect.Count == 3 && _effect[2].SequenceEqual(mark))
                {
                    isOwn = true;
                }
                else if (!isOwn) { reason ??= Note(ref database, held); }
                else if (EffectScope.Find(_effect, database, _places) == EffectReach.Select)
                {
                    database = EffectScope.DatabaseOf(_effect) ?? database;
                }
                bool ends = _effect.Is(0, "EXEC"u8);
                if (isIn && !ends) { continue; }
                isIn = false;
                // A transaction is read as a whole.
                _parsed = at;
                Database = database;
                touched.UnionWith(held);
                held.Clear();
                Reason ??= reason;
                if (isOwn) { return true; }
            }
            return false;
        }
    }

    void IStreamSink.OnBytes(ReadOnlySpan<byte> bytes, long startOffset)
    {
        lock (_lock)
        {
            if (startOffset != _start + _filled) { _ended ??= "Redis's stream does not go on where the log ends"; }
            if (_ended is not null || !Grow(bytes.Length)) { return; }
            bytes.CopyTo(_bytes.AsSpan(_filled));
            _filled += bytes.Length;
            Signal();
        }
    }

    void IStreamSink.OnMarker(in StreamMarker marker)
    {
        // Of the abandoned world-line: it closes nothing.
    }

    void IStreamSink.OnClosed(LinkClosed reason)
    {
        lock (_lock)
        {
            _ended ??= reason.Message;
            Signal();
        }
    }

    private string? Note(ref int database, List<StoreKey> touched)
    {
        switch (EffectScope.Find(_effect, database, _places))
        {
            case EffectReach.Select:
                database = EffectScope.DatabaseOf(_effect) ?? database;
                return null;
            case EffectReach.Keys:
                foreach (EffectKey place in _places) { touched.Add(new StoreKey(place.Database, _effect[place.Argument].ToArray())); }
                return null;
            case EffectReach.Nothing:
                return null;
            default:
                return System.Text.Encoding.Latin1.GetString(_effect[0])
                    .ToUpperInvariant() + " is to be undone, which is not confined to keys that it names";
        }
    }

    private bool Grow(int more)
    {
        if (_filled + more > _bytesMax)
        {
            _ended ??= string.Create(CultureInfo.InvariantCulture, $"more than {_bytesMax >> 20} MB of history are to be undone");
            Signal();
            return false;
        }
        if (_filled + more > _bytes.Length)
        {
            Array.Resize(ref _bytes, (int)Math.Min(_bytesMax, Math.Max(2L * _bytes.Length, _filled + more)));
        }
        return true;
    }

    private void Signal()
    {
        TaskCompletionSource arrived = _arrived;
        _arrived = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        arrived.TrySetResult();
    }
}

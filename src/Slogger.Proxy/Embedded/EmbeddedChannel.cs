// A connection of the front end to the store that runs in this process: what is sent is executed at once, on the loop's thread, and its
// replies wait where they were written. When much waits nothing more is taken, as by a socket that is full.
using Slogger.Faster.Commands;
using Slogger.FrontEnd.Transports;

namespace Slogger.Proxy.Embedded;

/// <summary>A connection to the embedded store.</summary>
internal sealed unsafe class EmbeddedChannel : LocalChannel
{
    // As long as a request may be at Redis, by its client-query-buffer-limit. No value is as long.
    private const nint RequestBytesMax = 1 << 30;
    private const int RestKeptBytes = 64 << 10;

    private readonly CommandConnection _connection;
    private readonly Func<bool>? _hasEnded;

    // Those that are written, and those that are being read.
    private ReplyBuffer _replies = new();
    private ReplyBuffer _taken = new();

    // A request that has not come whole; or several, when replies are waiting.
    private NativeBuffer _rest;
    private bool _isTaken;
    private bool _inputEnded;
    private bool _isTooLong;

    /// <summary>Makes a channel.</summary>
    /// <param name="events">Where it says that something can be done with it.</param>
    /// <param name="connection">What executes its requests; disposed of with it.</param>
    /// <param name="hasEnded">Whether nothing is to be executed any more; null: never.</param>
    public EmbeddedChannel(LocalEvents events, CommandConnection connection, Func<bool>? hasEnded = null)
        : base(events)
    {
        (_connection, _hasEnded) = (connection, hasEnded);
        // All who publish are on the loop's thread.
        connection.OnPush = Announce;
    }

    public override bool HasEnded => (_connection.WantsClose || _inputEnded || _isTooLong) && !_isTaken && _replies.Count == 0
        && _taken.Count == 0 && !_connection.HasPushes;

    protected override bool IsReadable => (!_isTaken && (_replies.Count > 0 || _taken.Count > 0 || _connection.HasPushes)) || HasEnded;

    protected override bool IsWritable => !_replies.IsFull && !IsOver;

    private bool IsOver => _hasEnded?.Invoke() ?? false;

    public override int Send(byte* buffer, int countBytes)
    {
        if (IsClosed || _connection.WantsClose || _inputEnded || _isTooLong) { return Broken; }
        if (_replies.IsFull || IsOver) { return WouldBlock; }
        int taken = countBytes;
        if (_rest.Count > 0)
        {
            _rest.Append(buffer, countBytes);
            ExecuteRest();
        }
        else
        {
            nint done = _connection.Execute(buffer, countBytes, _replies);
            if (_replies.IsFull) { taken = (int)done; }
            else if (done < countBytes && !_connection.WantsClose) { _rest.Append(buffer + done, countBytes - done); }
        }
        _isTooLong = _rest.Count > RequestBytesMax;
        Announce();
        return taken;
    }

    public override bool TryTake(out byte* start, out byte* end)
    {
        start = end = null;
        if (_isTaken || IsClosed) { return false; }
        if (_taken.Count == 0)
        {
            _connection.TakePushes(_replies);
            if (_replies.Count == 0) { return false; }
            bool wasFull = _replies.IsFull;
            (_taken, _replies) = (_replies, _taken);
            if (wasFull && _rest.Count > 0) { ExecuteRest(); }
        }
        _isTaken = true;
        start = _taken.Start;
        end = start + _taken.Count;
        return true;
    }

    public override void GiveBack(byte* read)
    {
        _isTaken = false;
        _taken.Consume((nint)(read - _taken.Start));
        if (IsClosed) { Free(); } else { Announce(); }
    }

    public override void EndInput()
    {
        _inputEnded = true;
        Announce();
    }

    public override void Close()
    {
        if (IsClosed) { return; }
        IsClosed = true;
        _connection.Dispose();
        if (!_isTaken) { Free(); }
    }

    private void ExecuteRest()
    {
        if (_connection.WantsClose || IsOver) { return; }
        _rest.Consume(_connection.Execute(_rest.Head, _rest.Count, _replies));
        if (_rest.Count == 0) { _rest.Clear(RestKeptBytes); }
    }

    private void Free()
    {
        _replies.Dispose();
        _taken.Dispose();
        _rest.Free();
    }
}

// The proxy as a replica of its Redis: attaches, and hands the stream of effects to a sink as fast as Redis sends it.
//
// Life: new -> AttachAsync (handshake, and the RDB if one comes) -> Start(sink) -> ... -> OnClosed. A link serves once; after
// it has closed, make a new one and resume from the old one's Position.
//
// One thread of its own does blocking receives into one large pinned buffer and hands out slices of it. Acknowledgements go
// out from a timer: quickly until the first byte of stream has come (Redis holds the stream back after a `$EOF` transfer until
// an ACK arrives *after* it has noticed the end of its child), then once a second.
using System.Globalization;
using System.Net.Sockets;
using Slogger.Core.Sessions;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Replication;

/// <summary>Settings of a <see cref="ReplicationLink"/>.</summary>
public sealed record ReplicationLinkOptions
{
    /// <summary>Where Redis is.</summary>
    public required RedisEndpoint Endpoint { get; init; }

    /// <summary>Recognises markers. Default: null, none are reported.</summary>
    public MarkerCodec? Markers { get; init; }

    /// <summary>The receive buffer, bytes. Default: 4 MiB. A command larger than this is handed over in pieces.</summary>
    public int BufferBytes { get; init; } = 4 << 20;

    /// <summary>How long the reader lets bytes gather in the socket after each read that it has handed over, unless
    /// <see cref="ReplicationLink.Hurry"/> says that something is wanted. Default: zero, it reads on at once. Fewer wake-ups
    /// give Redis back part of what an attached replica costs.</summary>
    public TimeSpan ReadPause { get; init; } = TimeSpan.Zero;

    /// <summary>Bound for connecting. Default: 5 s.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>The longest silence during handshake and RDB. Default: 60 s; Redis sends a sign of life every
    /// repl-ping-replica-period (10 s) while it prepares.</summary>
    public TimeSpan HandshakeSilenceMax { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>The longest silence of the stream before the link is closed as dead. Default: 60 s, as Redis's repl-timeout.</summary>
    public TimeSpan SilenceMax { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>Period of acknowledgements. Default: 1 s, as Redis's own replicas; Redis drops a replica that is silent for
    /// repl-timeout.</summary>
    public TimeSpan AckPeriod { get; init; } = TimeSpan.FromSeconds(1);

    /// <summary>The port shown for this replica in INFO replication. Default: 0, not announced.</summary>
    public int ListeningPort { get; init; }
}

/// <summary>What to do if Redis cannot continue and starts a full synchronisation.</summary>
public enum OnFullSync
{
    /// <summary>Take the stream with an empty RDB (milliseconds): the data set is not wanted.</summary>
    WithoutData,
    /// <summary>Write the data set to <see cref="AttachRequest.RdbFile"/>.</summary>
    WithData,
    /// <summary>Give up with <see cref="RedisProblem.HistoryGone"/>.</summary>
    Refuse,
}

/// <summary>How to attach.</summary>
public sealed record AttachRequest
{
    /// <summary>The stream identity to continue; null to begin anew.</summary>
    public string? ReplicationId { get; init; }

    /// <summary>Where to continue: a scanner at the end of what is already known. A fresh one for a command boundary, or
    /// <see cref="ReplicationLink.Position"/> of the link before. Ignored without <see cref="ReplicationId"/>.</summary>
    public StreamScanner? Position { get; init; }

    /// <summary>What to do if continuing is impossible or not asked for. Default: without data.</summary>
    public OnFullSync OnFull { get; init; } = OnFullSync.WithoutData;

    /// <summary>Where the data set goes; written, synced, and complete when AttachAsync returns Full.</summary>
    public string? RdbFile { get; init; }
}

/// <summary>The outcome of attaching: one of the nested records.</summary>
public abstract record AttachResult
{
    private AttachResult()
    {
    }

    /// <summary>The stream goes on where the request said.</summary>
    /// <param name="ReplicationId">The stream's identity from now on.</param>
    /// <param name="Offset">Bytes of history before the first byte to come.</param>
    public sealed record Continued(string ReplicationId, long Offset) : AttachResult;

    /// <summary>A new beginning: the RDB holds all history up to the offset. The stream's first write selects its database.</summary>
    /// <param name="ReplicationId">The stream's identity; may be the requested one, if only the backlog was too short.</param>
    /// <param name="Offset">Bytes of history before the first byte to come.</param>
    /// <param name="RdbFile">The data set, if wanted.</param>
    /// <param name="RdbBytes">Size of the RDB received.</param>
    public sealed record Full(string ReplicationId, long Offset, string? RdbFile, long RdbBytes) : AttachResult;

    /// <summary>It did not work.</summary>
    /// <param name="Problem">Why; <see cref="RedisProblems.IsTransient"/> tells whether to try again.</param>
    /// <param name="Message">For a person.</param>
    public sealed record Failed(RedisProblem Problem, string Message) : AttachResult;
}

/// <summary>A replication connection to a Redis, in the role of its replica.</summary>
public sealed class ReplicationLink : IDisposable
{
    // So much in one read has gathered by itself: a large value, or a link that is behind.
    private const int PauselessBytes = 256 << 10;
    private static readonly TimeSpan EagerAckPeriod = TimeSpan.FromMilliseconds(10);
    private static readonly TimeSpan LazyAckPeriod = TimeSpan.FromMilliseconds(100);

    private readonly ReplicationLinkOptions _options;
    private readonly ReplicaSocket _socket;
    private readonly Timer _ticker;
    private readonly TaskCompletionSource _finished = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private StreamScanner? _scanner;
    private IStreamSink? _sink;
    private long _handedOver;
    private long _streamStart;
    private long _lastReadTicks;
    private int _state; // 0 new, 1 attaching, 2 attached, 3 started
    private volatile string? _tickerFailure;
    private readonly AutoResetEvent _wanted = new(false);
    private volatile bool _hurried;

    /// <summary>Makes a link; nothing is sent before <see cref="AttachAsync"/>.</summary>
    public ReplicationLink(ReplicationLinkOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentOutOfRangeException.ThrowIfLessThan(options.BufferBytes, 4096);
        _options = options;
        _socket = new ReplicaSocket(options.Endpoint, options.BufferBytes);
        _ticker = new Timer(static link => ((ReplicationLink)link!).Tick(), this, Timeout.Infinite, Timeout.Infinite);
    }

    /// <summary>Bytes of history handed to the sink. Any thread.</summary>
    public long Offset => Volatile.Read(ref _handedOver);

    /// <summary>The last end of a command that has been read, in bytes of history. For the sink, during its calls.</summary>
    public long CommandEnd => _scanner?.CommandStart ?? 0;

    /// <summary>The database selected at <see cref="CommandEnd"/>; null: that is within a transaction. For the sink, during its calls, and
    /// before <see cref="Start"/>.</summary>
    public int? Database => _scanner is { InTransaction: false } scanner ? scanner.Database : null;

    /// <summary>Where the stream stands, to resume from in another link. Only after <see cref="Completion"/>.</summary>
    public StreamScanner? Position => _scanner;

    /// <summary>Ends when the reader has made its last call to the sink.</summary>
    public Task Completion => _finished.Task;

    /// <summary>Markers with our channel that could not be one (inside a transaction, malformed).</summary>
    public long SuspectMarkers { get; private set; }

    /// <summary>Connects, authenticates and asks for the stream. Returns when the stream is about to begin; until
    /// <see cref="Start"/> is called Redis buffers, so do that soon.</summary>
    public Task<AttachResult> AttachAsync(AttachRequest request, CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(request);
        if (request.OnFull == OnFullSync.WithData)
            ArgumentException.ThrowIfNullOrEmpty(request.RdbFile);
        if (request.ReplicationId is not null)
            ArgumentNullException.ThrowIfNull(request.Position);
        if (Interlocked.CompareExchange(ref _state, 1, 0) != 0)
            throw new InvalidOperationException("A replication link attaches once; make a new one.");
        var result = new TaskCompletionSource<AttachResult>(TaskCreationOptions.RunContinuationsAsynchronously);
        CancellationTokenRegistration registration = cancellation.Register(static link => ((ReplicationLink)link!).Dispose(), this);
        var thread = new Thread(() =>
        {
            AttachResult outcome = Attach(request);
            registration.Dispose();
            if (outcome is AttachResult.Failed)
                Dispose();
            else
                _state = 2;
            result.SetResult(outcome);
        })
        { IsBackground = true, Name = "redis attach" };
        thread.Start();
        return result.Task;
    }

    /// <summary>Begins to read the stream, on a thread of the link's own.</summary>
    public void Start(IStreamSink sink)
    {
        ArgumentNullException.ThrowIfNull(sink);
        if (Interlocked.CompareExchange(ref _state, 3, 2) != 2)
            throw new InvalidOperationException("A replication link starts once, after it has been attached.");
        _sink = sink;
        _lastReadTicks = Environment.TickCount64;
        new Thread(Read) { IsBackground = true, Name = "redis stream", Priority = ThreadPriority.AboveNormal }.Start();
        try
        {
            _ticker.Change(TimeSpan.Zero, EagerAckPeriod);
        }
        catch (ObjectDisposedException)
        {
        }
    }

    /// <summary>A marker is in the stream by now: no pause before it has been read. Any thread.</summary>
    public void Hurry()
    {
        _hurried = true;
        _wanted.Set();
    }

    /// <summary>Closes the connection; the reader ends with <see cref="IStreamSink.OnClosed"/>.</summary>
    public void Dispose()
    {
        _ticker.Dispose();
        _socket.Dispose();
    }

    private AttachResult Attach(AttachRequest request)
    {
        try
        {
            _socket.Connect(_options.ConnectTimeout);
            _socket.SetReadTimeout(_options.HandshakeSilenceMax);
            WantedRdb wanted = request.OnFull == OnFullSync.WithData ? WantedRdb.Whole : WantedRdb.Empty;
            PsyncAnswer answer = ReplicationHandshake.Run(_socket, _options.Endpoint, wanted, _options.ListeningPort,
                request.ReplicationId, request.Position?.Offset ?? 0);
            if (!answer.IsFull)
            {
                _scanner = request.Position!;
                return Attached(new AttachResult.Continued(answer.ReplicationId, answer.Offset));
            }
            if (request.OnFull == OnFullSync.Refuse)
                throw new RedisException(RedisProblem.HistoryGone, string.Create(CultureInfo.InvariantCulture,
                    $"Redis at {_options.Endpoint} no longer has the history from offset {request.Position?.Offset ?? 0}; it stands at "
                        + $"{answer.Offset}."));
            long rdbBytes = ReceiveRdb(request.OnFull == OnFullSync.WithData ? request.RdbFile : null);
            _scanner = new StreamScanner(answer.Offset, 0);
            return Attached(new AttachResult.Full(answer.ReplicationId, answer.Offset, request.RdbFile, rdbBytes));
        }
        catch (RedisException e)
        {
            return _socket.IsDisposed
                ? new AttachResult.Failed(RedisProblem.Cancelled, $"Attaching to Redis at {_options.Endpoint} was given up.")
                : new AttachResult.Failed(e.Problem, e.Message);
        }
        catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException)
        {
            return new AttachResult.Failed(_socket.IsDisposed ? RedisProblem.Cancelled : RedisProblem.Closed,
                $"Attaching to Redis at {_options.Endpoint} failed: {e.Message}.");
        }
    }

    private AttachResult Attached(AttachResult result)
    {
        _handedOver = _streamStart = _scanner!.Offset;
        _socket.SetReadTimeout(TimeSpan.Zero); // from here on the ticker watches for silence
        return result;
    }

    private long ReceiveRdb(string? path)
    {
        if (path is null)
            return RdbReceiver.Receive(_socket, _options.Endpoint, null);
        return RdbTarget.Write(path, target => RdbReceiver.Receive(_socket, _options.Endpoint, target));
    }

    private void Read()
    {
        LinkClosed reason;
        int received = 0;
        try
        {
            while (true)
            {
                Deliver();
                if (_options.ReadPause > TimeSpan.Zero && !_hurried && received < PauselessBytes)
                    _wanted.WaitOne(_options.ReadPause);
                received = _socket.Receive();
                if (received == 0)
                {
                    reason = Closed(RedisProblem.Closed, "Redis closed the replication connection");
                    break;
                }
                Volatile.Write(ref _lastReadTicks, Environment.TickCount64);
            }
        }
        catch (RedisException e)
        {
            reason = new LinkClosed(e.Problem, e.Message, Offset);
        }
        catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException)
        {
            reason = Closed(RedisProblem.Closed, "The replication connection broke: " + e.Message);
        }
        Dispose();
        _sink!.OnClosed(reason);
        _finished.SetResult();
    }

    private LinkClosed Closed(RedisProblem problem, string text)
    {
        if (_tickerFailure is { } silence)
            return new LinkClosed(RedisProblem.Timeout, silence, Offset);
        if (_socket.IsDisposed)
            return new LinkClosed(RedisProblem.Cancelled, "The link was closed by the proxy.", Offset);
        return new LinkClosed(problem, $"{text.TrimEnd('.')} ({_options.Endpoint}). {problem.Remedy()}", Offset);
    }

    // Hands over all complete commands in the buffer, cut at markers; the rest only if the buffer is full of it.
    private void Deliver()
    {
        ReadOnlySpan<byte> unread = _socket.Unread;
        // Bytes up to the scanner's offset have been scanned in an earlier call, but not handed over.
        int position = (int)(_scanner!.Offset - _handedOver);
        if (position == unread.Length)
            return;
        int handed = 0;
        StreamEvent found;
        while ((found = _scanner.Next(unread, ref position)) != StreamEvent.None)
        {
            switch (found)
            {
                case StreamEvent.ShardPublish when _options.Markers is { } codec && codec.IsChannel(_scanner.Argument(1)):
                    if (!_scanner.InTransaction && SessionMark.IsMark(_scanner.Argument(2)))
                    {
                        _sink!.OnSessionMark(_scanner.Argument(2));
                        break;
                    }
                    if (_scanner.InTransaction || !codec.TryRead(_scanner.Argument(1), _scanner.Argument(2), out MarkerPayload payload))
                    {
                        SuspectMarkers++;
                        break;
                    }
                    Hand(unread, ref handed, position);
                    _hurried = false;
                    _sink!.OnMarker(new StreamMarker(payload, _scanner.Offset, _scanner.Database));
                    break;
                case StreamEvent.Publish:
                    long start = _scanner.EventStart - (_handedOver - handed);
                    _sink!.OnPublish(start < 0 ? default : unread[(int)start..position]);
                    break;
                case StreamEvent.ReplicationConfig:
                    Hand(unread, ref handed, position);
                    SendAck();
                    break;
                case StreamEvent.Ping:
                    Hand(unread, ref handed, position);
                    _sink!.OnKeepalive(_scanner.Offset);
                    break;
                default:
                    break;
            }
        }
        int complete = (int)Math.Max(handed, unread.Length - (_scanner.Offset - _scanner.CommandStart));
        if (handed == 0 && complete <= 0 && _socket.IsFull)
            complete = unread.Length;
        Hand(unread, ref handed, complete);
        _socket.Consume(handed);
    }

    private void Hand(ReadOnlySpan<byte> unread, ref int handed, int end)
    {
        if (end <= handed)
            return;
        _sink!.OnBytes(unread[handed..end], _handedOver);
        Volatile.Write(ref _handedOver, _handedOver + (end - handed));
        handed = end;
    }

    private void Tick()
    {
        try
        {
            long silent = Environment.TickCount64 - Volatile.Read(ref _lastReadTicks);
            if (silent > _options.SilenceMax.TotalMilliseconds)
            {
                _tickerFailure = $"Redis at {_options.Endpoint} sent nothing for {silent / 1000} s. {RedisProblem.Timeout.Remedy()}";
                _socket.Dispose();
                return;
            }
            SendAck();
            // Ten a second are enough once the first second has passed without any write.
            TimeSpan period = Offset > _streamStart ? _options.AckPeriod : silent < 1000 ? EagerAckPeriod : LazyAckPeriod;
            _ticker.Change(period, period);
        }
        catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException)
        {
            // The reader notices the same, and reports it.
        }
    }

    private void SendAck()
    {
        _socket.Send(RedisTransport.EncodeOwn(["REPLCONF", "ACK", Offset.ToString(CultureInfo.InvariantCulture)]));
    }
}

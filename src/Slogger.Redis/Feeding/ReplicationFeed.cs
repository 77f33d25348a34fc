// The proxy as the replication master of a Redis: the only way in which a base and a log are ever loaded (ordinary commands
// would let keys expire between the base and the tail). Serves one history under a fresh stream identity: an RDB, then
// the tail up to a limit, byte for byte at its own offsets, with messages kept from being published again (Filler).
//
// Whoever connects must first AUTH with a secret made for this feed alone (Redis gets it by CONFIG SET masteruser/masterauth):
// the feed hands out all data. The tail is held back until Redis's first ACK after the RDB; sent earlier, Redis hangs.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using Slogger.Redis.Rdb;

namespace Slogger.Redis.Feeding;

/// <summary>What a feed serves.</summary>
public sealed record FeedPlan
{
    /// <summary>RDB file that holds history up to <see cref="BaseOffset"/>; null: the empty data set.</summary>
    public string? BaseFile { get; init; }

    /// <summary>Bytes of history that the base holds; the tail begins here. A command boundary outside a transaction.</summary>
    public required long BaseOffset { get; init; }

    /// <summary>The database selected in the stream at <see cref="BaseOffset"/>. Null: trust the RDB's own field
    /// (repl-stream-db), which is right for files that Redis sent in a synchronisation.</summary>
    public int? BaseDatabase { get; init; }

    /// <summary>The bytes of history from <see cref="BaseOffset"/> on.</summary>
    public required IHistorySource History { get; init; }

    /// <summary>Where to stop: a command boundary outside a transaction. <see cref="ReplicationFeed.ExtendTo"/> moves it.</summary>
    public required long TargetOffset { get; init; }

    /// <summary>Identity of the stream served: 40 lower-case hex characters, fresh for each feed. Default: drawn here. Give one
    /// from <see cref="NewReplicationId"/> to record it durably before Redis can know it.</summary>
    public string ReplicationId { get; init; } = NewReplicationId();

    /// <summary>Redis holds history up to <see cref="BaseOffset"/> already, under <see cref="ReplicationId"/>: it is continued there or
    /// not at all. Default: false, it loads the base.</summary>
    public bool ContinuesOnly { get; init; }

    /// <summary>Draws a fresh identity.</summary>
    public static string NewReplicationId() => Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(20));
}

/// <summary>Settings of a feed.</summary>
public sealed record FeedOptions
{
    /// <summary>Address to listen on. Default: loopback; for a Redis elsewhere give an address that it reaches.</summary>
    public IPAddress ListenAddress { get; init; } = IPAddress.Loopback;

    /// <summary>Port to listen on. Default: 0, any free one.</summary>
    public int Port { get; init; }

    /// <summary>Whether Redis must authenticate. Default: true. False only where CONFIG SET is not allowed: then whoever
    /// reaches the port first reads all data.</summary>
    public bool RequireSecret { get; init; } = true;

    /// <summary>How long a connection may take to authenticate. Default: 5 s. Sixteen are waited for at the same time.</summary>
    public TimeSpan AuthenticationTimeMax { get; init; } = TimeSpan.FromSeconds(5);
}

/// <summary>What a feed is doing.</summary>
public enum FeedPhase
{
    /// <summary>Redis has not asked yet.</summary>
    Waiting,
    /// <summary>The base is being sent.</summary>
    SendingBase,
    /// <summary>Redis is loading the base.</summary>
    Loading,
    /// <summary>The tail is being sent.</summary>
    SendingTail,
    /// <summary>All up to the target is sent.</summary>
    Sent,
    /// <summary>It cannot go on; see <see cref="ReplicationFeed.Failure"/>.</summary>
    Failed,
}

/// <summary>Progress of a feed. Offsets in bytes of history.</summary>
/// <param name="Phase">What it is doing.</param>
/// <param name="BaseBytesSent">Of the RDB.</param>
/// <param name="BaseBytes">Size of the RDB.</param>
/// <param name="OffsetSent">History sent.</param>
/// <param name="OffsetAcknowledged">History that Redis said it has executed (once a second).</param>
public readonly record struct FeedProgress(FeedPhase Phase, long BaseBytesSent, long BaseBytes, long OffsetSent, long OffsetAcknowledged);

/// <summary>A replication master for one Redis.</summary>
public sealed class ReplicationFeed : IAsyncDisposable
{
    /// <summary>The ACL-like name that Redis logs in with.</summary>
    public const string SecretUser = "slogger-feed";

    private const int StrangersMax = 16;

    private readonly FeedPlan _plan;
    private readonly FeedOptions _options;
    private readonly Socket _listener;
    private readonly CancellationTokenSource _stop = new();
    private readonly byte[] _base;
    private readonly long _baseBytes;
    private readonly long _announcedOffset;
    private readonly byte[] _select;
    private readonly Task _accepting;
    private readonly SemaphoreSlim _extended = new(0, 1);
    private readonly SemaphoreSlim _ended = new(0, 1);
    private readonly SemaphoreSlim _places = new(StrangersMax, StrangersMax);
    private readonly SemaphoreSlim _change = new(1, 1);
    private FeedConnection? _connection;
    private long _target;
    private long _baseBytesSent;
    private long _offsetSent;
    private long _offsetAcknowledged;
    private volatile FeedPhase _phase;
    private volatile bool _servesBase;
    private volatile bool _hasRefused;
    private volatile Trouble? _trouble;

    // Counts for that target only.
    private sealed record Trouble(long Target, string Text);

    private ReplicationFeed(FeedPlan plan, FeedOptions options)
    {
        _plan = plan;
        _options = options;
        _target = plan.TargetOffset;
        _servesBase = !plan.ContinuesOnly;
        _base = plan.BaseFile is null ? RdbFile.Empty() : [];
        _baseBytes = plan.BaseFile is null ? _base.Length : new FileInfo(plan.BaseFile).Length;
        // A SELECT in front of the tail must not move the offsets behind it: the base is announced to end that much earlier.
        // A history shorter than a SELECT cannot have selected anything.
        _select = plan.BaseDatabase is { } database ? Select(database) : [];
        if (_select.Length > plan.BaseOffset)
            _select = [];
        _announcedOffset = plan.BaseOffset - _select.Length;
        _offsetSent = _announcedOffset;
        _listener = new Socket(options.ListenAddress.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            _listener.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.ReuseAddress, true);
            _listener.Bind(new IPEndPoint(options.ListenAddress, options.Port));
            _listener.Listen(4);
        }
        catch
        {
            _listener.Dispose();
            throw;
        }
        LocalEndPoint = (IPEndPoint)_listener.LocalEndPoint!;
        _accepting = AcceptAsync();
    }

    /// <summary>Begins to listen.</summary>
    /// <exception cref="ArgumentException">The plan contradicts itself.</exception>
    /// <exception cref="IOException">The base file cannot be read.</exception>
    /// <exception cref="SocketException">The port cannot be had.</exception>
    public static ReplicationFeed Start(FeedPlan plan, FeedOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(plan);
        ArgumentOutOfRangeException.ThrowIfNegative(plan.BaseOffset);
        if (plan.TargetOffset < plan.BaseOffset)
            throw new ArgumentException("The target lies below the base.", nameof(plan));
        if (plan.ReplicationId.Length != 40 || !plan.ReplicationId.All(char.IsAsciiHexDigitLower))
            throw new ArgumentException("A replication id has 40 lower-case hex characters.", nameof(plan));
        return new ReplicationFeed(plan, options ?? new FeedOptions());
    }

    /// <summary>Identity of the stream that it serves: the plan's.</summary>
    public string ReplicationId => _plan.ReplicationId;

    /// <summary>The one-time password that Redis needs.</summary>
    public string Secret { get; } = Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(24));

    /// <summary>Where it listens.</summary>
    public IPEndPoint LocalEndPoint { get; }

    /// <summary>Where it stops for now.</summary>
    public long TargetOffset => Volatile.Read(ref _target);

    /// <summary>Why it cannot reach the target; null if it can.</summary>
    public string? Failure => _trouble is { } trouble && trouble.Target == TargetOffset ? trouble.Text : null;

    /// <summary>Whether Redis asked for a base when none is served any more.</summary>
    public bool HasRefused => _hasRefused;

    /// <summary>Messages kept from being published again.</summary>
    public long Suppressed { get; private set; }

    /// <summary>How far it is. Any thread.</summary>
    public FeedProgress Progress => new(_phase, Volatile.Read(ref _baseBytesSent), _baseBytes,
        Volatile.Read(ref _offsetSent), Volatile.Read(ref _offsetAcknowledged));

    /// <summary>Moves the target on (a feed that follows a growing log), or tries the same again after a failure. One caller at a
    /// time.</summary>
    /// <exception cref="ArgumentOutOfRangeException">It would move back.</exception>
    public void ExtendTo(long offset)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(offset, TargetOffset);
        _trouble = null;
        Volatile.Write(ref _target, offset);
        Wake(_extended);
    }

    /// <summary>From now on Redis is continued, or refused: it would go back otherwise.</summary>
    public void EndBase() => _servesBase = false;

    /// <summary>Waits until a connection of Redis has ended since this was asked last.</summary>
    public Task WaitForEndAsync(CancellationToken cancellation) => _ended.WaitAsync(cancellation);

    /// <summary>Stops listening and closes the connection. Redis is left as a replica without its master.</summary>
    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        _listener.Dispose();
        await _accepting.ConfigureAwait(false);
        for (int i = 0; i < StrangersMax; i++)
            await _places.WaitAsync().ConfigureAwait(false);
        if (_connection is { } connection)
            await connection.CloseAsync().ConfigureAwait(false);
        _stop.Dispose();
    }

    private async Task AcceptAsync()
    {
        while (!_stop.IsCancellationRequested)
        {
            try
            {
                Socket socket = await _listener.AcceptAsync(_stop.Token).ConfigureAwait(false);
                socket.NoDelay = true;
                await _places.WaitAsync(_stop.Token).ConfigureAwait(false);
                _ = AdmitAsync(new FeedConnection(this, socket, _stop.Token));
            }
            catch (Exception e) when (e is SocketException or OperationCanceledException or ObjectDisposedException)
            {
                // A connection that vanished while being accepted, or the end of the feed.
            }
        }
    }

    // Beside each other: a stranger has some seconds to authenticate, and Redis shall not have to wait for that.
    private async Task AdmitAsync(FeedConnection connection)
    {
        try
        {
            if (!await connection.AuthenticateAsync(_options).ConfigureAwait(false))
            {
                await connection.CloseAsync().ConfigureAwait(false);
                return;
            }
            await _change.WaitAsync().ConfigureAwait(false);
            if (_connection is { } former)
                await former.CloseAsync().ConfigureAwait(false);
            _connection = connection;
            connection.Run();
            _change.Release();
        }
        finally
        {
            _places.Release();
        }
    }

    internal bool SecretMatches(string user, string password) => user == SecretUser
        && CryptographicOperations.FixedTimeEquals(Encoding.ASCII.GetBytes(Secret), Encoding.UTF8.GetBytes(password));

    internal void Acknowledge(long offset) => Volatile.Write(ref _offsetAcknowledged, offset);

    internal void ConnectionEnded() => Wake(_ended);

    // Whether `PSYNC <id> <offset + 1>` can be continued. Redis asks so when only the connection broke: then it may have more than was
    // sent to the end, but nothing beyond the target.
    internal bool CanContinue(string replicationId, long offset) =>
        replicationId == ReplicationId && offset >= _announcedOffset && offset <= TargetOffset;

    // Whether it may have the base; if not, that it asked is remembered.
    internal bool MayLoad()
    {
        _hasRefused |= !_servesBase;
        return _servesBase;
    }

    internal string FullAnswer() => string.Create(CultureInfo.InvariantCulture, $"+FULLRESYNC {ReplicationId} {_announcedOffset}\r\n");

    internal async Task SendBaseAsync(FeedConnection connection, CancellationToken cancellation)
    {
        _phase = FeedPhase.SendingBase;
        Volatile.Write(ref _baseBytesSent, 0);
        string mark = Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(20));
        string head = connection.SpeaksEof ? $"$EOF:{mark}\r\n" : string.Create(CultureInfo.InvariantCulture, $"${_baseBytes}\r\n");
        await connection.SendAsync(Encoding.ASCII.GetBytes(head), cancellation).ConfigureAwait(false);
        if (_plan.BaseFile is null)
        {
            await connection.SendAsync(_base, cancellation).ConfigureAwait(false);
            Volatile.Write(ref _baseBytesSent, _baseBytes);
        }
        else
        {
            await SendFileAsync(connection, _plan.BaseFile, cancellation).ConfigureAwait(false);
        }
        if (connection.SpeaksEof)
            await connection.SendAsync(Encoding.ASCII.GetBytes(mark), cancellation).ConfigureAwait(false);
        _phase = FeedPhase.Loading;
    }

    internal async Task SendTailAsync(FeedConnection connection, long from, CancellationToken cancellation)
    {
        if (from < _plan.BaseOffset)
        {
            // Only from == announced is possible here: Redis stops at command boundaries, and the SELECT is one command.
            await connection.SendAsync(_select, cancellation).ConfigureAwait(false);
            from = _plan.BaseOffset;
        }
        var rewriter = new TailRewriter(_plan.History, from);
        Volatile.Write(ref _offsetSent, from);
        while (true)
        {
            long target = TargetOffset;
            switch (rewriter.Next(target, out ReadOnlyMemory<byte> bytes))
            {
                case RewriteState.Produced:
                    _phase = FeedPhase.SendingTail;
                    await connection.SendAsync(bytes, cancellation).ConfigureAwait(false);
                    Volatile.Write(ref _offsetSent, rewriter.Position);
                    Suppressed = rewriter.Suppressed;
                    break;
                case RewriteState.AtLimit:
                    _phase = FeedPhase.Sent;
                    await _extended.WaitAsync(cancellation).ConfigureAwait(false);
                    break;
                case RewriteState.InsideCommand:
                    Fail(target, string.Create(CultureInfo.InvariantCulture,
                        $"The target offset {target} lies inside a command or a transaction; only an offset between commands "
                            + $"can be restored."));
                    await _extended.WaitAsync(cancellation).ConfigureAwait(false);
                    break;
                default:
                    Fail(target, string.Create(CultureInfo.InvariantCulture,
                        $"The history ends at or soon after offset {rewriter.Position}, below the target {target}."));
                    await _extended.WaitAsync(cancellation).ConfigureAwait(false);
                    break;
            }
        }
    }

    // The history cannot be read: Redis asks again at once when its connection ends, so that must wait, too.
    internal Task FailAsync(string reason, CancellationToken cancellation)
    {
        Fail(TargetOffset, reason);
        return _extended.WaitAsync(cancellation);
    }

    private void Fail(long target, string reason)
    {
        _trouble = new Trouble(target, reason);
        _phase = FeedPhase.Failed;
    }

    private static void Wake(SemaphoreSlim waiting)
    {
        try
        {
            waiting.Release();
        }
        catch (SemaphoreFullException)
        {
            // It is awake, or will be.
        }
    }

    private async Task SendFileAsync(FeedConnection connection, string path, CancellationToken cancellation)
    {
        await using var file = new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete, 0,
            FileOptions.Asynchronous | FileOptions.SequentialScan);
        if (file.Length != _baseBytes)
        {
            throw new IOException($"the base file {path} changed its size while it was served");
        }
        byte[] buffer = new byte[1 << 20];
        int read;
        while ((read = await file.ReadAsync(buffer, cancellation).ConfigureAwait(false)) > 0)
        {
            await connection.SendAsync(buffer.AsMemory(0, read), cancellation).ConfigureAwait(false);
            Volatile.Write(ref _baseBytesSent, _baseBytesSent + read);
        }
    }

    private static byte[] Select(int database)
    {
        string number = database.ToString(CultureInfo.InvariantCulture);
        return Encoding.ASCII.GetBytes($"*2\r\n$6\r\nSELECT\r\n${number.Length}\r\n{number}\r\n");
    }
}

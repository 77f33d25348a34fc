// Ships one shard's version log to its backup: performs what Core's Shipper decides. One task sends, one reads replies, and both change the
// machine under its lock. It looks at the log by itself, woken by whoever appends, syncs or records a cut, so that none of those ever
// waits for it.
//
// It lives as long as the shard's log is one history: when that begins anew, another is made.
using System.Buffers;
using System.Diagnostics;
using System.Globalization;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Replication.Links;
using Slogger.Replication.Seeding;

namespace Slogger.Replication.Sending;

/// <summary>Ships one shard's log.</summary>
internal sealed partial class ShardShipper : IAsyncDisposable
{
    private const long PeriodUs = 250_000, SeedingPeriodUs = 5_000;
    private const string NotYet = "not connected yet";
    private static readonly TimeSpan ReconnectFirst = TimeSpan.FromMilliseconds(20), ReconnectMax =
        TimeSpan.FromMilliseconds(100), ReasonLimit = TimeSpan.FromMilliseconds(500);
    private static readonly TimeSpan TakenLimit = TimeSpan.FromSeconds(10), DetachedPeriod = TimeSpan.FromMilliseconds(50);

    private readonly VersionLog _log;
    private readonly IShipConnector _connector;
    private readonly IShipperListener _listener;
    private readonly ILogger _report;
    private readonly ShardId _stream;
    private readonly Sender _self;
    private readonly Shipper _machine;
    private readonly Lock _lock = new();
    private readonly LogPieces _pieces;
    private readonly List<VersionEnd> _ends = [];
    private readonly List<ShipperEffect> _effects = [], _replied = [], _attached = [];
    private readonly WakeSignal _wanted = new();
    private readonly CancellationTokenSource _stop = new();
    private readonly Task _running;
    private readonly WindowsAhead _windows;
    private long _bytesSent;
    private readonly LastingLoss _loss = new();
    private volatile string? _problem = NotYet;
    private volatile bool _hasAnswered;
    private long _ticksAtUs;                    // when the timer wakes it; 0: it has, and is to be set
    private readonly int _fewBytes;
    private long _lookedTo;                     // the log's end at the last look

    /// <summary>Begins to ship.</summary>
    /// <param name="log">The shard's log, which is not empty; with a tail in memory (<see cref="VersionLogOptions.TailBytes"/>), so that
    /// what is not durable yet can be shipped.</param>
    /// <param name="stream">The shard.</param>
    /// <param name="self">This process of it.</param>
    /// <param name="options">Bounds.</param>
    /// <param name="connector">The way to the receiver.</param>
    /// <param name="listener">Is told what happens.</param>
    /// <param name="report">For people.</param>
    public ShardShipper(VersionLog log, ShardId stream, Sender self, ShipperOptions options, IShipConnector connector,
        IShipperListener listener, ILogger report)
    {
        (_log, _stream, _self, _connector, _listener, _report) = (log, stream, self, connector, listener, report);
        _flow = new(options);
        _fewBytes = options.FewBytes;
        _pieces = new(log);
        LogIndex end = LogIndex.Min(log.DurableEnd, listener.Ready(log));
        _machine = new(stream, self, log.History, log.Branches.Where(b => b.Line <= end.Line), log.StartOffset, end, listener.RecordedCut,
            options)
        {
            First = listener.IsFollower ? log.Lines.Begins[0] : default, Committed = LogIndex.Min(listener.Durable(log), end),
        };
        _windows = new(log, _machine, Math.Min(options.WindowBytes, ShipWindow.BytesMax), Wake, e => _report.Warn(
            $"shard {_stream}: a part of the log could not be reduced for {Receiver}, and is sent as it is: {e.Message}"), _stop.Token);
        _running = Task.Run(RunAsync);
    }

    /// <summary>The log is needed from this offset on; null: not for the backup.</summary>
    public long? KeepFrom
    {
        get
        {
            lock (_lock) { return _machine.KeepFrom; }
        }
    }

    /// <summary>How far it is.</summary>
    public ShipperStatus Status
    {
        get
        {
            lock (_lock)
            {
                return new(_machine.State, _log.End, _machine.Received, _machine.BackedUp, _machine.Watermark,
                    Volatile.Read(ref _bytesSent), _problem)
                {
                    BytesSpared = _machine.BytesSpared, SendsWindows = _machine.SendsWindows,
                    Generation = _machine.Generation, WindowUsed = _machine.WindowUsed, Kept = _machine.Kept,
                    Seeding = _machine.State == ShipperState.AwaitsSeed ? Volatile.Read(ref _seeding)?.Of : null,
                };
            }
        }
    }

    /// <summary>The cut has moved on, or it is to look at the log for another reason. Any thread; never waits.</summary>
    public void Wake() => _wanted.Set();

    /// <summary>There are more bytes in the log. A few go with the next cut. Any thread; never waits.</summary>
    /// <param name="end">Up to which offset.</param>
    public void Appended(long end)
    {
        if (end - Volatile.Read(ref _lookedTo) >= _fewBytes) { Wake(); }
    }

    /// <summary>More of the log is durable. Most often that goes with the next cut. Any thread; never waits.</summary>
    public void Synced()
    {
        // While somebody is at the machine, what he has seen of the log is not known.
        if (!_lock.TryEnter())
        {
            Wake();
            return;
        }
        bool isAwaited = _machine.AwaitsSync;
        _lock.Exit();
        if (isAwaited) { Wake(); }
    }

    /// <summary>A backup that was given up is wanted again: it has to be seeded. Any thread.</summary>
    /// <returns>Whether it ships, or will when it has been seeded.</returns>
    public bool Attach()
    {
        lock (_lock)
        {
            _machine.Attach(NowUs, _attached);
            if (_machine.State == ShipperState.Deposed) { return false; }
        }
        Wake();
        return true;
    }

    /// <summary>Nothing more is said, but for what is on its way. Any thread; never waits.</summary>
    public void FallSilent() => _ = _stop.CancelAsync();

    /// <summary>Stops. What was not shipped is in the log.</summary>
    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        await _running.ConfigureAwait(false);
        await _windows.EndAsync().ConfigureAwait(false);
        _pieces.Dispose();
        PauseCopy();
        _stop.Dispose();
    }

    private async Task RunAsync()
    {
        TimeSpan pause = ReconnectFirst;
        while (!_stop.IsCancellationRequested && State != ShipperState.Deposed)
        {
            try
            {
                LookWhileAway();
                if (State == ShipperState.Detached)
                {
                    // Until it is wanted again.
                    await Task.Delay(DetachedPeriod, _stop.Token).ConfigureAwait(false);
                    continue;
                }
                await using IShipLink link = await _connector.ConnectAsync(_stop.Token).ConfigureAwait(false);
                await ServeAsync(link).ConfigureAwait(false);
            }
            catch (ShipLinkException e)
            {
                SayLost(e);
                _problem = e.Message;
            }
            catch (OperationCanceledException) when (_stop.IsCancellationRequested)
            {
                return;
            }
            catch (Exception e)
            {
                _problem = e.Message;
                _listener.OnShippingFailed(e);
                return;
            }
            // Whoever refuses this shipper does so only when it has spoken.
            if (_hasAnswered) { pause = ReconnectFirst; }
            _hasAnswered = false;
            await Task.Delay(pause, _stop.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            pause = TimeSpan.FromTicks(Math.Min(pause.Ticks * 2, ReconnectMax.Ticks));
        }
    }

    // A seeding, a takeover and a start end the way for a moment: that is told, and only what lasts is a warning.
    private void SayLost(ShipLinkException e)
    {
        if (_problem is null or NotYet)
        {
            _loss.Over();
            if (!e.NeedsPerson)
            {
                string what = _problem is null ? $"shipping to {_connector.Target} has stopped"
                    : $"{Receiver} does not take the log yet";
                _report.Info($"shard {_stream}: {what}, and is tried again: {e.Message}");
            }
        }
        if (!_loss.IsToTell(e.NeedsPerson)) { return; }
        string since = e.NeedsPerson ? "" : string.Create(CultureInfo.InvariantCulture, $" since {LastingLoss.WarnAfter.TotalSeconds:0} s");
        _report.Warn($"shard {_stream}: {Receiver} does not take the log{since}, and is tried again: {e.Message}");
    }

    // For people.
    private string Receiver => (_listener.IsFollower ? "node " : "the backup at ") + _connector.Target;

    private ShipperState State
    {
        get
        {
            lock (_lock) { return _machine.State; }
        }
    }

    private long UsToNextTick(long nowUs)
    {
        lock (_lock)
        {
            return Math.Clamp(_machine.UsToNextTick(nowUs), 0, _machine.State == ShipperState.AwaitsSeed ? SeedingPeriodUs : PeriodUs);
        }
    }

    // The log that is kept grows, whether anybody is there or not.
    private void LookWhileAway()
    {
        lock (_lock)
        {
            LookAtLog();
            _windows.Keep();
            _machine.Tick(NowUs, _pieces, _effects);
        }
        PerformHere();
    }

    private async Task ServeAsync(IShipLink link)
    {
        using var ended = CancellationTokenSource.CreateLinkedTokenSource(_stop.Token);
        await using CancellationTokenRegistration ending = ended.Token.UnsafeRegister(static o => ((ShardShipper)o!).Wake(), this);
        Volatile.Write(ref _ticksAtUs, 0);
        await using var ticking = new Timer(static o =>
        {
            var self = (ShardShipper)o!;
            Volatile.Write(ref self._ticksAtUs, 0);
            self.Wake();
        }, this, Timeout.Infinite, Timeout.Infinite);
        Task reading = ReadAsync(link, ended);
        try
        {
            _listener.OnLinked();
            lock (_lock) { _machine.Connected(NowUs, _effects); }
            bool isOpen = await PerformAsync(link).ConfigureAwait(false);
            while (isOpen && !ended.IsCancellationRequested)
            {
                lock (_lock)
                {
                    LookAtLog();
                    _windows.Keep();
                    _machine.Tick(NowUs, _pieces, _effects);
                    _effects.InsertRange(0, _replied);
                    _replied.Clear();
                    _effects.AddRange(_attached);
                    _attached.Clear();
                }
                bool isIdle = _effects.Count == 0;
                isOpen = await PerformAsync(link).ConfigureAwait(false);
                if (isOpen && await SendCopyAsync(link, ended.Token).ConfigureAwait(false) is { } sent)
                {
                    (isOpen, isIdle) = (sent, false);
                }
                if (!isIdle) { continue; }
                long nowUs = NowUs, waitUs = UsToNextTick(nowUs);
                // It need not be set anew for each message: that it comes too early costs less.
                if (Volatile.Read(ref _ticksAtUs) is var at && (at == 0 || nowUs + waitUs < at))
                {
                    Volatile.Write(ref _ticksAtUs, nowUs + waitUs);
                    ticking.Change((waitUs + 999) / 1000, Timeout.Infinite);
                }
                await _wanted.WaitAsync().ConfigureAwait(false);
            }
        }
        finally
        {
            // A link that takes nothing any more has a reason, which the reader is about to hear.
            if (!_stop.IsCancellationRequested)
            {
                await Task.WhenAny(reading, Task.Delay(ReasonLimit, CancellationToken.None)).ConfigureAwait(false);
            }
            await ended.CancelAsync().ConfigureAwait(false);
            lock (_lock)
            {
                _machine.Disconnected();
                _effects.AddRange(_replied);
                _replied.Clear();
                _attached.Clear();
            }
            PauseCopy();
            // What was to be said is lost with the link; what the shard is to do is not.
            PerformHere();
            // It knows why the link has ended, and says so.
            await reading.ConfigureAwait(false);
        }
    }

    private async Task ReadAsync(IShipLink link, CancellationTokenSource ended)
    {
        try
        {
            while (true)
            {
                ShipReply reply = await link.ReceiveAsync(ended.Token).ConfigureAwait(false);
                _hasAnswered = true;
                if (_problem is not null) { _report.Info($"shard {_stream}: ships to {_connector.Target}"); }
                _problem = null;
                if (reply.Kind == ShipReplyKind.Welcome) { _listener.OnWelcomed(); }
                WorldPoint before, after;
                bool isSeeded, isToSend;
                lock (_lock)
                {
                    before = _machine.Watermark;
                    isSeeded = _machine.State == ShipperState.AwaitsSeed;
                    isToSend = _machine.Replied(reply, NowUs, _replied);
                    after = _machine.Watermark;
                    isSeeded &= _machine.State == ShipperState.Shipping;
                }
                if (isSeeded) { _report.Info($"shard {_stream}: {Receiver} is seeded, and follows"); }
                _listener.OnReplied(reply);
                if (after > before) { _listener.OnWatermark(after); }
                if (isToSend) { Wake(); }
            }
        }
        catch (OperationCanceledException)
        {
            // As asked.
        }
        finally
        {
            await ended.CancelAsync().ConfigureAwait(false);
        }
    }

    // Under the lock. The cut is read first: what is said to be durable is to cover it.
    private void LookAtLog()
    {
        long heardUs = _listener.HeardUs;
        WorldPoint cut = _listener.RecordedCut;
        (LogIndex end, LogIndex synced) = (_log.End, _log.DurableEnd);
        // A world-line begins between the two: the next look sees both.
        if (end.Line != synced.Line) { return; }
        end = LogIndex.Min(end, _listener.Ready(_log));
        foreach (LogBranch branch in _log.Branches)
        {
            if (branch.Line <= end.Line) { _machine.Branched(branch); }
        }
        Volatile.Write(ref _lookedTo, end.Offset);
        _machine.Appended(end);
        _machine.Synced(LogIndex.Min(_listener.Durable(_log), end));
        _machine.CutRecorded(cut);
        _machine.HeardUs = _listener.IsCurrent ? heardUs : 0;
        _machine.Admits = _listener.Admits;
    }

    private async ValueTask<bool> PerformAsync(IShipLink link)
    {
        bool isOpen = true;
        int done = 0;
        try
        {
            while (done < _effects.Count && isOpen)
            {
                ShipperEffect effect = _effects[done++];
                switch (effect)
                {
                    case ShipperEffect.Send send:
                        isOpen = await SendAsync(link, send.Request, isLast: done == _effects.Count).ConfigureAwait(false);
                        break;
                    case ShipperEffect.Seed seed:
                        SayWhy(seed.Why);
                        isOpen = await SendAsync(link, new ShipRequest.WantsSeed(_stream, _self, seed.Generation),
                            isLast: true).ConfigureAwait(false);
                        break;
                    default:
                        Perform(effect);
                        break;
                }
            }
        }
        finally
        {
            // What was done is not done again, however this ends.
            _effects.RemoveRange(0, done);
        }
        return isOpen;
    }

    private void Perform(ShipperEffect effect)
    {
        switch (effect)
        {
            case ShipperEffect.Copy copy:
                Asked(copy.Ask);
                break;
            case ShipperEffect.HoldWrites hold:
                _listener.HoldWrites(hold.IsHeld);
                break;
            case ShipperEffect.Warn warn:
                _report.Warn($"shard {_stream}: {warn.KeptBytes >> 20} MiB of the log are kept for {Receiver}, "
                    + "which does not keep up or cannot be reached");
                break;
            case ShipperEffect.Detached:
                _report.Warn($"shard {_stream}: {Receiver} was given up, since the log that was kept for it was at "
                    + "its budget: it has to be seeded again");
                break;
            case ShipperEffect.ShardTaken taken:
                _listener.OnShippingDeposed(taken.By, isSite: false);
                break;
            case ShipperEffect.SiteDeposed deposed:
                _listener.OnShippingDeposed(deposed.By, isSite: true);
                break;
            default:
                throw new UnreachableException();
        }
    }

    private void PerformHere()
    {
        foreach (ShipperEffect effect in _effects)
        {
            if (effect is not (ShipperEffect.Send or ShipperEffect.Seed)) { Perform(effect); }
        }
        _effects.Clear();
    }

    private async ValueTask<bool> SendAsync(IShipLink link, ShipRequest request, bool isLast)
    {
        _ends.Clear();
        if (request is not ShipRequest.Piece { IsHeartbeat: false, IsBranch: false } piece)
        {
            return await TakenAsync(link.SendAsync(new(request, default, _ends), isLast)).ConfigureAwait(false);
        }
        if (piece.Window is { } window) { return await SendPartAsync(link, piece, window, isLast).ConfigureAwait(false); }
        int length = (int)(piece.To.Offset - piece.From.Offset);
        byte[] bytes = ArrayPool<byte>.Shared.Rent(length);
        bool isOpen = true;
        // Gone meanwhile: for the machine it was lost on the way.
        if (_pieces.Read(piece.From, piece.To, bytes.AsSpan(0, length), _ends))
        {
            Volatile.Write(ref _bytesSent, _bytesSent + length);
            isOpen = await TakenAsync(link.SendAsync(new(request, new(bytes, 0, length), _ends), isLast)).ConfigureAwait(false);
        }
        // Not if the link is over: somebody may be sending them yet.
        if (isOpen) { ArrayPool<byte>.Shared.Return(bytes); }
        return isOpen;
    }

    private async ValueTask<bool> SendPartAsync(IShipLink link, ShipRequest.Piece piece, ShipWindow window, bool isLast)
    {
        // Forgotten meanwhile: for the machine it was lost on the way.
        if (_windows.Find(window) is not { } made) { return true; }
        var bytes = new ReadOnlyMemory<byte>(made.Bytes, (int)(piece.From.Offset - window.From.Offset), (int)piece.DataBytes);
        if (piece.To == window.To) { _ends.Add(new(made.End, IsEmptyRun: false, EndsWindow: true)); }
        Volatile.Write(ref _bytesSent, _bytesSent + bytes.Length);
        return await TakenAsync(link.SendAsync(new(piece, new(bytes), _ends), isLast)).ConfigureAwait(false);
    }

    // Who does not read holds up everything here, and the log grows.
    private async ValueTask<bool> TakenAsync(ValueTask<bool> sending)
    {
        if (sending.IsCompletedSuccessfully) { return sending.Result; }
        try
        {
            return await sending.AsTask().WaitAsync(TakenLimit, _stop.Token).ConfigureAwait(false);
        }
        catch (TimeoutException e)
        {
            throw new ShipLinkException($"the receiver has taken nothing for {TakenLimit.TotalSeconds} s", e);
        }
    }

    // What is sent bears this time, and the lease runs from there.
    private static long NowUs => LeaseClock.NowUs;
}

// The connection to one shard, shared by all sessions: batches go out in the order in which they begin, answers come back in
// that order. It connects again by itself. Each new connection begins with a probe (a batch of the client's own session):
// it waits while the shard's store is being recovered, and a world-line that has passed is answered with its branch. Only
// after that is it known what became of the batches of the connection before: if the world-line is the same, the shard is asked how
// far it has executed them; the rest is uncertain.
//
// Locks: a session's before the link's, never the other way round.
using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;
using Microsoft.Extensions.Logging;
using Slogger.Client.Wire;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Slogger.Resp;

namespace Slogger.Client;

internal sealed partial class Link
{
    private const int BufferKeptMax = 1 << 20;
    private const int BooksMs = 250;
    private readonly SloggerClient _client;
    private readonly Address _address;
    private readonly ILogger _logger;
    private readonly bool _readsBackup;
    private readonly CancellationTokenSource _stop = new();
    private readonly Lock _gate = new();
    private readonly Queue<Batch> _sent = new();
    private RequestWriter _out = new(BufferKeptMax), _writing = new(BufferKeptMax);
    private RespChannel? _channel;       // while live
    private bool _isSending, _isStarted, _wasLive;
    private Task _running = Task.CompletedTask;
    private long _brokenSince = Stopwatch.GetTimestamp();
    private Exception? _brokenBy;

    public Link(SloggerClient client, Address address, int index)
    {
        (_client, _address, Index, Name) = (client, address, index, address.ToString());
        _logger = client.LoggerFor<Link>();
        _readsBackup = client.Options.ReadsBackup;
    }

    /// <summary>Its place among the client's links.</summary>
    public int Index { get; }

    /// <summary>HOST:PORT.</summary>
    public string Name { get; }

    public Address Address => _address;

    /// <summary>Which shard it is. Known once it was live.</summary>
    public ShardId Shard { get; private set; }

    /// <summary>Begins to connect, if that has not been asked for.</summary>
    public void Start()
    {
        lock (_gate)
        {
            if (_isStarted) { return; }
            _isStarted = true;
            _running = Task.Run(RunAsync);
        }
    }

    /// <summary>Gives a batch its numbers and puts it on its way, if there is a connection.</summary>
    /// <returns>False: there is none, or the session has no room; nothing has begun.</returns>
    public bool TrySend(Batch batch, ClientSession machine, out bool hasRoom)
    {
        hasRoom = true;
        lock (_gate)
        {
            if (_channel is null) { return false; }
            hasRoom = machine.TryBegin(Shard, batch.Requests, out BatchHeader header);
            if (!hasRoom) { return false; }
            batch.Begin(header);
            if (_readsBackup) { BackupWire.WriteHeader(_out, header.AtLeast); }
            else { WriteHeader(_out, header, batch.Session.IdText); }
            _out.AddRaw(batch.Bytes);
            if (_readsBackup) { BackupWire.WriteTrailer(_out); }
            _sent.Enqueue(batch);
            return true;
        }
    }

    /// <summary>Sends what is there to be sent, unless that is being done. To be called without a lock after TrySend.</summary>
    public void Flush()
    {
        RespChannel channel;
        lock (_gate)
        {
            if (_isSending || _channel is null || _out.Length == 0) { return; }
            _isSending = true;
            channel = _channel;
        }

        _ = SendAsync(channel);
    }

    /// <summary>Gives the connection up: behind what is on its way of an abandoned world-line nothing new may be sent.</summary>
    public void Drop()
    {
        RespChannel? channel;
        lock (_gate) { (channel, _channel) = (_channel, null); }
        channel?.Dispose();
    }

    public async ValueTask StopAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        lock (_gate) { _isStarted = true; }
        Drop();
        await _running.ConfigureAwait(false);
        _stop.Dispose();
    }

    public static void WriteHeader(RequestWriter to, in BatchHeader header, string session)
    {
        ReadOnlySpan<Core.Cuts.Dependency> dependencies = header.Dependencies.Span;
        to.Begin(6 + (3 * dependencies.Length)).Add("DPR.BATCH"u8).Add(session).Add(header.WorldLine.Number).Add(header.AtLeast.Number)
            .Add(header.First.Number).Add(header.Count);
        foreach (Core.Cuts.Dependency d in dependencies) { to.Add("DEP"u8).Add(d.Shard.Number).Add(d.Version.Number); }
    }

    private async Task SendAsync(RespChannel channel)
    {
        try
        {
            while (true)
            {
                lock (_gate)
                {
                    _writing.Clear();
                    if (_channel != channel || _out.Length == 0)
                    {
                        _isSending = false;
                        // Another connection may have come meanwhile, and its sender seen this one at work.
                        if (_channel is null || _out.Length == 0) { return; }
                        _isSending = true;
                        channel = _channel;
                    }

                    (_out, _writing) = (_writing, _out);
                }

                await channel.Stream.WriteAsync(_writing.WrittenMemory, _stop.Token).ConfigureAwait(false);
            }
        }
        catch (Exception e) when (IsBroken(e))
        {
            // What was answered before is still to be read: the reader finds the end by itself.
            lock (_gate)
            {
                _isSending = false;
                if (_channel == channel) { return; }
            }

            Flush();
        }
    }

    // What ends a connection, but is no fault of this program.
    public static bool IsBroken(Exception e) =>
        e is IOException or ObjectDisposedException or OperationCanceledException or System.Net.Sockets.SocketException
            or InvalidDataException
            or SloggerException or System.Security.Authentication.AuthenticationException;

    private async Task RunAsync()
    {
        TimeSpan pause = _client.Options.ReconnectDelayMin;
        while (!_stop.IsCancellationRequested)
        {
            Exception why;
            try
            {
                RespChannel channel = await OpenAsync().ConfigureAwait(false);
                pause = _client.Options.ReconnectDelayMin;
                _client.OnLive(this);
                _brokenBy = why = await ReadAsync(channel).ConfigureAwait(false);
                LogBroken(Name, why.Message);
            }
            catch (RefusedException refused) when (refused.Branch is { } branch)
            {
                // Known now: the next attempt is one in the new world-line.
                _client.OnRollback(branch);
                continue;
            }
            catch (Exception e) when (IsBroken(e))
            {
                why = e;
                LogNotConnected(Name, e.Message);
                _client.Discovery.RefreshSoon();
                if (Stopwatch.GetElapsedTime(_brokenSince) > _client.Options.GiveUpAfter) { GiveUp(why); }
                await Task.Delay(pause).ConfigureAwait(false);
                pause = TimeSpan.FromTicks(Math.Min(pause.Ticks * 2, _client.Options.ReconnectDelayMax.Ticks));
            }
            catch (Exception e)
            {
                // No connection's fault: what sessions were told, or are about to be told, cannot be relied on.
                _client.OnBroken(e);
                return;
            }
        }
    }

    /// <summary>Connects, and probes; then tells sessions what is uncertain, and lets them in.</summary>
    private async Task<RespChannel> OpenAsync()
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(_stop.Token);
        limit.CancelAfter(_client.Options.ConnectTimeout);
        RespChannel? channel = null;
        try
        {
            channel = await _client.Discovery.OpenAsync(_address, limit.Token).ConfigureAwait(false);
            Hello hello = await _client.Discovery.AskAsync(channel, limit.Token).ConfigureAwait(false);
            _client.Discovery.CheckCluster(hello, Name);
            WorldLine line = _client.WorldLine;
            Dictionary<SloggerSession, Executed> executed = _readsBackup ? []
                : await ProbeAsync(channel, hello.Shard, line, limit.Token).ConfigureAwait(false);
            if (!_client.TryEnter(line, () => BecomeLive(channel, hello.Shard, executed)))
            {
                throw new IOException("another world-line began meanwhile");
            }
            Telemetry.Connections.Add(1);
            LogConnected(Name, hello.Shard.Number, line.Number);
            return channel;
        }
        catch (Exception e)
        {
            channel?.Dispose();
            if (e is OperationCanceledException && !_stop.IsCancellationRequested)
            {
                throw new IOException($"no connection within {_client.Options.ConnectTimeout.TotalSeconds:0.#} s", e);
            }

            throw;
        }
    }

    private async Task<Dictionary<SloggerSession, Executed>> ProbeAsync(
        RespChannel channel, ShardId shard, WorldLine line, CancellationToken cancellation)
    {
        ProbeAnswer probe = await Probe.SendAsync(channel, _client.NextProbe(line, default), cancellation).ConfigureAwait(false);
        _client.OnCommitted(probe.Cut);
        return await AskExecutedAsync(channel, shard, line, cancellation).ConfigureAwait(false);
    }

    /// <summary>Asks how far the sessions that had something under way at the shard, over whatever link, have come there. What was executed
    /// before the probe is in the shard's books when the probe is committed: that is waited for, a little.</summary>
    private async Task<Dictionary<SloggerSession, Executed>> AskExecutedAsync(
        RespChannel channel, ShardId shard, WorldLine line, CancellationToken cancellation)
    {
        SloggerSession[] sessions = [.. _client.Routes.Links.SelectMany(l => l.SessionsUnderWayAt(shard)).Distinct()];
        var executed = new Dictionary<SloggerSession, Executed>();
        if (sessions.Length == 0) { return executed; }
        channel.Write("DPR.WAIT", "*", BooksMs);
        foreach (SloggerSession session in sessions) { Hello.Write(channel, session.Id); }
        await channel.SendAsync(cancellation).ConfigureAwait(false);
        _ = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        foreach (SloggerSession session in sessions)
        {
            Hello hello = await Hello.ReadAsync(channel, cancellation).ConfigureAwait(false);
            if (hello.WorldLine != line) { throw new IOException("another world-line began meanwhile"); }
            if (hello.Executed is { } known) { executed.Add(session, known); }
        }

        return executed;
    }

    private SloggerSession[] SessionsUnderWayAt(ShardId shard)
    {
        lock (_gate) { return _wasLive && Shard == shard ? [.. _sent.Select(b => b.Session).Distinct()] : []; }
    }

    private void BecomeLive(RespChannel channel, ShardId shard, Dictionary<SloggerSession, Executed> executed)
    {
        // What was executed is known of the shard that is here now.
        Settle(new IOException(_brokenBy is { } why ? $"the connection broke: {why.Message}" : "the connection broke", _brokenBy),
            Shard == shard ? executed : null);
        // A shard that has moved to another address has one link from now on.
        foreach (Link other in _client.Routes.Links) { other.Yield(this, shard, executed); }
        // Nothing is under way there any more; and the shard may have forgotten what it was told.
        foreach (SloggerSession session in _client.Sessions()) { session.OnNewConnection(shard); }
        lock (_gate)
        {
            if (_stop.IsCancellationRequested) { throw new OperationCanceledException(); }
            (Shard, _wasLive, _channel) = (shard, true, channel);
            _out.Clear();
        }
    }

    private void Yield(Link to, ShardId shard, Dictionary<SloggerSession, Executed> executed)
    {
        if (to == this || !_wasLive || Shard != shard) { return; }
        Drop();
        Settle(new IOException($"the shard is at {to.Name} now"), executed);
    }

    /// <summary>The world-line is the same: what was under way on the connection before is uncertain, unless it is known to be
    /// executed.</summary>
    private void Settle(Exception why, Dictionary<SloggerSession, Executed>? executed)
    {
        Batch[] left;
        lock (_gate)
        {
            left = [.. _sent];
            _sent.Clear();
        }

        foreach (SloggerSession session in left.Select(b => b.Session).Distinct())
        {
            session.OnConnectionLost(this, why, executed is not null && executed.TryGetValue(session, out Executed known) ? known
                : default);
        }
    }

    private void GiveUp(Exception why)
    {
        Settle(why, null);
        _client.OnUnreachable(this, why);
    }

    [LoggerMessage(EventId = 1, Level = LogLevel.Information, Message = "Connected to {Address}: shard {Shard}, world-line {WorldLine}.")]
    private partial void LogConnected(string address, int shard, long worldLine);

    [LoggerMessage(EventId = 2, Level = LogLevel.Warning, Message = "The connection to {Address} broke: {Why}. Connecting again.")]
    private partial void LogBroken(string address, string why);

    [LoggerMessage(EventId = 3, Level = LogLevel.Warning, Message = "No connection to {Address}: {Why}. Trying again.")]
    private partial void LogNotConnected(string address, string why);
}

// The connection to a cluster: one link to each shard (Routes), what is known of the cluster (Discovery), and the world-line, which
// all sessions of a client share. Whoever hears first that a world-line is over (a link, or the watch over commits) tells it here,
// and here every session learns it before anything is sent in the new one. Until a proxy has answered (FirstConnection) there are no
// sessions.
//
// Locks, in this order: _worldGate, a session's, a link's.
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Client.Wire;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client;

/// <summary>A client of one cluster. Its connections, one to each shard, are shared by any number of sessions. Thread-safe.</summary>
public sealed partial class SloggerClient : IAsyncDisposable
{
    private readonly ILoggerFactory _loggers;
    private readonly ILogger _logger;
    private readonly Lock _worldGate = new();
    private readonly Lock _cutGate = new();
    private readonly CancellationTokenSource _stop = new();
    private readonly FirstConnection _first;
    private SloggerSession[] _sessions = [];       // replaced, never changed; guarded by _worldGate
    private long _worldLine;
    private WorldPoint _cut;
    private long _probes;
    private int _isDisposed;

    private SloggerClient(SloggerClientOptions options)
    {
        Options = options;
        _loggers = options.LoggerFactory ?? NullLoggerFactory.Instance;
        _logger = LoggerFor<SloggerClient>();
        _first = new(options, _logger);
        Routes = new((address, index) => new Link(this, address, index));
        Discovery = new(this, Routes, _stop.Token);
        Watch = new(this);
    }

    /// <summary>The settings it was made with.</summary>
    public SloggerClientOptions Options { get; }

    /// <summary>Completes when a proxy has answered: from then on there is a cluster to work with, and the client connects again by itself
    /// whenever a connection breaks. Fails with an <see cref="ObjectDisposedException"/> if the client is disposed before that. It never
    /// fails because of what proxies say: the client goes on trying, and logs why. See <see cref="Start"/>.</summary>
    public Task Connected => _first.Made;

    /// <summary>The cluster's name.</summary>
    /// <exception cref="SloggerException">The client is not <see cref="Connected"/> yet.</exception>
    public string Cluster
    {
        get
        {
            _first.ThrowIfNotMade();
            return Discovery.Cluster;
        }
    }

    /// <summary>How the cluster's keys fall into partitions. What is done together (a transaction, a command with several keys) must have
    /// all of its keys in one.</summary>
    /// <exception cref="SloggerException">The client is not <see cref="Connected"/> yet.</exception>
    public Partitioning Partitions
    {
        get
        {
            _first.ThrowIfNotMade();
            return Discovery.Partitions;
        }
    }

    /// <summary>The timeline that the client knows; before it is <see cref="Connected"/> none, number 0.</summary>
    public WorldLine WorldLine => new(Volatile.Read(ref _worldLine));

    /// <summary>The session of the client's own probes.</summary>
    internal SessionId Id { get; } = SloggerSession.NewId();

    /// <summary>Connects to a cluster: asks the proxies in turn until one answers.</summary>
    /// <param name="options">Settings.</param>
    /// <param name="cancellation">Ends the attempt.</param>
    /// <exception cref="SloggerException">None of the endpoints answered, or one refused the login.</exception>
    public static async Task<SloggerClient> ConnectAsync(SloggerClientOptions options, CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        var client = new SloggerClient(options);
        try
        {
            await client.BeginAsync(cancellation).ConfigureAwait(false);
            client._first.IsMade();
            return client;
        }
        catch
        {
            await client.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>Connects to a cluster by some of its proxies, with default settings.</summary>
    public static Task<SloggerClient> ConnectAsync(params string[] endpoints) =>
        ConnectAsync(new SloggerClientOptions { Endpoints = endpoints });

    /// <summary>Makes a client that connects by itself, and returns at once: proxies may come later. It asks them in turn until one
    /// answers, with pauses from <see cref="SloggerClientOptions.ReconnectDelayMin"/> up to
    /// <see cref="SloggerClientOptions.ReconnectDelayMax"/>, and it logs why none does: each reason at most once a minute. A login that is
    /// refused is such a reason: the password may be changed. Wait for <see cref="Connected"/>, or open sessions by
    /// <see cref="OpenSessionAsync"/>.</summary>
    /// <exception cref="ArgumentException">The options say what cannot be.</exception>
    public static SloggerClient Start(SloggerClientOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        var client = new SloggerClient(options);
        client._first.Try(client.BeginAsync, client._stop.Token);
        return client;
    }

    /// <summary>Opens a session when the client is <see cref="Connected"/>, and waits for that. Nothing is sent: a session begins with its
    /// first operation.</summary>
    /// <exception cref="ObjectDisposedException">The client has been disposed.</exception>
    public async Task<SloggerSession> OpenSessionAsync(SloggerSessionOptions? options = null, CancellationToken cancellation = default)
    {
        await Connected.WaitAsync(cancellation).ConfigureAwait(false);
        return OpenSession(options);
    }

    /// <summary>Opens a session. Nothing is sent: a session begins with its first operation.</summary>
    /// <exception cref="SloggerException">The client is not <see cref="Connected"/> yet.</exception>
    /// <exception cref="ObjectDisposedException">The client has been disposed.</exception>
    public SloggerSession OpenSession(SloggerSessionOptions? options = null)
    {
        options ??= new();
        options.Check();
        lock (_worldGate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed != 0, this);
            _first.ThrowIfNotMade();
            var session = new SloggerSession(this, options, WorldLine);
            _sessions = [.. _sessions, session];
            return session;
        }
    }

    /// <summary>Begins a stretch of work that is done by another Redis client through the proxies of this cluster, such as
    /// StackExchange.Redis, so that its commit can be waited for. Waits until the client is <see cref="Connected"/>.</summary>
    /// <exception cref="SloggerException">A shard cannot be reached.</exception>
    public async Task<CommitScope> BeginScopeAsync(CancellationToken cancellation = default)
    {
        SloggerSession session = await OpenSessionAsync(cancellation: cancellation).ConfigureAwait(false);
        try
        {
            return await CommitScope.BeginAsync(session, cancellation).ConfigureAwait(false);
        }
        catch
        {
            await session.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>Closes all connections, and ends attempts to connect. Operations under way fail.</summary>
    public async ValueTask DisposeAsync()
    {
        if (Interlocked.Exchange(ref _isDisposed, 1) != 0) { return; }
        await _stop.CancelAsync().ConfigureAwait(false);
        await _first.EndAsync().ConfigureAwait(false);
        foreach (SloggerSession session in Sessions()) { await session.DisposeAsync().ConfigureAwait(false); }
        await Watch.StopAsync().ConfigureAwait(false);
        foreach (Link link in Routes.Links) { await link.StopAsync().ConfigureAwait(false); }
        await Discovery.EndAsync().ConfigureAwait(false);
        _stop.Dispose();
    }

    private async Task BeginAsync(CancellationToken cancellation)
    {
        await Discovery.DiscoverAsync(cancellation).ConfigureAwait(false);
        // What is read at a backup is committed.
        if (!Options.ReadsBackup) { Watch.Start(_stop.Token); }
    }

    internal ILogger LoggerFor<T>() => _loggers.CreateLogger<T>();

    /// <summary>Says so when the client is disposed.</summary>
    internal CancellationToken Stopping => _stop.Token;

    internal Routes Routes { get; }

    internal Discovery Discovery { get; }

    internal CommitWatch Watch { get; }

    internal void Forget(SloggerSession session)
    {
        lock (_worldGate) { _sessions = [.. _sessions.Where(s => s != session)]; }
    }

    internal SloggerSession[] Sessions()
    {
        lock (_worldGate) { return _sessions; }
    }

    /// <summary>A header of the client's own session.</summary>
    internal BatchHeader NextProbe(WorldLine line, VersionNumber atLeast) =>
        new(Id, line, atLeast, new(Interlocked.Increment(ref _probes)), 1, default);

    /// <summary>The cluster is in this world-line, says the first proxy that was asked.</summary>
    internal void BeginIn(WorldLine line) => Interlocked.CompareExchange(ref _worldLine, line.Number, 0);

    /// <summary>Does something unless the world-line has changed; it does not change meanwhile.</summary>
    internal bool TryEnter(WorldLine line, Action enter)
    {
        lock (_worldGate)
        {
            if (WorldLine != line) { return false; }
            enter();
            return true;
        }
    }

    /// <summary>A world-line is over. Only the first to say so is heard.</summary>
    internal void OnRollback(Branch branch)
    {
        lock (_worldGate)
        {
            if (branch.Abandoned != WorldLine || branch.WorldLine <= branch.Abandoned) { return; }
            // First nothing can be sent any more, then sessions move, then links come back.
            foreach (Link link in Routes.Links) { link.Drop(); }
            Volatile.Write(ref _worldLine, branch.WorldLine.Number);
            foreach (SloggerSession session in _sessions)
            {
                try
                {
                    session.OnRollback(branch);
                }
                catch (Exception e) when (e is BrokenInvariantException or ArgumentException)
                {
                    // What this session was told is not true, or the branch says nothing of a shard that it has used: it can say nothing
                    // more.
                    LogBroken(e);
                    session.Break(e);
                }
            }
        }

        LogRollback(branch.Abandoned.Number, branch.WorldLine.Number, branch.ToString());
    }

    /// <summary>A trailer says what is committed at every shard. Sessions are told what is news.</summary>
    internal void OnCommitted(WorldPoint uniform)
    {
        lock (_cutGate)
        {
            if (uniform <= _cut) { return; }
            _cut = uniform;
        }

        foreach (SloggerSession session in Volatile.Read(ref _sessions)) { session.OnCommitted(uniform); }
    }

    /// <summary>Somebody has asked what is committed at each shard. Sessions are told in any case: one may be younger than the
    /// news.</summary>
    internal void OnCommitted(Cut cut)
    {
        foreach (SloggerSession session in Volatile.Read(ref _sessions)) { session.OnCommitted(cut); }
    }

    /// <summary>Something went wrong that no connection explains. Sessions refuse everything from now on.</summary>
    internal void OnBroken(Exception why)
    {
        LogBroken(why);
        foreach (SloggerSession session in Sessions()) { session.Break(why); }
    }

    internal void OnLive(Link link)
    {
        foreach (SloggerSession session in Sessions()) { session.OnLive(link); }
    }

    internal void OnUnreachable(Link link, Exception why)
    {
        foreach (SloggerSession session in Sessions()) { session.OnUnreachable(link, why); }
    }

    /// <summary>For tests: believes that a slot is at an address.</summary>
    internal void OwnSlot(HashSlot slot, string address) => Routes.Own(slot.Number, slot.Number, Address.Parse(address));

    [LoggerMessage(EventId = 1, Level = LogLevel.Warning, Message = "World-line {Abandoned} is over: the cluster goes on in {WorldLine}, "
        + "from version {Branch}.")]
    private partial void LogRollback(long abandoned, long worldLine, string branch);

    [LoggerMessage(EventId = 3, Level = LogLevel.Critical, Message = "The client cannot go on: its sessions refuse everything from now "
        + "on.")]
    private partial void LogBroken(Exception why);
}

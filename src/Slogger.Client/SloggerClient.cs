// The connection to a cluster: one link to each shard (Routes), what is known of the cluster (Discovery), and the world-line, which
// all sessions of a client share. Whoever hears first that a world-line is over (a link, or the watch over commits) tells it here,
// and here every session learns it before anything is sent in the new one.
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
        Routes = new((address, index) => new Link(this, address, index));
        Discovery = new(this, Routes, _stop.Token);
        Watch = new(this);
    }

    /// <summary>The settings it was made with.</summary>
    public SloggerClientOptions Options { get; }

    /// <summary>The cluster's name.</summary>
    public string Cluster => Discovery.Cluster;

    /// <summary>How the cluster's keys fall into partitions. What is done together (a transaction, a command with several keys) must have
    /// all of its keys in one.</summary>
    public Partitioning Partitions => Discovery.Partitions;

    /// <summary>The timeline that the client knows.</summary>
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
            await client.Discovery.DiscoverAsync(cancellation).ConfigureAwait(false);
            // What is read at a backup is committed.
            if (!options.ReadsBackup) { client.Watch.Start(client._stop.Token); }
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

    /// <summary>Opens a session. Nothing is sent: a session begins with its first operation.</summary>
    public SloggerSession OpenSession(SloggerSessionOptions? options = null)
    {
        options ??= new();
        options.Check();
        lock (_worldGate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed != 0, this);
            var session = new SloggerSession(this, options, WorldLine);
            _sessions = [.. _sessions, session];
            return session;
        }
    }

    /// <summary>Begins a stretch of work that is done by another Redis client through the proxies of this cluster, such as
    /// StackExchange.Redis, so that its commit can be waited for.</summary>
    /// <exception cref="SloggerException">A shard cannot be reached.</exception>
    public async Task<CommitScope> BeginScopeAsync(CancellationToken cancellation = default)
    {
        SloggerSession session = OpenSession();
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

    /// <summary>Closes all connections. Operations under way fail.</summary>
    public async ValueTask DisposeAsync()
    {
        if (Interlocked.Exchange(ref _isDisposed, 1) != 0) { return; }
        await _stop.CancelAsync().ConfigureAwait(false);
        foreach (SloggerSession session in Sessions()) { await session.DisposeAsync().ConfigureAwait(false); }
        await Watch.StopAsync().ConfigureAwait(false);
        foreach (Link link in Routes.Links) { await link.StopAsync().ConfigureAwait(false); }
        await Discovery.EndAsync().ConfigureAwait(false);
        _stop.Dispose();
    }

    internal ILogger LoggerFor<T>() => _loggers.CreateLogger<T>();

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

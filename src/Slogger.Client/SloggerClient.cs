// The connection to a cluster: which proxies there are, which slots they own, one link to each, and the world-line, which all
// sessions of a client share. Whoever hears first that a world-line is over (a link, or the watch over commits) tells it here,
// and here every session learns it before anything is sent in the new one.
//
// Locks, in this order: _worldGate, a session's, a link's.
using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Client.Wire;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Slogger.Resp;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Client;

/// <summary>A client of one cluster. Its connections, one to each shard, are shared by any number of sessions. Thread-safe.</summary>
public sealed partial class SloggerClient : IAsyncDisposable
{
    private readonly ILoggerFactory _loggers;
    private readonly ILogger _logger;
    private readonly Lock _worldGate = new();
    private readonly Lock _cutGate = new();
    private readonly CancellationTokenSource _stop = new();
    private readonly ConcurrentDictionary<Address, Link> _links = new();
    private readonly Lock _linksGate = new();
    private readonly Link?[] _owners = new Link?[HashSlot.Count];
    private readonly Link?[] _served = new Link?[HashSlot.Count];
    private long _ownersChanged;
    private readonly CommitWatch _watch;
    private SloggerSession[] _sessions = [];       // replaced, never changed; guarded by _worldGate
    private KeyFinder _keys = null!;
    private Partitioning? _partitions;
    private string? _cluster;
    private long _worldLine;
    private WorldPoint _cut;
    private long _probes;
    private int _isDisposed;

    private SloggerClient(SloggerClientOptions options)
    {
        Options = options;
        _loggers = options.LoggerFactory ?? NullLoggerFactory.Instance;
        _logger = LoggerFor<SloggerClient>();
        _watch = new(this);
    }

    /// <summary>The settings it was made with.</summary>
    public SloggerClientOptions Options { get; }

    /// <summary>The cluster's name.</summary>
    public string Cluster => _cluster!;

    /// <summary>How the cluster's keys fall into partitions. What is done together (a transaction, a command with several keys) must have
    /// all of its keys in one.</summary>
    public Partitioning Partitions => _partitions!;

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
            await client.DiscoverAsync(cancellation).ConfigureAwait(false);
            // What is read at a backup is committed.
            if (!options.ReadsBackup) { client._watch.Start(client._stop.Token); }
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
        await _watch.StopAsync().ConfigureAwait(false);
        foreach (Link link in _links.Values) { await link.StopAsync().ConfigureAwait(false); }
        await _refreshing.ConfigureAwait(false);
        _stop.Dispose();
    }

    internal ILogger LoggerFor<T>() => _loggers.CreateLogger<T>();

    internal KeyFinder Keys => _keys;

    internal CommitWatch Watch => _watch;

    internal IEnumerable<Link> Links => _links.Values;

    /// <summary>The link to the owner of a slot; of no slot, or of one that is not known, to any shard, which will tell.</summary>
    internal Link OwnerOf(int slot) => Volatile.Read(ref _owners[Math.Max(slot, 0)]) ?? _links.Values.First();

    /// <summary>Rises before an owner changes, and once more when it has. Who finds the same number before and behind has seen no
    /// change.</summary>
    internal long OwnersChanged => Volatile.Read(ref _ownersChanged);

    /// <summary>Whether a slot's owner has executed something of the slot since this client takes it for the owner: so it knows by itself
    /// that it is.</summary>
    internal bool HasServed(int slot, Link owner) => Volatile.Read(ref _served[slot]) == owner;

    /// <summary>A shard has executed something of a slot; null: one has refused to.</summary>
    internal void NoteServed(int slot, Link? by) => Volatile.Write(ref _served[slot], by);

    /// <summary>The links to all shards that own slots.</summary>
    internal IEnumerable<Link> Owners() => _owners.OfType<Link>().Distinct();

    internal void Forget(SloggerSession session)
    {
        lock (_worldGate) { _sessions = [.. _sessions.Where(s => s != session)]; }
    }

    internal SloggerSession[] Sessions()
    {
        lock (_worldGate) { return _sessions; }
    }

    /// <summary>A header of the client's own session.</summary>
    internal BatchHeader NextProbe(WorldLine line, Version atLeast) =>
        new(Id, line, atLeast, new(Interlocked.Increment(ref _probes)), 1, default);

    /// <summary>Asks a shard for itself.</summary>
    /// <exception cref="SloggerException">It is none that this client can use.</exception>
    internal Task<Hello> AskAsync(RespChannel channel, CancellationToken cancellation) =>
        Options.ReadsBackup ? BackupWire.AskAsync(channel, cancellation) : Hello.AskAsync(channel, Id, cancellation);

    /// <exception cref="SloggerException">This proxy belongs to another cluster.</exception>
    internal void CheckCluster(Hello hello, string address)
    {
        string cluster = Interlocked.CompareExchange(ref _cluster, hello.Cluster, null) ?? hello.Cluster;
        if (cluster != hello.Cluster)
        {
            throw new SloggerException($"{address} belongs to the cluster '{hello.Cluster}', the others to '{cluster}'. Check Endpoints.");
        }
    }

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
            foreach (Link link in _links.Values) { link.Drop(); }
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

    [LoggerMessage(EventId = 1, Level = LogLevel.Warning, Message = "World-line {Abandoned} is over: the cluster goes on in {WorldLine}, "
        + "from version {Branch}.")]
    private partial void LogRollback(long abandoned, long worldLine, string branch);

    [LoggerMessage(EventId = 3, Level = LogLevel.Critical, Message = "The client cannot go on: its sessions refuse everything from now "
        + "on.")]
    private partial void LogBroken(Exception why);
}

// The shared upstream of the front end: making it, finding out whether new clients may use it, keeping it alive.
using System.Buffers.Text;
using System.Net;
using System.Text;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private const long ProbeIntervalMicroseconds = 500_000;
    private const long RetryMicroseconds = 50_000;
    private const long KeepAliveMicroseconds = 300_000;
    private readonly List<Client> _waitingForShared = [];
    private Upstream? _probe;
    private ProbeStage _probeStage;
    private bool _sharedReady;
    private bool _probeAgain;
    private bool _rightsKnown;
    private long _lastProbe = long.MinValue / 2;
    private long _nextProbe = long.MaxValue;

    // Closed from above: what breaks now tells nothing new.
    private bool _storeClosed;

    /// <summary>Whom Redis takes a connection for that has not logged in.</summary>
    public const string DefaultUser = "default";

    /// <summary>The upstream that all clients share who need nothing of their own; <c>null</c> while there is none, or
    /// while Redis lets nobody in without a password and the proxy has none.</summary>
    public Upstream? Shared { get; private set; }

    /// <summary>Whom Redis takes the shared upstream for: a client shares it who is the same user to Redis, and so has the
    /// same rights at every moment.</summary>
    public string SharedUser { get; private set; } = DefaultUser;

    /// <summary>Whether a client that connects now may do, unasked for a password, what the shared upstream may.</summary>
    public bool AcceptsSharing { get; private set; }

    /// <summary>Whether it is known that new connections need a password.</summary>
    public bool NeedsPassword { get; private set; }

    /// <summary>What a client may share: one that has logged in as this user, or has not at all.</summary>
    public Upstream? SharedFor(string? loggedInAs) => loggedInAs is null
        ? AcceptsSharing ? Shared : null
        : _sharedReady && SharedUser == loggedInAs ? Shared : null;

    public bool IsSharedFull => Shared is { } shared && (shared.OutBytes > SharedOutLimitBytes || shared.AwaitsMuch());

    // Connections of the front end's own are made; those of clients while the shard is open.
    private bool MayConnect => !_stopping && (Shard.IsOpen || Shard.IsEnding);

    /// <summary>The store can be used: connects the shared upstream. Called when the shard opens, or would if it were not to end.</summary>
    /// <param name="run">Which run of the store's program it is: what its commands are has been learnt of the same one; empty: not known.</param>
    public void OpenStore(string run = "")
    {
        // Closed again meanwhile: this is called again.
        if (!MayConnect) { return; }
        _storeClosed = false;
        _areCommandsKnown |= run.Length > 0 && run == _commandsOf;
        _storeRun = run;
        ForgetRights();
        // With the shared upstream still there, or a marker on its way, the gate goes on.
        if (Shared is null && _carrier is not { IsClosed: false })
        {
            _carrier = null;
            Boundary.Restart();
        }
        foreach (Client client in Clients.ToArray()) { client.OnStoreSame(); }
        _nextProbe = Now;
        StartProbe();
    }

    /// <summary>The store is gone: every client of the old world-line is told or closed.</summary>
    public void CloseStore(string reason)
    {
        _storeClosed = true;
        _rightsKnown = false;
        _areCommandsKnown = false;
        DropSpares(reason);
        _probe?.Close(reason);
        Shared?.Close(reason);
        _control?.Close(reason);
        _retiring?.Close(reason);
        foreach (Upstream lingering in Lingering.ToArray()) { lingering.Close(reason); }
        foreach (Client client in Clients.ToArray()) { client.OnStoreLost(); }
    }

    /// <summary>A new world-line has begun, at this version: tells the clients that were kept.</summary>
    public void OnRolledBack(Core.WorldLines.WorldLine next, Core.Versions.Version branch)
    {
        CloseStore("a rollback");
        foreach (Client client in Clients.ToArray()) { client.OnRolledBack(next, branch); }
    }

    /// <summary>Rights may be changing: until a new connection has shown what they are, nobody new shares.</summary>
    public void SuspendSharing()
    {
        AcceptsSharing = false;
        _rightsKnown = false;
        ForgetRights();
        DropSpares("rights may change");
    }

    /// <summary>Has a new connection show whether a password is needed.</summary>
    public void CheckRights()
    {
        _rightsKnown = false;
        AcceptsSharing = false;
        if (_probe is null) { StartProbe(); } else { _probeAgain = true; }
    }

    /// <summary>Whether it is known, as of a moment ago, that a new connection may share. If not, it is found out.</summary>
    public bool AreRightsFresh()
    {
        if (AcceptsSharing && Now - _lastProbe < ProbeIntervalMicroseconds) { return true; }
        CheckRights();
        return false;
    }

    private void StartProbe()
    {
        if (!MayConnect || _probe is not null) { return; }
        try
        {
            _probeStage = ProbeStage.New;
            _probe = new Upstream(this, exclusive: null);
        }
        catch (Exception e) when (e is System.Net.Sockets.SocketException or InvalidOperationException)
        {
            Shard.StoreUnreachable(e.Message);
        }
    }

    public void OnUpstreamConnected(Upstream upstream)
    {
        KeepAddress(upstream);
        if (upstream == _probe)
        {
            CountInternal("client|no-evict");
            upstream.Write(InternalRequest.NoEvict);
            upstream.Expect(null, 1, ReplyKind.Greeting);
        }
        if (upstream.IsSpare) { OnSpareConnected(upstream); }
        if (upstream.IsControl) { OnControlConnected(upstream); }
        upstream.Flush();
    }

    public void OnGreeting(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        if (upstream != _probe) { return; }
        if (_probeAgain)
        {
            // Asked before the last change: ask once more.
            _probeAgain = false;
            upstream.Close("asked too early");
            StartProbe();
            return;
        }
        if (Shared is null && (Gate.IsMarkerInFlight || _retiring is not null))
        {
            // The marker is on the control upstream, or lost, or what was shared before has not ended: nothing may be shared beside it.
            _nextProbe = Now + RetryMicroseconds;
            upstream.Close("done");
            return;
        }
        if (_probeStage == ProbeStage.LoggingIn)
        {
            // What follows the login is answered next.
            _probeStage = reply[0] == (byte)'+' ? ProbeStage.LoggedIn : ProbeStage.Refused;
            return;
        }
        bool isLoggedIn = _probeStage is ProbeStage.LoggedIn or ProbeStage.LoggedInAndAsked;
        bool needsPassword = isLoggedIn || reply.StartsWith("-NOAUTH"u8);
        if (needsPassword && _probeStage == ProbeStage.New && Shared is null && !_mayNotMark && !_ownUserSharesNot && Store.Login is { Length: > 0 } login)
        {
            // Who logs in as the same user as the proxy can share with it.
            _probeStage = ProbeStage.LoggingIn;
            CountInternal("auth");
            CountInternal("client|no-evict");
            upstream.Write(login);
            upstream.Expect(null, 1, ReplyKind.Greeting);
            upstream.Write(InternalRequest.NoEvict);
            upstream.Expect(null, 1, ReplyKind.Greeting);
            upstream.Flush();
            return;
        }
        bool isLoading = reply.StartsWith("-LOADING"u8) || reply.StartsWith("-MASTERDOWN"u8) || reply.StartsWith("-ERR max number"u8);
        if ((!needsPassword || isLoggedIn) && !isLoading && !_areCommandsKnown && _probeStage is ProbeStage.New or ProbeStage.LoggedIn)
        {
            // Who is not logged in must not ask: Redis hangs up on so long a request.
            _probeStage = isLoggedIn ? ProbeStage.LoggedInAndAsked : ProbeStage.Asked;
            AskCommands(upstream);
            upstream.Flush();
            return;
        }
        _nextProbe = isLoading ? Now + RetryMicroseconds : long.MaxValue;
        NeedsPassword = needsPassword;
        bool mayShare = (!needsPassword || isLoggedIn) && !isLoading && !_mayNotMark && !_hidesCommands;
        // Not tried again for every client that comes: Redis would note each time in its ACL LOG what it refused.
        if (!mayShare && !isLoading && _probeStage is not (ProbeStage.New or ProbeStage.Asked)) { _ownUserSharesNot = true; }
        string user = isLoggedIn ? Store.LoginUser : DefaultUser;
        if (mayShare && user == DefaultUser && Shared is not null && SharedUser != DefaultUser)
        {
            // No password is needed any more: what is shared will be for those who give none.
            NeedsPassword = false;
            RetireShared();
            _nextProbe = Now + RetryMicroseconds;
            upstream.Close("done");
            return;
        }
        AcceptsSharing = mayShare && !needsPassword;
        _rightsKnown = !isLoading;
        _lastProbe = Now;
        if (needsPassword) { DropSpares("a password is needed now"); }
        if (mayShare && Shared is null)
        {
            _probe = null;
            Shared = upstream;
            SharedUser = user;
            _sharedReady = true;
            upstream.LastUsedMicroseconds = Now;
            Identify(upstream);
            LearnSettings();
        }
        else
        {
            upstream.Close("done");
        }
        if (isLoading) { return; }
        CarrierHousekeeping();
        WakeWaitingForShared();
    }

    public void OnUpstreamClosed(Upstream upstream, string reason)
    {
        Unregister(upstream);
        Lingering.Remove(upstream);
        if (upstream.IsSpare)
        {
            _spares.Remove(upstream);
            return;
        }
        if (upstream == _control)
        {
            OnControlClosed(upstream, reason);
            return;
        }
        if (upstream == _retiring)
        {
            _retiring = null;
            if (upstream.InFlight > 0) { OnCarrierClosed(upstream, reason); }
            return;
        }
        if (upstream == _probe)
        {
            _probe = null;
            if (reason is not ("done" or "asked too early"))
            {
                AcceptsSharing = false;
                _nextProbe = Now + RetryMicroseconds;
                if (!_storeClosed) { Shard.StoreUnreachable(reason); }
            }
            return;
        }
        if (upstream == Shared)
        {
            Shared = null;
            _sharedReady = false;
            AcceptsSharing = false;
            _rightsKnown = false;
            _areCommandsKnown = false;
            foreach (Client client in Clients) { client.OnSharedClosed(); }
            TellFacts(StoreFacts.Unknown);
            WakeFullClients();
            OnCarrierClosed(upstream, reason);
            _nextProbe = Now;
            StartProbe();
        }
    }

    /// <summary>A client cannot go on before it is known whether there is a shared upstream.</summary>
    public void WaitForShared(Client client) => _waitingForShared.Add(client);

    private void WakeWaitingForShared()
    {
        foreach (Client client in _waitingForShared)
        {
            client.OnSharingKnown();
        }
        _waitingForShared.Clear();
    }

    public bool IsSharingKnown => Shard.IsOpen && _rightsKnown;

    /// <summary>Whether the proxy can log in as this user.</summary>
    public bool IsOwnUser(string user) => Store.Login.Length > 0 && Store.LoginUser == user;

    /// <summary>A connection for a client that was kept through a recovery, and had logged in as the proxy's own user.</summary>
    public Upstream LogInAgain(Client client)
    {
        var upstream = new Upstream(this, client);
        CountInternal("auth");
        upstream.Write(Store.Login);
        upstream.Expect(null, 1, ReplyKind.OwnLogin);
        return upstream;
    }

    /// <summary>A client's own connection is not used, because the client shares; Redis must not close it for that.</summary>
    public void KeepAlive(Upstream upstream)
    {
        CountInternal("hello");
        upstream.Write(InternalRequest.Nothing);
        upstream.Expect(null, 1, ReplyKind.Dropped);
        upstream.LastUsedMicroseconds = Now;
        upstream.Flush();
    }

    private void SharedHousekeeping()
    {
        if (Now >= _nextProbe)
        {
            _nextProbe = Now + RetryMicroseconds;
            StartProbe();
        }
        SettingsHousekeeping();
        CarrierHousekeeping();
        // Not as soon as rights allow it: what they begin with takes places in a slow log of everything.
        MakeSpares();
        ForgetGone();
    }

    /// <summary>Markers sent since statistics were last reset.</summary>
    public long MarkersSent { get; set; }

    private void FlushShared()
    {
        WriteMarks();
        if (SharedDirty && !Gate.HoldsShared)
        {
            SharedDirty = false;
            if (Shared is { } shared)
            {
                shared.Flush();
                shared.LastUsedMicroseconds = Now;
            }
        }
    }

    /// <summary>Much is waiting on the shared upstream: send before the turn ends.</summary>
    public void FlushSharedIfFull(Upstream shared)
    {
        if (shared.OutBytes >= FlushAtBytes && !Gate.HoldsShared) { shared.Flush(); }
    }

    /// <summary>An upstream that was full has room again.</summary>
    public void OnUpstreamDrained(Upstream upstream)
    {
        if (upstream.Exclusive is { } client)
        {
            if (client.WaitsForRoom) { ScheduleResume(client); }
            return;
        }
        WakeFullClients();
    }

    /// <summary>Those that wait for room on the shared upstream, or for a marker to be sent on it, try again.</summary>
    public void WakeFullClients()
    {
        // Who has little to send first, and then not always the same one.
        foreach (Client full in _fullClients)
        {
            if (full.IsInputSmall) { ScheduleResume(full); }
        }
        int count = _fullClients.Count;
        if (count > 0) { _firstFull = (_firstFull + 1) % count; }
        for (int i = 0; i < count; i++) { ScheduleResume(_fullClients[(_firstFull + i) % count]); }
        _fullClients.Clear();
    }

    private int _firstFull;

    private readonly List<Client> _fullClients = [];

    /// <summary>A client stops being read until the shared upstream has room.</summary>
    public void WaitForRoom(Client client) => _fullClients.Add(client);
}

/// <summary>How far the connection has come that finds out what new connections may do.</summary>
internal enum ProbeStage
{
    New,

    /// <summary>Has asked for Redis's commands.</summary>
    Asked,

    LoggingIn,
    LoggedIn,
    LoggedInAndAsked,

    /// <summary>The proxy's credentials were not taken.</summary>
    Refused,
}

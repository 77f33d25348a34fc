// The upstream that all clients share who need nothing of their own: when it is flushed, when it is full, and who waits for it.
namespace Slogger.FrontEnd;

/// <summary>The shared upstream, and clients that wait for room on it. The loop's thread.</summary>
internal sealed class SharedUpstream(FrontEndLoop loop)
{
    private const int FlushAtBytes = 32 << 10;
    private const int OutLimitBytes = 8 << 20;
    private readonly List<Client> _waitingForRoom = [];
    private readonly List<Client> _waitingForQuiet = [];
    private int _firstWaiting;

    /// <summary>The upstream; <c>null</c> while there is none, or while Redis lets nobody in without a password and the proxy has
    /// none.</summary>
    public Upstream? Upstream { get; private set; }

    /// <summary>Was shared, and owes replies still.</summary>
    public Upstream? Retiring { get; private set; }

    /// <summary>Whom Redis takes the shared upstream for. A client shares it who is the same user to Redis, and so has the
    /// same rights at every moment.</summary>
    public string User { get; private set; } = FrontEndLoop.DefaultUser;

    /// <summary>Whether there is one that can be used.</summary>
    public bool IsReady { get; private set; }

    /// <summary>It has something to send.</summary>
    public bool IsDirty { get; set; }

    /// <summary>Too much waits to be sent, or to be answered.</summary>
    public bool IsFull => Upstream is { } shared && (shared.OutBytes > OutLimitBytes || shared.AwaitsMuch());

    /// <summary>Something is in flight on it.</summary>
    public bool IsBusy => Upstream is { IsClosed: false, InFlight: > 0 };

    /// <summary>Something is in flight on it, or on the one before.</summary>
    public bool AnythingInFlight => Upstream is { InFlight: > 0 } || Retiring is { InFlight: > 0 };

    /// <summary>What a client may share: one that has logged in as this user, or has not at all.</summary>
    public Upstream? For(string? loggedInAs) => loggedInAs is null
        ? loop.Probe.AcceptsSharing ? Upstream : null
        : IsReady && User == loggedInAs ? Upstream : null;

    /// <summary>Clients share this upstream from now on.</summary>
    public void Begin(Upstream upstream, string user)
    {
        Upstream = upstream;
        User = user;
        IsReady = true;
        upstream.LastUsedMicroseconds = loop.Now;
        loop.Directory.Identify(upstream);
        loop.Settings.Learn();
    }

    /// <summary>Nobody shares any more. What is under way on the connection is answered there, and then it is closed.</summary>
    public void Retire()
    {
        Upstream shared = Upstream!;
        shared.Flush();
        Retiring = shared;
        Upstream = null;
        IsReady = false;
        loop.Probe.RefuseSharing();
        loop.Spares.Drop("nobody shares now");
        foreach (Client client in loop.Clients) { client.LeaveShared(); }
        WakeWaiting();
    }

    /// <summary>Closes the one before when it owes nothing more.</summary>
    public void EndRetired()
    {
        if (Retiring is not { InFlight: 0 } retired) { return; }
        Retiring = null;
        retired.Close("done");
    }

    /// <summary>The one before has ended.</summary>
    public void OnRetiredClosed() => Retiring = null;

    /// <summary>The upstream has ended.</summary>
    public void OnClosed()
    {
        Upstream = null;
        IsReady = false;
    }

    // ---- Sending ----

    /// <summary>Sends what was written, unless it waits for a marker.</summary>
    public void Flush()
    {
        if (!IsDirty || loop.Gate.HoldsShared) { return; }
        IsDirty = false;
        if (Upstream is { } shared)
        {
            shared.Flush();
            shared.LastUsedMicroseconds = loop.Now;
        }
    }

    /// <summary>Much is waiting on the shared upstream: send before the turn ends.</summary>
    public void FlushIfFull(Upstream shared)
    {
        if (shared.OutBytes >= FlushAtBytes && !loop.Gate.HoldsShared) { shared.Flush(); }
    }

    // ---- Waiting ----

    /// <summary>A client stops being read until the shared upstream has room.</summary>
    public void WaitForRoom(Client client) => _waitingForRoom.Add(client);

    /// <summary>Those that wait for room on the shared upstream, or for a marker to be sent on it, try again.</summary>
    public void WakeWaiting()
    {
        // Who has little to send first, and then not always the same one.
        foreach (Client client in _waitingForRoom)
        {
            if (client.IsInputSmall) { loop.ScheduleResume(client); }
        }
        int count = _waitingForRoom.Count;
        if (count > 0) { _firstWaiting = (_firstWaiting + 1) % count; }
        for (int i = 0; i < count; i++) { loop.ScheduleResume(_waitingForRoom[(_firstWaiting + i) % count]); }
        _waitingForRoom.Clear();
    }

    /// <summary>A client waits until nothing is in flight on the shared upstream, or too long.</summary>
    public void WaitForQuiet(Client client) => _waitingForQuiet.Add(client);

    /// <summary>Nothing is in flight on it: those that wait for that go on.</summary>
    public void WakeIfQuiet()
    {
        if (_waitingForQuiet.Count > 0 && !IsBusy) { ResumeQuiet(); }
    }

    /// <summary>Those that wait for quiet look whether they have waited too long.</summary>
    public void ResumeQuiet()
    {
        foreach (Client client in _waitingForQuiet) { loop.ScheduleResume(client); }
        _waitingForQuiet.Clear();
    }
}

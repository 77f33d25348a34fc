// The connections to Redis, whoever uses them: what becomes of one is told here, and passed on to the parts that it concerns.
namespace Slogger.FrontEnd;

/// <summary>All connections of the front end's to Redis. The loop's thread.</summary>
/// <param name="loop">The front end.</param>
internal sealed class Upstreams(FrontEndLoop loop)
{
    private const long FullQueueWarningMicroseconds = 60_000_000;
    private readonly ConnectionAdmission _admission = new(loop);
    private readonly List<Upstream> _releasing = [];
    private long _nextFullQueueWarning;

    /// <summary>Dedicated ones that have written something which waits for a version's boundary.</summary>
    public List<Upstream> Held { get; } = [];

    /// <summary>Those of clients that have gone with something under way: until Redis has hung up it may yet be executed.</summary>
    public HashSet<Upstream> Lingering { get; } = [];

    /// <summary>How many there are.</summary>
    public int Count => (loop.Shared is null ? 0 : 1) + loop.Spares.Count + loop.Probe.Count + loop.Clients.DedicatedCount;

    // ---- What becomes of one ----

    /// <summary>Redis has answered on a new one.</summary>
    public void OnAnswers(Upstream upstream) => _admission.OnAnswered(upstream);

    /// <summary>It may be used.</summary>
    public void OnConnected(Upstream upstream)
    {
        loop.Directory.OnConnected(upstream);
        loop.Probe.OnConnected(upstream);
        if (upstream.IsSpare) { loop.Spares.OnConnected(upstream); }
        if (upstream.IsControl) { loop.Carrier.OnControlConnected(upstream); }
        upstream.Flush();
    }

    /// <summary>It was full, and has room again.</summary>
    public void OnDrained(Upstream upstream)
    {
        if (upstream.Exclusive is { } client)
        {
            if (client.WaitsForRoom) { loop.ScheduleResume(client); }
            return;
        }
        loop.Sharing.WakeWaiting();
    }

    /// <summary>It has another database or protocol, or was refused it.</summary>
    public void OnViewChanged(Upstream upstream)
    {
        if (upstream.Exclusive is { } client) { client.OnView(refused: false); }
        else if (upstream.IsSpare) { loop.Spares.OnViewChanged(upstream); }
        else if (upstream == loop.Shared) { loop.Views.OnChanged(upstream); }
    }

    /// <summary>The names of commands have come that were asked for on it.</summary>
    public void OnCommandNames(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        loop.Catalog.OnNames(reply);
        loop.Probe.OnCommandsLearnt(upstream);
    }

    /// <summary>It has ended.</summary>
    public void OnClosed(Upstream upstream, string reason)
    {
        loop.Directory.Remove(upstream);
        Lingering.Remove(upstream);
        if (upstream.IsSpare)
        {
            loop.Spares.Remove(upstream);
            return;
        }
        if (loop.Carrier.OnClosed(upstream, reason)) { return; }
        if (upstream == loop.Sharing.Retiring)
        {
            loop.Sharing.OnRetiredClosed();
            if (upstream.InFlight > 0) { loop.Carrier.OnLost(upstream, reason); }
            return;
        }
        if (loop.Probe.OnClosed(upstream, reason) || upstream != loop.Shared) { return; }
        loop.Sharing.OnClosed();
        loop.Probe.OnSharedClosed();
        loop.Catalog.Forget();
        foreach (Client client in loop.Clients) { client.OnSharedClosed(); }
        loop.Facts.GiveUp();
        loop.Sharing.WakeWaiting();
        loop.Carrier.OnLost(upstream, reason);
        loop.Probe.StartNow();
    }

    /// <summary>The queue of Redis's Unix socket is full: a client that needs a connection of its own has been refused. Said once a
    /// minute.</summary>
    public void WarnOfFullQueue()
    {
        if (loop.Now < _nextFullQueueWarning) { return; }
        _nextFullQueueWarning = loop.Now + FullQueueWarningMicroseconds;
        loop.Shard.Warn($"{loop.Store} has more new connections to accept than its tcp-backlog, so clients that need connections of their "
            + "own are refused: raise it");
    }

    // ---- What the gate asks for ----

    /// <summary>The boundary has passed: what waited for it is sent.</summary>
    public void ReleaseHeld()
    {
        _releasing.AddRange(Held);
        Held.Clear();
        foreach (Upstream upstream in _releasing) { upstream.ReleaseHeld(); }
        _releasing.Clear();
    }

    /// <summary>See <see cref="Upstream.GiveUpExactness"/>.</summary>
    public void GiveUpExactness()
    {
        foreach (Client client in loop.Clients)
        {
            if (client.Dedicated is { ExactInFlight: > 0 } upstream) { upstream.GiveUpExactness(); }
        }
    }

    // ---- Those of clients ----

    /// <summary>For a client that was kept through a recovery, and had logged in as the proxy's own user.</summary>
    public Upstream LogInAgain(Client client)
    {
        var upstream = new Upstream(loop, client);
        loop.CountInternal("auth");
        upstream.Write(loop.Store.Login);
        upstream.Expect(null, 1, ReplyKind.OwnLogin);
        loop.Directory.LearnId(upstream);
        return upstream;
    }

    /// <summary>A client's own is not used, because the client shares; Redis must not close it for that.</summary>
    public void KeepAlive(Upstream upstream)
    {
        loop.CountInternal("hello");
        upstream.Write(InternalRequest.Nothing);
        upstream.Expect(null, 1, ReplyKind.Dropped);
        upstream.LastUsedMicroseconds = loop.Now;
        upstream.Flush();
    }
}

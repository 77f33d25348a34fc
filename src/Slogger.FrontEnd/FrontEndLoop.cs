// The front end: one thread, one poller, all clients, one shared upstream and the dedicated ones. In each turn it reads the
// clients that are ready, sends once to Redis, then reads Redis's replies: Redis works while the loop reads on.
//
// The loop keeps the cycle. What has state of its own is a part of it: each part is a type, knows the loop, and reaches the others by it.
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using Slogger.Core.Shards;
using Slogger.FrontEnd.Transports;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop : IDisposable
{
    public const int ReceiveBufferBytes = 256 << 10;

    /// <summary>Whom Redis takes a connection for that has not logged in.</summary>
    public const string DefaultUser = "default";

    private const long HousekeepingMicroseconds = 100_000;
    private const long LeisureMicroseconds = 400_000;   // longer than that, while no version is to be closed and no client is there

    private readonly ConcurrentQueue<Action> _posted = new();
    private readonly List<Upstream> _readableShared = [];
    private readonly List<Upstream> _heldReads = [];
    private readonly List<Client> _resuming = [];
    private readonly List<Client> _resumingNow = [];
    private readonly ClientListeners _listeners;
    private readonly QuietMoment _quiet;
    private long _nextHousekeeping;
    private volatile bool _isHalted;

    public FrontEndLoop(IPoller poller, IStoreConnector store, IShardPort shard, FrontEndLimits limits)
    {
        Poller = poller;
        Store = store;
        Shard = shard;
        Limits = limits;
        Cohort = shard.Cohort;
        News = Cohort is null ? null : new(this, Cohort);
        Gate = new VersionGate(new() { IsVersioned = shard.IsVersioned, IsPunctual = shard.IsPunctual });
        Boundary = new VersionBoundary(this, shard, Gate);
        Clients = new(this);
        Upstreams = new(this);
        Sharing = new(this);
        Probe = new(this);
        Spares = new(this);
        Carrier = new(this);
        Directory = new(this);
        Catalog = new(this);
        Settings = new(this);
        Facts = new(this);
        Pause = new(this);
        Waits = new(this);
        Replies = new(this);
        _listeners = new(this);
        Views = new(this);
        _quiet = new(this);
        Held = new(this);
        ReceiveBuffer = (byte*)NativeMemory.AlignedAlloc(ReceiveBufferBytes, 4096);
    }

    public IPoller Poller { get; }

    /// <summary>How new upstreams reach the store; changes with the store's incarnation.</summary>
    public IStoreConnector Store { get; set; }

    public IShardPort Shard { get; }

    /// <summary>The cohort of which this process is a node; null: there is none.</summary>
    public ICohortPort? Cohort { get; }

    /// <summary>What is told of it.</summary>
    public CohortNews? News { get; }

    /// <summary>Whether this is a cohort's node that does not lead.</summary>
    public bool IsFollower => Cohort is not null && Shard.IsFollowing;

    /// <summary>What CLUSTER answers; null: a shard alone, or a node that does not know yet.</summary>
    public ClusterReplies? ClusterReplies => News is null ? Slots?.Replies : News.Replies;

    /// <summary>Clients whose next request is held.</summary>
    public HeldClients Held { get; }

    /// <summary>Other ones hold from the next client, reply and request on. On the loop's thread.</summary>
    public FrontEndLimits Limits { get; set; }

    // ---- The parts ----

    public ConnectedClients Clients { get; }

    /// <summary>Decides about the boundary between two versions.</summary>
    public VersionGate Gate { get; }

    /// <summary>Performs what the gate decides.</summary>
    public VersionBoundary Boundary { get; }

    public Upstreams Upstreams { get; }

    public SharedUpstream Sharing { get; }

    public SharingProbe Probe { get; }

    public ViewQueue Views { get; }

    public SpareUpstreams Spares { get; }

    public MarkerCarrier Carrier { get; }

    public UpstreamDirectory Directory { get; }

    public CommandCatalog Catalog { get; }

    public StoreSettings Settings { get; }

    public FactQuestions Facts { get; }

    public ClientPause Pause { get; }

    public VersionWaits Waits { get; }

    /// <summary>Replies that wait until what they rest on is settled.</summary>
    public HeldReplies Replies { get; }

    // ---- What all of them share ----

    /// <summary>Memory to receive into, valid until the next receive.</summary>
    public byte* ReceiveBuffer { get; }

    public List<(int Offset, int Length)> Arguments { get; } = [];

    /// <summary>For requests and replies that handlers make; used until it is used next.</summary>
    public RequestWriter Writer { get; } = new();

    /// <summary>The shared upstream; see <see cref="SharedUpstream.Upstream"/>.</summary>
    public Upstream? Shared => Sharing.Upstream;

    /// <summary>Requests forwarded since the start.</summary>
    public long Forwarded { get; set; }

    /// <summary>Markers sent since statistics were last reset.</summary>
    public long MarkersSent { get; set; }

    /// <summary>Replies that wait for slow clients. Unit: bytes.</summary>
    public long OutputBytes { get; set; }

    public long Now { get; private set; } = Microseconds();

    public bool IsStopping { get; private set; }

    /// <summary>See <see cref="Halt"/>.</summary>
    public bool IsHalted => _isHalted;

    /// <summary>The store was closed from above: what breaks now tells nothing new.</summary>
    public bool IsStoreClosed { get; private set; }

    /// <summary>Connections of the front end's own are made; those of clients while the shard is open.</summary>
    public bool MayConnect => !IsStopping && (Shard.IsOpen || Shard.IsEnding);

    /// <summary>The loop's clock.</summary>
    public static long Microseconds() => (long)(Stopwatch.GetTimestamp() * (1_000_000.0 / Stopwatch.Frequency));

    /// <summary>The proxy does something at Redis of its own accord.</summary>
    public void CountInternal(string command) => Shard.OwnCommands.Add(command);

    /// <summary>Has an action run on the loop's thread. Any thread.</summary>
    public void Post(Action action)
    {
        _posted.Enqueue(action);
        Poller.Wake();
    }

    /// <summary>Completes when the loop has seen all that was set before the call: what it forwards afterwards, it forwards
    /// knowing it. Any thread; gives up after a second, when the loop has ended.</summary>
    public Task SeenAsync()
    {
        var seen = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Post(() => seen.TrySetResult());
        return Task.WhenAny(seen.Task, Task.Delay(TimeSpan.FromSeconds(1)));
    }

    // ---- The cycle ----

    /// <summary>Runs until <see cref="Stop"/>. The calling thread becomes the loop's.</summary>
    public void Run()
    {
        while (!IsStopping && !IsHalted)
        {
            int count = Poller.Wait(Timeout(), Yields());
            Now = Microseconds();
            Boundary.Wake(Now);
            for (int i = 0; i < count; i++)
            {
                Channel? channel = Poller.Event(i, out bool readable, out bool writable);
                if (channel?.Owner is not { } owner) { continue; }
                if (writable) { owner.OnWritable(channel); }
                if (!readable || channel.IsClosed) { continue; }
                if (Now < Gate.RepliesHeldUntilUs && owner is Upstream early)
                {
                    HoldReading(early);
                    continue;
                }
                if (owner is Upstream { Exclusive: null, IsSpare: false } upstream)
                {
                    _readableShared.Add(upstream);
                }
                else
                {
                    owner.OnReadable(channel);
                }
            }
            Flush();
            foreach (Upstream upstream in _readableShared)
            {
                if (upstream.IsClosed) { continue; }
                // A version may have opened since it was found readable.
                if (Now < Gate.RepliesHeldUntilUs)
                {
                    HoldReading(upstream);
                    continue;
                }
                upstream.OnReadable(upstream.Channel);
            }
            _readableShared.Clear();
            if (Poller.Local.Any) { DoLocal(); }
            if (_heldReads.Count > 0 && Now >= Gate.RepliesHeldUntilUs) { ReleaseReads(); }
            Views.ReadGranted();
            Sharing.WakeIfQuiet();
            while (_posted.TryDequeue(out Action? action)) { action(); }
            Boundary.Turn(Now);
            if (_quiet.IsAwaited) { _quiet.Check(); }
            if (Waits.HoldsBatches) { Waits.CheckBatches(); }
            if (_withholdings.Count > 0) { CheckWithholdings(); }
            Resume();
            Views.Turn();
            if (Now >= _nextHousekeeping) { Housekeeping(); }
            Flush();
            Replies.Turn();
        }
        CloseEverything();
        // Whoever waits for this end would end the shard in order, which it must not do any more.
        if (IsHalted) { Thread.Sleep(System.Threading.Timeout.Infinite); }
    }

    /// <summary>Ends <see cref="Run"/>. Any thread.</summary>
    public void Stop() => Post(() => IsStopping = true);

    /// <summary>Stops serving at once: from here on no client is sent anything, and all connections end. The process ends next. Any
    /// thread.</summary>
    public void Halt()
    {
        _isHalted = true;
        Poller.Wake();
    }

    public void Dispose()
    {
        Poller.Dispose();
        NativeMemory.AlignedFree(ReceiveBuffer);
    }

    private void Flush()
    {
        WriteMarks();
        Sharing.Flush();
    }

    private long Timeout()
    {
        if (!_posted.IsEmpty || _resuming.Count > 0 || Poller.Local.Any) { return 0; }
        long now = Microseconds();
        long timeout = Math.Max(0, _nextHousekeeping - now);
        if (_heldReads.Count > 0) { timeout = Math.Min(timeout, Math.Max(0, Gate.RepliesHeldUntilUs - now)); }
        long gate = Boundary.MicrosecondsToNextTurn(now);
        if (gate >= 0) { return Math.Min(gate, timeout); }
        return Boundary.Rests && Clients.Count == 0 ? timeout + LeisureMicroseconds : timeout;
    }

    // While replies are on their way the next event is near. With few clients latency is all that counts; with many each
    // turn's batch is what makes the proxy cheap, and looking too often makes batches small.
    private int Yields() => !AnythingInFlight ? 0 : Clients.Count <= FewClients ? YieldsForFew : YieldsForMany;

    private const int YieldsForFew = 20;
    private const int YieldsForMany = 2;
    private const int FewClients = 4;

    private void HoldReading(Upstream upstream)
    {
        upstream.HoldReading(true);
        _heldReads.Add(upstream);
    }

    private void ReleaseReads()
    {
        foreach (Upstream upstream in _heldReads) { upstream.HoldReading(false); }
        _heldReads.Clear();
    }

    // Clients that are answered may have sent more, on upstreams of their own. The rest comes in the next turn, which does not wait.
    private const int LocalRounds = 4;

    // Upstreams to a store in this process: what was sent to them is done already, so their replies are given out in the same turn.
    private void DoLocal()
    {
        for (int round = 0; round < LocalRounds && Poller.Local.Any; round++)
        {
            foreach (LocalChannel channel in Poller.Local.Take())
            {
                if (channel.Owner is not Upstream upstream) { continue; }
                if (channel.CanWrite) { upstream.OnWritable(channel); }
                if (channel.CanRead)
                {
                    if (Now < Gate.RepliesHeldUntilUs) { HoldReading(upstream); } else { upstream.OnReadable(channel); }
                }
                channel.Announce();
            }
        }
    }

    // ---- Clients ----

    /// <summary>Listens on a socket that is bound and listening.</summary>
    public void Listen(Socket socket) => _listeners.Add(socket);

    /// <summary>Clients that come are refused from now on.</summary>
    public void TakeNobody() => _listeners.Close();

    /// <summary>See <see cref="TakeNobody"/>.</summary>
    public bool TakesNobody => _listeners.AreClosed;

    // ---- Waiting clients ----

    /// <summary>A client waits for something that comes to be known in the loop.</summary>
    public void WaitFor(Waiting reason, Client client)
    {
        switch (reason)
        {
            case Waiting.Room:
                Sharing.WaitForRoom(client);
                break;
            case Waiting.Store:
                Probe.WaitFor(client);
                break;
            case Waiting.Quiet:
                Sharing.WaitForQuiet(client);
                break;
            case Waiting.Slot:
                WaitForSlot(client);
                break;
            case Waiting.Held:
                Held.Add(client);
                break;
            case Waiting.Facts:
                Facts.WaitFor(client);
                break;
            case Waiting.View:
                Views.WaitFor(client);
                break;
        }
    }

    /// <summary>A client's reason to wait may be gone: look at it after the replies at hand are done.</summary>
    public void ScheduleResume(Client client)
    {
        if (!client.IsResumeScheduled)
        {
            client.IsResumeScheduled = true;
            _resuming.Add(client);
        }
    }

    private void Resume()
    {
        // What resumes may come to wait for something that is already there, and be scheduled again: a bounded number of
        // rounds, the rest in the next turn.
        for (int round = 0; round < 4 && _resuming.Count > 0; round++)
        {
            _resumingNow.AddRange(_resuming);
            _resuming.Clear();
            foreach (Client client in _resumingNow)
            {
                client.IsResumeScheduled = false;
                client.Resume();
            }
            _resumingNow.Clear();
        }
    }

    // ---- Version boundaries: what the gate asks for ----

    public bool IsPaused => Pause.IsOn;

    public bool AnythingInFlight => IsInFlightOnShared || Gate.ExactInFlight > 0;

    /// <summary>Whether nothing here waits for the end of a version, or for a turn soon.</summary>
    public bool MayRest => !AnythingInFlight && !IsPaused && !Waits.HoldsBatches && _withholdings.Count == 0;

    public bool IsInFlightOnShared => Sharing.AnythingInFlight;

    /// <summary>The open version has ended, and its marker is still to be sent: nothing is forwarded on the shared upstream before. The
    /// clock is looked at only where a version has an end that it must not be open beyond.</summary>
    public bool IsVersionDue => Gate.EndsUs != long.MaxValue && Microseconds() >= Gate.EndsUs;

    public bool CanSendMarker => Carrier.CanSend;

    public void SendMarker(ReadOnlySpan<byte> command) => Carrier.Send(command);

    public void WakeFullClients() => Sharing.WakeWaiting();

    /// <summary>Whether the proxy can log in as this user.</summary>
    public bool IsOwnUser(string user) => Store.Login.Length > 0 && Store.LoginUser == user;

    // ---- Housekeeping ----

    private void Housekeeping()
    {
        _nextHousekeeping = Now + HousekeepingMicroseconds;
        _listeners.Retry();
        Clients.Housekeeping(Now);
        Probe.Housekeeping();
        News?.Look();
        Sharing.ResumeQuiet();
        Settings.Housekeeping();
        CarrierHousekeeping();
        // Not as soon as rights allow it: what they begin with takes places in a slow log of everything.
        Spares.Make();
        Directory.ForgetGone();
        Waits.Expire();
    }

    /// <summary>Sees to what carries markers, or did.</summary>
    public void CarrierHousekeeping()
    {
        Directory.IdentifyAgain();
        Sharing.EndRetired();
        Carrier.Housekeeping();
    }

    private void CloseEverything()
    {
        _listeners.Close();
        foreach (Client client in Clients.ToArray()) { client.Close(); }
        foreach (Upstream lingering in Upstreams.Lingering.ToArray()) { lingering.Close("the proxy stops"); }
        Shared?.Close("the proxy stops");
        Carrier.Close("the proxy stops");
    }
}

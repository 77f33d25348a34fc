// The front end: one thread, one poller, all clients, one shared upstream and the dedicated ones. In each turn it reads the
// clients that are ready, sends once to Redis, then reads Redis's replies: Redis works while the loop reads on.
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using Slogger.Core.Shards;
using Slogger.FrontEnd.Transports;

namespace Slogger.FrontEnd;

/// <summary>Limits of the front end. Sizes in bytes.</summary>
internal sealed record FrontEndLimits
{
    /// <summary>Clients at a time; another is refused as Redis refuses it.</summary>
    public int MaxClients { get; init; } = 10_000;

    /// <summary>Replies that wait for one client; beyond it is closed. One value of 512 MB must fit.</summary>
    public long ClientOutputBytes { get; init; } = 576L << 20;

    /// <summary>Replies that wait for all clients together; beyond, the one with the most is closed. So for requests that have not come whole.</summary>
    public long TotalOutputBytes { get; init; } = 1L << 30;
}

internal sealed unsafe partial class FrontEndLoop : IDisposable
{
    public const int ReceiveBufferBytes = 256 << 10;
    private const int FlushAtBytes = 32 << 10;
    private const int SharedOutLimitBytes = 8 << 20;
    private const long HousekeepingMicroseconds = 100_000;

    private readonly ConcurrentQueue<Action> _posted = new();
    private readonly List<Client> _otherView = [];
    private readonly List<Upstream> _readableShared = [];
    private readonly List<Client> _resuming = [];
    private readonly List<Client> _resumingNow = [];
    private readonly List<Upstream> _releasing = [];
    private long _nextHousekeeping;
    private long _nextClientId;
    private bool _stopping;

    public FrontEndLoop(IPoller poller, IStoreConnector store, IShardPort shard, FrontEndLimits limits)
    {
        Poller = poller;
        Store = store;
        Shard = shard;
        Limits = limits;
        Gate = new VersionGate(new() { IsVersioned = shard.IsVersioned, IsPunctual = shard.IsPunctual });
        Boundary = new VersionBoundary(this, shard, Gate);
        ReceiveBuffer = (byte*)NativeMemory.AlignedAlloc(ReceiveBufferBytes, 4096);
    }

    public IPoller Poller { get; }

    /// <summary>How new upstreams reach the store; changes with the store's incarnation.</summary>
    public IStoreConnector Store { get; set; }

    public IShardPort Shard { get; }

    public FrontEndLimits Limits { get; }

    /// <summary>Decides about the boundary between two versions.</summary>
    public VersionGate Gate { get; }

    /// <summary>Performs that.</summary>
    public VersionBoundary Boundary { get; }

    /// <summary>Memory to receive into, valid until the next receive.</summary>
    public byte* ReceiveBuffer { get; }

    /// <summary>The shared upstream has something to send.</summary>
    public bool SharedDirty { get; set; }

    public List<Upstream> HeldUpstreams { get; } = [];

    public HashSet<Client> Clients { get; } = [];

    public List<(int Offset, int Length)> Arguments { get; } = [];

    /// <summary>Requests forwarded since the start.</summary>
    public long Forwarded { get; set; }

    /// <summary>Replies that wait for slow clients. Unit: bytes.</summary>
    public long OutputBytes { get; set; }

    public long Now { get; private set; } = Microseconds();

    /// <summary>The loop's clock.</summary>
    public static long Microseconds() => (long)(Stopwatch.GetTimestamp() * (1_000_000.0 / Stopwatch.Frequency));

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

    /// <summary>Runs until <see cref="Stop"/>. The calling thread becomes the loop's.</summary>
    public void Run()
    {
        while (!_stopping && !IsHalted)
        {
            int count = Poller.Wait(Timeout(), Yields());
            Now = Microseconds();
            for (int i = 0; i < count; i++)
            {
                Channel? channel = Poller.Event(i, out bool readable, out bool writable);
                if (channel?.Owner is not { } owner) { continue; }
                if (writable) { owner.OnWritable(channel); }
                if (!readable || channel.IsClosed) { continue; }
                if (Now < Gate.RepliesHeldUntilUs && owner is Upstream early)
                {
                    early.HoldReading(true);
                    _heldReads.Add(early);
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
            FlushShared();
            foreach (Upstream upstream in _readableShared)
            {
                if (upstream.IsClosed) { continue; }
                // A version may have opened since it was found readable.
                if (Now < Gate.RepliesHeldUntilUs)
                {
                    upstream.HoldReading(true);
                    _heldReads.Add(upstream);
                    continue;
                }
                upstream.OnReadable(upstream.Channel);
            }
            _readableShared.Clear();
            if (Poller.Local.Any) { DoLocal(); }
            if (_heldReads.Count > 0 && Now >= Gate.RepliesHeldUntilUs) { ReleaseReads(); }
            ReadGranted();
            if (_waitingForQuiet.Count > 0 && !IsSharedBusy) { ResumeQuiet(); }
            while (_posted.TryDequeue(out Action? action)) { action(); }
            Boundary.Turn(Now);
            if (_quiet is not null) { CheckQuiet(); }
            if (_heldBatches.Count > 0) { CheckHeldBatches(); }
            if (_withholdings.Count > 0) { CheckWithholdings(); }
            Resume();
            ChangeSharedView();
            if (Now >= _nextHousekeeping) { Housekeeping(); }
            FlushShared();
        }
        CloseEverything();
        // Whoever waits for this end would end the shard in order, which it must not do any more.
        if (IsHalted) { Thread.Sleep(System.Threading.Timeout.Infinite); }
    }

    /// <summary>Ends <see cref="Run"/>. Any thread.</summary>
    public void Stop() => Post(() => _stopping = true);

    /// <summary>Stops serving at once: from here on no client is sent anything, and all connections end. The process ends next. Any thread.</summary>
    public void Halt()
    {
        _isHalted = true;
        Poller.Wake();
    }

    /// <summary>See <see cref="Halt"/>.</summary>
    public bool IsHalted => _isHalted;

    private volatile bool _isHalted;

    public void Dispose()
    {
        Poller.Dispose();
        NativeMemory.AlignedFree(ReceiveBuffer);
    }

    private long Timeout()
    {
        if (!_posted.IsEmpty || _resuming.Count > 0 || Poller.Local.Any) { return 0; }
        long now = Microseconds();
        long timeout = Math.Max(0, _nextHousekeeping - now);
        if (_heldReads.Count > 0) { timeout = Math.Min(timeout, Math.Max(0, Gate.RepliesHeldUntilUs - now)); }
        long gate = Boundary.MicrosecondsToNextTurn(now);
        return gate >= 0 ? Math.Min(gate, timeout) : timeout;
    }

    private readonly List<Upstream> _heldReads = [];

    private void ReleaseReads()
    {
        foreach (Upstream upstream in _heldReads) { upstream.HoldReading(false); }
        _heldReads.Clear();
    }

    // While replies are on their way the next event is near. With few clients latency is all that counts; with many each
    // turn's batch is what makes the proxy cheap, and looking too often makes batches small.
    private int Yields() => !AnythingInFlight ? 0 : Clients.Count <= FewClients ? YieldsForFew : YieldsForMany;

    private const int YieldsForFew = 20;
    private const int YieldsForMany = 2;
    private const int FewClients = 4;

    // ---- Clients ----

    /// <summary>Listens on a socket that is bound and listening.</summary>
    public void Listen(Socket socket)
    {
        Channel channel = Poller.Adopt(socket);
        channel.Owner = new Listener(this);
        Poller.Watch(channel, read: true, write: false);
        _listeners.Add(channel);
    }

    private readonly List<Channel> _listeners = [];

    private sealed class Listener(FrontEndLoop loop) : IChannelOwner
    {
        public void OnReadable(Channel channel)
        {
            for (int i = 0; i < 64; i++)
            {
                try
                {
                    loop.Admit(channel.Socket.Accept());
                }
                catch (SocketException e) when (e.SocketErrorCode is SocketError.WouldBlock or SocketError.ConnectionReset or SocketError.ConnectionAborted)
                {
                    return;
                }
                catch (SocketException e)
                {
                    // Out of descriptors or memory: try again when somebody has left.
                    loop.Shard.Warn($"cannot accept a client: {e.Message}");
                    loop.Poller.Watch(channel, read: false, write: false);
                    loop._pausedListeners.Add(channel);
                    return;
                }
            }
        }

        public void OnWritable(Channel channel)
        {
        }
    }

    private readonly List<Channel> _pausedListeners = [];

    /// <summary>Takes a connected socket as a client.</summary>
    /// <param name="socket">The connection, or the clear end of one over TLS.</param>
    /// <param name="told">Of one over TLS where commits may be told for a time only.</param>
    /// <param name="peer">The other end's address, where the socket does not know it.</param>
    /// <param name="local">Its own.</param>
    public void Admit(Socket socket, ToldCommits? told = null, EndPoint? peer = null, EndPoint? local = null)
    {
        if (socket.ProtocolType == ProtocolType.Tcp)
        {
            socket.NoDelay = true;
            socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, true);
        }
        Channel channel = Poller.Adopt(socket);
        // What a new connection may do was found out a moment ago, or is found out before this one goes on.
        bool known = AreRightsFresh();
        var client = new Client(this, channel, ++_nextClientId, known ? Shared : null, known, told);
        channel.Owner = client;
        if (peer is not null) { client.SetAddresses(peer, local); }
        Clients.Add(client);
        client.Start(refused: Clients.Count > Limits.MaxClients || Descriptors.AreScarce(socket));
    }

    public void Forget(Client client) => Clients.Remove(client);

    /// <summary>The client with a <see cref="Client.VirtualId"/>.</summary>
    public Client? Find(long virtualId)
    {
        foreach (Client client in Clients)
        {
            if (client.VirtualId == virtualId) { return client; }
        }
        return null;
    }

    // ---- Waiting clients ----

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

    /// <summary>A client waits until the shared upstream has its database and protocol.</summary>
    public void WaitForView(Client client) => _otherView.Add(client);

    // One view after the other: each change is a round trip, in which those who want it gather.
    private void ChangeSharedView()
    {
        if (_otherView.Count == 0) { return; }
        if (Shared is not { IsClosed: false } shared)
        {
            ViewDone(_ => true, refused: true);
            return;
        }
        if (shared.ViewsInFlight > 0) { return; }
        Client first = _otherView[0];
        if (first.IsClosed)
        {
            _otherView.RemoveAt(0);
            return;
        }
        _wantedDb = first.Db;
        _wantedProtocol = first.Protocol;
        if (!shared.ChangeView(_wantedDb, _wantedProtocol)) { ViewDone(c => c.Db == _wantedDb && c.Protocol == _wantedProtocol, refused: false); }
    }

    private int _wantedDb, _wantedProtocol;
    private readonly List<Client> _granted = [];

    // Those who wanted the view are read before it changes again, or two views would chase each other for ever.
    private void ReadGranted()
    {
        foreach (Client client in _granted) { client.ReadGranted(); }
        _granted.Clear();
    }

    public void OnViewChanged(Upstream upstream)
    {
        if (upstream.Exclusive is { } client)
        {
            client.OnView(refused: false);
            return;
        }
        if (upstream.IsSpare)
        {
            if (upstream.ViewError is not null) { upstream.Close("its database was refused"); } else { ArrangeSpares(); }
            return;
        }
        if (upstream != Shared) { return; }
        bool refused = upstream.ViewError is not null;
        upstream.ViewError = null;
        ViewDone(c => c.Db == _wantedDb && c.Protocol == _wantedProtocol, refused);
    }

    private void ViewDone(Predicate<Client> whose, bool refused)
    {
        _otherView.RemoveAll(client =>
        {
            if (!client.IsClosed && !whose(client)) { return false; }
            client.OnView(refused);
            if (!refused) { _granted.Add(client); }
            return true;
        });
    }

    // ---- Version boundaries ----

    public void ReleaseHeldUpstreams()
    {
        _releasing.AddRange(HeldUpstreams);
        HeldUpstreams.Clear();
        foreach (Upstream upstream in _releasing) { upstream.ReleaseHeld(); }
        _releasing.Clear();
    }

    public void GiveUpExactness()
    {
        foreach (Client client in Clients)
        {
            if (client.Dedicated is { ExactInFlight: > 0 } upstream) { upstream.GiveUpExactness(); }
        }
    }

    public bool AnythingInFlight => IsInFlightOnShared || Gate.ExactInFlight > 0;

    public bool IsInFlightOnShared => Shared is { InFlight: > 0 } || _retiring is { InFlight: > 0 };

    /// <summary>The open version has ended, and its marker is still to be sent: nothing is forwarded on the shared upstream before. The clock is looked
    /// at only where a version has an end that it must not be open beyond.</summary>
    public bool IsVersionDue => Gate.EndsUs != long.MaxValue && Microseconds() >= Gate.EndsUs;

    private int _dedicatedCount;

    // ---- Housekeeping ----

    private void Housekeeping()
    {
        _nextHousekeeping = Now + HousekeepingMicroseconds;
        foreach (Channel channel in _pausedListeners) { Poller.Watch(channel, read: true, write: false); }
        _pausedListeners.Clear();
        _dedicatedCount = 0;
        foreach (Client client in Clients)
        {
            client.Housekeeping(Now);
            if (client.Dedicated is not null) { _dedicatedCount++; }
        }
        SharedHousekeeping();
        ExpireWaits();
    }

    /// <summary>How many clients have a dedicated upstream.</summary>
    public int DedicatedCount => _dedicatedCount;

    /// <summary>Replies wait for too many slow clients: the slowest goes.</summary>
    public void CloseSlowest()
    {
        Client? slowest = null;
        foreach (Client client in Clients)
        {
            if (slowest is null || client.OutputBytes > slowest.OutputBytes) { slowest = client; }
        }
        slowest?.Close();
    }

    /// <summary>Closes those with the most of requests that have not come whole, while they are too much together.</summary>
    public void LimitInputs()
    {
        while (Clients.Sum(static c => c.InputBytes) > Limits.TotalOutputBytes && Clients.MaxBy(static c => c.InputBytes) is { } largest)
        {
            Shard.Warn($"requests that have not come whole take more than {Limits.TotalOutputBytes >> 20} MB: client {largest.Id}, with {largest.InputBytes >> 20} MB, is closed (see --output-memory-limit)");
            largest.Close();
        }
    }

    private void CloseEverything()
    {
        foreach (Channel listener in _listeners)
        {
            listener.Socket.EndListening();
            Poller.Close(listener);
        }
        foreach (Client client in Clients.ToArray()) { client.Close(); }
        foreach (Upstream lingering in Lingering.ToArray()) { lingering.Close("the proxy stops"); }
        Shared?.Close("the proxy stops");
        _control?.Close("the proxy stops");
    }
}

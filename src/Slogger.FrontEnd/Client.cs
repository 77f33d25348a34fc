// A client's connection: what it sends, what waits for it, and which upstream its requests take. The contract that all
// of it serves: replies come in the order of requests, and what this client does, or fails to do, harms no other.
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd.Transports;

namespace Slogger.FrontEnd;

/// <summary>Why a client needs a dedicated upstream until the reason ends.</summary>
[Flags]
internal enum Pins
{
    None = 0,
    Multi = 1,
    Watch = 2,
    PubSub = 4,
    Monitor = 8,
    Auth = 16,
    Tracking = 32,

    /// <summary>It knows, or has changed, something of the connection itself: its id, its eviction.</summary>
    Identity = 64,
    Raw = 128,
}

/// <summary>What a client waits for before its next request is looked at.</summary>
internal enum Waiting : byte
{
    Nothing,

    /// <summary>All replies that are owed to it.</summary>
    Drain,

    /// <summary>The reply to a request that changes how the next ones go.</summary>
    Reply,

    /// <summary>Room on the way to Redis.</summary>
    Room,

    /// <summary>That the upstream has this client's database and protocol.</summary>
    View,

    /// <summary>That the store is there.</summary>
    Store,

    /// <summary>A commit.</summary>
    Commit,

    /// <summary>What came of requests whose connection to Redis died.</summary>
    Verdict,

    /// <summary>That nothing is in flight on the shared upstream.</summary>
    Quiet,

    /// <summary>A checkpoint of what it has changed.</summary>
    Checkpoint,

    /// <summary>An answer about the past, which comes from elsewhere: whatever becomes of its own connection to Redis.</summary>
    Past,

    /// <summary>The version, or the world-line, that a batch needs.</summary>
    Batch,

    /// <summary>A slot that moves: who serves it is about to be known.</summary>
    Slot,

    /// <summary>That its next request is not held any more.</summary>
    Held,

    /// <summary>That the replication stream is read up to an answer that is here.</summary>
    Stream,

    /// <summary>What Redis says of itself, by which it is judged whether a change would cut the proxy off.</summary>
    Facts,
}

/// <summary>What becomes of replies, as CLIENT REPLY says.</summary>
internal enum ReplyMode : byte { On, Off, SkipNext }

internal sealed unsafe partial class Client : IChannelOwner
{
    private const int ReadBytes = 64 << 10;
    private const long DedicatedIdleMicroseconds = 10_000_000;

    private readonly FrontEndLoop _loop;
    private readonly Channel _channel;
    private NativeBuffer _input;
    private readonly ClientOutput _output;
    private Pins _pins;
    private Waiting _waiting;
    private ReplyMode _replyMode;
    private ClientEnd _end;
    private SharedUse _sharing;
    private long _lastActive;
    private LastRequest _lastRequest;

    public Client(FrontEndLoop loop, Channel channel, long id, Upstream? shared, bool isDecided, ToldCommits? told)
    {
        _sharing = new(shared, isDecided);
        if (loop.Gate.IsVersioned) { _progress = new SessionProgress(new WorldLine(loop.Shard.WorldLine)); }
        Commits = new(loop, this, _progress);
        _loop = loop;
        _channel = channel;
        _output = new(loop, this, channel, told);
        Id = id;
        _lastActive = loop.Now;
        Identity = new(this, channel, loop.Now);
    }

    public FrontEndLoop Loop => _loop;

    /// <summary>Why it needs a connection of its own.</summary>
    public Pins Pins
    {
        get => _pins;
        set => _pins = value;
    }

    /// <summary>Serial number of the connection at this proxy.</summary>
    public long Id { get; }

    /// <summary>The lowest <see cref="VirtualId"/>: above all that Redis gives out.</summary>
    public const long FirstVirtualId = 1L << 48;

    /// <summary>The id of a client that has no connection of its own at Redis: above all that Redis gives out.</summary>
    public long VirtualId => FirstVirtualId + Id;

    /// <summary>What it is told of commits.</summary>
    public ClientCommits Commits { get; }

    /// <summary>Its addresses, and its line in CLIENT LIST.</summary>
    public ClientIdentity Identity { get; }

    /// <summary>When it last sent something or was answered, by the loop's clock.</summary>
    public long LastActive => _lastActive;

    /// <summary>The name of its last command, as Redis would write it.</summary>
    public string LastCommand => _lastRequest.Command;

    /// <summary>Its connection to Redis cannot be told from others' in what Redis lists, so it is in the list as it is.</summary>
    public bool IsUnrecognizable => Dedicated is { IsConnected: true, Address: null, RedisId: 0 };

    public int Db { get; set; }

    public int Protocol { get; set; } = 2;

    public byte[]? Name { get; private set; }

    /// <summary>The shared upstream; <c>null</c> when this client has none.</summary>
    public Upstream? Shared => _sharing.Upstream;

    public Upstream? Dedicated { get; private set; }

    public bool IsClosed { get; private set; }

    public bool IsResumeScheduled { get; set; }

    public nint OutputBytes => _output.Count;

    public nint OutputCapacity => _output.Capacity;

    public nint InputCapacity => _input.Capacity;

    /// <summary>A dedicated upstream should not be read while this holds.</summary>
    public bool IsOutputFull => _output.IsFull;

    private static ReadOnlySpan<byte> TooMany => "-ERR max number of clients reached\r\n"u8;

    /// <summary>Begins service. A client too many is told so and closed.</summary>
    public void Start(bool refused)
    {
        if (refused)
        {
            Deliver(TooMany);
            CloseWhenSent();
            return;
        }
        UpdateWatch();
    }

    public void OnReadable(Channel channel)
    {
        _lastActive = _loop.Now;
        if (_end.LingersUntil != 0)
        {
            DropInput();
            return;
        }
        if (_end.IsWhenSent || _end.IsInputOver || (_waiting != Waiting.Nothing && !ReadsAhead))
        {
            // Not waited for, so this is an error or a hang-up.
            if (!_channel.WantsRead) { Close(); }
            return;
        }
        if (_waiting != Waiting.Nothing)
        {
            ReadAhead();
            return;
        }
        bool special = IsHeldUp || _end.HasQuit || IsInputLong;
        if (IsStreaming || Shared is null || Dedicated is not null || special)
        {
            if (!TakesShared || special) { ReadForDedicated(); return; }
        }
        Upstream? shared = Shared;
        if (shared is null || shared.IsClosed || _loop.IsPaused || !_loop.Shard.IsOpen || _loop.Shard.Hold != Hold.None)
        {
            ReadForDedicated();
            return;
        }
        if (shared.Db != Db || shared.Protocol != Protocol || shared.ViewsInFlight > 0)
        {
            Wait(Waiting.View);
            return;
        }
        ReadForShared(shared);
    }

    public void OnWritable(Channel channel) => _output.Flush();

    // ---- To the client ----

    public void Deliver(ReadOnlySpan<byte> bytes)
    {
        fixed (byte* p = bytes) { Deliver(p, bytes.Length); }
    }

    /// <summary>Passes bytes of replies on, at once when the client takes them, else later.</summary>
    public void Deliver(byte* p, nint count)
    {
        if (_replyMode != ReplyMode.On) { return; }
        // The last reply that the next request waits for: its answer may follow at once.
        if (_waiting == Waiting.Drain && _input.Count > 0 && IsDrained) { GatherUntilResumed(); }
        if (IsInBatch) { _batches!.BeforeReply(count); }
        DeliverPush(p, count);
    }

    /// <summary>Passes bytes on that are no reply.</summary>
    public void DeliverPush(ReadOnlySpan<byte> bytes)
    {
        fixed (byte* p = bytes) { DeliverPush(p, bytes.Length); }
    }

    /// <summary>Passes bytes on that are no reply, so that CLIENT REPLY OFF does not matter.</summary>
    public void DeliverPush(byte* p, nint count) => _output.Add(p, count);

    /// <summary>Whether replies are given out, as CLIENT REPLY says.</summary>
    public bool IsReplying => _replyMode == ReplyMode.On;

    /// <summary>Whether commits may be told at this moment.</summary>
    public bool MayTell => _loop.Shard.MayTell;

    /// <summary>What is given out next tells a commit, or what has survived a recovery.</summary>
    public void Tells()
    {
        if (IsReplying) { _output.Tells(); }
    }

    /// <summary>All that waited has been sent. False: that was what the client's end waited for.</summary>
    public bool GoesOnWhenSent()
    {
        if (_end.IsWhenSent)
        {
            Close();
            return false;
        }
        if (_end.LingersUntil != 0) { EndSending(); }
        return true;
    }

    /// <summary>Looks whether output that waits for a commit can be sent. True when nothing is held any more.</summary>
    public bool IsOutputReleased() => _output.IsReleased();

    /// <summary>See <see cref="ClientOutput.ReleaseReplies"/>.</summary>
    public bool ReleaseReplies(long settled, bool isSilent) => _output.ReleaseReplies(settled, isSilent);

    /// <summary>Has the poller watch for what this client waits for.</summary>
    public void UpdateWatch()
    {
        if (IsClosed) { return; }
        bool read = !_end.IsInputOver && !_end.IsWhenSent && (_waiting == Waiting.Nothing || ReadsAhead) && !_output.IsTooFull;
        _loop.Poller.Watch(_channel, read, _output.WantsWrite);
    }

    /// <summary>More is about to be given out; <see cref="EndGathering"/> must follow before the caller returns.</summary>
    public void Gather() => _output.Gather();

    private void GatherUntilResumed()
    {
        _output.Gather();
        _loop.ScheduleResume(this);
    }

    /// <summary>See <see cref="ClientOutput.EndGathering"/>.</summary>
    public void EndGathering() => _output.EndGathering();

    // ---- Waiting ----

    /// <summary>Stops looking at requests until something has come.</summary>
    public void Wait(Waiting reason)
    {
        _waiting = reason;
        UpdateWatch();
        switch (reason)
        {
            case Waiting.Drain when IsDrained:
                _loop.ScheduleResume(this);
                break;
            case Waiting.View when Dedicated is { ViewsInFlight: > 0 }:
                // That one's reply ends the wait.
                break;
            default:
                _loop.WaitFor(reason, this);
                break;
        }
    }

    /// <summary>Goes on with the requests that are already here, if what was waited for has come.</summary>
    public void Resume()
    {
        GoOn();
        EndGathering();
    }

    private void GoOn()
    {
        if (IsClosed) { return; }
        switch (_waiting)
        {
            case Waiting.Drain when !IsDrained:
            case Waiting.Reply or Waiting.Store or Waiting.Commit or Waiting.View or Waiting.Verdict or Waiting.Checkpoint or Waiting.Past
                or Waiting.Batch or Waiting.Slot or Waiting.Held or Waiting.Facts or Waiting.Stream:
                return;
            case Waiting.Room when Shared is not null && _loop.Sharing.IsFull:
                _loop.WaitFor(Waiting.Room, this);
                return;
            case Waiting.Room when Dedicated is { OutBytes: > DedicatedOutLimitBytes }:
                return;
            case Waiting.Quiet when _loop.Sharing.IsBusy && _loop.Now < _quietDeadline:
                _loop.WaitFor(Waiting.Quiet, this);
                return;
        }
        _waiting = Waiting.Nothing;
        if (_input.Count > 0) { ProcessInput(); } else if (!_end.IsInputOver) { UpdateWatch(); }
        if (IsClosed) { return; }
        UpdateWatch();
        EndUpstream();
        CloseIfDone();
    }

    /// <summary>What it has sent and is not forwarded is little.</summary>
    public bool IsInputSmall => _input.Count < SmallInputBytes;

    /// <summary>It waits for a commit.</summary>
    public bool WaitsForCommit => _waiting == Waiting.Commit;

    /// <summary>It waits for a checkpoint of what it has changed.</summary>
    public bool WaitsForCheckpoint => _waiting == Waiting.Checkpoint;

    /// <summary>It stopped being read until there is room on its upstream.</summary>
    public bool WaitsForRoom => _waiting == Waiting.Room;

    /// <summary>What was waited for has come.</summary>
    public void EndWait()
    {
        _waiting = Waiting.Nothing;
        if (IsInBatch) { _batches!.AfterReply(); }
        _loop.ScheduleResume(this);
    }

    /// <summary>The upstream has the wanted view now, or was refused it: a dedicated one then, where the error will show.</summary>
    public void OnView(bool refused)
    {
        if (IsClosed || _waiting != Waiting.View) { return; }
        if (refused) { _sharing.Avoid(_loop.Now); }
        EndWait();
    }

    /// <summary>The shared upstream has this client's view, now: what is here goes on before that changes.</summary>
    public void ReadGranted()
    {
        if (IsClosed || _waiting != Waiting.Nothing) { return; }
        if (_input.Count > 0) { ProcessInput(); }
        if (IsClosed || _end.IsInputOver || _end.IsWhenSent || _waiting != Waiting.Nothing) { return; }
        UpdateWatch();
        OnReadable(_channel);
    }

    /// <summary>Less is held than before.</summary>
    public void OnHoldEnded()
    {
        if (!IsClosed && _waiting == Waiting.Held) { EndWait(); }
    }

    /// <summary>No reply is owed to it.</summary>
    public bool IsDrained => _sharing.InFlight == 0 && (Dedicated is null || Dedicated.InFlight == 0);

    /// <summary>A reply has been given out.</summary>
    public void AfterReply(Upstream upstream)
    {
        if (IsInBatch) { _batches!.AfterReply(); }
        if (IsClosed) { return; }
        _lastActive = _loop.Now;
        if (upstream == Dedicated && (_pins & Pins.PubSub) != 0 && !upstream.IsSubscribed && _subscribing == 0)
        {
            _pins &= ~Pins.PubSub;
        }
        AfterOwnReply();
    }

    /// <summary>A reply has come, the client's or one of the proxy's own requests: it may have been the last that was waited for.</summary>
    public void AfterOwnReply()
    {
        if (IsClosed) { return; }
        if (_waiting == Waiting.Drain && IsDrained) { _loop.ScheduleResume(this); }
        CloseIfDone();
    }

    // ---- Sharing ----

    /// <summary>It is known whether new connections may share.</summary>
    public void OnSharingKnown()
    {
        if (IsClosed || _waiting != Waiting.Store) { return; }
        _sharing.Decide(_loop.Sharing);
        EndWait();
    }

    /// <summary>The shared upstream is gone; the client may share the next one if a new connection may.</summary>
    public void OnSharedClosed() => _sharing.Lose();

    /// <summary>Nobody shares any more: from the next request on this client has an upstream of its own.</summary>
    public void LeaveShared() => _sharing.Leave();

    // As Redis does it: not while it is blocked, subscribed, or watches others.
    private bool IsIdleTooLong(long now) =>
        _loop.Settings.IdleTimeoutSeconds > 0 && now - _lastActive > (_loop.Settings.IdleTimeoutSeconds + 1) * 1_000_000 && IsDrained
        && (_pins & (Pins.PubSub | Pins.Monitor | Pins.Raw)) == 0 && _waiting is Waiting.Nothing && !IsStreaming;

    public void Housekeeping(long now)
    {
        if (IsIdleTooLong(now) || (_end.LingersUntil != 0 && now >= _end.LingersUntil + (_output.Count == 0 ? 0 : UnreadMicroseconds)))
        {
            Close();
            return;
        }
        GiveUpBlocked(now);
        if ((_waiting == Waiting.Verdict || _lostLogin) && now >= _verdictDue && _loop.Shard.IsOpen) { OnStoreSame(); }
        if (Dedicated is { InFlight: 0 } dedicated && _pins == Pins.None && !IsStreaming && Shared is not null &&
            now - dedicated.LastUsedMicroseconds > DedicatedIdleMicroseconds && !_loop.IsPaused)
        {
            dedicated.WasIdle = true;
            dedicated.Close("idle");
        }
        if (_pins == Pins.Auth && Shared is not null && Dedicated is { InFlight: 0 } own && _loop.Settings.IdleTimeoutSeconds > 0 &&
            now - own.LastUsedMicroseconds > _loop.Settings.IdleTimeoutSeconds * 500_000)
        {
            _loop.Upstreams.KeepAlive(own);
        }
        if (_input.Count == 0 && _input.Capacity > 0) { _input.Free(); }
    }
}

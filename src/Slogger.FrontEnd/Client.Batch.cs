// DPR.HELLO and DPR.BATCH: sessions over many shards, whose operations come in batches with a header. A header is judged by
// Core's BatchGate: let through, held, or refused. What follows it are ordinary requests, which take the paths of all
// others; of each it is only counted when it was answered, and in which version. See docs/PROTOCOL.md.
//
// The contract that recovery rests on: a batch that was let through is executed in the world-line of its header or not at
// all. So a client with a batch on its way is closed when the store is lost; and behind a refused batch nothing is executed.
using System.Buffers.Text;
using System.Globalization;
using System.Text;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private const int BatchProtocol = 1;
    private const int BatchCountMax = 65536;
    private const int HeaderArguments = 6;
    private const long HoldMicroseconds = 5_000_000;
    private const long LingerMicroseconds = 1_000_000;

    // For one that does not read what it is owed.
    private const long UnreadMicroseconds = 30_000_000;
    private const int CorkBytesMax = 16 << 10;

    private BatchQueue? _batches;

    // Requests of the batch let through last that have not been forwarded, or answered by the proxy.
    private int _batchLeft;

    // What is given out waits for what comes at once behind it, to be sent with it.
    private bool _corked;
    private BatchHeader _held;
    private long _holdDeadline;
    private UInt128 _helloSession;

    // The error that ends the connection was given: what still comes is dropped until the client has gone, or until this time.
    private long _lingerUntil;

    private bool IsInBatch => _batches is { IsEmpty: false };

    // ---- DPR.HELLO ----

    private string? HelloRefusal()
    {
        if (_loop.Shard.Batches is null) { return NoVersions; }
        if (!ArgumentIs(1, "1"u8)) { return $"ERR SLOGGER this proxy speaks version {BatchProtocol} of the session protocol, no other"; }
        return ReadSession(2, out _helloSession) ? null : BadSession;
    }

    private void AnswerHello()
    {
        IBatchPort port = _loop.Shard.Batches!;
        WorldPoint cut = SessionCut;
        var bytes = new List<byte>();
        void Number(string name, long value)
        {
            AppendBulk(bytes, Encoding.ASCII.GetBytes(name));
            AppendHeader(bytes, ':', value);
        }
        void Word(string name, string value)
        {
            AppendBulk(bytes, Encoding.ASCII.GetBytes(name));
            AppendBulk(bytes, Encoding.UTF8.GetBytes(value));
        }
        (Sequence Last, long Version)? done = port.LastDone(new SessionId(_helloSession));
        AppendHeader(bytes, '*', done is null ? 22 : 26);
        Number("protocol", BatchProtocol);
        Word("session", new SessionId(_helloSession).ToString());
        Word("cluster", port.Cluster);
        Number("shard", port.Shard.Number);
        Number("worldline", cut.WorldLine.Number);
        Number("open", _loop.Gate.Open.Number);
        Number("cut", cut.Version.Number);
        Number("interval_us", port.VersionIntervalUs);
        Number("shards", port.ShardCount);
        Word("finder", port.Finder.ToString().ToLowerInvariant());
        Word("partitions", NameOf(port.Partitions.Kind));
        if (done is { } known)
        {
            Number("last", known.Last.Number);
            // Of a version that has not ended yet only the open one is known to be no lower.
            Number("last_version", known.Version > 0 ? known.Version : _loop.Gate.Open.Number);
        }
        Answer(bytes.ToArray());
    }

    // ---- DPR.BATCH: the header ----

    private const string NoVersions = "ERR SLOGGER nothing has a version with --commit none: send requests without DPR.BATCH, or start the proxy with --commit log";
    private const string BadSession = "ERR SLOGGER a session's id is 32 hexadecimal digits";

    private bool HandleBatch()
    {
        if (_loop.Shard.Batches is not { } port) { return RefuseBatch(NoVersions); }
        _usesDpr = true;
        if (WhyNoBatch() is { } unfit) { return RefuseBatch(unfit); }
        if (ReadHeader(port, out BatchHeader header) is { } wrong) { return RefuseBatch(wrong); }
        // Replies of batches need not be awaited, they are counted; of other requests nobody keeps count.
        if (_progress!.Forwarded.Number - _progress.Answered.Number != (_batches?.Unanswered ?? 0) || _batches is { IsFull: true })
        {
            Wait(Waiting.Drain);
            return false;
        }
        if (Shared is null && (_pins & Pins.Auth) == 0)
        {
            // Who is not let in needs no connection of its own to hear of it.
            if (!_loop.IsSharingKnown)
            {
                Wait(Waiting.Store);
                return false;
            }
            Decide();
            if (Shared is null && _loop.NeedsPassword) { return RefuseBatch("NOAUTH Authentication required."); }
        }
        if (Route(needsDedicated: false, viewMatters: false) is null) { return false; }
        Version open = _loop.Gate.Open;
        GateDecision decision = port.Decide(header, open);
        switch (decision.Verdict)
        {
            case GateVerdict.Execute:
                port.OnLetThrough(header, open);
                // Whoever names the new world-line has heard of it.
                _refusalBehindNotice = null;
                BeginBatch(header);
                return true;
            case GateVerdict.Rollback when MayTell:
                return RefuseBatch(RollbackText(port, header, decision), tells: true);
            case GateVerdict.RefuseAhead:
                return RefuseBatch(AheadText(header, open.Number));
            default:
                return HoldBatch(port, header, decision);
        }
    }

    // What the connection is in that a batch cannot be part of.
    private string? WhyNoBatch()
    {
        if ((_pins & Pins.Multi) != 0 || _losesTransaction) { return "ERR SLOGGER DPR.BATCH cannot be queued in a transaction"; }
        if (_replyMode != ReplyMode.On) { return "ERR SLOGGER DPR.BATCH needs the replies that CLIENT REPLY has switched off"; }
        return (_pins & Pins.Monitor) != 0 || (Protocol == 2 && (_pins & Pins.PubSub) != 0)
            ? "ERR SLOGGER DPR.BATCH cannot be used on a connection that is subscribed or monitors" : null;
    }

    private string? ReadHeader(IBatchPort port, out BatchHeader header)
    {
        header = default;
        bool keepsDependencies = port.Finder != FinderKind.Approximate;
        int dependencies = 0;
        if (ArgumentCount < HeaderArguments || (ArgumentCount - HeaderArguments) % 3 != 0) { return "ERR wrong number of arguments for 'dpr.batch' command"; }
        if (!ReadSession(1, out UInt128 session)) { return BadSession; }
        if (!ArgumentNumber(2, out long line) || line < 1) { return "ERR SLOGGER the world-line must be a number of 1 or more"; }
        if (!ArgumentNumber(3, out long atLeast) || atLeast < 0) { return "ERR SLOGGER the version must be a number of 0 or more"; }
        if (!ArgumentNumber(5, out long count) || count is < 1 or > BatchCountMax) { return $"ERR SLOGGER a batch has 1 to {BatchCountMax} operations"; }
        if (!ArgumentNumber(4, out long first) || first < 1 || first > long.MaxValue - count) { return "ERR SLOGGER the first sequence number must be a number of 1 or more"; }
        for (int i = HeaderArguments; i < ArgumentCount; i += 3)
        {
            long shard = 0, version = 0;
            bool isDependency = ArgumentIs(i, "DEP"u8) && ArgumentNumber(i + 1, out shard) && shard is >= 0 and < ClientSession.ShardsMax
                && ArgumentNumber(i + 2, out version) && version >= 1;
            if (!isDependency) { return "ERR SLOGGER what follows the count must be DEP <shard> <version>, any number of times"; }
            if (!keepsDependencies) { continue; }
            if (shard >= port.ShardCount) { return $"ERR SLOGGER there is no shard {shard}: the cluster has {port.ShardCount}, from 0"; }
            if (version > atLeast) { return $"ERR SLOGGER DEP {shard} {version} is above the version that the session has seen, {atLeast}"; }
            if (dependencies == _dependencies.Length) { Array.Resize(ref _dependencies, Math.Max(8, 2 * dependencies)); }
            _dependencies[dependencies++] = new Dependency(new ShardId((int)shard), new Version(version));
        }
        header = new(new SessionId(session), new WorldLine(line), new Version(atLeast), new Sequence(first), (int)count, _dependencies.AsMemory(0, dependencies));
        return null;
    }

    // What the header read last names; none for grid cuts, which need none.
    private Dependency[] _dependencies = [];

    // What sessions are told: committed at every shard.
    private WorldPoint SessionCut => Told(_loop.Shard.Batches is { } port && port.Finder != FinderKind.Approximate ? port.CommittedEverywhere : Cut);

    /// <summary>What a session of an older world-line is told.</summary>
    internal static string RollbackText(IBatchPort port, in BatchHeader header, in GateDecision decision) => string.Create(CultureInfo.InvariantCulture,
        $"ROLLBACK session={header.Session} abandoned={header.WorldLine} worldline={decision.Branch.WorldLine} {BranchText(port, header, decision)}");

    /// <summary>What a session is told that has seen a version which no shard can have opened.</summary>
    internal static string AheadText(in BatchHeader header, long open) => string.Create(CultureInfo.InvariantCulture,
        $"SLOGGER AHEAD version={header.AtLeast} open={open}: no shard can have given out a version so far ahead");

    private static string BranchText(IBatchPort port, in BatchHeader header, in GateDecision decision) => port.Finder == FinderKind.Approximate
        ? string.Create(CultureInfo.InvariantCulture, $"branch={decision.Branch.Version}")
        : $"branches={port.BranchesSince(header.WorldLine)}";

    private bool ReadSession(int index, out UInt128 session)
    {
        ReadOnlySpan<byte> text = Argument(index);
        session = default;
        return text.Length == 32 && UInt128.TryParse(text, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out session);
    }

    private void BeginBatch(in BatchHeader header)
    {
        (_batches ??= new()).Begin(header);
        _batchLeft = header.Count;
        _marked = null;
        _markSession = header.Session;
        _markLast = new(header.First.Number + header.Count - 1);
        _holdDeadline = 0;
        _input.Consume((nint)_requestBytes);
        // Who waits for it before sending requests is told at once; others with the first reply, which costs less.
        if (_input.Count == 0 && _batches.Count == 1) { AnnounceHead(); }
    }

    private bool HoldBatch(IBatchPort port, in BatchHeader header, in GateDecision decision)
    {
        if (_holdDeadline == 0) { _holdDeadline = _loop.Now + HoldMicroseconds; }
        if (_loop.Now >= _holdDeadline)
        {
            if (decision.Verdict == GateVerdict.Rollback) { return RefuseBatch($"ERR SLOGGER shard {port.Shard} has no site lease, and cannot say what has survived of world-line {header.WorldLine}: try again"); }
            return RefuseBatch(string.Create(CultureInfo.InvariantCulture,
                $"ERR SLOGGER shard {port.Shard} is at version {_loop.Gate.Open} of world-line {_loop.Shard.WorldLine}, and has not come to version {header.AtLeast} of world-line {header.WorldLine} in {HoldMicroseconds / 1_000_000} s: try again"));
        }
        if (decision.Verdict == GateVerdict.FastForward) { FastForward(decision.Version); }
        _held = header;
        Wait(Waiting.Batch);
        _loop.HoldBatch(this);
        return false;
    }

    /// <summary>Looks whether the batch that was held can go on, or has waited too long. True when the wait has ended.</summary>
    public bool IsBatchReleased()
    {
        if (IsClosed || _waiting != Waiting.Batch) { return true; }
        GateDecision decision = _loop.Shard.Batches!.Decide(_held, _loop.Gate.Open);
        if (decision.Verdict is GateVerdict.WaitUntil or GateVerdict.FastForward or GateVerdict.WaitForWorldLine or GateVerdict.WaitForGrid or GateVerdict.Rollback && _loop.Now < _holdDeadline && !(decision.Verdict == GateVerdict.Rollback && MayTell))
        {
            // It may have come to that only now: the world-line was waited for before.
            if (decision.Verdict == GateVerdict.FastForward) { FastForward(decision.Version); }
            return false;
        }
        EndWait();
        return true;
    }

    // The error is the only reply, after all that is owed. The connection is closed when the client has seen it: closed at once,
    // with requests of the batch still coming, it might be lost on the way.
    private bool RefuseBatch(string error, bool tells = false)
    {
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        if (tells) { Tells(); }
        DeliverPush(Encoding.ASCII.GetBytes($"-{error}\r\n"));
        if (!IsClosed) { EndWhenRead(); }
        return false;
    }

    // What the client has sent meanwhile is dropped.
    private void EndWhenRead()
    {
        _lingerUntil = _loop.Now + LingerMicroseconds;
        _input.Free();
        if (_output.Count == 0) { EndSending(); }
        UpdateWatch();
    }

    private void EndSending()
    {
        _lingerUntil = _loop.Now + LingerMicroseconds;
        try
        {
            _channel.Socket.Shutdown(System.Net.Sockets.SocketShutdown.Send);
        }
        catch (System.Net.Sockets.SocketException)
        {
            Close();
        }
    }

    private void DropInput()
    {
        int got = _channel.Receive(_loop.ReceiveBuffer, FrontEndLoop.ReceiveBufferBytes);
        if (got <= 0 && got != Transports.Channel.WouldBlock) { Close(); }
    }

    // ---- The requests of a batch ----

    // Of the batch let through last: where its requests went, and what is to be said behind them.
    private Upstream? _marked;
    private SessionId _markSession;
    private Sequence _markLast;

    private void CountForwardedInBatch(Upstream upstream, int count)
    {
        _batchLeft -= count;
        _marked = upstream;
        if (_batchLeft == 0) { _loop.MarkBatch(this, upstream, _markSession, _markLast); }
    }

    /// <summary>Whether a command of the proxy's own can be put behind what this client's own upstream has been sent.</summary>
    public bool TakesMarks(Upstream upstream) => upstream == Dedicated && !IsClosed && !_streaming && !_ended && !_quits
        && (_pins & (Pins.Multi | Pins.Raw | Pins.PubSub | Pins.Monitor)) == 0 && (_user is null || _loop.IsOwnUser(_user));

    // What would hold up the batch, be no single reply, or end the connection.
    private string? BatchRefusalOf(CommandKind kind)
    {
        bool inTransaction = (_pins & Pins.Multi) != 0;
        bool isRefused = kind switch
        {
            CommandKind.Blocking => !inTransaction,
            CommandKind.BlockingStream => !inTransaction && HasArgument("BLOCK"u8),
            CommandKind.Multi => _batchLeft == 1,
            CommandKind.Client => ArgumentIs(1, "REPLY"u8),
            _ => kind is CommandKind.Subscribe or CommandKind.Unsubscribe or CommandKind.Monitor or CommandKind.Replication or CommandKind.Quit
                or CommandKind.Reset or CommandKind.Wait or CommandKind.WaitAof or CommandKind.Dpr or CommandKind.Batch or CommandKind.Peer,
        };
        if (!isRefused) { return null; }
        return kind == CommandKind.Multi
            ? "ERR SLOGGER a transaction must end in the batch that it begins in"
            : $"ERR SLOGGER '{Encoding.ASCII.GetString(Argument(0)).ToUpperInvariant()}' cannot be part of a batch";
    }

    // ---- The replies ----

    private void OnBatchAnswered(int count, Version version, bool inexact)
    {
        // A reply that was put off for the sake of the one before is out by now.
        GiveTrailers();
        if (!IsInBatch)
        {
            // That was the last batch, and this is the reply of a request behind it.
            Uncork();
            return;
        }
        _batches!.OnAnswered(count, version, inexact);
        _corked = true;
    }

    // The proxy has answered by itself: without effect, so in any version that keeps the order.
    private void CountLocalInBatch()
    {
        if (_marked is { } upstream) { CountForwardedInBatch(upstream, 1); } else { _batchLeft--; }
        OnBatchAnswered(1, Version.Max(_loop.Gate.Open, _batches!.Head.Latest), inexact: false);
        AfterBatchReply();
    }

    private void BeforeReply(nint count)
    {
        // Copying so much would cost more than sending it apart.
        if (count > CorkBytesMax) { _corked = false; }
        if (!_batches!.Head.IsAnnounced) { AnnounceHead(); }
    }

    private void AnnounceHead()
    {
        _batches!.Head.IsAnnounced = true;
        DeliverPush("+OK\r\n"u8);
    }

    // Replies have been given out: behind the last of a batch comes its trailer.
    private void AfterBatchReply()
    {
        // These replies were looked at, and are yet to be given out.
        if (_waiting is not (Waiting.Reply or Waiting.Checkpoint)) { GiveTrailers(); }
        Uncork();
    }

    private void Uncork()
    {
        if (!_corked) { return; }
        _corked = false;
        if (!IsClosed && !_gathers && _output.Count > 0) { FlushOutput(); }
    }

    private void GiveTrailers()
    {
        while (_batches is { IsEmpty: false } batches && batches.Head.Unanswered == 0)
        {
            _corked = true;
            BatchInFlight batch = batches.Take();
            GiveTrailer(batch.Reply(SessionCut));
            if (batch.IsInexact) { HoldOutput(batch.Latest); }
            // Who waits for the next one to be let through before sending requests is told; see BeginBatch.
            if (!batches.IsEmpty && batches.Head.Count == _batchLeft) { AnnounceHead(); }
        }
    }

    // The version in the trailer is an upper bound. A session that knew it would take the operation for lost after a recovery to an
    // earlier version, which may hold it all the same. So it hears of it when there can be no such recovery any more; if
    // there is one before, the batch was never answered, and is uncertain.
    private void HoldOutput(Version until)
    {
        if (IsClosed) { return; }
        if (IsCommitted(until.Number))
        {
            // That it leaves tells the commit.
            Tells();
            return;
        }
        _outputHeldFor = until.Number;
        _loop.HoldOutput(this, _outputHeldFor);
    }

    // What waits for the client is sent when this version is committed; 0 for at once.
    private long _outputHeldFor;

    private bool IsOutputHeld => _outputHeldFor != 0;

    /// <summary>Looks whether what is held can be sent. True when nothing is held any more.</summary>
    public bool IsOutputReleased()
    {
        if (IsClosed || !IsOutputHeld) { return true; }
        if (!IsCommitted(_outputHeldFor)) { return false; }
        _outputHeldFor = 0;
        Tells();
        FlushOutput();
        return true;
    }

    private void GiveTrailer(in BatchReply reply)
    {
        Span<byte> text = stackalloc byte[256];
        int length = 0;
        length += Line(text, (byte)'*', 2 + (2 * reply.Versions.Length));
        length += Line(text[length..], (byte)':', reply.WorldLine.Number);
        length += Line(text[length..], (byte)':', reply.Cut.Version.Number);
        foreach (VersionRun run in reply.Versions.Span)
        {
            length += Line(text[length..], (byte)':', run.Count);
            length += Line(text[length..], (byte)':', run.Version.Number);
            if (length < text.Length - 64) { continue; }
            DeliverPush(text[..length]);
            length = 0;
        }
        DeliverPush(text[..length]);
    }

    private static int Line(Span<byte> to, byte kind, long number)
    {
        to[0] = kind;
        _ = Utf8Formatter.TryFormat(number, to[1..], out int digits);
        "\r\n"u8.CopyTo(to[(digits + 1)..]);
        return digits + 3;
    }

    private void FastForward(Version atLeast)
    {
        _loop.Shard.Batches!.FastForward(atLeast);
        _loop.Boundary.OnFastForward();
    }
}

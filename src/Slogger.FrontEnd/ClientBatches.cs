// The batches of one client's sessions. A header is judged by
// Core's BatchGate: let through, held, or refused. What follows it are ordinary requests, which take the paths of all
// others; of each it is only counted when it was answered, and in which version. See docs/reference/sessions.md.
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
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.FrontEnd;

/// <summary>A client's batches: those that were let through, and the one that waits for it. The loop's thread.</summary>
internal sealed class ClientBatches(FrontEndLoop loop, Client client, ClientOutput output)
{
    private const int CountMax = 65536;
    private const int HeaderArguments = 6;
    private const long HoldMicroseconds = 5_000_000;
    private readonly BatchQueue _queue = new();
    private int _left;

    // The one that waits.
    private BatchHeader _held;
    private long _holdDeadline;

    /// <summary>Requests of the batch let through last that have not been forwarded, or answered by the proxy.</summary>
    public int Left => _left;

    /// <summary>Not all replies have come.</summary>
    public bool IsUnderWay => !_queue.IsEmpty;

    // ---- The header ----

    public const string NoVersions =
        "ERR SLOGGER nothing has a version with --commit none: send requests without DPR.BATCH, or start the proxy with --commit log";
    public const string BadSession = "ERR SLOGGER a session's id is 32 hexadecimal digits";

    /// <summary>Handles DPR.BATCH.</summary>
    public bool Handle()
    {
        if (loop.Shard.Batches is not { } port) { return client.RefuseAndEnd(NoVersions); }
        client.UsesDpr = true;
        if (client.WhyNoBatch() is { } unfit) { return client.RefuseAndEnd(unfit); }
        if (ReadHeader(port, out BatchHeader header) is { } wrong) { return client.RefuseAndEnd(wrong); }
        // Replies of batches need not be awaited, they are counted; of other requests nobody keeps count.
        if (client.UnansweredOperations != _queue.Unanswered || _queue.IsFull)
        {
            client.Wait(Waiting.Drain);
            return false;
        }
        if (!client.KnowsItsRights(out bool isNotLetIn)) { return false; }
        if (isNotLetIn) { return client.RefuseAndEnd("NOAUTH Authentication required."); }
        if (client.Route(needsDedicated: false, viewMatters: false) is null) { return false; }
        VersionNumber open = loop.Gate.Open;
        GateDecision decision = port.Decide(header, open);
        switch (decision.Verdict)
        {
            case GateVerdict.Execute:
                port.OnLetThrough(header, open);
                // Whoever names the new world-line has heard of it.
                client.OnNoticeRead();
                Begin(header);
                return true;
            case GateVerdict.Rollback when client.MayTell:
                return client.RefuseAndEnd(RollbackText(port, header, decision), tells: true);
            case GateVerdict.RefuseAhead:
                return client.RefuseAndEnd(AheadText(header, open.Number));
            default:
                return Hold(port, header, decision);
        }
    }

    private string? ReadHeader(IBatchPort port, out BatchHeader header)
    {
        header = default;
        bool keepsDependencies = port.Finder.NeedsDependencies;
        int dependencies = 0;
        if (client.ArgumentCount < HeaderArguments || (client.ArgumentCount - HeaderArguments) % 3 != 0)
        {
            return "ERR wrong number of arguments for 'dpr.batch' command";
        }
        if (!ReadSession(client, 1, out UInt128 session)) { return BadSession; }
        if (!client.ArgumentNumber(2, out long line) || line < 1) { return "ERR SLOGGER the world-line must be a number of 1 or more"; }
        if (!client.ArgumentNumber(3, out long atLeast) || atLeast < 0) { return "ERR SLOGGER the version must be a number of 0 or more"; }
        if (!client.ArgumentNumber(5, out long count) || count is < 1 or > CountMax)
        {
            return $"ERR SLOGGER a batch has 1 to {CountMax} operations";
        }
        if (!client.ArgumentNumber(4, out long first) || first < 1 || first > long.MaxValue - count)
        {
            return "ERR SLOGGER the first sequence number must be a number of 1 or more";
        }
        for (int i = HeaderArguments; i < client.ArgumentCount; i += 3)
        {
            long shard = 0, version = 0;
            bool isDependency = client.ArgumentIs(i, "DEP"u8) && client.ArgumentNumber(i + 1, out shard)
                && shard is >= 0 and < ClientSession.ShardsMax
                && client.ArgumentNumber(i + 2, out version) && version >= 1;
            if (!isDependency) { return "ERR SLOGGER what follows the count must be DEP <shard> <version>, any number of times"; }
            if (!keepsDependencies) { continue; }
            if (shard >= port.ShardCount) { return $"ERR SLOGGER there is no shard {shard}: the cluster has {port.ShardCount}, from 0"; }
            if (version > atLeast)
            {
                return $"ERR SLOGGER DEP {shard} {version} is above the version that the session has seen, {atLeast}";
            }
            if (dependencies == _dependencies.Length) { Array.Resize(ref _dependencies, Math.Max(8, 2 * dependencies)); }
            _dependencies[dependencies++] = new Dependency(new ShardId((int)shard), new VersionNumber(version));
        }
        header = new(new SessionId(session), new WorldLine(line), new VersionNumber(atLeast), new SequenceNumber(first), (int)count,
            _dependencies.AsMemory(0, dependencies));
        return null;
    }

    // What the header read last names; none for grid cuts, which need none.
    private Dependency[] _dependencies = [];

    /// <summary>What a session of an older world-line is told.</summary>
    public static string RollbackText(IBatchPort port, in BatchHeader header, in GateDecision decision) =>
        string.Create(CultureInfo.InvariantCulture,
        $"ROLLBACK session={header.Session} abandoned={header.WorldLine} worldline={decision.Branch.WorldLine} "
            + $"{BranchText(port, header, decision)}");

    /// <summary>What a session is told that has seen a version which no shard can have opened.</summary>
    public static string AheadText(in BatchHeader header, long open) => string.Create(CultureInfo.InvariantCulture,
        $"SLOGGER AHEAD version={header.AtLeast} open={open}: no shard can have given out a version so far ahead");

    private static string BranchText(IBatchPort port, in BatchHeader header, in GateDecision decision) =>
        port.Finder.HasGridCuts
        ? string.Create(CultureInfo.InvariantCulture, $"branch={decision.Branch.Version}")
        : $"branches={port.BranchesSince(header.WorldLine)}";

    public static bool ReadSession(Client client, int index, out UInt128 session)
    {
        ReadOnlySpan<byte> text = client.Argument(index);
        session = default;
        return text.Length == 32 && UInt128.TryParse(text, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out session);
    }

    private void Begin(in BatchHeader header)
    {
        _queue.Begin(header);
        _left = header.Count;
        _marked = null;
        _markSession = header.Session;
        _markLast = new(header.First.Number + header.Count - 1);
        _holdDeadline = 0;
        client.ConsumeRequest();
        // Who waits for it before sending requests is told at once; others with the first reply, which costs less.
        if (client.InputBytes == 0 && _queue.Count == 1) { AnnounceHead(); }
    }

    private bool Hold(IBatchPort port, in BatchHeader header, in GateDecision decision)
    {
        if (_holdDeadline == 0) { _holdDeadline = loop.Now + HoldMicroseconds; }
        if (loop.Now >= _holdDeadline)
        {
            if (decision.Verdict == GateVerdict.Rollback)
            {
                return client.RefuseAndEnd($"ERR SLOGGER shard {port.Shard} has no site lease, and cannot say what has survived "
                    + $"of world-line {header.WorldLine}: try again");
            }
            return client.RefuseAndEnd(string.Create(CultureInfo.InvariantCulture,
                $"ERR SLOGGER shard {port.Shard} is at version {loop.Gate.Open} of world-line {loop.Shard.WorldLine}, and has not "
                    + $"come to version {header.AtLeast} of world-line {header.WorldLine} in {HoldMicroseconds / 1_000_000} s: try again"));
        }
        if (decision.Verdict == GateVerdict.FastForward) { FastForward(decision.Version); }
        _held = header;
        client.Wait(Waiting.Batch);
        loop.Waits.HoldBatch(client);
        return false;
    }

    /// <summary>Looks whether the batch that was held can go on, or has waited too long. True when the wait has ended.</summary>
    public bool IsReleased()
    {
        GateDecision decision = loop.Shard.Batches!.Decide(_held, loop.Gate.Open);
        if (decision.Verdict is GateVerdict.WaitUntil or GateVerdict.FastForward or GateVerdict.WaitForWorldLine or GateVerdict.WaitForGrid
            or GateVerdict.Rollback && loop.Now < _holdDeadline && !(decision.Verdict == GateVerdict.Rollback && client.MayTell))
        {
            // It may have come to that only now: the world-line was waited for before.
            if (decision.Verdict == GateVerdict.FastForward) { FastForward(decision.Version); }
            return false;
        }
        client.EndWait();
        return true;
    }

    // ---- Its requests ----

    // Of the batch let through last: where its requests went, and what is to be said behind them.
    private Upstream? _marked;
    private SessionId _markSession;
    private SequenceNumber _markLast;

    /// <summary>Requests of it were given to an upstream.</summary>
    public void OnForwarded(Upstream upstream, int count)
    {
        _left -= count;
        _marked = upstream;
        if (_left == 0) { loop.MarkBatch(client, upstream, _markSession, _markLast); }
    }

    // ---- The replies ----

    /// <summary>Requests were answered.</summary>
    public void OnAnswered(int count, VersionNumber version, bool inexact)
    {
        // A reply that was put off for the sake of the one before is out by now.
        GiveTrailers();
        if (!IsUnderWay)
        {
            // That was the last batch, and this is the reply of a request behind it.
            output.Uncork();
            return;
        }
        _queue.OnAnswered(count, version, inexact);
        output.Cork();
    }

    // The proxy has answered by itself: without effect, so in any version that keeps the order.
    public void OnAnsweredHere()
    {
        if (_marked is { } upstream) { OnForwarded(upstream, 1); } else { _left--; }
        OnAnswered(1, VersionNumber.Max(loop.Gate.Open, _queue.Head.Latest), inexact: false);
        AfterReply();
    }

    /// <summary>A reply of so many bytes is about to be given out.</summary>
    public void BeforeReply(nint count)
    {
        output.UncorkFor(count);
        if (!_queue.Head.IsAnnounced) { AnnounceHead(); }
    }

    private void AnnounceHead()
    {
        _queue.Head.IsAnnounced = true;
        client.DeliverPush("+OK\r\n"u8);
    }

    /// <summary>Replies have been given out: behind the last of a batch comes its trailer.</summary>
    public void AfterReply()
    {
        // These replies were looked at, and are yet to be given out.
        if (!client.IsReplyPutOff) { GiveTrailers(); }
        output.Uncork();
    }

    private void GiveTrailers()
    {
        while (!_queue.IsEmpty && _queue.Head.Unanswered == 0)
        {
            output.Cork();
            BatchInFlight batch = _queue.Take();
            GiveTrailer(batch.Reply(client.Commits.SessionCut));
            if (batch.IsInexact) { HoldOutput(batch.Latest); }
            // Who waits for the next one to be let through before sending requests is told; see Begin.
            if (!_queue.IsEmpty && _queue.Head.Count == _left) { AnnounceHead(); }
        }
    }

    // The version in the trailer is an upper bound. A session that knew it would take the operation for lost after a recovery to an
    // earlier version, which may hold it all the same. So it hears of it when there can be no such recovery any more; if
    // there is one before, the batch was never answered, and is uncertain.
    private void HoldOutput(VersionNumber until)
    {
        if (client.IsClosed) { return; }
        if (client.Commits.IsCommitted(until.Number))
        {
            // That it leaves tells the commit.
            client.Tells();
            return;
        }
        output.HoldFor(until.Number);
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
            client.DeliverPush(text[..length]);
            length = 0;
        }
        client.DeliverPush(text[..length]);
    }

    private static int Line(Span<byte> to, byte kind, long number)
    {
        to[0] = kind;
        _ = Utf8Formatter.TryFormat(number, to[1..], out int digits);
        "\r\n"u8.CopyTo(to[(digits + 1)..]);
        return digits + 3;
    }

    private void FastForward(VersionNumber atLeast)
    {
        loop.Shard.Batches!.FastForward(atLeast);
        loop.Boundary.OnFastForward();
    }
}

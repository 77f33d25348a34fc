// What becomes of a client and its requests when the store is lost, or has gone back.
using System.Globalization;
using System.Text;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    // A store that dies is noticed within this time; a connection that has been dead for longer, beside a store that is
    // there, died alone.
    private const long VerdictMicroseconds = 200_000;
    private long _verdictDue;

    // What it is to be told of requests that were lost; null: nothing was.
    private RollbackNotice? _rollback;

    private RollbackNotice Rollback => _rollback ??= new(this);

    // The next request, unless it is of a batch that was let through, is not done but answered here.
    private bool IsHeldUp => _rollback is { HoldsUp: true } && BatchLeft == 0;

    /// <summary>A new world-line has begun: tells what survived.</summary>
    public void OnRolledBack(WorldLine next, VersionNumber branch)
    {
        // Who came while the store was being restored may be of the new world-line already.
        if (IsClosed || _progress is null || _progress.WorldLine >= next) { return; }
        _lostLogin = false;
        bool tell = !HasDoneNothing || _rollback is { IsUnread: true };
        RollbackOutcome outcome = _progress.OnRollback(next, branch);
        if (!tell) { return; }
        Rollback.Prepare(next, outcome);
        if (_waiting is Waiting.Commit) { Rollback.AnswerWait(); }
        else if (Rollback.Owed > 0) { Rollback.AnswerOwed("-ERR SLOGGER lost: see the ROLLBACK error before\r\n"); }
        else if (_waiting is Waiting.Verdict) { EndWait(); }
    }

    /// <summary>The client has said that it has read the notice.</summary>
    public void OnNoticeRead() => _rollback?.OnRead();

    // Answers a request that is not done, behind what is on its way. False: it is to be looked at as any other.
    private bool AnswerWithNotice(nint requestBytes, CommandKind kind)
    {
        if (!IsHeldUp) { return false; }
        bool isAnswerToNotice = kind == CommandKind.Quit || (kind == CommandKind.Dpr && ArgumentIs(0, "DPR.RESUME"u8));
        if (!_rollback!.IsToBeGiven && isAnswerToNotice) { return false; }
        // A batch of the new world-line does not take the notice away: its answers come first.
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return true;
        }
        _input.Consume(requestBytes);
        _rollback!.AnswerInstead(kind);
        return true;
    }

    /// <summary>Answers DPR.RESUME.</summary>
    public void AnswerResume(long resumed)
    {
        bool isAtBackup = _loop.Shard.IsFollowing;
        long line = isAtBackup ? _loop.Shard.WorldLine : _progress!.WorldLine.Number;
        if (resumed != line && isAtBackup)
        {
            // Nothing that was read here is ever undone, so there is no notice. Who comes from another connection may ask for the
            // world-line all the same.
            Answer(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture,
                $"-ERR SLOGGER this site is a backup, in world-line {line}, not in {resumed}: it has told of no ROLLBACK, and there is "
                    + $"nothing to resume\r\n")));
            return;
        }
        if (resumed != line)
        {
            Answer(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture,
                $"-ERR SLOGGER this connection is in world-line {line}, not in {resumed}: name the one that its last ROLLBACK "
                    + $"told of\r\n")));
            return;
        }
        OnNoticeRead();
        Answer("+OK\r\n"u8);
    }

    // A request too large to be waited for is passed over as it comes, and answered when it has come: null if it is to be done.
    private bool? StartDropping()
    {
        if (!IsHeldUp) { return null; }
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        BeginStream(null);
        return true;
    }

    // ---- Losing the store ----

    // A client that knows of versions is kept and told; so are all, if the operator wants that. What cannot be made up
    // again at another connection ends all the same, and so does one whose replies are off: it could not be told.
    private bool IsKept => _progress is not null && (UsesDpr || _loop.Shard.KeepsClients) && !IsInBatch && !_output.IsHeld && !IsClosed
        && !_end.IsWhenSent && !_end.IsInputOver && !_end.HasQuit
        && _large is null or { IsDropped: true } && _replyMode == ReplyMode.On && _end.LingersUntil == 0
        && (_pins & ~(Pins.Multi | Pins.Watch | Pins.Identity | Pins.Auth)) == 0 && IsLoginKnown;

    // If it has logged in, the proxy can do so in its place.
    private bool IsLoginKnown => _sharing.User is null || _loop.IsOwnUser(_sharing.User);

    // The connection on which it logged in is lost. If the store is lost with it, and the client is kept, the proxy logs in
    // again in its place; if not, Redis has closed that connection, and with it the client.
    private bool _lostLogin;

    // Nothing is at stake for it, whatever was lost: mostly it has come while the store was away, and waits for it. Among other
    // shards nobody can tell what it has seen there.
    private bool HasDoneNothing => !_loop.Gate.IsPunctual && _progress is { Forwarded.Number: 0 } && !IsInBatch
        && _rollback is null or { Owed: 0 } && !_end.IsWhenSent && !_end.IsInputOver && !IsStreaming;

    /// <summary>A connection died that owed replies: what came of their requests will be told when the shard knows.</summary>
    public void OnReplyLost(int count, ReplyKind kind)
    {
        if (IsClosed || _end.IsWhenSent) { return; }
        if (!IsKept || kind == ReplyKind.Exec)
        {
            // Of a transaction that may have changed the database nobody can tell where the client stands now.
            LoseReplies();
            return;
        }
        // Its request is looked at again, or another reply is its answer.
        if (kind == ReplyKind.Inner) { return; }
        if (kind == ReplyKind.Conditional)
        {
            _progress!.OnForwardedOpenEnded(1, _keyWrite!.SentAt);
            ConsumeRequest();
        }
        Rollback.Owe(count);
        _waiting = Waiting.Verdict;
        _verdictDue = _loop.Now + VerdictMicroseconds;
        UpdateWatch();
    }

    /// <summary>The store is lost: who is not kept goes.</summary>
    public void OnStoreLost()
    {
        _sharing.Lose();
        _lostLogin |= _sharing.User is not null && Dedicated is not null;
        Dedicated?.Close("the store was lost");
        Dedicated = null;
        if (_loop.TakesNobody || (!IsKept && !HasDoneNothing))
        {
            if (!IsClosed) { LoseReplies(); }
            return;
        }
        _pins = _sharing.User is null ? Pins.None : Pins.Auth;
        _transaction.End(runs: false);
    }

    /// <summary>The store was not lost after all; only a connection to it was.</summary>
    public void OnStoreSame()
    {
        if (IsClosed) { return; }
        if (_lostLogin)
        {
            LoseReplies();
            return;
        }
        if (_waiting != Waiting.Verdict) { return; }
        SequenceRange uncertain = _progress!.OnUpstreamLost();
        Rollback.AnswerOwed($"-ERR SLOGGER the connection to Redis broke: it is not known whether operations {uncertain} were done\r\n");
    }
}

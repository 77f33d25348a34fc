// What a kept connection hears of a rollback, and what becomes of its requests from there on.
//
// The contract: nothing that the client sent before it could read the notice is executed. A client pipelines, and nobody sees from
// here how far it has read: so each request behind the notice is refused until the client itself says that it has read it, by
// DPR.RESUME or by the header of a batch of the new world-line. A client that has never used DPR.* knows of neither:
// its connection ends behind the notice.
using System.Globalization;
using System.Text;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    // The error that the next request is answered with.
    private string? _notice;
    private RollbackOutcome _rolledBack;

    // The notice was given, and the client has not said that it has read it: what each request is answered with.
    private byte[]? _refusalBehindNotice;

    // What is left of a transaction whose connection broke, up to its EXEC, must not run as commands of their own.
    private bool _losesTransaction;

    // The next request, unless it is of a batch that was let through, is not done but answered here.
    private bool IsHeldUp => (_notice is not null || _refusalBehindNotice is not null || _losesTransaction) && BatchLeft == 0;

    /// <summary>A new world-line has begun: tells what survived.</summary>
    public void OnRolledBack(WorldLine next, Version branch)
    {
        // Who came while the store was being restored may be of the new world-line already.
        if (IsClosed || _progress is null || _progress.WorldLine >= next) { return; }
        _lostLogin = false;
        bool tell = !HasDoneNothing || _notice is not null || _refusalBehindNotice is not null;
        RollbackOutcome outcome = _progress.OnRollback(next, branch);
        if (!tell) { return; }
        // Rolled back again before the client has read of the first time: nothing was done in between, and that one still holds.
        if (_notice is null && _refusalBehindNotice is null) { _rolledBack = outcome; }
        _refusalBehindNotice = null;
        string uncertain = _rolledBack.Uncertain.IsEmpty ? "" : _rolledBack.Uncertain.ToString();
        _notice = string.Create(CultureInfo.InvariantCulture, $"-ROLLBACK worldline={next} survived={_rolledBack.Survived} uncertain={uncertain}\r\n");
        if (_waiting is Waiting.Commit)
        {
            // What was waited for is lost, or is of the past: the notice is the answer.
            GiveNotice();
            EndWait();
            EndIfPlain();
        }
        else if (_owed > 0)
        {
            GiveOwed("-ERR SLOGGER lost: see the ROLLBACK error before\r\n");
        }
        else if (_waiting is Waiting.Verdict)
        {
            EndWait();
        }
    }

    /// <summary>The client has said that it has read the notice.</summary>
    public void OnNoticeRead() => _refusalBehindNotice = null;

    // It says what has survived: without the right to say so the connection ends.
    private void GiveNotice()
    {
        Tells();
        Deliver(Encoding.ASCII.GetBytes(_notice!));
        _notice = null;
        _losesTransaction = false;
        _refusalBehindNotice = Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture,
            $"-ERR SLOGGER not done: it came behind ROLLBACK worldline={_progress!.WorldLine}: send DPR.RESUME {_progress.WorldLine} when that has been read\r\n"));
    }

    // It would not know how to go on.
    private void EndIfPlain()
    {
        if (!UsesDpr && _refusalBehindNotice is not null && !IsClosed) { EndWhenRead(); }
    }

    // Every request that was under way gets an answer, the first of them the notice if there is one.
    private void GiveOwed(string error)
    {
        if (_notice is not null && _owed > 0)
        {
            GiveNotice();
            _owed--;
        }
        for (; _owed > 0 && !IsClosed; _owed--) { Deliver(Encoding.ASCII.GetBytes(error)); }
        _owed = 0;
        if (IsClosed) { return; }
        EndWait();
        EndIfPlain();
    }

    // Answers a request that is not done, behind what is on its way. False: it is to be looked at as any other.
    private bool AnswerWithNotice(nint requestBytes, CommandKind kind)
    {
        if (!IsHeldUp) { return false; }
        bool isAnswerToNotice = kind == CommandKind.Quit || (kind == CommandKind.Dpr && ArgumentIs(0, "DPR.RESUME"u8));
        if (_notice is null && isAnswerToNotice) { return false; }
        // A batch of the new world-line does not take the notice away: its answers come first.
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return true;
        }
        _input.Consume(requestBytes);
        GiveAnswerInstead(kind);
        return true;
    }

    private void GiveAnswerInstead(CommandKind kind)
    {
        if (kind != CommandKind.Dpr) { CountLocal(); }
        if (_notice is not null)
        {
            GiveNotice();
            if (kind == CommandKind.Quit && !IsClosed) { EndWhenRead(); }
            EndIfPlain();
            return;
        }
        if (_refusalBehindNotice is not null)
        {
            Deliver(_refusalBehindNotice);
            return;
        }
        Deliver(kind == CommandKind.Exec
            ? "-EXECABORT SLOGGER Transaction discarded because the connection to Redis broke\r\n"u8
            : "-ERR SLOGGER lost: the connection to Redis broke during its transaction\r\n"u8);
        if (kind is CommandKind.Exec or CommandKind.Discard or CommandKind.Reset) { _losesTransaction = false; }
    }

    // ---- DPR.RESUME ----

    /// <summary>Answers DPR.RESUME.</summary>
    public void AnswerResume(long resumed)
    {
        bool isAtBackup = _loop.Shard.IsFollowing;
        long line = isAtBackup ? _loop.Shard.WorldLine : _progress!.WorldLine.Number;
        if (resumed != line && isAtBackup)
        {
            // Nothing that was read here is ever undone, so there is no notice. Who comes from another connection may ask for the world-line all the same.
            Answer(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture,
                $"-ERR SLOGGER this site is a backup, in world-line {line}, not in {resumed}: it has told of no ROLLBACK, and there is nothing to resume\r\n")));
            return;
        }
        if (resumed != line)
        {
            Answer(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture,
                $"-ERR SLOGGER this connection is in world-line {line}, not in {resumed}: name the one that its last ROLLBACK told of\r\n")));
            return;
        }
        _refusalBehindNotice = null;
        Answer("+OK\r\n"u8);
    }

    // ---- Large requests that are not done ----

    // What comes of the large request is dropped.
    private bool _dropsStream;

    // A request too large to be waited for is passed over as it comes, and answered when it has come: null if it is to be done.
    private bool? StartDropping()
    {
        if (!IsHeldUp) { return null; }
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        _dropsStream = true;
        BeginStream();
        return true;
    }

    private bool EndDropping()
    {
        _dropsStream = false;
        GiveAnswerInstead(CommandKind.Ordinary);
        return true;
    }
}

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

namespace Slogger.FrontEnd;

/// <summary>What a client is to be told of requests that were lost. The loop's thread.</summary>
internal sealed class RollbackNotice(Client client)
{
    // The error that the next request is answered with.
    private string? _notice;
    private RollbackOutcome _rolledBack;

    // The notice was given, and the client has not said that it has read it: what each request is answered with.
    private byte[]? _refusalBehindNotice;

    // What is left of a transaction whose connection broke, up to its EXEC, must not run as commands of their own.
    private bool _losesTransaction;

    /// <summary>Requests whose replies are lost, and that are to be answered.</summary>
    public int Owed { get; private set; }

    /// <summary>Requests are not done but answered here.</summary>
    public bool HoldsUp => IsUnread || _losesTransaction;

    /// <summary>What is left of a transaction is not done.</summary>
    public bool LosesTransaction => _losesTransaction;

    /// <summary>The notice is yet to be given.</summary>
    public bool IsToBeGiven => _notice is not null;

    /// <summary>The client has not said that it has read the notice.</summary>
    public bool IsUnread => _notice is not null || _refusalBehindNotice is not null;

    /// <summary>Replies to so many requests are lost.</summary>
    public void Owe(int count) => Owed += count;

    /// <summary>The connection to Redis broke in a transaction.</summary>
    public void LoseTransaction() => _losesTransaction = true;

    /// <summary>The client has said that it has read the notice.</summary>
    public void OnRead() => _refusalBehindNotice = null;

    /// <summary>A new world-line has begun: prepares to tell what survived.</summary>
    public void Prepare(WorldLine next, in RollbackOutcome outcome)
    {
        // Rolled back again before the client has read of the first time: nothing was done in between, and that one still holds.
        if (!IsUnread) { _rolledBack = outcome; }
        _refusalBehindNotice = null;
        string uncertain = _rolledBack.Uncertain.IsEmpty ? "" : _rolledBack.Uncertain.ToString();
        _notice = string.Create(CultureInfo.InvariantCulture,
            $"-ROLLBACK worldline={next} survived={_rolledBack.Survived} uncertain={uncertain}\r\n");
    }

    /// <summary>The notice is the answer to a wait: what was waited for is lost, or is of the past.</summary>
    public void AnswerWait()
    {
        GiveNotice();
        client.EndWait();
        EndIfPlain();
    }

    // It says what has survived: without the right to say so the connection ends.
    private void GiveNotice()
    {
        client.Tells();
        client.Deliver(Encoding.ASCII.GetBytes(_notice!));
        _notice = null;
        _losesTransaction = false;
        _refusalBehindNotice = Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture,
            $"-ERR SLOGGER not done: it came behind ROLLBACK worldline={client.WorldLine}: send DPR.RESUME {client.WorldLine} when that "
                + $"has been read\r\n"));
    }

    // It would not know how to go on.
    private void EndIfPlain()
    {
        if (!client.UsesDpr && _refusalBehindNotice is not null && !client.IsClosed) { client.EndWhenRead(); }
    }

    /// <summary>Every request that was under way gets an answer, the first of them the notice if there is one.</summary>
    public void AnswerOwed(string error)
    {
        if (_notice is not null && Owed > 0)
        {
            GiveNotice();
            Owed--;
        }
        for (; Owed > 0 && !client.IsClosed; Owed--) { client.Deliver(Encoding.ASCII.GetBytes(error)); }
        Owed = 0;
        if (client.IsClosed) { return; }
        client.EndWait();
        EndIfPlain();
    }

    /// <summary>Answers a request that is not done.</summary>
    public void AnswerInstead(CommandKind kind)
    {
        if (kind != CommandKind.Dpr) { client.CountLocal(); }
        if (_notice is not null)
        {
            GiveNotice();
            if (kind == CommandKind.Quit && !client.IsClosed) { client.EndWhenRead(); }
            EndIfPlain();
            return;
        }
        if (_refusalBehindNotice is not null)
        {
            client.Deliver(_refusalBehindNotice);
            return;
        }
        client.Deliver(kind == CommandKind.Exec
            ? "-EXECABORT SLOGGER Transaction discarded because the connection to Redis broke\r\n"u8
            : "-ERR SLOGGER lost: the connection to Redis broke during its transaction\r\n"u8);
        if (kind is CommandKind.Exec or CommandKind.Discard or CommandKind.Reset) { _losesTransaction = false; }
    }
}

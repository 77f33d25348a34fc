// What an upstream owes: one entry for each run of requests, in the order in which they were sent, and what is done with the
// replies when they come.
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>What is done with the next reply, or replies, of an upstream.</summary>
internal enum ReplyKind : byte
{
    /// <summary>Passed to the client as bytes.</summary>
    Plain,

    /// <summary>Of a change of database or protocol: nothing else is sent before it has come.</summary>
    View,

    /// <summary>An internal command's: dropped, whatever it is.</summary>
    Dropped,

    /// <summary>The first of an upstream that has to be proved (ConnectionAdmission): whatever it is, Redis knows the connection.</summary>
    Answers,

    /// <summary>The first of the probing upstream: tells whether a new connection may do anything without a password.</summary>
    Greeting,
    Marker,

    /// <summary>Of what begins a control upstream.</summary>
    Control,

    /// <summary>Of CLIENT ID, asked of the proxy's own accord.</summary>
    OwnId,

    /// <summary>Of AUTH, in a client's place.</summary>
    OwnLogin,

    /// <summary>Of CLIENT INFO, asked of the proxy's own accord.</summary>
    OwnInfo,

    /// <summary>Of CONFIG GET, asked of the proxy's own accord.</summary>
    Settings,

    /// <summary>Of what is asked before a setting or a user is changed (StoreFacts).</summary>
    Facts,

    /// <summary>Of COMMAND, COMMAND INFO and COMMAND COUNT, asked of the proxy's own accord.</summary>
    Commands,
    CommandNames,
    CommandCount,

    // ---- Of a special command: given to its handler (Expected.Handler) ----

    /// <summary>Of a client's request.</summary>
    Handled,

    /// <summary>Not of what the client asked for, but of what the proxy needs for its answer: no operation of the client's.</summary>
    Uncounted,

    /// <summary>The same, where another reply is the answer, or the request is looked at again: if it is lost nothing is owed.</summary>
    Inner,

    /// <summary>Of a transaction that is done if nobody has touched the keys it watches: if it was not done (nil), the request is not
    /// answered yet, and no operation.</summary>
    Conditional,

    /// <summary>As Uncounted, of what follows a transaction that may have changed the connection. If it is lost nobody knows where the
    /// client stands.</summary>
    Exec,

    /// <summary>Of a change that the replication stream does not carry: handled even if the client has gone.</summary>
    Unlogged,

    // What the upstream itself learns from.
    Hello,
    Reset,
    ReplyMode,
    Monitor,
    Subscribe,
    Unsubscribe,
}

/// <summary>One or more replies that an upstream owes.</summary>
internal struct Expected
{
    public Client? Client;

    /// <summary>Looks at the reply; <c>null</c> for one that is passed on as bytes, and for the proxy's own.</summary>
    public ReplyHandler? Handler;
    public int Count;
    public ReplyKind Kind;

    /// <summary>The open version was not known to be the executing one all the while: two bounds.</summary>
    public bool Inexact;

    /// <summary>May wait at Redis for something to happen.</summary>
    public bool Blocking;

    /// <summary>It counts as something that may write on a dedicated upstream (<see cref="HeldReplies.OnWriting"/>).</summary>
    public bool IsWriting;

    /// <summary>What the requests have to do with the data.</summary>
    public DataUse Use;

    /// <summary>The open version when it was sent.</summary>
    public long Version;

    /// <summary>On the shared upstream, of what only reads: the last version with a write that it can have seen on that.</summary>
    public long RestsOn;
}

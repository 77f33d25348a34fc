// What an upstream owes: one entry for each run of requests, in the order in which they were sent, and what is done with the
// replies when they come.
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
    Select,
    Hello,
    Auth,
    SetName,
    GetName,
    ReplyMode,
    Reset,
    Info,
    SlowLog,

    /// <summary>A harmless command sent in place of one that the proxy answers: the client's rights decide.</summary>
    Probe,

    /// <summary>Like <see cref="Plain"/>, with a follow-up when it has passed.</summary>
    Config,

    /// <summary>Of MULTI: whether Redis has begun the transaction that the proxy takes for begun.</summary>
    Multi,
    Exec,
    Subscribe,
    Unsubscribe,
    ClientList,
    ClientKill,

    /// <summary>Of what killing clients takes; see <see cref="Client"/>.</summary>
    KillStep,

    /// <summary>A list of clients that goes with INFO, to count them.</summary>
    Census,

    /// <summary>Of CONFIG RESETSTAT.</summary>
    StatisticsReset,

    /// <summary>Of another one, since a command of the proxy's own was on its way beside the one before.</summary>
    StatisticsResetAgain,

    /// <summary>All entries of the slow log, when those asked for were not enough.</summary>
    SlowLogAll,

    /// <summary>Of what begins a control upstream.</summary>
    Control,

    /// <summary>Of CONFIG SET, of a setting that the front end must know.</summary>
    Setting,

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

    /// <summary>Of what loads or unloads commands.</summary>
    Module,

    /// <summary>Of a change that the replication stream does not carry.</summary>
    Unlogged,

    Latency,
    Role,

    /// <summary>Of WAIT: the proxy's own link is counted.</summary>
    WaitCount,

    /// <summary>Not known to Redis, sent in place of a refused command so that a transaction fails.</summary>
    Refused,
    CommitWait,
    Monitor,
    Pause,

    /// <summary>Of a pause that will begin with EXEC.</summary>
    QueuedPause,
    Unpause,

    /// <summary>Of CLUSTER and its like, which the proxy answers if Redis has no objection but that it is no cluster.</summary>
    Cluster,

    /// <summary>Of SCAN, on the search for the keys of a slot.</summary>
    KeysOfSlot,

    /// <summary>Of what may block, among several shards: it is ended when its keys move.</summary>
    Blocked,
}

/// <summary>One or more replies that an upstream owes.</summary>
internal struct Expected
{
    public Client? Client;
    public int Count;
    public ReplyKind Kind;

    /// <summary>The open version was not known to be the executing one all the while: two bounds.</summary>
    public bool Inexact;

    /// <summary>May wait at Redis for something to happen.</summary>
    public bool Blocking;

    /// <summary>The open version when it was sent.</summary>
    public long Version;
}

// What the front end needs of others: a way to the store, and the shard whose versions it stamps.
using System.Net.Sockets;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd.Transports;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>How the front end reaches the store.</summary>
internal interface IStoreConnector
{
    /// <summary>Starts a connection attempt and returns at once. The channel can be written to when it has succeeded or failed.</summary>
    /// <param name="poller">Whose channel it is to be.</param>
    /// <param name="mayMark">Whether markers may be sent on it: it is no client's own.</param>
    Channel Connect(IPoller poller, bool mayMark);

    /// <summary>The request with which the proxy logs in as itself; empty where it has no credentials.</summary>
    byte[] Login => [];

    /// <summary>The user whom <see cref="Login"/> makes the proxy.</summary>
    string LoginUser => FrontEndLoop.DefaultUser;

    /// <summary>The password in <see cref="Login"/>; <c>null</c> where it has none. Never to be shown.</summary>
    string? Password => null;

    /// <summary>Whether the store has a command of that name. Redis is not asked: it counts as having each.</summary>
    bool Knows(ReadOnlySpan<byte> name) => true;

    /// <summary>The store's own error for a command that Redis has and the store has not, without '-' and line end; null: Redis's error
    /// serves.</summary>
    string? MissingError(ReadOnlySpan<byte> name) => null;

    /// <summary>Where Redis is; <c>null</c> where the store is in the process.</summary>
    ListenAddress? Address => null;

    /// <summary>The address that is connected to; <c>null</c> where there is none.</summary>
    System.Net.IPAddress? Ip => null;

    /// <summary>Whether TLS is spoken to it.</summary>
    bool SpeaksTls => false;

    /// <summary>A connection attempt over a socket has succeeded: sets options.</summary>
    void Connected(Socket socket)
    {
    }
}

/// <summary>What the front end needs of the shard. Called by the loop's thread.</summary>
internal interface IShardPort : IVersionSource
{
    /// <summary>Whether requests may be forwarded: the store is there and of the current world-line.</summary>
    bool IsOpen { get; }

    /// <summary>Whether an ordered end is under way, and the store is there: nothing is forwarded any more, but there has to be a
    /// connection for the
    /// marker of the last version.</summary>
    bool IsEnding => false;

    /// <summary>Whether the store follows a primary: it is read only, at the ends of versions.</summary>
    bool IsFollowing => false;

    /// <summary>The cohort of which this process is a node; null: there is none. Never changes.</summary>
    ICohortPort? Cohort => null;

    /// <summary>The current world-line; 0 without versions.</summary>
    long WorldLine { get; }

    /// <summary>The last version that is committed: in the recorded cut. Nobody is told without <see cref="MayTell"/>.</summary>
    long CommittedVersion { get; }

    /// <summary>Whether clients may be told at this moment what is committed, and what has survived a recovery: with a site lease, while
    /// it holds. It is asked
    /// again right before what tells it is sent. Any thread.</summary>
    bool MayTell => true;

    /// <summary>Which requests of clients are held. When less is, <see cref="FrontEndLoop.OnHoldEnded"/> is called.</summary>
    Hold Hold => Hold.None;

    /// <summary>What the backup has durable as a whole, and will never lose; null: there is no backup.</summary>
    WorldPoint? Watermark => null;

    /// <summary>The channel of markers; lines of MONITOR that name it are hidden. Empty without versions.</summary>
    string MarkerChannel { get; }

    /// <summary>What the proxy itself has had the store do: left out of the statistics that clients are shown.</summary>
    CommandCounts OwnCommands { get; }

    /// <summary>What decides about batches; <c>null</c> without versions.</summary>
    IBatchPort? Batches => null;

    /// <summary>The versions of keys; <c>null</c> where there is no stream that tells them.</summary>
    IKeyVersions? Keys => null;

    /// <summary>Who reads the past; <c>null</c> where none is kept.</summary>
    IPastReads? Past => null;

    /// <summary>Why nobody reads the past just now, though it is kept; <c>null</c>: none is.</summary>
    string? PastProblem => null;

    /// <summary>The text of DPR.INFO and of INFO's section.</summary>
    string InfoText(FrontEndLoop loop);

    /// <summary>The connection to the store broke, or could not be made.</summary>
    void StoreUnreachable(string reason);

    /// <summary>A connection that carries markers has ended, with requests on it that are not answered: what Redis has not executed by
    /// the time
    /// at which the store is opened again, it must not execute any more.</summary>
    /// <param name="connection">Who it was to Redis; null if Redis did not tell, and a marker was on it.</param>
    void CarrierLost(ClientLine? connection)
    {
    }

    /// <summary>Whether the connection that Redis sees come from this address ("127.0.0.1:50000") is the proxy's own, for control or
    /// replication.</summary>
    bool IsOwnConnection(string address) => false;

    /// <summary>Whether connections to the store have to be proved before they are used.</summary>
    bool IsFenced => false;

    /// <summary>Finds out whether this process still owns the shard.</summary>
    /// <param name="proved">Run when it does, on any thread; never if it does not.</param>
    void ProveOwnership(Action proved) => proved();

    /// <summary>Whether plain clients are kept over a rollback, and told by an error.</summary>
    bool KeepsClients { get; }

    /// <summary>A client is about to change data in a way that the replication stream does not carry: no version may be
    /// closed from here on, until a checkpoint holds the change.</summary>
    void BeforeUnloggedChange()
    {
    }

    /// <summary>It has been answered, or its connection has gone: the checkpoint can be taken.</summary>
    /// <param name="settled">Run on the loop's thread when Redis is done with the checkpoint, or could not take one now.</param>
    void AfterUnloggedChange(Action settled) => settled();

    /// <summary>A client begins to wait for the commit of a version for which nobody did (<see cref="FrontEndLoop.AwaitedVersion"/>): no
    /// step of it is put off.</summary>
    void OnCommitAwaited()
    {
    }

    /// <summary>Whether replies wait until what they rest on is settled: committed replies. Never changes.</summary>
    bool HoldsReplies => false;

    /// <summary>Whether reads wait for their own version to be settled, as writes do. Only where <see cref="HoldsReplies"/>; never
    /// changes.</summary>
    bool HoldsReads => false;

    /// <summary>The last version that is settled: durable, and never to be lost. Replies that rest on it may leave. When it grows and
    /// <see cref="HeldReplies.AnybodyWaits"/>, <see cref="FrontEndLoop.OnSettled"/> is posted. Any thread.</summary>
    long SettledVersion => long.MaxValue;

    /// <summary>Whether what was read from the store may be told at this moment: the lease of a leader, or of a site. It is asked when
    /// something was read, before any of it is sent. Until it may, what was read waits; when it may again while somebody waits,
    /// <see cref="FrontEndLoop.OnSettled"/> is posted. If it may never again the store is closed. Any thread.</summary>
    bool MaySpeak => true;

    /// <summary>A reply begins to wait for a version for which none did (<see cref="HeldReplies.AwaitedVersion"/>): no step that settles it
    /// is put off.</summary>
    void OnReplyAwaited()
    {
    }

    /// <summary>Reads how another proxy of the cluster introduces itself: the arguments of DPR.PEER.</summary>
    /// <param name="words">The arguments.</param>
    /// <param name="refusal">Why it is not taken.</param>
    /// <returns>What takes over its connection, once <c>+OK</c> has been sent; null if it is not taken.</returns>
    Action<Socket>? ReadPeer(IReadOnlyList<byte[]> words, out string refusal)
    {
        refusal = "ERR SLOGGER DPR.PEER: this shard has no others beside it";
        return null;
    }

    /// <summary>Tells the operator.</summary>
    void Warn(string message);
}

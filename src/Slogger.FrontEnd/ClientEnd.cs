// How far a client's connection is in its end: several things may end it, and what is owed comes before.
namespace Slogger.FrontEnd;

/// <summary>What has been seen and decided of the end of a connection.</summary>
internal struct ClientEnd
{
    /// <summary>The client has ended its stream.</summary>
    public bool IsInputOver;

    /// <summary>The connection is closed when what waits has been sent.</summary>
    public bool IsWhenSent;

    /// <summary>QUIT is on its way to Redis: what the client sends from here on is dropped.</summary>
    public bool HasQuit;

    /// <summary>Its connection to Redis has ended with its own: when Redis hangs up, all has come.</summary>
    public bool IsWithUpstream;

    /// <summary>When, by the loop's clock, it was first told where the leader is; 0: it was not.</summary>
    public long MovedAt;

    /// <summary>Not 0: the error that ends the connection was given. What still comes is dropped until the client has gone, or until
    /// this time of the loop's clock.</summary>
    public long LingersUntil;
}

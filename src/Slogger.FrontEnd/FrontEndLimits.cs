namespace Slogger.FrontEnd;

/// <summary>Limits of the front end. Sizes in bytes.</summary>
internal sealed record FrontEndLimits
{
    /// <summary>Clients at a time; another is refused as Redis refuses it.</summary>
    public int MaxClients { get; init; } = 10_000;

    /// <summary>Replies that wait for one client; beyond it is closed. One value of 512 MB must fit.</summary>
    public long ClientOutputBytes { get; init; } = 576L << 20;

    /// <summary>Replies that wait for all clients together; beyond, the one with the most is closed. So for requests that have not come
    /// whole.</summary>
    public long TotalOutputBytes { get; init; } = 1L << 30;
}

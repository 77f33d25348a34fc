// How the front end's connections reach the store that runs in this process.
using Slogger.Faster.Commands;
using Slogger.FrontEnd;
using Slogger.FrontEnd.Transports;

namespace Slogger.Proxy.Embedded;

/// <summary>Connects to an engine.</summary>
internal sealed class EmbeddedConnector(CommandEngine engine) : IStoreConnector
{
    /// <summary>Set when the last version of an ordered end is about to be closed: what clients have on connections of their own, and has
    /// not been executed, never is. In no commit, it would be answered.</summary>
    public bool IsEnding { get; set; }

    public Channel Connect(IPoller poller, bool mayMark) =>
        new EmbeddedChannel(poller.Local, engine.Connect(isOwner: mayMark), mayMark ? null : () => IsEnding);

    public bool Knows(ReadOnlySpan<byte> name) => CommandConnection.IsKnown(name);

    public string? MissingError(ReadOnlySpan<byte> name) => MissingCommands.ErrorFor(name);

    public override string ToString() => "the embedded store";
}

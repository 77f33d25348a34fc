// Commands that are not ordinary: one entry for each, or for several that are treated alike. To add a command: a kind, an entry in the
// table
// (SpecialCommands), and the handler that the entry names.
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Handles the request at the head of a client's input: forwards it, answers it, or begins to wait.</summary>
/// <returns>Whether the next request can be looked at. False: something must be waited for.</returns>
internal delegate bool CommandHandler(Client client);

/// <summary>Says why a request is refused; <c>null</c> if it is not.</summary>
internal delegate string? CommandRefusal(Client client);

/// <summary>Looks at the reply to a request before it goes on to the client, or in place of that.</summary>
internal delegate void ReplyHandler(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply);

/// <summary>How a command is handled that is not ordinary.</summary>
/// <param name="Kind">Its kind.</param>
/// <param name="Names">The names of the command, or commands, with spaces between.</param>
/// <param name="Handle">Handles it.</param>
internal sealed record SpecialCommand(CommandKind Kind, string Names, CommandHandler Handle)
{
    /// <summary>Handles it in a transaction, where it is queued. By default it is forwarded as it is.</summary>
    public CommandHandler Queue { get; init; } = static client => client.Forward(needsDedicated: true);

    /// <summary>Why it is refused where operations have versions.</summary>
    public CommandRefusal? Refuse { get; init; }

    /// <summary>Whether that depends on what Redis says of itself (<see cref="StoreFacts"/>).</summary>
    public Predicate<Client>? NeedsFacts { get; init; }

    /// <summary>Why it is refused at a backup, whose store is read at the ends of versions.</summary>
    public CommandRefusal? RefuseAtBackup { get; init; }

    /// <summary>Why it is refused in a session's batch: it would hold up the batch, be no single reply, or end the connection.</summary>
    public CommandRefusal? RefuseInBatch { get; init; }

    /// <summary>Whether it is handled although the client has not said that it has read of a rollback.</summary>
    public Predicate<Client>? IgnoresNotice { get; init; }

    /// <summary>Whether the proxy handles it by itself: it has no keys, and cannot be queued in a transaction.</summary>
    public bool IsOfProxy { get; init; }

    /// <summary>Whether it must not run on a connection that others share, because it blocks it or changes what it is.</summary>
    public bool ChangesConnection { get; init; }

    /// <summary>For <see cref="RefuseInBatch"/>.</summary>
    public static string NotInBatch(Client client) =>
        $"ERR SLOGGER '{Encoding.ASCII.GetString(client.Argument(0)).ToUpperInvariant()}' cannot be part of a batch";
}

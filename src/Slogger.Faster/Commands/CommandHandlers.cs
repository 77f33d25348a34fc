// The handlers of one connection's commands. Each group names in its constructor what it may touch.
namespace Slogger.Faster.Commands;

/// <summary>One of each group. An entry of <see cref="CommandTable"/> is executed by a method of one of them.</summary>
internal sealed class CommandHandlers
{
    public required StringCommands Strings { get; init; }

    public required NumberCommands Numbers { get; init; }

    public required BitCommands Bits { get; init; }

    public required KeyCommands Keys { get; init; }

    public required ExpiryCommands Expiries { get; init; }

    public required TransactionCommands Transactions { get; init; }

    public required PubSubCommands Messages { get; init; }

    public required ConnectionCommands Connection { get; init; }

    public required ClientCommands Clients { get; init; }

    public required CatalogCommands Catalog { get; init; }

    public required ServerCommands Server { get; init; }

    public required UserCommands Users { get; init; }
}

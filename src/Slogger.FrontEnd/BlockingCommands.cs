// Commands that wait at the store for something to happen.
namespace Slogger.FrontEnd;

/// <summary>Handlers of BLPOP and its like, and of XREAD.</summary>
internal static class BlockingCommands
{
    public static bool Pop(Client client) => client.Forward(needsDedicated: true, HandlerIn(client), blocking: true);

    public static bool Read(Client client)
    {
        bool blocks = client.HasArgument("BLOCK"u8);
        return client.Forward(blocks, blocks ? HandlerIn(client) : null, blocking: blocks);
    }

    // Among several shards it is ended when its keys move.
    private static ReplyHandler? HandlerIn(Client client) => client.Loop.Slots is null ? null : OnReply;

    private static void OnReply(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply) =>
        client.Pass(reply.StartsWith("-UNBLOCKED"u8) ? client.Slots.AnswerOfUnblocked(reply) : reply);

    public static string? PopInBatch(Client client) => (client.Pins & Pins.Multi) == 0 ? SpecialCommand.NotInBatch(client) : null;

    public static string? ReadInBatch(Client client) => client.HasArgument("BLOCK"u8) ? PopInBatch(client) : null;

    public static string? ReadAtBackup(Client client) => client.HasArgument("BLOCK"u8)
        ? "ERR SLOGGER nobody waits for new entries at a backup, which would hold up the next version: read without BLOCK, or wait "
        + "at the primary" : null;
}

// CLIENT LIST and CLIENT KILL: about clients, of which Redis knows only those with a connection of their own.
namespace Slogger.Proxy.FrontEnd;

internal sealed unsafe partial class Client
{
    private bool HandleKill() => Forward(needsDedicated: true, ReplyKind.Plain);

    private bool HandleList() => Forward(needsDedicated: true, ReplyKind.Plain);

    private void OnKillChecked(ReadOnlySpan<byte> reply) => Answer(reply);

    private static ReadOnlySpan<byte> WithOwnClients(ReadOnlySpan<byte> reply) => reply;
}

using System.Net.Sockets;

namespace Slogger.FrontEnd.Transports;

/// <summary>The end of a socket that listens.</summary>
internal static class ListeningSocket
{
    /// <summary>Ends the listening at once. Where a program is being started at that moment, its process has a copy of every socket until
    /// it begins: a listener that is only closed would go on listening there, and keep the address from whoever takes it next.</summary>
    public static void EndListening(this Socket socket)
    {
        try
        {
            socket.Shutdown(SocketShutdown.Both);
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            // It does not listen, or the system knows no such thing.
        }
    }
}

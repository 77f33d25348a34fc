// Fills a store with the keys that redis-benchmark draws from (`key:` and twelve digits), each once, pipelined.
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Slogger.Bench.Load;

internal static class StoreFiller
{
    private const int KeysPerBatch = 1000;

    /// <exception cref="BenchException">A SET was refused.</exception>
    public static void Fill(int port, int database, int keys, int sizeBytes)
    {
        using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true,
            ReceiveTimeout = 60_000 };
        socket.Connect(IPAddress.Loopback, port);
        if (database != 0)
        {
            Exchange(socket, Encoding.ASCII.GetBytes($"*2\r\n$6\r\nSELECT\r\n${database.ToString().Length}\r\n{database}\r\n"), 1);
        }

        string value = new('x', sizeBytes);
        for (int first = 0; first < keys; first += KeysPerBatch)
        {
            int count = Math.Min(KeysPerBatch, keys - first);
            var batch = new StringBuilder(count * (sizeBytes + 60));
            for (int k = first; k < first + count; k++)
            {
                batch.Append("*3\r\n$3\r\nSET\r\n$16\r\nkey:").Append(k.ToString("D12")).Append("\r\n$").Append(sizeBytes)
                    .Append("\r\n").Append(value).Append("\r\n");
            }

            Exchange(socket, Encoding.ASCII.GetBytes(batch.ToString()), count);
        }
    }

    private static void Exchange(Socket socket, byte[] request, int replies)
    {
        for (int sent = 0; sent < request.Length;)
        {
            sent += socket.Send(request, sent, request.Length - sent, SocketFlags.None);
        }

        // Every reply is "+OK\r\n".
        byte[] answer = new byte[replies * 5];
        for (int got = 0; got < answer.Length;)
        {
            int n = socket.Receive(answer, got, answer.Length - got, SocketFlags.None);
            if (n == 0 || answer[0] != '+')
            {
                throw new BenchException($"the store could not be filled: {Encoding.ASCII.GetString(answer, 0, got + n).Split('\r')[0]}");
            }

            got += n;
        }
    }
}

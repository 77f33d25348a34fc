// A server that answers commands with fixed bytes, on a free port or a Unix socket; remembers what it was asked.
using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Cli.Tests;

internal sealed class FakeProxy : IDisposable
{
    public const string Info =
        "# Dpr\r\nmode:log\r\ncluster:default\r\nshard:0\r\nworldline:3\r\nopen_version:1205\r\ndurable_version:1203\r\n"
        + "committed_version:1202\r\n"
        + "version_interval_us:5000\r\nlag_marker_ms:0.4\r\nlag_log_ms:1.2\r\nlag_sync_ms:3.5\r\nlag_record_ms:0.2\r\n"
        + "log_bytes:1572864\r\nlog_tail_bytes:1048576\r\n"
        + "checkpoint_last_unix:1000000000\r\ncheckpoint_last_bytes:734003200\r\nclients:12\r\nclients_dedicated:2\r\n"
        + "ops_per_sec:123456\r\n"
        + "store:redis 127.0.0.1:6379\r\nstore_state:serving\r\nmetadata_state:available\r\nuptime_s:3725\r\nversion:0.1.0\r\n"
        + "future_field:[x]\r\n";

    private readonly Socket _listener;
    private readonly Dictionary<string, string> _answers;

    // Answers by the command's first word; without one the connection stays silent. An empty answer closes it.
    public FakeProxy(Dictionary<string, string> answers, string? unixPath = null)
    {
        _answers = answers;
        _listener = unixPath is null ? new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
            : new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        _listener.Bind(unixPath is null ? new IPEndPoint(IPAddress.Loopback, 0) : new UnixDomainSocketEndPoint(unixPath));
        _listener.Listen();
        Address = unixPath is null ? ListenAddress.Tcp("127.0.0.1", ((IPEndPoint)_listener.LocalEndPoint!).Port)
            : ListenAddress.Unix(unixPath);
        new Thread(Accept) { IsBackground = true }.Start();
    }

    public ListenAddress Address { get; }

    public ConcurrentQueue<string> Asked { get; } = [];

    public static string Bulk(string text) => $"${Encoding.UTF8.GetByteCount(text)}\r\n{text}\r\n";

    public static FakeProxy WithInfo(string? unixPath = null) => new(new() { ["DPR.INFO"] = Bulk(Info) }, unixPath);

    public void Dispose() => _listener.Dispose();

    private void Accept()
    {
        try
        {
            while (true)
            {
                using Socket client = _listener.Accept();
                Talk(client);
            }
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            // The test is over.
        }
    }

    private void Talk(Socket client)
    {
        using StreamReader reader = new(new NetworkStream(client));
        while (reader.ReadLine() is { } head)
        {
            List<string> words = [];
            for (int i = int.Parse(head[1..], System.Globalization.CultureInfo.InvariantCulture); i > 0; i--)
            {
                reader.ReadLine();
                words.Add(reader.ReadLine()!);
            }

            Asked.Enqueue(string.Join(' ', words));
            if (_answers.TryGetValue(words[0], out string? answer))
            {
                if (answer.Length == 0)
                {
                    return;
                }

                // In two parts, so that a reader that expects whole answers is found out.
                byte[] bytes = Encoding.UTF8.GetBytes(answer);
                if (!Address.IsUnix)
                {
                    client.NoDelay = true;
                }

                client.Send(bytes.AsSpan(0, bytes.Length / 2));
                Thread.Sleep(20);
                client.Send(bytes.AsSpan(bytes.Length / 2));
            }
        }
    }
}

// A proxy that follows a script: what a real one does only in the midst of a move, or never. It answers logins, greetings and
// probes by itself; each other request is answered by the test, in a version of the test's choice.
using System.Collections.Concurrent;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Slogger.Client.Tests;

internal sealed class ScriptedProxy : IAsyncDisposable
{
    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private readonly CancellationTokenSource _stop = new();
    private readonly ConcurrentBag<Task> _tasks = [];
    private readonly Func<string[], string?> _answer;
    private readonly int _shard;

    /// <param name="shard">Which one it plays.</param>
    /// <param name="answer">The reply to a request, in RESP; null: the connection ends.</param>
    public ScriptedProxy(int shard, Func<string[], string?> answer)
    {
        (_shard, _answer) = (shard, answer);
        _listener.Start();
        _tasks.Add(Task.Run(AcceptAsync));
    }

    public string Endpoint => _listener.LocalEndpoint.ToString()!;

    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    /// <summary>What CLUSTER SLOTS says; null: all slots are here.</summary>
    public string? Slots { get; set; }

    /// <summary>All requests of batches, in order, without probes.</summary>
    public ConcurrentQueue<string> Requests { get; } = new();

    /// <summary>Headers of batches, in order, without those of probes.</summary>
    public ConcurrentQueue<string> Headers { get; } = new();

    public long WorldLine { get; set; } = 1;

    public long Version { get; set; } = 10;

    public long Cut { get; set; }

    /// <summary>What is committed at each shard; null: <see cref="Cut"/> at both.</summary>
    public long[]? Cuts { get; set; }

    /// <summary>How far a session's batches were executed, and in which version at the latest; null: not known.</summary>
    public Func<string, (long Last, long Version)?> Executed { get; set; } = _ => null;

    /// <summary>What it says of how keys fall into partitions; null: nothing, as older proxies do.</summary>
    public string? Partitions { get; set; }

    private string Greeting(int more) =>
        string.Create(CultureInfo.InvariantCulture,
            $"*{6 + more + (Partitions is null ? 0 : 2)}\r\n$7\r\ncluster\r\n$1\r\nc\r\n$5\r\nshard\r\n:{_shard}\r\n$9\r\nworldline\r\n:"
                + $"{WorldLine}\r\n")
        + (Partitions is null ? ""
        : string.Create(CultureInfo.InvariantCulture, $"$10\r\npartitions\r\n${Partitions.Length}\r\n{Partitions}\r\n"));

    /// <summary>Instead of letting a batch through: the error of its refusal.</summary>
    public Func<string[], string?> Refuse { get; set; } = _ => null;

    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync();
        _listener.Stop();
        await Task.WhenAll(_tasks);
    }

    private async Task AcceptAsync()
    {
        try
        {
            while (true)
            {
                TcpClient client = await _listener.AcceptTcpClientAsync(_stop.Token);
                _tasks.Add(Task.Run(() => ServeAsync(client)));
            }
        }
        catch (Exception e) when (e is OperationCanceledException or SocketException or ObjectDisposedException)
        {
            // The end.
        }
    }

    private async Task ServeAsync(TcpClient client)
    {
        using (client)
        using (_stop.Token.Register(client.Dispose))
        {
            try
            {
                await ServeAsync(client.GetStream());
            }
            catch (Exception e) when (e is IOException or ObjectDisposedException or SocketException)
            {
                // The client has gone.
            }
        }
    }

    private async Task ServeAsync(NetworkStream stream)
    {
        using var reader = new StreamReader(stream, Encoding.Latin1);
        while (await ReadAsync(reader) is { } request)
        {
            if (request[0] != "DPR.BATCH")
            {
                string? reply = Own(request);
                if (reply is null) { return; }
                await WriteAsync(stream, reply);
                continue;
            }

            int count = int.Parse(request[5], CultureInfo.InvariantCulture);
            bool isProbe = false;
            if (Refuse(request) is { } refusal)
            {
                await WriteAsync(stream, $"-{refusal}\r\n");
                return;
            }

            var replies = new StringBuilder("+OK\r\n");
            for (int i = 0; i < count; i++)
            {
                string[] one = (await ReadAsync(reader))!;
                isProbe = count == 1 && one[0] == "PING";
                if (!isProbe) { Requests.Enqueue(string.Join(' ', one)); }
                string? reply = isProbe ? "+PONG\r\n" : _answer(one);
                if (reply is null) { return; }
                replies.Append(reply);
            }

            if (!isProbe) { Headers.Enqueue(string.Join(' ', request)); }
            await WriteAsync(stream,
                replies.Append(CultureInfo.InvariantCulture, $"*4\r\n:{WorldLine}\r\n:{Cut}\r\n:{count}\r\n:{Version}\r\n").ToString());
        }
    }

    private string? Own(string[] request) => request[0] switch
    {
        "DPR.HELLO" => Executed(request[2]) is { } executed
            ? string.Create(CultureInfo.InvariantCulture,
            $"{Greeting(more: 4)}$4\r\nlast\r\n:{executed.Last}\r\n$12\r\nlast_version\r\n:{executed.Version}\r\n") : Greeting(more: 0),
        "DPR.WAIT" => string.Create(CultureInfo.InvariantCulture, $"*3\r\n:{WorldLine}\r\n:0\r\n:0\r\n"),
        "DPR.CUT" => string.Create(CultureInfo.InvariantCulture,
            $"*{1 + (Cuts ?? [Cut, Cut]).Length}\r\n:{WorldLine}\r\n{string.Concat((Cuts ?? [Cut, Cut]).Select(c => $":{c}\r\n"))}"),
        "COMMAND" => "*2\r\n*6\r\n$3\r\nget\r\n:2\r\n*0\r\n:1\r\n:1\r\n:1\r\n*6\r\n$4\r\nping\r\n:-1\r\n*0\r\n:0\r\n:0\r\n:0\r\n",
        "CLUSTER" => Slots ?? string.Create(CultureInfo.InvariantCulture,
            $"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{Port}\r\n$1\r\nx\r\n"),
        _ => _answer(request),
    };

    private static async Task<string[]?> ReadAsync(StreamReader reader)
    {
        if (await reader.ReadLineAsync() is not { } header) { return null; }
        var request = new string[int.Parse(header[1..], CultureInfo.InvariantCulture)];
        for (int i = 0; i < request.Length; i++)
        {
            int length = int.Parse((await reader.ReadLineAsync())![1..], CultureInfo.InvariantCulture);
            var text = new char[length + 2];
            await reader.ReadBlockAsync(text);
            request[i] = new(text, 0, length);
        }

        return request;
    }

    private static async Task WriteAsync(NetworkStream stream, string text) => await stream.WriteAsync(Encoding.Latin1.GetBytes(text));
}

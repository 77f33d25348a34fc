// A stand-in for the proxy: one upstream per client over a raw Redis, with the DPR.* commands made up. Over an
// append-only file it keeps its promises (a reply is a commit); told to lie, it must be caught. It tests the harness's
// handling of sequence numbers, commits and rollback notices before and apart from the product.
using System.Net;
using System.Net.Sockets;
using System.Text;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Checking;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Harness;

internal sealed class FakeDprDeployment(Workspace workspace, bool appendOnly) : IDeployment
{
    private readonly RawDeployment _store = new(workspace, appendOnly);
    private readonly Socket _listener = new(SocketType.Stream, ProtocolType.Tcp);
    private long _worldLine = 1;
    private long _version;

    /// <summary>Added to the survivor that a rollback notice tells: 0 is the truth.</summary>
    public int SurvivorLie { get; init; }

    public string Name => "fake over " + _store.Name;

    public EndPoint Endpoint => _listener.LocalEndPoint!;

    public bool SpeaksDpr => true;

    public bool SharedIsExact => false;

    public IReadOnlyList<Fault> Faults => [.. _store.Faults.Select(f => f with { LosesNothing = false })];

    public async Task StartAsync()
    {
        await _store.StartAsync();
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, Workspace.FreePort()));
        _listener.Listen(64);
        _ = Task.Run(async () =>
        {
            while (true)
            {
                var socket = await _listener.AcceptAsync();
                _ = Task.Run(() => ServeAsync(RespClient.Adopt(socket)));
            }
        });
    }

    public async Task InjectAsync(Fault fault, Random random)
    {
        await _store.InjectAsync(fault, random);
        Interlocked.Increment(ref _worldLine);
    }

    public Task RecoverAsync() => _store.RecoverAsync();

    public Task<IReadOnlyList<Violation>?> CheckReplayAsync() => _store.CheckReplayAsync();

    public string Tail() => _store.Tail();

    public ValueTask DisposeAsync()
    {
        _listener.Dispose();
        return _store.DisposeAsync();
    }

    private async Task ServeAsync(RespClient client)
    {
        using var own = client;
        RespClient? upstream = null;
        long sequence = 0;
        bool usesDpr = false, isHeldUp = false;
        (string Now, string Queued) database = ("0", "0");
        try
        {
            upstream = await RespClient.ConnectAsync(_store.Endpoint);
            while (true)
            {
                var request = await client.ReadAsync(TimeSpan.FromMinutes(5));
                string[] command = [.. request.Items.Select(i => i.Text)];
                if (command[0].StartsWith("DPR.", StringComparison.Ordinal))
                {
                    usesDpr = true;
                    isHeldUp &= command[0] != "DPR.RESUME";
                    await WriteAsync(client, Dpr(command[0], sequence));
                    continue;
                }

                sequence++;
                if (isHeldUp)
                {
                    await WriteAsync(client, RespValue.Line(RespKind.Error, "ERR SLOGGER not done"u8.ToArray()));
                    continue;
                }

                try
                {
                    var reply = command[0] == "WAITAOF"
                        ? RespValue.Aggregate(RespKind.Array, [RespValue.Of(1), RespValue.Of(0)])
                        : await upstream.CallAsync(command);
                    database = (command[0], reply.Compact) switch
                    {
                        ("SELECT", "+OK") => (command[1], command[1]),
                        ("SELECT", "+QUEUED") => (database.Now, command[1]),
                        ("EXEC", [not ('-' or '_'), ..]) => (database.Queued, database.Queued),
                        ("MULTI" or "DISCARD", _) => (database.Now, database.Now),
                        _ => database,
                    };
                    await WriteAsync(client, reply);
                }
                catch (ConnectionLostException) when (usesDpr)
                {
                    upstream.Dispose();
                    isHeldUp = true;
                    string notice = $"ROLLBACK worldline={Interlocked.Read(ref _worldLine)} survived={sequence - 1 + SurvivorLie} "
                        + $"uncertain={sequence}";
                    await WriteAsync(client, RespValue.Line(RespKind.Error, Encoding.ASCII.GetBytes(notice)));
                    upstream = await ReconnectAsync();
                    await upstream.DoAsync("SELECT", database.Now);
                }
            }
        }
        catch (Exception e) when (e is IOException or TimeoutException)
        {
            upstream?.Dispose();
        }
    }

    private async Task<RespClient> ReconnectAsync()
    {
        RespClient? made = null;
        await Eventually.AsyncTrue("the store is back", TimeSpan.FromSeconds(30), async () =>
        {
            try
            {
                made = await RespClient.ConnectAsync(_store.Endpoint);
                return !(await made.CallAsync("PING")).IsError;
            }
            catch (ConnectionLostException)
            {
                return false;
            }
        });
        return made!;
    }

    private RespValue Dpr(string name, long sequence)
    {
        long line = Interlocked.Read(ref _worldLine);
        long version = Interlocked.Increment(ref _version);
        long[] numbers = name switch
        {
            "DPR.COMMITTED" => [line, sequence, sequence, version],
            "DPR.WAIT" => [line, sequence, 1],
            "DPR.CUT" => [line, version],
            _ => [],
        };
        if (name == "DPR.RESUME") { return RespValue.Line(RespKind.Simple, "OK"u8.ToArray()); }
        return numbers.Length == 0 ? RespValue.Of(line) : RespValue.Aggregate(RespKind.Array, [.. numbers.Select(RespValue.Of)]);
    }

    private static Task WriteAsync(RespClient client, RespValue value)
    {
        var text = new StringBuilder();
        Encode(text, value);
        return client.WriteAsync(Encoding.Latin1.GetBytes(text.ToString()));
    }

    private static void Encode(StringBuilder text, RespValue value)
    {
        switch (value.Kind)
        {
            case RespKind.Simple:
                text.Append('+').Append(value.Text).Append("\r\n");
                break;
            case RespKind.Error:
                text.Append('-').Append(value.Text).Append("\r\n");
                break;
            case RespKind.Integer:
                text.Append(':').Append(value.Text).Append("\r\n");
                break;
            case RespKind.Null:
                text.Append("$-1\r\n");
                break;
            case RespKind.Bulk or RespKind.Scalar:
                text.Append('$').Append(value.Bytes.Length).Append("\r\n").Append(value.Text).Append("\r\n");
                break;
            default:
                text.Append('*').Append(value.Items.Count).Append("\r\n");
                foreach (var item in value.Items)
                {
                    Encode(text, item);
                }

                break;
        }
    }
}

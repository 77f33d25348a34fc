// A client that writes ever larger numbers to one key of its own, with many requests on their way, until its connection breaks or it
// is told to stop. It knows what was answered.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Fencing;

internal enum WriterKind
{
    /// <summary>Plain SETs, pipelined: the shared connection.</summary>
    Plain,

    /// <summary>A transaction for each number: a connection of its own, always the same.</summary>
    Transactions,

    /// <summary>A connection for each number, with a transaction: the proxy makes a new connection to Redis each time.</summary>
    Connections,
}

internal sealed class LateWriter(EndPoint endpoint, string key, WriterKind kind)
{
    private const int Window = 64;
    private readonly CancellationTokenSource _stop = new();
    private long _sent, _answered;

    public string Key => key;

    public long Sent => Volatile.Read(ref _sent);

    /// <summary>The largest number that was answered.</summary>
    public long Answered => Volatile.Read(ref _answered);

    public void Stop() => _stop.Cancel();

    public async Task RunAsync()
    {
        while (!_stop.IsCancellationRequested)
        {
            try
            {
                using RespClient client = await RespClient.ConnectAsync(endpoint);
                using (_stop.Token.Register(client.Dispose))
                {
                    if (kind == WriterKind.Connections) { await OneAsync(client); } else { await ManyAsync(client); }
                }
            }
            catch (ConnectionLostException) when (kind != WriterKind.Connections || _stop.IsCancellationRequested)
            {
                return;
            }
            catch (ConnectionLostException)
            {
                await Task.Delay(5);
            }
        }
    }

    private async Task ManyAsync(RespClient client)
    {
        Task reading = ReadAsync(client);
        while (!reading.IsCompleted)
        {
            while (Sent - Answered >= Window && !reading.IsCompleted) { await Task.WhenAny(reading, Task.Delay(1)); }
            await SendAsync(client, Sent + 1);
            Interlocked.Increment(ref _sent);
        }
        await reading;
    }

    private async Task OneAsync(RespClient client)
    {
        long number = Interlocked.Increment(ref _sent);
        await SendAsync(client, number);
        for (int i = 0; i < 2; i++) { await client.ReadAsync(TimeSpan.FromMinutes(5)); }
        Note(number, await client.ReadAsync(TimeSpan.FromMinutes(5)));
    }

    private async Task ReadAsync(RespClient client)
    {
        for (long number = 1; ; number++)
        {
            if (kind != WriterKind.Plain)
            {
                for (int i = 0; i < 2; i++) { await client.ReadAsync(TimeSpan.FromMinutes(5)); }
            }
            Note(number, await client.ReadAsync(TimeSpan.FromMinutes(5)));
        }
    }

    private void Note(long number, RespValue reply)
    {
        if (!reply.IsError) { Volatile.Write(ref _answered, number); }
    }

    private async Task SendAsync(RespClient client, long number)
    {
        string text = number.ToString(CultureInfo.InvariantCulture);
        if (kind != WriterKind.Plain) { await client.SendAsync("MULTI"); }
        await client.SendAsync("SET", key, text);
        if (kind != WriterKind.Plain) { await client.SendAsync("EXEC"); }
    }
}

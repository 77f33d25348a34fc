// A client of the primary: pushes numbers to lists of its own at all shards, one after the other, and reads what others push. It goes on
// elsewhere when a connection is lost: with new lists, since what was on its way may be executed yet.
using System.Diagnostics;
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

internal sealed class SiteWriter(int number, Site site, SiteHistory history, int seed, ChildProcess? partner = null)
{
    private readonly Random _random = new(seed);
    private int _generation;

    /// <summary>Writes until told to stop.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            var clients = new RespClient?[site.Shards];
            _generation++;
            string[] lists = [.. Enumerable.Range(0, site.Shards)
                .Select(s => site.Key(s,
                    string.Create(CultureInfo.InvariantCulture, $"w{number}.{_generation}.{s}.{Environment.TickCount64}")))];
            try
            {
                for (int s = 0; s < clients.Length; s++) { clients[s] = await site.ConnectAsync(s); }
                while (!stop.IsCancellationRequested) { await StepAsync(clients!, lists); }
            }
            catch (Exception e) when (e is ConnectionLostException or TimeoutException)
            {
                await Task.Delay(10, CancellationToken.None);
            }
            finally
            {
                foreach (RespClient? client in clients) { client?.Dispose(); }
            }
        }
    }

    private async Task StepAsync(RespClient[] clients, string[] lists)
    {
        int shard = _random.Next(clients.Length);
        switch (_random.Next(20))
        {
            case < 4:
                await ReadAsync(clients);
                break;
            case 4:
                int pushed = await PushAsync(clients[shard], lists[shard]);
                if (pushed >= 0 && (await clients[shard].CallAsync("DPR.WAIT", "*", "3000", "BACKUP")) is { IsError: false } waited
                    && waited.Items[2].Number == 1)
                {
                    history.Keep(lists[shard], pushed);
                }
                break;
            case 5 when partner is not null:
                // Over a pipe, another process: nothing in the stores tells that the one comes after the other.
                _ = await PushAsync(clients[shard], lists[shard]);
                await PartnerPushesAsync(_random.Next(clients.Length));
                int next = _random.Next(clients.Length);
                _ = await PushAsync(clients[next], lists[next]);
                break;
            default:
                _ = await PushAsync(clients[shard], lists[shard]);
                break;
        }
    }

    private async Task<int> PushAsync(RespClient client, string list)
    {
        int pushed = history.Begin(list, Stopwatch.GetTimestamp());
        RespValue reply = await client.CallAsync(site.Lists.Push(list, pushed));
        // Whatever the refusal was, it may have been executed: the list is given up.
        if (reply.IsError) { throw new ConnectionLostException(reply.Text); }
        history.End(list, pushed, Stopwatch.GetTimestamp());
        return pushed;
    }

    private async Task ReadAsync(RespClient[] clients)
    {
        // Two that others write to, of different shards, one after the other.
        for (int i = 0; i < 2; i++)
        {
            IReadOnlyList<string> lists = history.Lists;
            if (lists.Count == 0) { return; }
            string list = lists[_random.Next(lists.Count)];
            int shard = site.ShardOf(list);
            long from = Stopwatch.GetTimestamp();
            if (await site.Lists.CountAsync(clients[shard], list) is { } count)
            {
                history.Saw(list, count, from, Stopwatch.GetTimestamp());
            }
        }
    }

    private async Task PartnerPushesAsync(int shard)
    {
        string list = site.Key(shard,
            string.Create(CultureInfo.InvariantCulture, $"p{number}.{_generation}.{shard}.{Environment.TickCount64}"));
        int pushed = history.Begin(list, Stopwatch.GetTimestamp());
        string request = string.Create(CultureInfo.InvariantCulture,
            $"{site.Port(shard)} {string.Join(' ', site.Lists.Push(list, pushed))}");
        await partner!.WriteLineAsync(request);
        string answer = await partner.WaitForLineAsync(l => l.EndsWith(request, StringComparison.Ordinal), TimeSpan.FromSeconds(60));
        if (answer.StartsWith("done", StringComparison.Ordinal)) { history.End(list, pushed, Stopwatch.GetTimestamp()); }
    }
}

/// <summary>The process at the other end of the pipe: pushes what it is told to.</summary>
internal static class SitePartner
{
    public const string Option = "--site-partner";

    public static async Task<int> RunAsync()
    {
        while (await Console.In.ReadLineAsync() is { } request)
        {
            string[] words = request.Split(' ');
            string answer;
            try
            {
                using RespClient client = await RespClient.ConnectAsync(
                    new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, int.Parse(words[0], CultureInfo.InvariantCulture)));
                answer = (await client.CallAsync(words[1], words[2], words[3])).IsError ? "refused" : "done";
            }
            catch (Exception e) when (e is ConnectionLostException or TimeoutException)
            {
                answer = "lost";
            }
            await Console.Out.WriteLineAsync($"{answer} {request}");
            await Console.Out.FlushAsync();
        }
        return 0;
    }
}

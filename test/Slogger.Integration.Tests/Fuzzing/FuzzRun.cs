// Odd requests from several connections at once, while others work: the proxies live on, every connection is answered or closed, those who
// work notice nothing, and memory stays where it was.
using System.Globalization;
using System.Net.Sockets;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Wire;
using Slogger.Metadata;
using Slogger.Metadata.Sql;

namespace Slogger.Integration.Tests.Fuzzing;

/// <param name="cluster">Started and serving.</param>
/// <param name="seed">Repeats what is said, not when.</param>
internal sealed class FuzzRun(ClusterDeployment cluster, int seed)
{
    private const int Fuzzers = 12;

    // Far above what a header or a wait may take; nobody decides by it but who is hung.
    private static readonly TimeSpan AnswerLimit = TimeSpan.FromSeconds(60);
    private const long GrowthBytesMax = 512L << 20;
    private long _requests, _connections, _answers;

    /// <summary>Requests (and frames) sent; connections; bytes that came back.</summary>
    public (long Requests, long Connections, long AnswerBytes) Counts => (_requests, _connections, _answers);

    /// <summary>Operations of those who worked, and commits that they awaited.</summary>
    public (long Operations, long Commits) Work { get; private set; }

    /// <summary>The largest memory of a proxy before and after.</summary>
    public (long Before, long After) MemoryBytes { get; private set; }

    /// <exception cref="InvalidDataException">A promise was broken.</exception>
    public async Task RunAsync(long requests)
    {
        string secret = "";
        if (cluster.Shards > 1)
        {
            await using IMetadataStore metadata = MetadataStoreFactory.Create(cluster.Metadata);
            await metadata.InitializeAsync();
            secret = await metadata.PeerSecretAsync("default");
        }
        FuzzWorker[] inBatches = [.. Enumerable.Range(0, cluster.Shards * 2)
            .Select(i => new FuzzWorker(cluster, i % cluster.Shards, $"batches{i}"))];
        FuzzWorker[] plain = [.. Enumerable.Range(0, cluster.Shards * 2)
            .Select(i => new FuzzWorker(cluster, i % cluster.Shards, $"plain{i}"))];
        using var end = new CancellationTokenSource();
        Task[] working = [.. inBatches.Select(w => Task.Run(() => w.WorkInBatchesAsync(end.Token))),
            .. plain.Select(w => Task.Run(() => w.WorkPlainlyAsync(end.Token)))];
        long before = Memory();
        Task[] fuzzing = [.. Enumerable.Range(0, Fuzzers)
            .Select(i => Task.Run(() => FuzzAsync(new FuzzWords(new Random(seed + i), cluster.Shards, secret), new Random(seed - 1 - i),
                requests / Fuzzers, end.Token)))];
        try
        {
            foreach (Task done in fuzzing)
            {
                Task first = await Task.WhenAny([done, .. working]);
                await first;
            }
        }
        finally
        {
            await end.CancelAsync();
        }
        await Task.WhenAll(working);
        MemoryBytes = (before, Memory());
        await CheckAsync([.. inBatches, .. plain]);
        Work = (inBatches.Concat(plain).Sum(w => w.Done), inBatches.Concat(plain).Sum(w => w.Commits));
    }

    private async Task CheckAsync(FuzzWorker[] workers)
    {
        foreach (FuzzWorker worker in workers)
        {
            using RespClient client = await cluster.ConnectAsync(worker.Shard);
            string value = (await client.DoAsync("GET", worker.Key)).Compact;
            if (value != $"${worker.Done}") { throw new InvalidDataException($"{worker.Key} is {value} after {worker.Done} INCR"); }
        }
        if (Enumerable.Range(0, cluster.Shards).FirstOrDefault(cluster.IsDown, -1) is >= 0 and int down)
        {
            throw new InvalidDataException($"the proxy of shard {down} has ended");
        }
        string[] errors = [.. cluster.Tail().Split('\n').Where(l => l.Contains("Z error ", StringComparison.Ordinal))];
        if (errors.Length > 0) { throw new InvalidDataException($"the proxies report:\n{string.Join('\n', errors.Take(20))}"); }
        if (MemoryBytes.After - MemoryBytes.Before > GrowthBytesMax)
        {
            throw new InvalidDataException($"memory grew from {MemoryBytes.Before >> 20} to {MemoryBytes.After >> 20} MB");
        }
    }

    private long Memory() => Enumerable.Range(0, cluster.Shards).Max(s =>
        long.Parse(File.ReadLines($"/proc/{cluster.ProcessId(s)}/status")
            .First(l => l.StartsWith("VmRSS:", StringComparison.Ordinal))[6..^2], CultureInfo.InvariantCulture) << 10);

    private async Task FuzzAsync(FuzzWords words, Random manners, long requests, CancellationToken stop)
    {
        while (words.Requests < requests && !stop.IsCancellationRequested)
        {
            int shard = manners.Next(cluster.Shards);
            if (_connections % 16 == 0) { words.Now = await NowAsync(shard); }
            long made = words.Requests;
            byte[] said = words.Conversation();
            try
            {
                await TalkAsync(shard, said, manners);
            }
            catch (Exception e) when (e is SocketException or IOException)
            {
                // Closed on us: an answer, too.
            }
            Interlocked.Add(ref _requests, words.Requests - made);
            Interlocked.Increment(ref _connections);
        }
    }

    private async Task<(long, long)> NowAsync(int shard)
    {
        using RespClient client = await cluster.ConnectAsync(shard);
        RespValue hello = await client.DoAsync("DPR.HELLO", "1", "000000000000000000000000000000f1");
        Dictionary<string, long> fields = hello.Items.Chunk(2).Where(p => p[1].Kind == RespKind.Integer)
            .ToDictionary(p => p[0].Text, p => p[1].Number);
        return (fields["worldline"], fields["open"]);
    }

    private async Task TalkAsync(int shard, byte[] said, Random manners)
    {
        using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(cluster.Endpoint(shard));
        // In pieces, now and then.
        for (int at = 0; at < said.Length;)
        {
            int count = manners.Next(3) == 0 ? manners.Next(1, said.Length - at + 1) : said.Length - at;
            at += await socket.SendAsync(said.AsMemory(at, count), SocketFlags.None);
            if (at < said.Length && manners.Next(4) == 0) { await Task.Delay(manners.Next(3)); }
        }
        if (manners.Next(6) == 0)
        {
            // Gone without a word.
            socket.LingerState = new LingerOption(true, 0);
            return;
        }
        socket.Shutdown(SocketShutdown.Send);
        using var limit = new CancellationTokenSource(AnswerLimit);
        byte[] buffer = new byte[64 << 10];
        try
        {
            while (await socket.ReceiveAsync(buffer, SocketFlags.None, limit.Token) is > 0 and int count)
            {
                Interlocked.Add(ref _answers, count);
            }
        }
        catch (OperationCanceledException)
        {
            throw new InvalidDataException(
                $"shard {shard} neither answered nor hung up in {AnswerLimit.TotalSeconds} s. What was "
                    + $"said:\n{System.Text.Encoding.Latin1.GetString(said)}");
        }
    }
}

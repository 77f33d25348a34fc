// A shard that another process takes while the one before it is asleep (SIGSTOP) with requests on their way, at its sockets and in
// its hands: when the new one serves, nothing of the old one may be executed any more (invariant I6). Each round's new process is the
// next round's old one.
//
// What is checked: the keys that only clients of the old process write do not change from the moment the new one serves; what the old
// process says to be done is done by then; it ends by itself and says why.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Fencing;

internal sealed class TakeOverRun : IAsyncDisposable
{
    private const int LateClients = 12;
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);
    private readonly Workspace _workspace;
    private readonly Random _random;
    private readonly Action<string> _report;
    private readonly string[] _options;
    private RedisProcess? _redis;
    private PostgresProcess? _postgres;
    private ProxyProcess? _owner;

    /// <param name="workspace">Where everything lies.</param>
    /// <param name="seed">Chooses the moments.</param>
    /// <param name="report">Told of each round.</param>
    /// <param name="options">More options of serve.</param>
    public TakeOverRun(Workspace workspace, int seed, Action<string> report, params string[] options)
    {
        _workspace = workspace;
        _random = new Random(seed);
        _report = report;
        _options = options;
    }

    /// <summary>Metadata in PostgreSQL instead of SQLite.</summary>
    public bool Postgres { get; init; }

    /// <summary>More lines of Redis's configuration.</summary>
    public string[] RedisOptions { get; init; } = [];

    /// <summary>What the proxies wrote that had to leave.</summary>
    public string LastWords { get; private set; } = "";

    /// <summary>Requests of clients, and how many of them were answered.</summary>
    public (long Sent, long Answered) Requests { get; private set; }

    public RedisProcess Redis => _redis!;

    public ProxyProcess Owner => _owner!;

    public async Task StartAsync()
    {
        if (Postgres) { _postgres = await PostgresProcess.StartAsync(_workspace); }
        _redis = await RedisProcess.StartAsync(_workspace.Folder("redis"), RedisOptions);
        _owner = await Launch("first").ReadyAsync();
        // A successor takes over what Redis holds: an empty one would be refused, however slow the writers are.
        using RespClient client = await _owner.ConnectAsync();
        await client.DoAsync("SET", "owner", "first");
    }

    private ProxyProcess Launch(string name) => ProxyProcess.Launch(Workspace.FreePort(),
    [
        "--redis", string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{Redis.Port}"), "--data", _workspace.Folder(name),
        "--metadata", _postgres is { } server ? "postgres:" + server.ConnectionString : "sqlite:" + _workspace.File("metadata.db"),
        "--seed", "from-redis", .. _options,
    ]);

    /// <summary>One take-over.</summary>
    /// <exception cref="InvalidDataException">Something of the old process was done after the new one served.</exception>
    public async Task RoundAsync(int round)
    {
        ProxyProcess old = Owner;
        LateWriter[] writers = [.. Enumerable.Range(0, 6)
            .Select(i => new LateWriter(old.Endpoint, string.Create(CultureInfo.InvariantCulture, $"r{round}:w{i}"), (WriterKind)(i % 3)))];
        Task[] writing = [.. writers.Select(w => Task.Run(w.RunAsync))];
        await Task.Delay(_random.Next(50, 400));
        ChildProcess.Suspend(old.Id);
        string[] keys = [.. writers.Select(w => w.Key), .. Enumerable.Range(0, LateClients)
            .Select(i => string.Create(CultureInfo.InvariantCulture, $"r{round}:late{i}"))];
        List<RespClient> late = await KnockAsync(old.Endpoint, keys[writers.Length..]);
        ProxyProcess next = await SucceedAsync(round, old);
        try
        {
            using RespClient client = await next.ConnectAsync();
            await client.DoAsync("SET", "owner", round.ToString(CultureInfo.InvariantCulture));
            using RespClient direct = await Redis.ConnectAsync();
            string before = string.Join(' ', (await direct.DoAsync(["MGET", .. keys])).Items.Select(v => v.Compact));
            ChildProcess.Resume(old.Id);
            int? code = await old.ExitAsync(Patience);
            foreach (LateWriter writer in writers) { writer.Stop(); }
            await Task.WhenAll(writing);
            string after = string.Join(' ', (await direct.DoAsync(["MGET", .. keys])).Items.Select(v => v.Compact));
            if (after != before)
            {
                IEnumerable<string> changes = keys.Zip(before.Split(' '), after.Split(' ')).Where(k => k.Second != k.Third)
                    .Select(k => $"{k.First}: {k.Second} became {k.Third}");
                throw new InvalidDataException($"round {round}: done after process {next.Id} had begun to serve:\n"
                    + $"{string.Join('\n', changes)}\n{old.Tail()}");
            }
            string[] values = before.Split(' ');
            for (int i = 0; i < writers.Length; i++)
            {
                long done = values[i] == "_" ? 0 : long.Parse(values[i][1..], CultureInfo.InvariantCulture);
                if (writers[i].Answered > done)
                {
                    throw new InvalidDataException($"round {round}: {writers[i].Key}: {writers[i].Answered} was answered, {done} was done");
                }
            }
            if (code is null or 0)
            {
                throw new InvalidDataException(
                    $"round {round}: the old process {(code is null ? "still runs" : "ended as if nothing had happened")}\n{old.Tail()}");
            }
            LastWords = old.Tail();
            await Committed(client);
            Requests = (Requests.Sent + writers.Sum(w => w.Sent), Requests.Answered + writers.Sum(w => w.Answered));
            _report($"round {round}: {writers.Sum(w => w.Answered)} of {writers.Sum(w => w.Sent)} answered by the old process, "
                + "none done late");
            old.Dispose();
            _owner = next;
            next = null!;
        }
        finally
        {
            foreach (RespClient knocked in late) { knocked.Dispose(); }
            next?.Dispose();
        }
    }

    private static async Task Committed(RespClient client)
    {
        if ((await client.DoAsync("DPR.WAIT", "*", "30000")).Items[2].AsInteger() != 1)
        {
            throw new InvalidDataException("the new process does not commit");
        }
    }

    // Connections that the sleeping process has not accepted yet, with a write each: one in two in a transaction.
    private static async Task<List<RespClient>> KnockAsync(EndPoint endpoint, string[] keys)
    {
        var clients = new List<RespClient>();
        foreach (string key in keys)
        {
            RespClient client = await RespClient.ConnectAsync(endpoint);
            clients.Add(client);
            if (clients.Count % 2 == 0) { await client.SendAsync("MULTI"); }
            await client.SendAsync("SET", key, "1");
            if (clients.Count % 2 == 0) { await client.SendAsync("EXEC"); }
        }
        return clients;
    }

    // Who sleeps in the middle of a transaction holds SQLite's lock, and nobody can take anything: then it is let go on for a moment.
    private async Task<ProxyProcess> SucceedAsync(int round, ProxyProcess old)
    {
        while (true)
        {
            ProxyProcess next = Launch(string.Create(CultureInfo.InvariantCulture, $"data{round}"));
            try
            {
                return await next.ReadyAsync();
            }
            catch (InvalidOperationException e) when (e.Message.Contains("Another process holds its write lock", StringComparison.Ordinal))
            {
                next.Dispose();
                ChildProcess.Resume(old.Id);
                await Task.Delay(5);
                ChildProcess.Suspend(old.Id);
            }
        }
    }

    public ValueTask DisposeAsync()
    {
        _owner?.Dispose();
        _redis?.Dispose();
        _postgres?.Dispose();
        return ValueTask.CompletedTask;
    }
}

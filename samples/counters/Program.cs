// Counters in the application's own shard, a total at another (DPR, section 5: co-location). Events are counted here by operations that
// cost no more than the store's own; every so many of them are added to the total there, and while that is on its way counting goes on.
// Nothing waits for a commit. In the middle the other shard is killed, and everything goes back to what is committed: here, where nothing
// was killed, too. The total must never hold more than was counted.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Slogger.Client;
using Slogger.Hosting;

const long Events = 400_000;
const int EventsPerAddition = 500;
string slogger = Array.IndexOf(args, "--slogger") is >= 0 and var i && i + 1 < args.Length ? args[i + 1] : FindBuilt();
string directory = Directory.CreateTempSubdirectory("slogger-sample-").FullName, metadata = "sqlite:"
    + Path.Combine(directory, "metadata.db");
int[] ports = FreePorts(2);
using IHost host = Application();
await host.StartAsync();
Process? other = StartOther();
try
{
    var shard = host.Services.GetRequiredService<ISloggerShard>();
    await shard.Ready;
    (string verdict, bool isConsistent) = await CountAsync(shard);
    Console.WriteLine(verdict);
    return isConsistent ? 0 : 1;
}
finally
{
    await host.StopAsync();
    other.Kill();
    await other.WaitForExitAsync();
    other.Dispose();
    Directory.Delete(directory, recursive: true);
}

async Task<(string Verdict, bool IsConsistent)> CountAsync(ISloggerShard shard)
{
    await using LocalSession session = shard.OpenSession();
    byte[] counter = KeyAt(session, "events", local: true), total = KeyAt(session, "total", local: false);
    int rollbacks = 0;
    bool isKilled = false;
    while (true)
    {
        try
        {
            // The total is read first: the counter only grows.
            long added = await NumberAsync(session, total), counted = await NumberAsync(session, counter);
            if (added > counted) { return ($"INCONSISTENT: the total is {added}, and {counted} events are counted", false); }
            Console.WriteLine($"{counted} events are counted, {added} of them are in the total");
            Task<Result<long>>? adding = null;
            while (counted < Events || added < counted)
            {
                if (counted < Events) { counted = session.Increment(counter, 1, out _); }
                if (adding is { IsCompleted: true })
                {
                    added = (await adding).Value;
                    adding = null;
                }

                if (adding is null && (counted - added >= EventsPerAddition || counted == Events))
                {
                    adding = session.IncrementAsync(total, counted - added).AsTask();
                }
                if (counted == Events && adding is not null) { await adding; }
                if (counted >= Events / 2 && !isKilled)
                {
                    isKilled = true;
                    Console.WriteLine($"kill -9 of the other shard, at {counted} events");
                    other.Kill();
                    await other.WaitForExitAsync();
                    other.Dispose();
                    other = StartOther();
                }
            }

            await session.WaitForCommitAsync();
            long sum = await NumberAsync(session, total);
            return sum == Events
                ? ($"consistent: {sum} events were counted and added up, {rollbacks} rollbacks seen", true)
                : ($"INCONSISTENT: the total is {sum} in the end, of {Events} events", false);
        }
        catch (RollbackException rollback)
        {
            rollbacks++;
            Console.WriteLine(rollback.Message);
            session.Resume(rollback);
        }
        catch (Exception e) when (e is UncertainException or ReplyLostException or ShardUnreachableException)
        {
            // Of an addition. The total tells.
        }
    }
}

static async Task<long> NumberAsync(LocalSession session, byte[] key) =>
    (await session.GetAsync(key)).Value is { } value ? long.Parse(Encoding.ASCII.GetString(value), CultureInfo.InvariantCulture) : 0;

// With two shards some of these are here, and some are there.
static byte[] KeyAt(LocalSession session, string name, bool local) =>
    Enumerable.Range(0, 1000).Select(n => Encoding.ASCII.GetBytes($"{name}:{n}")).First(k => session.IsLocal(k) == local);

IHost Application()
{
    HostApplicationBuilder builder = Host.CreateApplicationBuilder();
    builder.Logging.SetMinimumLevel(LogLevel.Error);
    builder.Services.AddSloggerShard(o =>
    {
        o.Serve["listen"] = $"127.0.0.1:{ports[0]}";
        o.Serve["data"] = Path.Combine(directory, "shard0");
        o.Serve["metadata"] = metadata;
        o.Serve["shards"] = "2";
        o.Serve["faster-memory"] = "256mb";
    });
    return builder.Build();
}

Process StartOther() => Process.Start(new ProcessStartInfo("dotnet",
[
    slogger, "serve", "--listen", $"127.0.0.1:{ports[1]}", "--data", Path.Combine(directory, "shard1"), "--metadata", metadata, "--shard",
        "1", "--shards", "2",
    "--faster-memory", "256mb", "--log-level", "error",
])) ?? throw new InvalidOperationException("dotnet could not be started");

static int[] FreePorts(int count)
{
    TcpListener[] listeners = [.. Enumerable.Range(0, count).Select(_ => new TcpListener(IPAddress.Loopback, 0))];
    foreach (TcpListener listener in listeners) { listener.Start(); }
    int[] ports = [.. listeners.Select(l => ((IPEndPoint)l.LocalEndpoint).Port)];
    foreach (TcpListener listener in listeners) { listener.Stop(); }
    return ports;
}

static string FindBuilt()
{
    for (var folder = new DirectoryInfo(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
    {
        string path = Path.Combine(folder.FullName, "src", "Slogger.Cli", "bin", "Release", "net10.0", "slogger.dll");
        if (File.Exists(path)) { return path; }
    }

    throw new InvalidOperationException("src/Slogger.Cli is not built: dotnet build -c Release, or give --slogger PATH");
}

// An application that hosts a shard, as a process of its own: this test program with --hosting-application PORT DATA ROUND. Two threads
// work on the shard by local sessions (HostingWorkload), as soon as the key go:ROUND is there, and say what was committed: the first at
// full speed and without waiting, the second one step at a time, with pauses in which the shard is idle.
using System.Globalization;
using System.Text;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Slogger.Client;
using Slogger.Hosting;

namespace Slogger.Integration.Tests.Embedded;

internal static class HostingApplication
{
    public static readonly string[] Workers = ["w0", "w1"];

    /// <summary>Whose counters they look at: sessions over the network.</summary>
    public static readonly string[] Others = ["n0", "n1"];

    private const int CommitPeriod = 200;
    private static volatile bool s_stop;

    public static string Go(string round) => "go:" + round;

    public static async Task<int> RunAsync(string[] args)
    {
        HostApplicationBuilder builder = Host.CreateApplicationBuilder();
        builder.Logging.SetMinimumLevel(LogLevel.Warning);
        builder.Services.AddSloggerShard(o =>
        {
            o.Serve["listen"] = "127.0.0.1:" + args[1];
            o.Serve["data"] = args[2];
            o.Serve["faster-memory"] = "256mb";
        });
        using IHost host = builder.Build();
        await host.StartAsync();
        var shard = host.Services.GetRequiredService<ISloggerShard>();
        await shard.Ready;
        Console.WriteLine("serves");
        Task[] workers = [.. Workers.Select(
            (w, i) => Task.Factory.StartNew(() => Work(shard, w, Others[i], args[3], isFast: i == 0), TaskCreationOptions.LongRunning))];
        host.Services.GetRequiredService<IHostApplicationLifetime>().ApplicationStopping.Register(() =>
        {
            s_stop = true;
            Task.WaitAll(workers);
        });
        await host.WaitForShutdownAsync();
        return 0;
    }

    private static void Work(ISloggerShard shard, string worker, string other, string round, bool isFast)
    {
        LocalSession session = shard.OpenSession();
        while (!session.Exists(Bytes(Go(round)), out _))
        {
            if (s_stop) { return; }
            Thread.Sleep(1);
        }

        byte[] counter = Bytes(HostingWorkload.Counter(worker)), shared = Bytes(HostingWorkload.Shared), seen =
            Bytes(HostingWorkload.Counter(other)), saw = Bytes(HostingWorkload.Saw(worker));
        byte[][] keys = [.. Enumerable.Range(0, HostingWorkload.Keys).Select(k => Bytes(HostingWorkload.Key(worker, k)))];
        byte[] value = new byte[20];
        long n = session.TryGet(counter, value, out int length, out _)
            ? long.Parse(Encoding.ASCII.GetString(value, 0, length), CultureInfo.InvariantCulture) : 0;
        (long Step, Task Committed)? awaited = null;
        while (!s_stop)
        {
            n++;
            Take(session, keys, HostingWorkload.StepOf(worker, n));
            if (session.Increment(counter, 1, out _) != n) { throw new InvalidOperationException($"the counter of {worker} is not {n}"); }
            if (HostingWorkload.Looks(n) && session.TryGet(seen, value, out length, out _)) { session.Set(saw, value.AsSpan(0, length)); }
            session.Increment(shared, 1, out _);
            if (awaited is null && (!isFast || n % CommitPeriod == 0)) { awaited = (n, session.WaitForCommitAsync()); }
            if (awaited is not { } wait || (isFast && !wait.Committed.IsCompleted)) { continue; }
            wait.Committed.GetAwaiter().GetResult();
            Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"committed {worker} {wait.Step}"));
            awaited = null;
            if (isFast) { continue; }
            if (session.CommittedUpTo != session.Last)
            {
                throw new InvalidOperationException($"{session.CommittedUpTo} of {session.Last} is committed behind a wait for it");
            }
            Thread.Sleep(Random.Shared.Next(60));
        }

        Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"stopped {worker} {n}"));
    }

    private static void Take(LocalSession session, byte[][] keys, in Step step)
    {
        byte[] key = keys[step.Key];
        switch (step.Kind)
        {
            case StepKind.Set:
                session.Set(key, Bytes(step.Value));
                break;
            case StepKind.SetForATime:
                session.Set(key, Bytes(step.Value), HostingWorkload.Life);
                break;
            case StepKind.Delete:
                session.Delete(key, out _);
                break;
            case StepKind.Increment:
                try
                {
                    session.Increment(key, step.By, out _);
                }
                catch (RedisErrorException e) when (e.Message.Contains("not an integer", StringComparison.Ordinal))
                {
                    // As the model has it.
                }

                break;
            default:
                session.Expire(key, step.Kind == StepKind.Expire ? HostingWorkload.Life : null, out _);
                break;
        }
    }

    private static byte[] Bytes(string text) => Encoding.ASCII.GetBytes(text);
}

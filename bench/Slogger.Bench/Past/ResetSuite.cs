// How long clients wait while a cluster is set back: four shards, of whose keys some have been written since. What slogger reset says of
// itself, and the longest time for which a client of each shard got no answer.
using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using System.Text.Json;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;

namespace Slogger.Bench.Past;

internal sealed class ResetSuite(BenchOptions options, Results results)
{
    private const string Suite = "reset";
    private const int Shards = 4, ValueBytes = 100, Changed = 10_000;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(3);

    public void Run()
    {
        int rounds = options.Rounds ?? 7, keys = options.RestoreKeys / Shards;
        string directory = SuiteDirectory.Create(options, Suite);
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        Console.WriteLine($"\n== {Suite}: {Shards} shards, {keys} keys of {ValueBytes} B each, {Changed} of them all are set back, "
            + $"{rounds} rounds");
        int[] ports = [.. Enumerable.Range(0, Shards).Select(_ => fleet.NextPort())];
        ManagedProcess[] proxies = [.. ports.Select((port, shard) => fleet.LaunchProcess($"shard{shard}", fleet.SloggerCommand(
            $"--commit log --shards {Shards} --shard {shard} --metadata sqlite:{Path.Combine(directory, "metadata.db")} "
                + "--checkpoint-every 16mb", port, "--redis-server redis-server", Path.Combine(directory, $"data{shard}"))))];
        var stores = new HashSet<int>();
        try
        {
            for (int shard = 0; shard < Shards; shard++) { CaseFleet.WaitUntilUp(proxies[shard], ports[shard], "PING\r\n", s_limit); }
            foreach (int port in ports) { RollbackSuite.Adopt(port, stores); }
            string[] tags = [.. Enumerable.Range(0, Shards).Select(TagOf)];
            Parallel.For(0, Shards, s => RollbackSuite.Fill(ports[s], [.. Enumerable.Range(0, keys).Select(k => Set(tags[s], k, 'a'))]));
            List<double> held = [], silent = [];
            for (int round = 0; round < rounds; round++) { Round(ports, tags, keys, round, held, silent); }
            double median = Statistics.Median(held), longest = Statistics.Median(silent);
            results.Add(Figure.AtMost(Suite, $"clients wait, {Changed} keys of {Shards * keys}", median, "ms", 500,
                $"{held.Min():0} to {held.Max():0}"));
            results.Add(Figure.Information(Suite, "longest time without an answer, of a client that comes back", longest, "ms",
                $"{silent.Min():0} to {silent.Max():0}"));
        }
        finally
        {
            foreach (ManagedProcess proxy in proxies) { proxy.Stop(TimeSpan.FromSeconds(10)); }
            foreach (int pid in stores)
            {
                _ = Native.Kill(pid, Native.SigKill);
                ProcessRegistry.Disown(pid);
            }
        }
    }

    private void Round(int[] ports, string[] tags, int keys, int round, List<double> held, List<double> silent)
    {
        foreach (int port in ports) { RollbackSuite.WaitUntilReady(port, isInPlace: true); }
        string version = Slogger(ports[0], "get", "--ago", "0s", tags[0]).GetProperty("version").GetRawText();
        var random = new Random(round);
        Parallel.For(0, Shards, s => RollbackSuite.Fill(ports[s],
            [.. Enumerable.Range(0, Changed / Shards).Select(_ => Set(tags[s], random.Next(keys), (char)('b' + round)))]));
        using var stop = new CancellationTokenSource();
        Task<double>[] clients = [.. ports.Select((port, s) => Task.Run(() => LongestSilence(port, Get(tags[s]), stop.Token)))];
        Thread.Sleep(500);
        JsonElement report = Slogger(ports[0], "reset", "--to", version);
        Thread.Sleep(200);
        stop.Cancel();
        Task.WaitAll(clients);
        held.Add(report.GetProperty("held_ms").GetDouble());
        silent.Add(clients.Max(c => c.Result));
        Console.WriteLine($"  {report.GetProperty("keys").GetInt64()} keys: clients waited {held[^1]:0} ms, longest without an answer "
            + $"{silent[^1]:0} ms");
    }

    private JsonElement Slogger(int port, string command, params string[] arguments)
    {
        string program = Path.GetFullPath(options.ProxyPath);
        string[] start = program.EndsWith(".dll", StringComparison.Ordinal) ? ["dotnet", program] : [program];
        (string output, string errors, int code) = ManagedProcess.Run(
            [.. start, command, "--json", "--address", $"127.0.0.1:{port}", .. arguments], null, s_limit);
        return code == 0 ? JsonDocument.Parse(output).RootElement
            : throw new BenchException($"slogger {command} ended with {code}: {errors}");
    }

    // A client that reads all the time, and connects again when it has to.
    private static double LongestSilence(int port, byte[] get, CancellationToken stop)
    {
        double longest = 0;
        long answered = Stopwatch.GetTimestamp();
        var answer = new byte[4096];
        while (!stop.IsCancellationRequested)
        {
            try
            {
                using Socket socket = RollbackSuite.Connect(port);
                while (!stop.IsCancellationRequested)
                {
                    socket.Send(get);
                    if (socket.Receive(answer) == 0 || answer[0] == (byte)'-') { break; }
                    longest = Math.Max(longest, Stopwatch.GetElapsedTime(answered).TotalMilliseconds);
                    answered = Stopwatch.GetTimestamp();
                    Thread.Sleep(1);
                }
            }
            catch (SocketException)
            {
                Thread.Sleep(1);
            }
        }
        return longest;
    }

    private static byte[] Set(string tag, int key, char with)
    {
        string name = string.Create(CultureInfo.InvariantCulture, $"{tag}:{key:D9}");
        return Encoding.ASCII.GetBytes($"*3\r\n$3\r\nSET\r\n${name.Length}\r\n{name}\r\n${ValueBytes}\r\n{new string(with, ValueBytes)}\r\n");
    }

    private static byte[] Get(string tag) => Encoding.ASCII.GetBytes($"*2\r\n$3\r\nGET\r\n${tag.Length}\r\n{tag}\r\n");

    // A hash tag whose slot is the shard's.
    private static string TagOf(int shard) => Enumerable.Range(0, int.MaxValue).Select(i => i.ToString(CultureInfo.InvariantCulture))
        .Where(i => RollbackSuite.Slot(i) / (16384 / Shards) == shard).Select(i => $"{{{i}}}").First();
}

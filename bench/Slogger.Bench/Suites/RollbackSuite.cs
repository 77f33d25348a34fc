// How soon a shard serves again after another shard has lost its Redis: two shards under load, kill -9 of one Redis, and the other
// goes back by the keys that were written, or (--rollback full) by a restore of everything. What the proxy says of itself is the
// time from its learning of the world-line; what its client sees is counted from the kill. Commits need all shards: they should go on as
// soon as the one that has lost its Redis has restored it.
using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench.Suites;

internal sealed class RollbackSuite(BenchOptions options, Results results)
{
    private const string Suite = "rollback";
    private const int ValueBytes = 64;
    private const int RatePerShard = 15_000;
    private const int Batch = 50;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(3);
    private readonly Dictionary<string, List<double>> _milliseconds = [];

    public void Run()
    {
        int rounds = options.Rounds ?? 5;
        Console.WriteLine($"\n== {Suite}: 2 shards, {options.RestoreKeys} keys of {ValueBytes} B each, {RatePerShard} SET/s each, "
            + $"{rounds} rounds");
        foreach (string method in (string[])["in-place", "full"])
        {
            if (options.Cases is null || options.Cases.Contains(method)) { Measure(method, rounds); }
        }

        var lines = new List<string> { "| | median ms | lowest | highest |", "| --- | ---: | ---: | ---: |" };
        foreach ((string what, List<double> ms) in _milliseconds)
        {
            double median = Statistics.Median(ms);
            lines.Add($"| {what} | {median:0} | {ms.Min():0} | {ms.Max():0} |");
            bool isGoal = what is "in-place: learned of the world-line to serving"
                or "in-place: the other shard's first answer to the first commit";
            results.Add(isGoal ? Figure.AtMost(Suite, what, median, "ms", 100) : Figure.Information(Suite, what, median, "ms"));
        }

        results.AddTable($"{Suite} ({rounds} rounds, {options.RestoreKeys} keys a shard)", lines);
    }

    private void Measure(string method, int rounds)
    {
        string directory = SuiteDirectory.Create(options, Suite + "-" + method);
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        int[] ports = [fleet.NextPort(), fleet.NextPort()];
        ManagedProcess[] proxies = [.. ports.Select((port, shard) => fleet.LaunchProcess($"{method}-{shard}", fleet.SloggerCommand(
            $"--commit log --rollback {method} --shards 2 --shard {shard} --metadata sqlite:{Path.Combine(directory, "metadata.db")}", port,
            "--redis-server redis-server", Path.Combine(directory, $"data{shard}"))))];
        var stores = new HashSet<int>();
        try
        {
            for (int shard = 0; shard < 2; shard++) { CaseFleet.WaitUntilUp(proxies[shard], ports[shard], "PING\r\n", s_limit); }
            byte[][][] sets = [.. Enumerable.Range(0, 2).Select(SetsOf)];
            Parallel.For(0, 2, shard => Fill(ports[shard], sets[shard]));
            for (int round = 0; round < rounds; round++) { Round(method, ports, proxies[1], sets, stores); }
        }
        finally
        {
            foreach (int port in ports) { Adopt(port, stores); }
            foreach (ManagedProcess proxy in proxies) { proxy.Stop(TimeSpan.FromSeconds(10)); }
            foreach (int pid in stores)
            {
                _ = Native.Kill(pid, Native.SigKill);
                ProcessRegistry.Disown(pid);
            }
        }
    }

    private void Round(string method, int[] ports, ManagedProcess survivor, byte[][][] sets, HashSet<int> stores)
    {
        foreach (int port in ports) { WaitUntilReady(port, method == "in-place"); }
        using var stop = new CancellationTokenSource();
        Task[] loads = [.. ports.Select((port, shard) => Task.Run(() => Load(port, sets[shard], stop.Token)))];
        Thread.Sleep(TimeSpan.FromSeconds(options.RunSeconds ?? 3));
        int pid = Adopt(ports[0], stores);
        long killed = Stopwatch.GetTimestamp();
        _ = Native.Kill(pid, Native.SigKill);
        stores.Remove(pid);
        ProcessRegistry.Disown(pid);
        Task<double> restored = Task.Run(() =>
        {
            WaitUntilClosed(ports[0], sets[0][0]);
            WaitUntilServing(ports[0], sets[0][0]);
            return Stopwatch.GetElapsedTime(killed).TotalMilliseconds;
        });
        WaitUntilClosed(ports[1], sets[1][0]);
        WaitUntilServing(ports[1], sets[1][0]);
        Note($"{method}: kill to the survivor's first answer", Stopwatch.GetElapsedTime(killed).TotalMilliseconds);
        stop.Cancel();
        Task.WaitAll(loads);
        using (var client = new RespClient(ports[1], s_limit))
        {
            client.Raw(Encoding.ASCII.GetString(sets[1][0]));
            client.Expect("DPR.WAIT", "*", "120000");
        }

        double committed = Stopwatch.GetElapsedTime(killed).TotalMilliseconds;
        Note($"{method}: kill to the other shard's first answer", restored.GetAwaiter().GetResult());
        Note($"{method}: the other shard's first answer to the first commit", committed - restored.Result);
        string said = survivor.LogTail();
        Note($"{method}: learned of the world-line to serving", Said(said, "serves in world-line", " ms after that"));
        if (Said(said, "rolled back in place:", " ms") is > 0 and var own) { Note($"{method}: of that the rollback of the store", own); }
        else if (method == "in-place") { Console.WriteLine($"  not in place: {said}"); }
    }

    private void Note(string what, double milliseconds)
    {
        _milliseconds.TryAdd(what, []);
        _milliseconds[what].Add(milliseconds);
        Console.WriteLine($"  {what}: {milliseconds:0} ms");
    }

    // The number before a word, in the last line that has another.
    private static double Said(string log, string line, string before)
    {
        string found = log.Split('\n').LastOrDefault(l => l.Contains(line, StringComparison.Ordinal)) ?? "";
        int end = found.IndexOf(before, StringComparison.Ordinal);
        return end < 0 ? 0 : double.Parse(found[..end].Split(' ')[^1], CultureInfo.InvariantCulture);
    }

    // The SETs of a shard's keys: as many as are asked for, each of one key.
    private byte[][] SetsOf(int shard)
    {
        string value = new('x', ValueBytes);
        var sets = new byte[options.RestoreKeys][];
        for (int key = 0, found = 0; found < sets.Length; key++)
        {
            string name = "key:" + key.ToString("D12", CultureInfo.InvariantCulture);
            if (Slot(name) / 8192 != shard) { continue; }
            sets[found++] = Encoding.ASCII.GetBytes($"*3\r\n$3\r\nSET\r\n$16\r\n{name}\r\n${ValueBytes}\r\n{value}\r\n");
        }

        return sets;
    }

    // Redis Cluster's: CRC-16 (XMODEM) of the key, of 16384.
    internal static int Slot(string key)
    {
        int crc = 0;
        foreach (char c in key)
        {
            crc ^= c << 8;
            for (int bit = 0; bit < 8; bit++) { crc = (crc & 0x8000) != 0 ? ((crc << 1) ^ 0x1021) & 0xFFFF : (crc << 1) & 0xFFFF; }
        }

        return crc & 16383;
    }

    internal static void Fill(int port, byte[][] sets)
    {
        using Socket socket = Connect(port);
        for (int first = 0; first < sets.Length; first += 1000) { Exchange(socket, sets[first..Math.Min(sets.Length, first + 1000)]); }
    }

    private static void Load(int port, byte[][] sets, CancellationToken stop)
    {
        var random = new Random(port);
        long start = Stopwatch.GetTimestamp();
        try
        {
            using Socket socket = Connect(port);
            for (long sent = 0; !stop.IsCancellationRequested; sent += Batch)
            {
                Exchange(socket, random.GetItems(sets, Batch));
                double ahead = ((double)sent / RatePerShard) - Stopwatch.GetElapsedTime(start).TotalSeconds;
                if (ahead > 0.001) { Thread.Sleep(TimeSpan.FromSeconds(ahead)); }
            }
        }
        catch (SocketException)
        {
            // The rollback.
        }
    }

    internal static void Exchange(Socket socket, byte[][] requests)
    {
        byte[] request = [.. requests.SelectMany(r => r)];
        for (int sent = 0; sent < request.Length;) { sent += socket.Send(request, sent, request.Length - sent, SocketFlags.None); }
        byte[] answer = new byte[requests.Length * 5];
        for (int got = 0, n; got < answer.Length; got += n)
        {
            n = socket.Receive(answer, got, answer.Length - got, SocketFlags.None);
            if (n == 0) { throw new SocketException((int)SocketError.ConnectionReset); }
        }
    }

    internal static Socket Connect(int port)
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true,
            ReceiveTimeout = 120_000 };
        socket.Connect(System.Net.IPAddress.Loopback, port);
        return socket;
    }

    private static void WaitUntilClosed(int port, byte[] set)
    {
        long start = Stopwatch.GetTimestamp();
        try
        {
            using Socket socket = Connect(port);
            while (Stopwatch.GetElapsedTime(start) < s_limit) { Exchange(socket, [set]); }
        }
        catch (SocketException)
        {
            return;
        }

        throw new BenchException("the survivor did not notice that the other shard lost its Redis");
    }

    private static void WaitUntilServing(int port, byte[] set)
    {
        long start = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(start) < s_limit)
        {
            try
            {
                using Socket socket = Connect(port);
                Exchange(socket, [set]);
                return;
            }
            catch (SocketException)
            {
                Thread.Sleep(1);
            }
        }

        throw new BenchException("the shard did not serve again");
    }

    // Committed, with a checkpoint of nearly all of it, and indexed.
    internal static void WaitUntilReady(int port, bool isInPlace)
    {
        using var client = new RespClient(port, s_limit);
        client.Expect("DPR.WAIT", "*", "60000");
        long start = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(start) < s_limit)
        {
            Dictionary<string, string> info = client.Text("DPR.INFO").Split("\r\n").Where(l => l.Contains(':', StringComparison.Ordinal))
                .ToDictionary(l => l[..l.IndexOf(':', StringComparison.Ordinal)], l => l[(l.IndexOf(':', StringComparison.Ordinal) + 1)..]);
            long tail = long.Parse(info["log_tail_bytes"], CultureInfo.InvariantCulture), checkpoint =
                long.Parse(info["checkpoint_last_bytes"], CultureInfo.InvariantCulture);
            if (tail < Math.Max(8L << 20, checkpoint) && (!isInPlace || info["rollback_ready"] == "1")) { return; }
            Thread.Sleep(100);
        }

        throw new BenchException("the proxy took no checkpoint");
    }

    internal static int Adopt(int port, HashSet<int> stores)
    {
        using var client = new RespClient(port, s_limit);
        int pid = client.ServerProcess();
        if (stores.Add(pid)) { ProcessRegistry.Adopt(pid); }
        return pid;
    }
}

// How soon a backup that was away has caught up, over a slow link: with the log as it is, and with windows in its place.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Slogger.Bench.Cases;
using Slogger.Bench.Faster;
using Slogger.Bench.Load;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;

namespace Slogger.Bench.Sites;

internal sealed partial class SitesSuite
{
    private const int BehindKeys = 1_000_000, BehindValueBytes = 100, BehindAtOnce = 500;
    private const long BehindBytes = 500L << 20, BehindBytesPerSecond = 100_000_000 / 8;

    private void Behind(string directory, (string Primary, string Backup) metadata)
    {
        var lines = new List<string>
        {
            "| sent | log, MB | seconds until the backup has all | MB over the link | CPU of the primary's proxy, s | of the backup's, s | "
                + "of the backup's Redis, s |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        };
        var runs = new Dictionary<bool, List<(double Seconds, long Carried)>> { [false] = [], [true] = [] };
        for (int round = 0; round < Rounds; round++)
        {
            foreach (bool reduces in (bool[])[false, true])
            {
                _ = _noise.WaitForQuiet();
                runs[reduces].Add(CatchUp(directory, metadata, reduces, lines));
            }
        }
        double Ratio(Func<(double Seconds, long Carried), double> of) =>
            Statistics.Median(runs[true].Zip(runs[false], (with, without) => of(with) / of(without)));
        string what = string.Create(CultureInfo.InvariantCulture,
            $"a backup {BehindBytes >> 20} MB behind, SETs by Zipf's law, link of {BehindBytesPerSecond * 8 / 1_000_000} Mbit/s: ");
        results.Add(Figure.AtMost(Suite, what + "time to catch up, windows of the log as it is", Ratio(r => r.Seconds), "", 0.5));
        results.Add(Figure.AtMost(Suite, what + "bytes over the link, windows of the log as it is", Ratio(r => r.Carried), "", 0.5));
        results.AddTable($"{Suite}: catching up over a slow link, {Rounds} rounds, all on {Environment.ProcessorCount} cores", lines);
    }

    private (double Seconds, long Carried) CatchUp(string directory, (string Primary, string Backup) metadata, bool reduces,
        List<string> lines)
    {
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        using var pair = new SitePair(options, fleet, directory, metadata, 1, TimeSpan.FromMilliseconds(OneWayMs), Interval,
            reduces ? "" : "--reduce-ship-above 1pb");
        pair.Links[0].Close();
        long written = WriteMuch(pair.PrimaryPort(0), pair.Key(0, "behind"));
        pair.Links[0].BytesPerSecond = BehindBytesPerSecond;
        using var client = new RespClient(pair.PrimaryPort(0), TimeSpan.FromMinutes(5));
        using var store = new RespClient(pair.BackupPort(0), TimeSpan.FromMinutes(5));
        client.Expect("SET", pair.Key(0, "behind"), "last");
        int redis = store.ServerProcess();
        TimeSpan[] Cpu() => [.. new[] { pair.Primary(0).Pid, pair.Backup(0).Pid, redis }.Select(
            id => Process.GetProcessById(id).TotalProcessorTime)];
        TimeSpan[] before = Cpu();
        long carried = pair.Links[0].Bytes, began = Stopwatch.GetTimestamp();
        pair.Links[0].Open();
        while (client.Call("DPR.WAIT", "*", "1000", "BACKUP") is not object?[] { Length: 3 } held || held[2] is not 1L)
        {
            if (Stopwatch.GetElapsedTime(began) > TimeSpan.FromMinutes(10)) { throw new BenchException("the backup does not catch up"); }
        }
        while (store.Text("GET", pair.Key(0, "behind")) != "last") { Thread.Sleep(1); }
        double seconds = Stopwatch.GetElapsedTime(began).TotalSeconds;
        carried = pair.Links[0].Bytes - carried;
        double[] cpu = [.. Cpu().Zip(before, (after, b) => (after - b).TotalSeconds)];
        lines.Add(string.Create(CultureInfo.InvariantCulture,
            $"| {(reduces ? "windows" : "the log as it is")} | {written >> 20} | {seconds:0.0} | {carried / 1048576.0:0} | {cpu[0]:0.0} | "
                + $"{cpu[1]:0.0} | {cpu[2]:0.0} |"));
        Console.WriteLine("  " + lines[^1]);
        return (seconds, carried);
    }

    // Returns how many bytes of commands that were.
    private static long WriteMuch(int port, string tag)
    {
        var random = new Random(7);
        var zipf = new Zipf(BehindKeys, 0.99);
        using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true,
            ReceiveTimeout = 60_000 };
        socket.Connect(IPAddress.Loopback, port);
        byte[] answers = new byte[64 << 10];
        long written = 0;
        var batch = new StringBuilder();
        while (written < BehindBytes)
        {
            batch.Clear();
            for (int i = 0; i < BehindAtOnce; i++)
            {
                string key = string.Create(CultureInfo.InvariantCulture, $"{tag}{zipf.Rank(random):D9}");
                string value = new(random.GetItems<char>("abcdefghijklmnopqrstuvwxyz012345", BehindValueBytes));
                batch.Append(CultureInfo.InvariantCulture, $"*3\r\n$3\r\nSET\r\n${key.Length}\r\n{key}\r\n${value.Length}\r\n{value}\r\n");
            }
            byte[] request = Encoding.ASCII.GetBytes(batch.ToString());
            socket.Send(request);
            written += request.Length;
            for (int lines = 0; lines < BehindAtOnce;)
            {
                int count = socket.Receive(answers);
                if (count == 0 || answers[0] == '-') { throw new BenchException("a SET was refused"); }
                lines += answers.AsSpan(0, count).Count((byte)'\n');
            }
        }
        return written;
    }
}

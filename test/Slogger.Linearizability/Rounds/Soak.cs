// A long run: a cohort under writes, and every ten seconds its leader has to go, each time in another way. What was acknowledged must be
// there after each takeover. The processes live on, mostly, so that what they hold can be seen to grow: memory, threads, descriptors.
using System.Diagnostics;
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Linearizability.Rounds;

/// <param name="system">Started, and of one shard.</param>
/// <param name="network">Its own.</param>
internal sealed class Soak(CohortSystem system, Network network)
{
    private const int Writers = 8, Slots = 500, Pipelined = 20;

    // The one that dies when it leads. The others keep their processes to the end.
    private const int Mortal = 3;

    private static readonly TimeSpan s_every = TimeSpan.FromSeconds(10), s_lasts = TimeSpan.FromSeconds(1), s_report =
        TimeSpan.FromMinutes(1), s_servedWithin = TimeSpan.FromMinutes(1);

    // How much more a process may hold at the end than the most that it held in the second quarter of the time.
    private const double MayGrow = 1.2;
    private const long MayGrowKb = 20_000, MayGrowFiles = 20;

    // As a checksum's refusal says it.
    private const string Damaged = "what came is not what was sent";

    // None ends a proxy.
    private static readonly FaultKind[] s_faults =
        [FaultKind.Pause, FaultKind.CutOneWay, FaultKind.CutLink, FaultKind.CutFromNodes, FaultKind.CutFromAll];

    private readonly Random _random = new(1);
    private readonly long _start = Stopwatch.GetTimestamp();
    private readonly List<string> _lost = [];
    private readonly HashSet<string> _errors = [];      // what processes have said
    private long _acknowledged, _lastUs, _longestUs;
    private int _reconnected;

    // What a process holds.
    private sealed record Held(int Process, string Name, long Kb, int Threads, int Files);

    private long NowUs => (long)Stopwatch.GetElapsedTime(_start).TotalMicroseconds;

    /// <summary>Runs, and says each minute how it goes.</summary>
    /// <returns>Whether nothing was lost, and nothing grew.</returns>
    public async Task<bool> RunAsync(TimeSpan length)
    {
        using var stop = new CancellationTokenSource();
        Task[] writing = [.. Enumerable.Range(0, Writers).Select(w => Task.Run(() => WriteAsync(w, stop.Token)))];
        Dictionary<int, Held> early = [];
        TimeSpan next = s_every, report = s_report;
        Dictionary<string, int> done = [];
        for (int number = 0; Stopwatch.GetElapsedTime(_start) < length; number++)
        {
            await Task.Delay(next - Stopwatch.GetElapsedTime(_start) is { Ticks: > 0 } wait ? wait : TimeSpan.Zero, CancellationToken.None);
            next += s_every;
            string what = await DisturbAsync(number);
            done[what] = done.GetValueOrDefault(what) + 1;
            if (Stopwatch.GetElapsedTime(_start) < report) { continue; }
            report += s_report;
            Held[] held = await HeldAsync();
            if (Stopwatch.GetElapsedTime(_start) >= length / 4 && Stopwatch.GetElapsedTime(_start) < length / 2) { Note(held, early); }
            Tell(held);
        }
        await stop.CancelAsync();
        await Task.WhenAll(writing);
        Held[] grown = [.. (await HeldAsync()).Where(h => early.GetValueOrDefault(h.Process) is { } before
            && (h.Kb > (before.Kb * MayGrow) + MayGrowKb || h.Files > before.Files + MayGrowFiles
                || h.Threads > before.Threads + MayGrowFiles))];
        foreach (Held h in grown) { Console.WriteLine($"  grew: {h} after {early[h.Process]}"); }
        foreach (string lost in _lost) { Console.WriteLine($"  LOST: {lost}"); }
        Listen();
        bool isDamaged = _errors.Any(e => e.Contains(Damaged, StringComparison.Ordinal));
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"""
            {length.TotalMinutes:0} minutes: {_acknowledged} writes acknowledged, {_lost.Count} lost; {string.Join(", ",
            done.Select(d => $"{d.Value} x {d.Key}"))}; {early.Count - grown.Length} of {early.Count} processes hold what they held
            """));
        return _lost.Count == 0 && grown.Length == 0 && early.Count > 0 && !isDamaged;
    }

    private static void Note(Held[] held, Dictionary<int, Held> most)
    {
        foreach (Held now in held)
        {
            Held before = most.GetValueOrDefault(now.Process, now);
            most[now.Process] = now with
            {
                Kb = Math.Max(now.Kb, before.Kb), Threads = Math.Max(now.Threads, before.Threads), Files = Math.Max(now.Files, before.Files),
            };
        }
    }

    // What processes call an error, and messages that were damaged on their way.
    private void Listen()
    {
        foreach (string line in system.Logs().Split('\n'))
        {
            bool isOne = line.Contains("Z error ", StringComparison.Ordinal) || line.Contains(Damaged, StringComparison.Ordinal);
            if (isOne && _errors.Add(line)) { Console.WriteLine($"  said: {line}"); }
        }
    }

    // What is done in turn. Two are of no round: the leader's Redis alone, and a hand-over by plan.
    private async Task<string> DisturbAsync(int number)
    {
        if (await Fault.LeaderAsync(system) is not { } leader) { return "nobody led"; }
        int[] processes = await Network.ProcessesAsync(leader);
        if (leader == Mortal)
        {
            await system.KillAsync(leader, processes);
            await Task.Delay(s_lasts);
            system.StartNode(leader);
            return "all killed";
        }
        int turn = number % (s_faults.Length + 2);
        if (turn == s_faults.Length)
        {
            await system.KillAsync(leader, [.. processes.Where(p => NameOf(p).StartsWith("redis", StringComparison.Ordinal))]);
            return "Redis killed";
        }
        if (turn > s_faults.Length) { return await system.HandOverAsync() ? "handed over" : "asked to hand over"; }
        var fault = new Fault(s_faults[turn], default, s_lasts, _random);
        (_, Func<Task> mend) = await fault.BeginAsync(system, network, leader, isLeader: true);
        await Task.Delay(fault.Lasts);
        await mend();
        return s_faults[turn].ToString();
    }

    // Each writer has keys of its own, and writes them in turn: what is there is never older than what was acknowledged.
    private async Task WriteAsync(int writer, CancellationToken stop)
    {
        var (acknowledged, sent) = (new long[Slots], new long[Slots]);
        IMasterFinder finder = system.FinderOf(0);
        long number = 0;
        while (!stop.IsCancellationRequested)
        {
            try
            {
                using RespClient client = await finder.ConnectAsync();
                await CheckAsync(client, writer, acknowledged, sent);
                Interlocked.Increment(ref _reconnected);
                while (!stop.IsCancellationRequested)
                {
                    long first = number + 1;
                    for (int i = 0; i < Pipelined; i++)
                    {
                        sent[++number % Slots] = number;
                        await client.SendAsync("SET", Key(writer, number % Slots), Text(number));
                    }
                    for (long n = first; n <= number; n++)
                    {
                        if ((await client.ReadAsync(MasterFinder.Patience)).IsError) { throw new InvalidDataException("refused"); }
                        acknowledged[n % Slots] = n;
                    }
                    Acknowledged(Pipelined);
                    await Task.Delay(1, CancellationToken.None);
                }
            }
            catch (Exception e) when (MasterFinder.IsNoAnswer(e))
            {
                await Task.Delay(5, CancellationToken.None);
            }
        }
        await Eventually.AsyncTrue($"what writer {writer} wrote is read", s_servedWithin, async () =>
        {
            try
            {
                using RespClient client = await finder.ConnectAsync();
                await CheckAsync(client, writer, acknowledged, sent);
                return true;
            }
            catch (Exception e) when (MasterFinder.IsNoAnswer(e))
            {
                return false;
            }
        });
    }

    private async Task CheckAsync(RespClient client, int writer, long[] acknowledged, long[] sent)
    {
        await client.SendAsync(["MGET", .. Enumerable.Range(0, Slots).Select(s => Key(writer, s))]);
        RespValue values = await client.ReadAsync(MasterFinder.Patience);
        if (values.IsError || values.Items.Count != Slots) { throw new InvalidDataException("refused"); }
        for (int slot = 0; slot < Slots; slot++)
        {
            long value = values.Items[slot].IsNull ? 0 : values.Items[slot].AsInteger();
            if (value >= acknowledged[slot] && value <= sent[slot]) { continue; }
            lock (_lost) { _lost.Add($"{Key(writer, slot)} is {value}: {acknowledged[slot]} acknowledged, {sent[slot]} sent"); }
        }
    }

    private void Acknowledged(int count)
    {
        Interlocked.Add(ref _acknowledged, count);
        long nowUs = NowUs, pauseUs = nowUs - Interlocked.Exchange(ref _lastUs, nowUs);
        if (pauseUs > Interlocked.Read(ref _longestUs)) { Interlocked.Exchange(ref _longestUs, pauseUs); }
    }

    private void Tell(Held[] held)
    {
        Listen();
        string holds = string.Join("; ", held.Select(h => $"{h.Name} {h.Kb / 1024} MB {h.Threads} threads {h.Files} files"));
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"""
            {Stopwatch.GetElapsedTime(_start).TotalMinutes:0} min: {Interlocked.Read(ref _acknowledged)} acknowledged, {_lost.Count} lost, {
            _reconnected} connections made, longest pause {Interlocked.Exchange(ref _longestUs, 0) / 1000} ms; {holds}
            """));
    }

    private async Task<Held[]> HeldAsync()
    {
        List<Held> held = [];
        for (int node = 1; node <= system.Nodes; node++)
        {
            foreach (int process in await Network.ProcessesAsync(node))
            {
                try
                {
                    string[] status = await File.ReadAllLinesAsync($"/proc/{process}/status");
                    long Of(string field) => long.Parse(
                        status.First(l => l.StartsWith(field + ":", StringComparison.Ordinal)).Split([' ', '\t', ':'],
                            StringSplitOptions.RemoveEmptyEntries)[1], CultureInfo.InvariantCulture);
                    held.Add(new(process, $"{Network.Name(node)} {NameOf(process)}", Of("VmRSS"), (int)Of("Threads"),
                        Directory.GetFileSystemEntries($"/proc/{process}/fd").Length));
                }
                catch (Exception e) when (e is IOException or InvalidOperationException or UnauthorizedAccessException)
                {
                    // It has just ended.
                }
            }
        }
        return [.. held];
    }

    private static string NameOf(int process)
    {
        try
        {
            return File.ReadAllText($"/proc/{process}/comm").Trim();
        }
        catch (IOException)
        {
            return "";
        }
    }

    private static string Key(int writer, long slot) => $"{Text(writer)}:{Text(slot)}";

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}

// A long life of one deployment: writers write, something is killed at a random moment, it comes back, the state is
// checked against everything that was acknowledged and committed, and the writers go on from that state. Stops at the
// first round that breaks a promise and tells how to run it again.
using System.Diagnostics;
using System.Globalization;
using System.Text;
using Slogger.Integration.Tests.Checking;
using Slogger.Integration.Tests.Model;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Chaos;

/// <summary>What a run found. Empty <see cref="Violations"/>: every promise was kept.</summary>
internal sealed record ChaosReport(int Rounds, long Commands, long CommittedChecked, long AcknowledgedLost, int Replays,
    IReadOnlyList<Violation> Violations, string Text);

internal sealed class ChaosRun
{
    private static readonly TimeSpan WriterEndLimit = TimeSpan.FromSeconds(60);

    private readonly IDeployment _deployment;
    private readonly ChaosOptions _options;
    private readonly Random _random;
    private readonly List<Writer> _writers = [];
    private readonly StringBuilder _text = new();
    private Queue<Fault> _deck = new();
    private KeyspaceModel[] _states;
    private IReadOnlyList<string>[] _handOffs;
    private long _committedChecked;
    private long _acknowledgedLost;
    private int _replays;
    private (long WorldLine, long Version) _cut;

    public ChaosRun(IDeployment deployment, ChaosOptions options)
    {
        _deployment = deployment;
        _options = options;
        _random = new Random(options.Seed);
        var profiles = options.Profiles;
        for (int i = 0; i < profiles.Count; i++)
        {
            int? pushesTo = profiles[(i + 1) % profiles.Count].PopsFrom ? (i + 1) % profiles.Count : null;
            var generator = new CommandGenerator(i, _random.Next(), profiles[i], pushesTo)
            {
                ShortLived = options.ShortLivedKeys,
                SeenElsewhere = () => _writers[Random.Shared.Next(_writers.Count)].LastAcknowledged,
            };
            _writers.Add(new Writer(i, profiles[i], generator, _random.Next(), deployment.SpeaksDpr));
        }

        _states = [.. profiles.Select(_ => new KeyspaceModel())];
        _handOffs = [.. profiles.Select(_ => Array.Empty<string>())];
    }

    public async Task<ChaosReport> RunAsync()
    {
        Say($"chaos on {_deployment.Name}: {_options.Rounds} rounds, seed {_options.Seed}");
        IReadOnlyList<Violation> violations = [];
        int round = 0;
        try
        {
            await _deployment.StartAsync();
            while (round < _options.Rounds && violations.Count == 0)
            {
                round++;
                violations = await RoundAsync(round);
            }
        }
        catch (Exception e) when (e is IOException or TimeoutException or InvalidOperationException or InvalidDataException)
        {
            // It did not start, did not come back, or answered what no server answers.
            violations = [new(ViolationKind.Complaint, e.ToString())];
        }

        foreach (var writer in _writers)
        {
            writer.Dispose();
        }

        if (violations.Count > 0)
        {
            Say($"round {round} of seed {_options.Seed} broke {violations.Count} promises:\n  " + string.Join("\n  ", violations.Take(20)));
            _text.AppendLine(_deployment.Tail());
        }

        long commands = _writers.Sum(w => w.Answered);
        Say($"{round} rounds, {commands} commands answered, {_committedChecked} reported committed and found, {_acknowledgedLost} "
            + $"answered but uncommitted commands lost, {_replays} replays compared");
        return new(round, commands, _committedChecked, _acknowledgedLost, _replays, violations, _text.ToString());
    }

    private async Task<IReadOnlyList<Violation>> RoundAsync(int round)
    {
        var fault = DealFault();
        int runMs = _random.Next(_options.RunMinMs, _options.RunMaxMs);
        for (int i = 0; i < _writers.Count; i++)
        {
            _writers[i].BeginRound(_states[i], round);
        }

        using var stop = new CancellationTokenSource();
        var running = _writers.Select(w => Task.Run(() => w.RunAsync(_deployment.Endpoint, stop.Token))).ToArray();
        await Task.Delay(runMs);
        foreach (var writer in _writers)
        {
            writer.FaultInjected = fault != Fault.None;
        }

        long killedAt = Stopwatch.GetTimestamp();
        if (fault == Fault.None)
        {
            await stop.CancelAsync();
        }
        else
        {
            await _deployment.InjectAsync(fault, _random);
            await _deployment.RecoverAsync();
        }

        var recovered = Stopwatch.GetElapsedTime(killedAt);
        var violations = new List<Violation>();
        await EndWritersAsync(running, stop, violations);
        foreach (var writer in _writers)
        {
            await writer.SettleAsync(fault, killedAt);
        }

        violations.AddRange(await CheckStateAsync(round, fault));
        violations.AddRange(await CheckWorldLineAsync(fault));
        if (violations.Count == 0 && _options.ReplayEvery > 0 && round % _options.ReplayEvery == 0
            && await _deployment.CheckReplayAsync() is { } differences)
        {
            violations.AddRange(differences);
            _replays++;
        }

        Say($"round {round}: {fault.Name} after {runMs} ms, back in {recovered.TotalMilliseconds:0} ms; "
            + $"{_writers.Sum(w => w.History.Commands.Count)} commands, world-line {_cut.WorldLine}");
        return violations;
    }

    /// <summary>Faults come like cards from a shuffled deck, so that a short run meets most of them.</summary>
    private Fault DealFault()
    {
        if (_deck.Count == 0)
        {
            var faults = _deployment.Faults.ToArray();
            _random.Shuffle(faults);
            _deck = new Queue<Fault>(faults);
        }

        return _deck.Dequeue();
    }

    private async Task EndWritersAsync(Task[] running, CancellationTokenSource stop, List<Violation> violations)
    {
        var all = Task.WhenAll(running);
        if (await Task.WhenAny(all, Task.Delay(TimeSpan.FromSeconds(5))) != all)
        {
            await stop.CancelAsync();
        }

        if (await Task.WhenAny(all, Task.Delay(WriterEndLimit)) != all)
        {
            foreach (var (writer, _) in _writers.Zip(running).Where(w => !w.Second.IsCompleted))
            {
                violations.Add(new(ViolationKind.Complaint, $"{writer.History.Name} hangs: neither a reply nor the end of its "
                    + $"connection in {WriterEndLimit.TotalSeconds:0} s"));
                writer.Disconnect();
            }
        }

        await all;
    }

    private async Task<IReadOnlyList<Violation>> CheckStateAsync(int round, Fault fault)
    {
        var observed = await ObservedState.ReadAsync(_deployment.Endpoint);
        var histories = _writers.Select(w => w.History).ToArray();
        var result = PrefixChecker.Check(histories, observed, new(round, fault.LosesNothing, _deployment.SharedIsExact, fault.KillsAgain));
        var violations = result.Violations.ToList();
        for (int i = 0; i < histories.Length; i++)
        {
            if (_options.Profiles[i].PopsFrom)
            {
                int pusher = (i + histories.Length - 1) % histories.Length;
                var entry = observed.Entries.GetValueOrDefault(new DatabaseKey(0, CommandGenerator.HandOffKey(i)));
                string[] after = entry is ListEntry list ? [.. list.Items] : [];
                violations.AddRange(HandOffCheck.Check(_handOffs[i], (histories[pusher], result.Writers[pusher]),
                    (histories[i], result.Writers[i]), after));
                _handOffs[i] = after;
            }
        }

        _states = [.. result.Writers.Select(w => w.State)];
        _committedChecked += histories.Sum(h => (long)h.Committed);
        _acknowledgedLost += result.AcknowledgedLost;
        return violations;
    }

    private async Task<IReadOnlyList<Violation>> CheckWorldLineAsync(Fault fault)
    {
        if (!_deployment.SpeaksDpr)
        {
            return [];
        }

        using var client = await RespClient.ConnectAsync(_deployment.Endpoint);
        var reply = await client.DoAsync("DPR.CUT");
        var cut = (WorldLine: reply.Items[0].AsInteger(), Version: reply.Items[1].AsInteger());
        var before = _cut;
        _cut = cut;
        if (cut.WorldLine < before.WorldLine || cut.Version < before.Version)
        {
            return [new(ViolationKind.WorldLine, $"the cut went back from {before} to {cut}")];
        }

        long told = _writers.Max(w => w.History.Rollback?.WorldLine ?? 0);
        if (told > cut.WorldLine)
        {
            return [new(ViolationKind.WorldLine, $"a client was told of world-line {told}, the cut is in {cut.WorldLine}")];
        }

        return fault.NewWorldLine && before.WorldLine != 0 && cut.WorldLine == before.WorldLine
            ? [new(ViolationKind.WorldLine, $"{fault.Name} left the world-line at {cut.WorldLine}")]
            : [];
    }

    private void Say(string line)
    {
        _text.AppendLine(line);
        _options.Report(string.Create(CultureInfo.InvariantCulture, $"{DateTime.UtcNow:HH:mm:ss} {line}"));
    }
}

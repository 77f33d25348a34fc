// What a store holds after a crash, compared with what sessions did (HostingWorkload): of each a prefix, all that was said to be committed
// in it (I1, I2); what one has seen of another is there, if it is there that it saw it; and no key that nobody has written.
using System.Globalization;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Embedded;

internal sealed class HostingCheck(ITestOutputHelper output)
{
    private static readonly string[] s_all = [.. HostingApplication.Workers, .. HostingApplication.Others];
    private readonly Dictionary<string, HostingModel> _models = s_all.ToDictionary(w => w, w => new HostingModel(w));
    private readonly Dictionary<string, long> _committed = s_all.ToDictionary(w => w, _ => 0L);
    private readonly Dictionary<string, long> _begun = [];

    public static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);

    public long CommittedOf(string worker) => _committed[worker];

    /// <summary>A worker was told that so many steps are committed.</summary>
    public void Committed(string worker, long steps) => _committed[worker] = Math.Max(_committed[worker], steps);

    /// <summary>Sessions over the network, each from where its last one has come.</summary>
    public HostingSession[] NewSessions() =>
        [.. HostingApplication.Others.Select((name, i) => new HostingSession(name, HostingApplication.Workers[i], _models[name].Steps))];

    public void Ended(HostingSession[] sessions)
    {
        foreach (HostingSession session in sessions)
        {
            Committed(session.Name, session.Committed);
            _begun[session.Name] = session.Begun;
        }
    }

    /// <summary>Looks at everything.</summary>
    public async Task RunAsync(RespClient client, int crashes)
    {
        foreach (string worker in s_all)
        {
            long found = await NumberAsync(client, HostingWorkload.Counter(worker));
            output.WriteLine($"after {crashes} crashes: {worker}: {_committed[worker]} steps were committed, {found} are there");
            Assert.True(found >= _committed[worker], $"I2: {worker}: {_committed[worker]} steps were committed, {found} are there");
            Assert.True(found <= _begun.GetValueOrDefault(worker, long.MaxValue),
                $"I1: {worker}: {found} steps are there, {_begun.GetValueOrDefault(worker)} were begun");
            await CheckStateAsync(client, _models[worker], worker, found);
        }

        // A crash may take a step's last part, which nobody makes up for.
        long shared = await NumberAsync(client, HostingWorkload.Shared), sum = _models.Values.Sum(m => m.Steps);
        Assert.InRange(shared, sum - (crashes * s_all.Length), sum);
        foreach ((string worker, string other) in HostingApplication.Workers.Zip(HostingApplication.Others)
            .SelectMany(p => new[] { (p.First, p.Second), (p.Second, p.First) }))
        {
            long saw = await NumberAsync(client, HostingWorkload.Saw(worker));
            Assert.True(saw <= _models[other].Steps, $"I1: {worker} saw step {saw} of {other}, of which {_models[other].Steps} are there");
        }

        string[] known = [HostingWorkload.Shared, .. s_all.SelectMany(w => new[] { HostingWorkload.Counter(w), HostingWorkload.Saw(w) }),
            .. Enumerable.Range(0, crashes + 1).Select(r => HostingApplication.Go(Text(r))), .. _models.Values.SelectMany(m => m.Keys)];
        string[] keys = [.. (await client.CallAsync("KEYS", "*")).Items.Select(i => i.Text)];
        Assert.Empty(keys.Except(known));
    }

    private static async Task CheckStateAsync(RespClient client, HostingModel model, string worker, long steps)
    {
        model.GoTo(steps);
        string[] differences = await model.DifferencesAsync(client);
        if (differences.Length == 0) { return; }
        // The step behind it may be there by half; whoever goes on takes it as a whole.
        model.Anticipate();
        string[] anticipated = await model.DifferencesAsync(client);
        Assert.True(anticipated.Length == 0, $"I1: {worker} after {steps} steps: {string.Join("; ", differences)}; with the "
            + $"half of the next: {string.Join("; ", anticipated)}");
    }

    private static async Task<long> NumberAsync(RespClient client, string key) =>
        (await client.CallAsync("GET", key)).Compact is { } reply && reply != "_" ? long.Parse(reply[1..], CultureInfo.InvariantCulture)
            : 0;
}

// Turns of a process where no processor is free, with processes that only compute.
using System.Diagnostics;
using System.Globalization;
using Slogger.Redis.Supervision;

namespace Slogger.Redis.Tests.Supervision;

public sealed class SpareTimeTests : IDisposable
{
    private const string Computes = "while :; do :; done";
    private const int LimitMs = 120_000, Glances = 200;
    private static readonly TimeSpan s_glance = TimeSpan.FromMilliseconds(5);

    private readonly List<Process> _started = [];

    public void Dispose()
    {
        foreach (Process process in _started)
        {
            process.Kill();
            process.WaitForExit();
            process.Dispose();
        }
    }

    [Fact(Timeout = LimitMs)]
    public async Task NoProcessorIsFree_TheProcessStandsStillInTurns_AndRunsAtTheEnd()
    {
        KeepProcessorsBusy();
        Process child = Start(Computes);
        using var stop = new CancellationTokenSource();
        Task turns = SpareTime.RunAsync(child.Id, stop.Token);
        for (int pauses = 0; pauses < 3; pauses++)
        {
            await SeenAsync(child, standsStill: true);
            await SeenAsync(child, standsStill: false);
        }
        // Given up while it stands still.
        await SeenAsync(child, standsStill: true);
        await stop.CancelAsync();
        await turns.WaitAsync(TestContext.Current.CancellationToken);
        await SeenAsync(child, standsStill: false);
    }

    [Fact(Timeout = LimitMs)]
    public async Task ProcessThatHardlyRuns_NeverStandsStill()
    {
        KeepProcessorsBusy();
        Process child = Start("exec sleep 600");
        using var stop = new CancellationTokenSource();
        Task turns = SpareTime.RunAsync(child.Id, stop.Token);
        for (int glance = 0; glance < Glances; glance++)
        {
            Assert.False(StandsStill(child));
            await Task.Delay(s_glance, TestContext.Current.CancellationToken);
        }
        await stop.CancelAsync();
        await turns.WaitAsync(TestContext.Current.CancellationToken);
    }

    [Fact(Timeout = LimitMs)]
    public async Task ProcessEndsMeanwhile_TheTurnsEndWhenTheyAreGivenUp()
    {
        KeepProcessorsBusy();
        Process child = Start(Computes);
        using var stop = new CancellationTokenSource();
        Task turns = SpareTime.RunAsync(child.Id, stop.Token);
        await SeenAsync(child, standsStill: true);
        child.Kill();
        await child.WaitForExitAsync(TestContext.Current.CancellationToken);
        await Task.Delay(TimeSpan.FromSeconds(1), TestContext.Current.CancellationToken);
        Assert.False(turns.IsCompleted);
        await stop.CancelAsync();
        await turns.WaitAsync(TestContext.Current.CancellationToken);
    }

    private void KeepProcessorsBusy()
    {
        for (int i = 0; i < Environment.ProcessorCount; i++) { Start(Computes); }
    }

    private Process Start(string script)
    {
        Process process = Process.Start("/bin/sh", ["-c", script]);
        _started.Add(process);
        return process;
    }

    private static async Task SeenAsync(Process process, bool standsStill)
    {
        while (StandsStill(process) != standsStill) { await Task.Delay(s_glance, TestContext.Current.CancellationToken); }
    }

    private static bool StandsStill(Process process)
    {
        string stat = File.ReadAllText(string.Create(CultureInfo.InvariantCulture, $"/proc/{process.Id}/stat"));
        return stat[stat.LastIndexOf(')') + 2] == 'T';
    }
}

// A real shard in a controlled order of events; see Schedule. SLOGGER_TEST_SEEDS=n for a longer run, SLOGGER_TEST_SEED to repeat one.
using System.Globalization;
using Slogger.Proxy.Tests.FrontEnd;

namespace Slogger.Proxy.Tests.Deterministic;

[Collection(nameof(AloneInTheProcess))]
public sealed class ScheduleTests(ITestOutputHelper output)
{
    private const int SeedsDefault = 40, SeedsOfAMutation = 300;

    [Fact]
    public Task Shard_CrashesAtAnyEvent_KeepsWhatItSaid() => OnOwnThread(() =>
    {
        int first = Number("SLOGGER_TEST_SEED") ?? 1;
        int count = Number("SLOGGER_TEST_SEED") is null ? Number("SLOGGER_TEST_SEEDS") ?? SeedsDefault : 1;
        int starts = 0, takenBack = 0, events = 0;
        for (int seed = first; seed < first + count; seed++)
        {
            using var schedule = new Schedule(seed);
            Exception? failure = Record.Exception(schedule.Run);
            Assert.True(failure is null, $"seed {seed}: {failure}\n{string.Join('\n', schedule.Trace)}");
            (starts, takenBack, events) = (starts + schedule.Starts, takenBack + schedule.TakenBack, events + schedule.Trace.Count);
        }
        output.WriteLine($"{count} seeds: {events} events, {starts} starts that served, {takenBack} writes taken back");
        // A run without recoveries that lose something would show nothing.
        Assert.True(count == 1 || (starts >= 2 * count && takenBack > 0), "too little has happened");
    });

    [Fact]
    public Task SameSeed_SameEvents() => OnOwnThread(() =>
    {
        for (int seed = 1; seed <= 5; seed++)
        {
            using Schedule first = new(seed), second = new(seed);
            first.Run();
            second.Run();
            Assert.Equal(first.Trace, second.Trace);
        }
    });

    [Theory]
    [InlineData(nameof(ScheduleMutation.ClaimBeforeSync))]
    [InlineData(nameof(ScheduleMutation.SyncForgets))]
    [InlineData(nameof(ScheduleMutation.LossOverlooked))]
    [InlineData(nameof(ScheduleMutation.MarkerBeforeItsStream))]
    [InlineData(nameof(ScheduleMutation.RestoresTooLittle))]
    public Task RuleSwitchedOff_IsCaught(string mutation) => OnOwnThread(() =>
    {
        for (int seed = 1; seed <= SeedsOfAMutation; seed++)
        {
            using var schedule = new Schedule(seed, Enum.Parse<ScheduleMutation>(mutation));
            try
            {
                schedule.Run();
            }
            catch (Exception e) when (e is BrokenPromiseException)
            {
                output.WriteLine($"seed {seed}: {e.Message}");
                return;
            }
        }
        Assert.Fail($"not caught in {SeedsOfAMutation} seeds");
    });

    private static int? Number(string variable) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number
            : null;

    // The pool belongs to the shard.
    private static Task OnOwnThread(Action action)
    {
        var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        new Thread(() =>
        {
            try
            {
                action();
                done.SetResult();
            }
            catch (Exception e)
            {
                done.SetException(e);
            }
        }) { Name = "schedule", IsBackground = true }.Start();
        return done.Task;
    }
}

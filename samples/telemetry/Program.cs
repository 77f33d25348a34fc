// Cloud telemetry (DPR, example 1). Sensors insert readings; an aggregator reads them before they are committed and writes sums
// back, on other shards; a dashboard shows the sums at once, and what of them is committed. In the middle one of the
// stores is killed. No sum may ever hold a reading that is not there.
using System.Globalization;
using Slogger.Client;
using Slogger.Samples;

const int Devices = 8, Readings = 400;
await using LocalCluster cluster = await LocalCluster.StartAsync(args);
await using SloggerClient client = await SloggerClient.ConnectAsync([.. cluster.Endpoints]);
string run = Guid.NewGuid().ToString("n")[..8];
int rollbacks = 0;
var middle = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);

Task<bool> aggregating = AggregateAsync();
Task[] sensors = [.. Enumerable.Range(0, Devices).Select(SenseAsync)];
if (cluster.IsOwn)
{
    await Task.WhenAny(middle.Task, aggregating);
    Console.WriteLine("kill -9 of the Redis of shard 1");
    cluster.KillStore(1);
}

await Task.WhenAll(sensors);
bool isConsistent = await aggregating;
Console.WriteLine(isConsistent ? $"consistent: every sum had its readings, {rollbacks} rollbacks seen" : "INCONSISTENT");
return isConsistent ? 0 : 1;

string ReadingsOf(int device) => $"{run}:readings:{device}";
string SumOf(int device) => $"{run}:sum:{device}";

// One session for each sensor: reading i has the value i. After a failure it goes on behind what is there.
async Task SenseAsync(int device)
{
    await using SloggerSession session = client.OpenSession();
    while (true)
    {
        try
        {
            long done = (await session.ExecuteAsync("LLEN", ReadingsOf(device))).Value.Integer;
            for (long i = done + 1; i <= Readings; i++)
            {
                await session.ListAppendAsync(ReadingsOf(device), i);
                await Task.Delay(4);
            }

            await session.WaitForCommitAsync();
            return;
        }
        catch (RollbackException rollback)
        {
            session.Resume(rollback);
        }
        catch (Exception e) when (e is UncertainException or ReplyLostException)
        {
            // It is there or not: LLEN tells.
        }
    }
}

// Adds what is new to each sum, without waiting for any commit. False: a sum was found that its readings do not make.
async Task<bool> AggregateAsync()
{
    await using SloggerSession session = client.OpenSession();
    long shown = 0;
    while (true)
    {
        try
        {
            // What there is after a rollback, or at the start: is it made of readings that are there?
            var sums = new (long Count, long Sum)[Devices];
            for (int d = 0; d < Devices; d++)
            {
                sums[d] = ParseSum((await session.GetAsync(SumOf(d))).Value);
                long[] values = await ReadAsync(session, d, 0, sums[d].Count);
                if (values.Length != sums[d].Count || values.Sum() != sums[d].Sum)
                {
                    Console.WriteLine($"device {d}: the sum {sums[d]} is committed without its readings, of which {values.Length} "
                        + "are there");
                    return false;
                }
            }

            while (sums.Any(s => s.Count < Readings))
            {
                for (int d = 0; d < Devices; d++)
                {
                    long[] values = await ReadAsync(session, d, sums[d].Count, Readings);
                    if (values.Length == 0) { continue; }
                    sums[d] = (sums[d].Count + values.Length, sums[d].Sum + values.Sum());
                    await session.SetAsync(SumOf(d), $"{sums[d].Count} {sums[d].Sum}");
                }

                long now = sums.Sum(s => s.Count);
                if (now >= Devices * Readings / 3) { middle.TrySetResult(); }
                if (now / 400 == shown / 400) { continue; }
                shown = now;
                Console.WriteLine($"{now} readings in sums; operations committed: {session.CommittedUpTo} of {session.LastSent}");
            }

            await session.WaitForCommitAsync();
            return sums.All(s => s == (Readings, Readings * (Readings + 1) / 2));
        }
        catch (RollbackException rollback)
        {
            rollbacks++;
            Console.WriteLine(rollback.Message);
            session.Resume(rollback);
        }
        catch (Exception e) when (e is UncertainException or ReplyLostException)
        {
            // The sum that is there tells.
        }
    }
}

async Task<long[]> ReadAsync(SloggerSession session, int device, long from, long to) => to <= from ? [] :
    [.. (await session.ExecuteAsync("LRANGE", ReadingsOf(device), from, to - 1)).Value.Items.Select(i => i.AsInteger())];

static (long Count, long Sum) ParseSum(string? text) => text?.Split(' ') is [var count, var sum]
    ? (long.Parse(count, CultureInfo.InvariantCulture), long.Parse(sum, CultureInfo.InvariantCulture)) : default;

// A workflow of two steps (DPR, example 2). Orders are queued on one shard; a packer takes them and queues parcels on another; a shipper
// takes those and queues shipments on the first. No step waits for the commit of the one before, so an order is through in
// less than a commit takes; only what leaves the house, the notice to the customer, waits for it. In the middle one of the
// stores is killed. No parcel may be there without its order, no shipment without its parcel, and no shipment that was announced
// may be gone.
using Slogger.Client;
using Slogger.Resp;
using Slogger.Samples;

const int Orders = 1500;
await using LocalCluster cluster = await LocalCluster.StartAsync(args);
await using SloggerClient client = await SloggerClient.ConnectAsync([.. cluster.Endpoints]);
string run = Guid.NewGuid().ToString("n")[..8];
// With two shards, these keys are on both.
string orders = $"{{a}}{run}:orders", parcels = $"{{b}}{run}:parcels", shipments = $"{{a}}{run}:shipments";
long announced = 0;
int rollbacks = 0;
string? violation = null;
var middle = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);

Task[] all =
[
    StepAsync("order", null, orders), StepAsync("pack", orders, parcels), StepAsync("ship", parcels, shipments),
];
if (cluster.IsOwn)
{
    await Task.WhenAny([middle.Task, .. all]);
    Console.WriteLine("kill -9 of the Redis of shard 1");
    cluster.KillStore(1);
}

await Task.WhenAll(all);
if (violation is null && announced != Orders) { violation = $"{announced} of {Orders} shipments were announced"; }
Console.WriteLine(violation is null ? $"consistent: {announced} orders went through both steps, {rollbacks} rollbacks seen"
    : $"INCONSISTENT: {violation}");
return violation is null ? 0 : 1;

// Takes item after item of a queue (or makes them up, at the first), and puts each at the end of the next. A step is where its own
// output ends: so after a failure it goes on there, and does nothing twice.
async Task StepAsync(string name, string? input, string output)
{
    await using SloggerSession session = client.OpenSession();
    bool isLast = output == shipments;
    Task announcing = isLast ? AnnounceAsync() : Task.CompletedTask;
    while (violation is null)
    {
        try
        {
            long done = await CheckAsync(session, name, input, output);
            while (done < Orders && violation is null)
            {
                long item = input is null ? done + 1 : (await session.ExecuteAsync("LINDEX", input, done)).Value is { IsNull: false } next
                    ? next.AsInteger() : 0;
                if (item == 0)
                {
                    await Task.Delay(1);
                    continue;
                }

                await session.ListAppendAsync(output, item);
                done++;
                if (isLast && done >= Orders / 3) { middle.TrySetResult(); }
                if (input is null && done % 4 == 0) { await Task.Delay(5); }
            }

            await session.WaitForCommitAsync();
            break;
        }
        catch (RollbackException rollback)
        {
            Interlocked.Increment(ref rollbacks);
            Console.WriteLine($"{name}: {rollback.Message}");
            session.Resume(rollback);
        }
        catch (Exception e) when (e is UncertainException or ReplyLostException)
        {
            // The end of the output tells.
        }
    }

    await announcing;
}

// What is there must be made of what is there of the step before. The output is read first: the input only grows.
async Task<long> CheckAsync(SloggerSession session, string name, string? input, string output)
{
    RespValue mine = (await session.ExecuteAsync("LRANGE", output, 0, -1)).Value;
    long length = mine.Items.Length;
    for (int i = 0; i < length; i++)
    {
        if (mine.Items[i].AsInteger() != i + 1) { violation = $"{name}: item {i + 1} is {mine.Items[i]}"; }
    }

    if (output == shipments && length < Volatile.Read(ref announced))
    {
        violation = $"{announced} shipments were announced, {length} are there";
    }
    if (input is not null && (await session.ExecuteAsync("LLEN", input)).Value.Integer is var before && before < length)
    {
        violation = $"{name}: {length} items are there, made of {before}";
    }
    return length;
}

// Tells customers, of committed shipments only: on its own session it looks how many there are, and waits until that is committed.
async Task AnnounceAsync()
{
    await using SloggerSession session = client.OpenSession();
    while (announced < Orders && violation is null)
    {
        try
        {
            long length = (await session.ExecuteAsync("LLEN", shipments)).Value.Integer;
            await session.WaitForCommitAsync();
            if (length / 300 > announced / 300) { Console.WriteLine($"{length} shipments announced"); }
            Volatile.Write(ref announced, Math.Max(announced, length));
            await Task.Delay(5);
        }
        catch (RollbackException rollback)
        {
            session.Resume(rollback);
        }
        catch (Exception e) when (e is UncertainException or ReplyLostException)
        {
            // Asked again.
        }
    }
}

// Somebody who works properly while others say odd things: a session with batches, or a plain connection. Each reply, sequence number,
// version and commit must be what it would be without them.
using System.Globalization;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Sessions;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Fuzzing;

internal sealed class FuzzWorker(ClusterDeployment cluster, int shard, string name)
{
    private const int CommitEvery = 40;

    public string Key { get; } = cluster.Key(shard, name);

    public int Shard => shard;

    /// <summary>INCRs that were answered.</summary>
    public long Done { get; private set; }

    /// <summary>Commits that were awaited.</summary>
    public long Commits { get; private set; }

    /// <exception cref="InvalidDataException">Something was not as it should be.</exception>
    public async Task WorkInBatchesAsync(CancellationToken stop)
    {
        using SessionClient client = await SessionClient.ConnectAsync(cluster.Endpoint(shard));
        SessionId id = SessionClient.NewId();
        long line = (await client.HelloAsync(id))["worldline"].Number;
        VersionNumber seen = VersionNumber.Zero;
        for (int round = 1; !stop.IsCancellationRequested; round++)
        {
            int count = 1 + (round % 7);
            string[][] requests = [.. Enumerable.Range(0, count).Select(_ => new[] { "INCR", Key })];
            await client.SendAsync(SessionClient.HeaderOf(id, line, seen.Number, Done + 1, count), requests);
            BatchOutcome outcome = await client.ReadAsync(count);
            Expect(outcome.Refusal is null, $"a batch was refused: {outcome.Refusal}");
            for (int i = 0; i < count; i++)
            {
                Expect(outcome.Replies[i].Compact == $":{Done + i + 1}", $"operation {Done + i + 1} was answered {outcome.Replies[i]}");
            }
            Expect(outcome.Reply.WorldLine.Number == line, $"world-line {outcome.Reply.WorldLine} after {line}");
            int told = 0;
            foreach (VersionRun run in outcome.Reply.Versions.Span)
            {
                Expect(run.Version >= seen, $"version {run.Version} after {seen}");
                seen = run.Version;
                told += run.Count;
            }
            Expect(told == count, $"versions of {told} operations out of {count}");
            Done += count;
            if (round % CommitEvery == 0) { await CommitAsync(client.Wire); }
            await Task.Delay(2, CancellationToken.None);
        }
        await CommitAsync(client.Wire);
    }

    /// <exception cref="InvalidDataException">Something was not as it should be.</exception>
    public async Task WorkPlainlyAsync(CancellationToken stop)
    {
        using RespClient client = await cluster.ConnectAsync(shard);
        while (!stop.IsCancellationRequested)
        {
            RespValue reply = await client.CallAsync("INCR", Key);
            Expect(reply.Compact == $":{Done + 1}", $"operation {Done + 1} was answered {reply}");
            Done++;
            if (Done % CommitEvery == 0)
            {
                await CommitAsync(client);
                long last = (await client.DoAsync("DPR.COMMITTED")).Items[2].Number;
                Expect(last == Done, $"{last} operations are counted out of {Done}");
            }
            await Task.Delay(2, CancellationToken.None);
        }
        await CommitAsync(client);
    }

    private async Task CommitAsync(RespClient client)
    {
        RespValue reply = await client.CallAsync("DPR.WAIT", "*", "25000");
        Expect(!reply.IsError && reply.Items[2].AsInteger() == 1, $"DPR.WAIT was answered {reply}");
        Commits++;
    }

    private void Expect(bool holds, string otherwise)
    {
        if (!holds)
        {
            throw new InvalidDataException(string.Create(CultureInfo.InvariantCulture, $"{name} at shard {shard}: {otherwise}"));
        }
    }
}

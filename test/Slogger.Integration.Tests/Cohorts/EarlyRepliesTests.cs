// A cohort that answers before a majority has what was done. A takeover may lose it then, and a world-line says so; by plan nothing is lost.
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cohorts;

public sealed class EarlyRepliesTests(ITestOutputHelper output)
{
    private const int Rounds = 2;

    // By their slots.
    private const string Here = "{b}", There = "{a}";

    [Fact]
    public async Task Leader_IsKilledWithItsRedis_WhatWasCommittedIsThere_AndAWorldLineBegins()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace) { OptionsOf = _ => ["--replies", "early"] };
        await nodes.StartAsync();
        for (int round = 0; round < Rounds; round++)
        {
            int first = await nodes.LeaderAsync();
            for (int i = 0; i < CohortNodes.Count; i++) { await nodes.FollowsOrLeadsAsync(i); }
            string prefix = Text(round);
            await nodes.FillAsync(first, prefix, 50);
            using RespClient client = await nodes.ConnectAsync(first);
            Assert.Equal(1, (await client.CallAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
            long line = await nodes.NumberAsync(first, "worldline");
            Task<long> counting = CountAsync(nodes, first, prefix + ":n");
            await CountsAsync(nodes, first, prefix + ":n");

            await nodes.KillAsync(first);
            long answered = await counting;
            int next = await nodes.LeaderAsync(but: first);

            Assert.Empty(await nodes.MissingAsync(next, prefix, 50));
            Assert.Equal(line + 1, await nodes.NumberAsync(next, "worldline"));
            Assert.Equal("early", await nodes.InfoAsync(next, "replies"));
            long there = (await nodes.AskAsync(next, "GET", prefix + ":n"))!.AsInteger();
            output.WriteLine($"{answered} were answered, and {there} are there");
            await nodes.StartAsync(first);
            await nodes.FollowsAsync(first);
            Assert.Equal(Text(there), (await nodes.AskAsync(first, "GET", prefix + ":n"))?.Text);
        }
    }

    [Fact]
    public async Task Leader_HandsOverByPlan_OrIsStoppedInOrder_NothingThatWasAnsweredIsLost_AndNoWorldLineBegins()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace) { OptionsOf = _ => ["--replies", "early"] };
        await nodes.StartAsync();
        int first = await nodes.LeaderAsync();
        for (int i = 0; i < CohortNodes.Count; i++) { await nodes.FollowsOrLeadsAsync(i); }
        first = await nodes.LeaderAsync();
        int handOvers = 0;
        for (int round = 0; handOvers < 2 * Rounds; round++)
        {
            string key = "n:" + Text(round);
            (long reign, long line) = (await nodes.NumberAsync(first, "reign"), await nodes.NumberAsync(first, "worldline"));
            Task<long> counting = CountAsync(nodes, first, key);
            await CountsAsync(nodes, first, key);
            bool isStopped = handOvers % 2 == 1;
            int to = (first + 1) % CohortNodes.Count;

            if (isStopped) { Assert.Equal(0, await nodes.TerminateAsync(first)); }
            else { await nodes.LeadAsync(to); }
            long answered = await counting;
            int next = await nodes.LeaderAsync(but: first);

            // On a busy machine another one may be elected before: then it is no hand-over, and is tried again.
            if (await nodes.NumberAsync(next, "reign") == reign + 1)
            {
                long there = (await nodes.AskAsync(next, "GET", key))!.AsInteger();
                Assert.True(there >= answered, $"{answered} were answered, and {there} are there\n{nodes.Tail()}");
                Assert.Equal(line, await nodes.NumberAsync(next, "worldline"));
                handOvers++;
            }
            if (isStopped) { await nodes.StartAsync(first); }
            for (int i = 0; i < CohortNodes.Count; i++) { await nodes.FollowsOrLeadsAsync(i); }
            first = await nodes.LeaderAsync();
        }
    }

    // Who wrote to one shard, and then to the other: what is there of the second needs what was lost of the first.
    [Fact]
    public async Task Leader_OfOneOfTwoShardsIsKilled_TheOtherGoesBackWithIt()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace) { OptionsOf = _ => ["--replies", "early", "--shards", "2", "--shard", "0"] };
        await using var other = new OtherShard(workspace, nodes);
        ProxyProcess alone = other.Process;
        try
        {
            await nodes.StartAsync();
            await alone.ReadyAsync();
            for (int round = 0; round < Rounds; round++)
            {
                int first = await nodes.LeaderAsync();
                for (int i = 0; i < CohortNodes.Count; i++) { await nodes.FollowsOrLeadsAsync(i); }
                first = await nodes.LeaderAsync();
                long line = await nodes.NumberAsync(first, "worldline");
                string name = Text(round);
                Task<long> writing = WriteBothAsync(nodes, first, alone, name);
                await CountsAsync(nodes, first, Here + name);

                await nodes.KillAsync(first);
                long answered = await writing;
                int next = await nodes.LeaderAsync(but: first);

                Assert.True(await nodes.NumberAsync(next, "worldline") > line);
                long second = 0;
                await nodes.EventuallyAsync("the other shard is in the world-line", async () =>
                {
                    try
                    {
                        using RespClient client = await alone.ConnectAsync();
                        RespValue info = await client.CallAsync("DPR.INFO");
                        RespValue value = await client.CallAsync("GET", There + name);
                        if (value.IsError || info.Text.Contains($"worldline:{Text(line)}\r\n", StringComparison.Ordinal)) { return false; }
                        second = value.IsNull ? 0 : value.AsInteger();
                        return true;
                    }
                    catch (ConnectionLostException)
                    {
                        return false;
                    }
                });
                RespValue there = (await nodes.AskAsync(next, "GET", Here + name))!;
                long one = there.IsNull ? 0 : there.AsInteger();
                output.WriteLine($"{answered} were answered at both; {one} and {second} are there");
                Assert.True(one >= second, $"{one} at the first shard, {second} at the other\n{nodes.Tail()}\n{alone.Tail()}");
                await nodes.StartAsync(first);
                await nodes.FollowsAsync(first);
                // The cut goes on.
                await nodes.SetAsync(Here + "goes", "on");
                using RespClient again = await alone.ConnectAsync();
                Assert.Equal("+OK", (await again.CallAsync("SET", There + "goes", "on")).Compact);
                Assert.Equal(1, (await again.CallAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
            }
        }
        catch (Exception)
        {
            output.WriteLine(alone.Tail());
            output.WriteLine(nodes.Tail());
            throw;
        }
    }

    // Until the node is gone, or leads no more. Gives how many were answered.
    private static Task<long> CountAsync(CohortNodes nodes, int node, string key) => Task.Run(async () =>
    {
        long answered = 0;
        try
        {
            using RespClient client = await nodes.ConnectAsync(node);
            while (await client.CallAsync("INCR", key) is { IsError: false } reply) { answered = reply.AsInteger(); }
        }
        catch (ConnectionLostException)
        {
            // As expected.
        }
        return answered;
    });

    private static Task CountsAsync(CohortNodes nodes, int node, string key) => nodes.EventuallyAsync($"{key} is counted", async () =>
        await nodes.AskAsync(node, "GET", key) is { IsNull: false, IsError: false } value && value.AsInteger() > 20);

    private static Task<long> WriteBothAsync(CohortNodes nodes, int node, ProxyProcess alone, string name) => Task.Run(async () =>
    {
        long answered = 0;
        try
        {
            using RespClient first = await nodes.ConnectAsync(node), second = await alone.ConnectAsync();
            while (!(await first.CallAsync("SET", Here + name, Text(answered + 1))).IsError
                && !(await second.CallAsync("SET", There + name, Text(answered + 1))).IsError) { answered++; }
        }
        catch (ConnectionLostException)
        {
            // As expected.
        }
        return answered;
    });

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}

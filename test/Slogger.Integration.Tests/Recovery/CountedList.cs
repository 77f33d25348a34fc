// One list to which 1, 2, 3... are pushed: whatever a recovery goes back to, it must hold 1 to k, with k no less than what was
// reported committed.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

internal sealed class CountedList(ProxyDeployment deployment)
{
    private const string Key = "counted";

    public long Sent { get; private set; }

    public long Committed { get; private set; }

    /// <summary>Pushes so many and waits for their commit.</summary>
    public async Task CommitAsync(int count)
    {
        using var client = await deployment.ConnectAsync();
        await PushAsync(client, count);
        var reply = await client.DoAsync("DPR.WAIT", "*", "30000");
        Assert.True(reply.Items[2].AsInteger() == 1, $"not committed: {reply}\n{deployment.Tail()}");
        Committed = Sent;
    }

    /// <summary>Pushes so many, which are answered and maybe not committed.</summary>
    public async Task PushAsync(int count)
    {
        using var client = await deployment.ConnectAsync();
        await PushAsync(client, count);
    }

    /// <summary>Checks what is there, and goes on from it.</summary>
    /// <param name="when">Named if it is wrong.</param>
    /// <param name="least">What must be there; default: what was committed.</param>
    public async Task CheckAsync(string when, long? least = null)
    {
        using var client = await deployment.ConnectAsync();
        var items = (await client.DoAsync("LRANGE", Key, "0", "-1")).Items;
        for (int i = 0; i < items.Count; i++)
        {
            Assert.True(items[i].Text == (i + 1).ToString(CultureInfo.InvariantCulture),
                $"{when}: element {i + 1} of {items.Count} is {items[i].Text}\n{deployment.Tail()}");
        }

        Assert.True(items.Count >= (least ?? Committed) && items.Count <= Sent,
            $"{when}: {items.Count} are there, {Committed} were committed, {Sent} sent\n{deployment.Tail()}");
        Sent = items.Count;
    }

    private async Task PushAsync(RespClient client, int count)
    {
        for (int i = 0; i < count; i++)
        {
            Assert.Equal($":{Sent + 1}", (await client.DoAsync("RPUSH", Key, (Sent + 1).ToString(CultureInfo.InvariantCulture))).Compact);
            Sent++;
        }
    }
}

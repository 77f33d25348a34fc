// How a client finds who leads: a fixed address, Sentinel, or any node that says that it is a master.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Linearizability.Rounds;

internal interface IMasterFinder
{
    /// <summary>A new connection to who leads, as far as is known.</summary>
    /// <exception cref="IOException">Nobody says that it leads, or it cannot be reached.</exception>
    /// <exception cref="TimeoutException">There was no answer.</exception>
    Task<RespClient> ConnectAsync();
}

internal static class MasterFinder
{
    /// <summary>A start on a busy machine. It ends a round that hangs, and decides nothing.</summary>
    public static readonly TimeSpan StartLimit = TimeSpan.FromMinutes(3);

    /// <summary>How long a client waits for any answer.</summary>
    public static readonly TimeSpan Patience = TimeSpan.FromMilliseconds(500);

    public static async Task<RespClient> ConnectAsync(IPEndPoint endpoint)
    {
        var connecting = RespClient.ConnectAsync(endpoint);
        try
        {
            return await connecting.WaitAsync(Patience);
        }
        catch (TimeoutException)
        {
            // It may yet come about.
            _ = ForgetAsync(connecting);
            throw;
        }
    }

    /// <summary>Connects to an endpoint if it says that it is a master.</summary>
    public static async Task<RespClient> ConnectToMasterAsync(IPEndPoint endpoint)
    {
        var client = await ConnectAsync(endpoint);
        try
        {
            await client.SendAsync("ROLE");
            var role = await client.ReadAsync(Patience);
            if (role.Items.Count > 0 && role.Items[0].Text == "master") { return client; }
            throw new ConnectionLostException($"{endpoint} is no master");
        }
        catch
        {
            client.Dispose();
            throw;
        }
    }

    private static async Task ForgetAsync(Task<RespClient> connecting)
    {
        try
        {
            (await connecting).Dispose();
        }
        catch (ConnectionLostException)
        {
            // Nobody waits for it any more.
        }
    }

    /// <summary>Waits until somebody leads.</summary>
    public static Task WaitAsync(IMasterFinder finder) => Eventually.AsyncTrue("somebody leads", StartLimit, async () =>
    {
        try
        {
            (await finder.ConnectAsync()).Dispose();
            return true;
        }
        catch (Exception e) when (IsNoAnswer(e))
        {
            return false;
        }
    });

    /// <summary>Asks one after the other, from another one on each time.</summary>
    public static async Task<RespClient> FirstAsync(IReadOnlyList<IPEndPoint> endpoints, Func<IPEndPoint, Task<RespClient>> ask)
    {
        int first = Random.Shared.Next(endpoints.Count);
        for (int i = 0; ; i++)
        {
            try
            {
                return await ask(endpoints[(first + i) % endpoints.Count]);
            }
            catch (Exception e) when (i < endpoints.Count - 1 && IsNoAnswer(e))
            {
                // The next one may know more.
            }
        }
    }

    /// <summary>Whether a request has had no answer, or none that could be read.</summary>
    public static bool IsNoAnswer(Exception e) => e is IOException or TimeoutException or InvalidDataException;
}

/// <summary>Always the same address.</summary>
internal sealed class FixedAddress(IPEndPoint endpoint) : IMasterFinder
{
    public Task<RespClient> ConnectAsync() => MasterFinder.ConnectToMasterAsync(endpoint);
}

/// <summary>Asks the nodes themselves.</summary>
internal sealed class RoleFinder(IReadOnlyList<IPEndPoint> endpoints) : IMasterFinder
{
    public Task<RespClient> ConnectAsync() => MasterFinder.FirstAsync(endpoints, MasterFinder.ConnectToMasterAsync);
}

/// <summary>Asks Sentinel, and then the master itself, as the documentation for clients of Sentinel wants it.</summary>
internal sealed class SentinelFinder(string master, IReadOnlyList<IPEndPoint> sentinels) : IMasterFinder
{
    public Task<RespClient> ConnectAsync() => MasterFinder.FirstAsync(sentinels, async sentinel =>
    {
        using var asked = await MasterFinder.ConnectAsync(sentinel);
        await asked.SendAsync("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master);
        var reply = await asked.ReadAsync(MasterFinder.Patience);
        if (reply.Items.Count != 2) { throw new ConnectionLostException($"{sentinel} knows no master: {reply}"); }
        return await MasterFinder.ConnectToMasterAsync(
            new(IPAddress.Parse(reply.Items[0].Text), int.Parse(reply.Items[1].Text, CultureInfo.InvariantCulture)));
    });
}

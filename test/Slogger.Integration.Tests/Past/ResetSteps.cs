// A reset as slogger reset manages it, up to a step behind which nobody asks any more.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

/// <summary>Behind which step it ends.</summary>
public enum ResetStep
{
    Held, OneWritten, AllWritten, OneClosed, AllClosed, Committed,
}

internal static class ResetSteps
{
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(30);

    /// <summary>Runs the command, which has to succeed.</summary>
    public static async Task<JsonElement> ResetAsync(int port, string to, params string[] options)
    {
        (int code, string told) = await ProxyProcess.CommandAsync(["reset", "--json", "--address", At(port), "--to", to, .. options]);
        Assert.True(code == 0, told);
        // Its progress goes before.
        return JsonDocument.Parse(told[told.IndexOf('{', StringComparison.Ordinal)..]).RootElement;
    }

    /// <summary>The version that all shards have, with all that was acknowledged.</summary>
    public static async Task<string> CommonVersionAsync(int port, string key)
    {
        (int code, string told) = await ProxyProcess.CommandAsync(["get", "--json", "--address", At(port), "--ago", "0s", key]);
        Assert.True(code == 0, told);
        return JsonDocument.Parse(told).RootElement.GetProperty("version").GetRawText();
    }

    /// <summary>Prepares one at a shard, and gives its name.</summary>
    public static async Task<string> PreparedAsync(RespClient client, string version)
    {
        string name = (await client.DoAsync("DPR.RESET", "PREPARE", version)).Items[0].Text;
        await Eventually.AsyncTrue("it is prepared", s_limit, async () =>
            (await client.DoAsync("DPR.RESET", "STATE", name)).Items[0].Text == "ready");
        return name;
    }

    /// <summary>Manages one up to a step, at one shard or at two.</summary>
    /// <param name="shards">Connections to the shards.</param>
    /// <param name="version">The version.</param>
    /// <param name="last">The step.</param>
    public static async Task GoToAsync(RespClient[] shards, string version, ResetStep last)
    {
        int count = shards.Length;
        var names = new string[count];
        for (int i = 0; i < count; i++) { names[i] = await PreparedAsync(shards[i], version); }
        await Eventually.AsyncTrue("all is held", s_limit, async () =>
        {
            bool isHeld = true;
            for (int i = 0; i < count; i++) { isHeld &= (await shards[i].DoAsync("DPR.RESET", "HOLD", names[i])).Items[0].Text == "held"; }
            return isHeld;
        });
        long above = 0;
        for (int i = 0; i < (last < ResetStep.OneWritten ? 0 : last == ResetStep.OneWritten ? 1 : count); i++)
        {
            above = Math.Max(above, (await shards[i].DoAsync("DPR.RESET", "WRITE", names[i])).Items[0].AsInteger());
        }
        long result = 0;
        for (int i = 0; i < (last < ResetStep.OneClosed ? 0 : last == ResetStep.OneClosed ? 1 : count); i++)
        {
            result = Math.Max(result, (await shards[i].DoAsync("DPR.RESET", "CLOSE", names[i], Text(above))).AsInteger());
        }
        if (last == ResetStep.OneClosed) { await Task.Delay(100); }
        if (last < ResetStep.Committed) { return; }
        await Eventually.AsyncTrue("it is committed", s_limit, async () =>
            (await shards[^1].DoAsync("DPR.RESET", "STATE", names[^1])).Items[4].AsInteger() >= result);
    }

    /// <summary>What may be there behind it, if nobody has ended it.</summary>
    public static string[] Allowed(ResetStep last, string before, string set) => last switch
    {
        ResetStep.Committed => [set],
        ResetStep.AllClosed => [set, before],
        _ => [before],
    };

    public static string At(int port) => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}");
}

// The largest value that Redis takes, through the whole path. Half a gigabyte several times over: only when asked for
// (-explicit only -method "*LargeValue*").
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Recovery;

public sealed class LargeValueTests(ITestOutputHelper output)
{
    private const int ValueBytes = 512 << 20;
    private static readonly TimeSpan Generous = TimeSpan.FromMinutes(5);

    [Fact(Explicit = true)]
    public async Task Value_Of512MB_IsCommittedAndSurvivesTheDeathOfRedisAndProxy()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        var clock = System.Diagnostics.Stopwatch.StartNew();
        string digest;
        using (var client = await deployment.ConnectAsync())
        {
            await client.WriteAsync(System.Text.Encoding.ASCII.GetBytes(
                string.Create(CultureInfo.InvariantCulture, $"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${ValueBytes}\r\n")));
            var random = new Random(1);
            var piece = new byte[1 << 20];
            for (int sent = 0; sent < ValueBytes; sent += piece.Length)
            {
                random.NextBytes(piece);
                await client.WriteAsync(piece);
            }
            await client.WriteAsync("\r\n"u8.ToArray());
            Assert.Equal("+OK", (await client.ReadAsync(Generous)).Compact);
            Report("answered");
            await client.SendAsync("DPR.WAIT", "*", "300000");
            Assert.Equal(1, (await client.ReadAsync(Generous)).Items[2].AsInteger());
            Report("committed");
            await client.SendAsync("DEBUG", "DIGEST-VALUE", "big");
            digest = (await client.ReadAsync(Generous)).Compact;
        }
        deployment.Proxy.KillHard();
        await deployment.KillRedisAsync();
        clock.Restart();
        await deployment.RecoverAsync();
        Report("restored");
        using var survivor = await deployment.ConnectAsync();
        await survivor.SendAsync("STRLEN", "big");
        Assert.Equal($":{ValueBytes}", (await survivor.ReadAsync(Generous)).Compact);
        await survivor.SendAsync("DEBUG", "DIGEST-VALUE", "big");
        Assert.Equal(digest, (await survivor.ReadAsync(Generous)).Compact);

        void Report(string what) =>
            output.WriteLine(string.Create(CultureInfo.InvariantCulture, $"{what} after {clock.Elapsed.TotalSeconds:0.0} s"));
    }
}

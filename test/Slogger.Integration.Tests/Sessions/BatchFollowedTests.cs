// Requests right behind a batch, sent with it: the batch gets its trailer before their replies, whatever they do to the connection.
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Functional;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sessions;

public sealed class BatchFollowedTests(Servers servers) : IClassFixture<Servers>
{
    [Theory]
    [InlineData("CLIENT REPLY OFF", "CLIENT REPLY ON", "+OK")]
    [InlineData("CLIENT REPLY SKIP", "PING", null)]
    [InlineData("RESET", "PING", "+RESET")]
    [InlineData("SELECT 1", "PING", "+OK")]
    [InlineData("CLIENT SETNAME x", "PING", "+OK")]
    [InlineData("ECHO x", "PING", "$x")]
    [InlineData("NOSUCH", "PING", "error")]
    [InlineData("MULTI", "DISCARD", "+OK")]
    [InlineData("WAITAOF 1 0 20000", "PING", "[:1,:0]")]
    [InlineData("DPR.WAIT * 20000", "PING", "committed")]
    public async Task Request_RightBehindABatch_ComesAfterItsTrailer(string request, string next, string? expected)
    {
        using SessionClient client = await SessionClient.ConnectAsync(await servers.EmptyAsync(Target.Proxy));
        SessionId id = SessionClient.NewId();
        long line = (await client.HelloAsync(id))["worldline"].Number;
        // The last of the batch, too, is looked at by itself.
        await client.SendAsync(SessionClient.HeaderOf(id, line, 0, 1, 3), ["SET", "k", "1"], ["CLIENT", "GETNAME"], ["DISCARD"]);
        await client.Wire.SendAsync(request.Split(' '));
        await client.Wire.SendAsync(next.Split(' '));
        BatchOutcome outcome = await client.ReadAsync(3);
        Assert.Null(outcome.Refusal);
        Assert.Equal(3, outcome.Reply.Versions.ToArray().Sum(r => r.Count));
        if (expected is not null)
        {
            RespValue reply = await client.Wire.ReadAsync();
            Assert.Equal(expected, reply.IsError ? "error" : expected == "committed"
                && reply.Items[2].AsInteger() == 1 ? "committed" : reply.Compact);
        }

        // Of the batch and these requests none is counted twice.
        await client.Wire.SendAsync("ECHO", "end");
        RespValue last;
        do { last = await client.Wire.ReadAsync(); } while (last.Compact != "$end");
        BatchHeader header = SessionClient.HeaderOf(id, line, 0, 4, 1);
        await client.SendAsync(header, ["GET", "k"]);
        Assert.Equal(1, (await client.ReadAsync(1)).Reply.Versions.ToArray().Sum(r => r.Count));
    }
}

// What Redis can do and the store cannot: the error says what to do about it.
using Slogger.Faster.Commands;
using Slogger.Faster.Tests.Commands.Differential;
using Slogger.Resp;

namespace Slogger.Faster.Tests.Commands;

public sealed class MissingCommandsTests
{
    private const string Remedy = "start with --redis-server redis-server";

    [Fact]
    public void CommandsOfRedis_AllOfThem_AreThereOrSayWhatToDo()
    {
        using var redis = new RedisServer();
        using var test = new TestEngine();
        int at = 0, missing = 0;
        var names = Assert.IsType<List<object?>>(
            CommandReply.Read(System.Text.Encoding.Latin1.GetBytes(redis.Send("COMMAND", "LIST")), ref at)).Cast<string>()
                .Order(StringComparer.Ordinal).ToList();
        Assert.True(names.Count > 300, $"Redis lists {names.Count} commands");
        foreach (string name in names)
        {
            string reply = test.Client.Send("COMMAND", "INFO", name);
            if (reply != "*1|$-1|") continue;
            missing++;
            string[] words = name.Split('|');
            // Of those that are missing as a whole the name is enough.
            if (words.Length == 2 && MissingCommands.ErrorFor(System.Text.Encoding.ASCII.GetBytes(words[0])) is not null) continue;
            string error = test.Client.Send([.. words, "a", "b"]);
            string kind = words.Length == 1 ? "command" : "subcommand";
            Assert.StartsWith($"-ERR unknown {kind} '{words[^1]}': it is not among the commands of the embedded store: ", error,
                StringComparison.Ordinal);
            Assert.EndsWith($"{Remedy}|", error, StringComparison.Ordinal);
        }

        Assert.True(missing > 150, $"{missing} are missing");
        Assert.Null(MissingCommands.ErrorFor("get"u8));
    }

    [Fact]
    public void Missing_InATransaction_SpoilsIt()
    {
        using var test = new TestEngine();
        test.Client.Send("MULTI");
        Assert.Equal($"-ERR unknown command 'LPush': it is not among the commands of the embedded store: lists need a Redis; {Remedy}|",
            test.Client.Send("LPush", "k", "v"));
        Assert.Equal("-EXECABORT Transaction discarded because of previous errors.|", test.Client.Send("EXEC"));
        Assert.Equal("-ERR unknown command 'NONSENSE', with args beginning with: 'k' |", test.Client.Send("NONSENSE", "k"));
        Assert.Equal($"-ERR unknown subcommand 'TRACKING': it is not among the commands of the embedded store: client-side caching "
            + $"needs a Redis; {Remedy}|", test.Client.Send("CLIENT", "TRACKING", "ON"));
    }
}

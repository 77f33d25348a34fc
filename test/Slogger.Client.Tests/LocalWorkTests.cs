// What a session does with operations that its application executes by itself, on a shard in its own process, when a world-line ends:
// against an application that always executes another one as soon as it may.
using System.Collections.Immutable;
using Slogger.Client.Wire;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client.Tests;

public sealed class LocalWorkTests
{
    // In between, when what was executed has been taken in, nothing more may be executed in the old world-line: no session could say what
    // has become of it.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Rollback_WhileOperationsAreExecutedHere_NoneIsOfTheOldWorldLineAfterIt(bool isLost)
    {
        await using var proxy = new ScriptedProxy(0, _ => "$1\r\n1\r\n");
        await using SloggerClient client = await SloggerClient.ConnectAsync(proxy.Endpoint);
        await using SloggerSession session = client.OpenSession();
        var busy = new Busy();
        session.Join(busy);
        long before = session.LastSent.Number;
        Assert.True(before > 0);
        VersionNumber branch = new(Busy.VersionIn(new(1)).Number - (isLost ? 1 : 0));
        session.OnRollback(new Branch(new(1), new(2), IsUniform: true, ImmutableArray.Create(branch)));
        Assert.False(busy.HasBeenLate);
        Assert.Equal(2, session.WorldLine.Number);
        Assert.Equal(isLost, session.Rollback is not null);
        if (session.Rollback is { } rollback)
        {
            Assert.Null(busy.Line);
            session.Resume(rollback);
        }

        Assert.Equal(new WorldLine(2), busy.Line);
        // What was executed when the rollback came, and one of the new world-line.
        Assert.True(session.LastSent.Number >= before + 2);
    }

    // Under the session's lock, as all of it.
    private sealed class Busy : ILocalWork
    {
        private readonly LocalRun[] _run = new LocalRun[1];
        private WorldLine _executedIn;   // that has not been taken in; 0: nothing is

        // Of what is executed; null: nothing is.
        public WorldLine? Line { get; private set; }

        // Something executed in one world-line had not been taken in when the next one began.
        public bool HasBeenLate { get; private set; }

        public ShardId Shard => new(0);

        public static VersionNumber VersionIn(WorldLine line) => new(10 * line.Number);

        public ReadOnlySpan<LocalRun> Take(out WorldLine line)
        {
            line = _executedIn;
            _run[0] = new(1, VersionIn(line));
            _executedIn = Line ?? default;
            return _run.AsSpan(0, line.Number > 0 ? 1 : 0);
        }

        public void GoOn(WorldLine? line)
        {
            Line = line;
            HasBeenLate |= line is { } next && _executedIn.Number > 0 && _executedIn != next;
            if (_executedIn.Number == 0) { _executedIn = line ?? default; }
        }
    }
}

using Slogger.Redis.Connections;
using Slogger.Redis.Rollback;

namespace Slogger.Replication.Following;

/// <summary>Keeps from a stream's log what an embedded store does not know.</summary>
/// <param name="recordBytesMax">The most bytes of a key and its value there.</param>
internal sealed class StoreGuard(long recordBytesMax) : StreamGuard
{
    private EffectCutter _commands = new();
    private int _database;

    public override void LookAtCopy(string file)
    {
        try
        {
            RdbBase.RequireKnown(file, recordBytesMax, CancellationToken.None);
        }
        catch (Exception e) when (e is UnknownToStoreException or RedisException)
        {
            throw new UnfollowableException(e.Message);
        }
    }

    public override void Look(ReadOnlySpan<byte> bytes)
    {
        _commands.Give(bytes);
        while (_commands.Next())
        {
            FeedCommand command = FeedCommand.Of(_commands.Effect, _database, recordBytesMax);
            if (command.Flaw is { } flaw) { throw Unfollowable(flaw); }
            _database = command.Database;
        }
        if (_commands.Rest > StreamFeed.CommandBytesMax)
        {
            throw Unfollowable($"a command of more than {StreamFeed.CommandBytesMax >> 20} MB");
        }
    }

    protected override void Begin(int database) => (_commands, _database) = (new(), database);

    private static UnfollowableException Unfollowable(string flaw) =>
        new($"the embedded store cannot follow what comes now: {flaw}. {StreamFeed.Advice}");
}

// The commands on lists, sets, hashes, sorted sets, streams, and scripts.
using Slogger.Integration.Tests.Model;

namespace Slogger.Integration.Tests.Workload;

internal sealed partial class CommandGenerator
{
    private Issued ListCommand(KeyspaceModel model)
    {
        string key = KeyName('l');
        int count = (Find(model, key) as ListEntry)?.Items.Count ?? 0;
        if (count > TrimAbove)
        {
            return Plain("LTRIM", key, "0", Text(_random.Next(TrimAbove / 2)));
        }

        return _random.Next(7) switch
        {
            0 => Plain("LPUSH", key, Fresh(), Fresh() + "b"),
            1 => Plain("LPOP", key),
            2 => Plain("RPOP", key),
            3 => Plain("LMOVE", key, OtherKey('l', key), Chance(50) ? "LEFT" : "RIGHT", Chance(50) ? "LEFT" : "RIGHT"),
            4 when count > 0 && !model.InTransaction => Plain("LSET", key, Text(_random.Next(count)), Fresh()),
            _ => Plain("RPUSH", key, Fresh()),
        };
    }

    private Issued SetCommand(KeyspaceModel model)
    {
        string key = KeyName('u');
        int count = (Find(model, key) as SetEntry)?.Members.Count ?? 0;
        if (count > TrimAbove)
        {
            return Plain("SPOP", key, "1000");
        }

        return _random.Next(6) switch
        {
            0 => Plain("SREM", key, Member()),
            1 => Plain("SMOVE", key, OtherKey('u', key), Member()),
            2 => Plain("SUNIONSTORE", key, KeyName('u'), KeyName('u')),
            _ => Plain("SADD", key, Chance(70) ? Fresh() : Member(), Member()),
        };
    }

    private Issued HashCommand()
    {
        string key = KeyName('h');
        return _random.Next(5) switch
        {
            0 => Plain("HDEL", key, Member(), Member()),
            1 => Plain("HINCRBY", key, "n", Text(_random.Next(1, 50))),
            _ => Plain("HSET", key, Member(), Fresh(), Member(), Fresh() + "b"),
        };
    }

    private Issued SortedSetCommand(KeyspaceModel model)
    {
        string key = KeyName('z');
        int count = (Find(model, key) as SortedSetEntry)?.Scores.Count ?? 0;
        if (count > TrimAbove)
        {
            return Plain("ZREMRANGEBYRANK", key, "0", Text(TrimAbove / 2));
        }

        return _random.Next(5) switch
        {
            0 => Plain("ZREM", key, Member()),
            1 => Plain("ZPOPMIN", key),
            2 => Plain("ZINCRBY", key, Text(_random.Next(1, 20)), Member()),
            _ => Plain("ZADD", key, Text(_serial), Chance(50) ? Fresh() : Member()),
        };
    }

    private Issued StreamCommand(KeyspaceModel model)
    {
        string key = KeyName('t');
        var entries = (Find(model, key) as StreamEntry)?.Entries;
        if (entries is { Count: > TrimAbove })
        {
            return Plain("XTRIM", key, "MAXLEN", "=", Text(TrimAbove / 2));
        }

        return entries is { Count: > 0 } && Chance(20)
            ? Plain("XDEL", key, entries[_random.Next(entries.Count)].Id)
            : Plain("XADD", key, Text(_serial) + "-1", "f", Fresh());
    }

    private Issued ScriptCommand() => _random.Next(3) switch
    {
        0 => Plain("EVAL", KeyspaceModel.SetThenFail, "1", KeyName('s'), Fresh()),
        1 => Plain("EVAL", KeyspaceModel.Transfer, "2", _prefix + "s0", _prefix + "s1", "+"),
        _ => Plain("EVAL", KeyspaceModel.CountAndNote, "2", KeyName('n'), KeyName('l'), Text(_random.Next(1, 9))),
    };

    private static Entry? Find(KeyspaceModel model, string key) => model.Entries.GetValueOrDefault(new(model.Database, key));
}

// The commands of which Redis's COMMAND says only that their keys move about with other arguments. Each rule is that of Redis
// 7.0's own function (named at it) by which it finds the node of a command, its way with what is malformed included: what it
// takes for no key is run, and refused, by any node.
using System.Buffers.Text;

namespace Slogger.Resp;

public sealed partial class KeyFinder
{
    private enum Movable
    {
        /// <summary>The table says where its keys are.</summary>
        No,

        /// <summary>They move, and it is not known how.</summary>
        Unknown,

        /// <summary>numkeys key [key ...] from argument 1 on.</summary>
        CountAt1,

        /// <summary>numkeys key [key ...] from argument 2 on.</summary>
        CountAt2,

        /// <summary>destination numkeys key [key ...].</summary>
        StoreThenCount,
        Sort,
        GeoRadius,
        Migrate,
        Streams,
        FirstArgument,
    }

    private static readonly Dictionary<string, Movable> MovableCommands = new()
    {
        ["EVAL"] = Movable.CountAt2, ["EVALSHA"] = Movable.CountAt2, ["EVAL_RO"] = Movable.CountAt2, ["EVALSHA_RO"] = Movable.CountAt2,
        ["FCALL"] = Movable.CountAt2, ["FCALL_RO"] = Movable.CountAt2, ["BLMPOP"] = Movable.CountAt2, ["BZMPOP"] = Movable.CountAt2,
        ["ZUNION"] = Movable.CountAt1, ["ZINTER"] = Movable.CountAt1, ["ZDIFF"] = Movable.CountAt1, ["ZINTERCARD"] = Movable.CountAt1,
        ["SINTERCARD"] = Movable.CountAt1, ["LMPOP"] = Movable.CountAt1, ["ZMPOP"] = Movable.CountAt1,
        ["ZUNIONSTORE"] = Movable.StoreThenCount, ["ZINTERSTORE"] = Movable.StoreThenCount, ["ZDIFFSTORE"] = Movable.StoreThenCount,
        ["SORT"] = Movable.Sort, ["SORT_RO"] = Movable.FirstArgument,
        ["GEORADIUS"] = Movable.GeoRadius, ["GEORADIUSBYMEMBER"] = Movable.GeoRadius,
        ["MIGRATE"] = Movable.Migrate, ["XREAD"] = Movable.Streams, ["XREADGROUP"] = Movable.Streams,
    };

    private static KeyPlaces FromMovable(Movable kind, ArgumentView arguments) => kind switch
    {
        Movable.CountAt1 => Counted(arguments, 1, 0),
        Movable.CountAt2 => Counted(arguments, 2, 0),
        Movable.StoreThenCount => Counted(arguments, 2, 1),
        Movable.Sort => OfSort(arguments),
        Movable.GeoRadius => OfGeoRadius(arguments),
        Movable.Migrate => OfMigrate(arguments),
        Movable.Streams => OfStreams(arguments),
        _ => new(1, 1, 1),
    };

    // genericGetKeys
    private static KeyPlaces Counted(ArgumentView arguments, int countAt, int store)
    {
        int count = AsAtoi(arguments[countAt]);
        return count < 1 || count > arguments.Count - countAt - 1 ? default : new(countAt + 1, count, 1, store);
    }

    // sortGetKeys: the last STORE counts.
    private static KeyPlaces OfSort(ArgumentView arguments)
    {
        int store = 0;
        for (int i = 2; i < arguments.Count; i++)
        {
            if (arguments.Is(i, "LIMIT"u8)) { i += 2; }
            else if (arguments.Is(i, "GET"u8) || arguments.Is(i, "BY"u8)) { i++; }
            else if (arguments.Is(i, "STORE"u8) && i + 1 < arguments.Count) { store = i + 1; }
        }
        return new(1, 1, 1, store);
    }

    // georadiusGetKeys: the last STORE or STOREDIST counts.
    private static KeyPlaces OfGeoRadius(ArgumentView arguments)
    {
        int store = 0;
        for (int i = 5; i + 1 < arguments.Count; i++)
        {
            if (arguments.Is(i, "STORE"u8) || arguments.Is(i, "STOREDIST"u8)) { store = ++i; }
        }
        return new(1, 1, 1, store);
    }

    // migrateGetKeys: one key, or an empty one and a list of keys at the end.
    private static KeyPlaces OfMigrate(ArgumentView arguments)
    {
        for (int i = 6; i < arguments.Count; i++)
        {
            if (arguments.Is(i, "KEYS"u8))
            {
                return arguments[3].IsEmpty ? new(i + 1, arguments.Count - i - 1, 1) : default;
            }
            if (arguments.Is(i, "AUTH"u8)) { i++; }
            else if (arguments.Is(i, "AUTH2"u8)) { i += 2; }
        }
        return new(3, 1, 1);
    }

    // xreadGetKeys: behind STREAMS come as many keys as ids.
    private static KeyPlaces OfStreams(ArgumentView arguments)
    {
        for (int i = 1; i < arguments.Count; i++)
        {
            if (arguments.Is(i, "BLOCK"u8) || arguments.Is(i, "COUNT"u8)) { i++; }
            else if (arguments.Is(i, "GROUP"u8)) { i += 2; }
            else if (arguments.Is(i, "STREAMS"u8))
            {
                int rest = arguments.Count - i - 1;
                return rest % 2 == 0 ? new(i + 1, rest / 2, 1) : default;
            }
            else if (!arguments.Is(i, "NOACK"u8)) { break; }
        }
        return default;
    }

    // As C's atoi: spaces, a sign, digits; what follows does not matter.
    private static int AsAtoi(ReadOnlySpan<byte> text)
    {
        text = text.TrimStart(" \t\n\v\f\r"u8);
        if (!text.IsEmpty && text[0] == (byte)'+') { text = text[1..]; }
        return Utf8Parser.TryParse(text, out long number, out _) ? (int)number : 0;
    }
}

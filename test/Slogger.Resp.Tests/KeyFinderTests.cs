// The keys that the finder names are those that redis-server names (COMMAND GETKEYS), and its verdict on their slots is the one
// by which a node of Redis Cluster answers: CROSSSLOT, MOVED, or neither.
using Slogger.Core.Ownership;

namespace Slogger.Resp.Tests;

[Collection(nameof(RedisCluster))]
public sealed unsafe class KeyFinderTests(RedisCluster cluster)
{
    // An empty argument is written ''.
    private const string Requests = """
        GET a|SET a b EX 3|MGET a b c|MSET a 1 b 2 c 3|MSET a 1 b|MSETNX a 1 b 2|DEL a b|UNLINK a|EXISTS a b|RENAME a b|COPY a b|SMOVE a b m
        APPEND a b|GETRANGE a 0 1|SETRANGE a 0 b|STRLEN a|INCR a|TOUCH a b c|TYPE a|EXPIRE a 1|LCS a b LEN|BITOP AND d a b|PFCOUNT a b
        PFMERGE d a b
        RPOPLPUSH a b|LMOVE a b LEFT RIGHT|BLPOP a b 0.01|BRPOPLPUSH a b 0.01|BLMOVE a b LEFT LEFT 0.01|BZPOPMIN a b 0.01|SUNION a b
        SUNIONSTORE d a b
        SINTERCARD 2 a b|SINTERCARD 2 a b LIMIT 1|SINTERCARD 3 a b|SINTERCARD 0 a|SINTERCARD x a|LMPOP 2 a b LEFT|LMPOP 1 a LEFT COUNT 2
        BLMPOP 0.01 2 a b LEFT
        ZMPOP 2 a b MIN|BZMPOP 0.01 1 a MIN|ZUNION 2 a b|ZINTER 2 a b WEIGHTS 1 2|ZDIFF 2 a b|ZINTERCARD 2 a b|ZUNIONSTORE d 2 a b
        ZINTERSTORE d 1 a|ZDIFFSTORE d 2 a b
        ZUNIONSTORE d 3 a b|ZUNIONSTORE d 0 a|ZRANGESTORE d a 0 1|EVAL x 2 a b c|EVAL x 0 a|EVAL x 0|EVAL x 5 a|EVAL x -1 a|EVALSHA x 1 a
        EVAL_RO x 1 a b|EVALSHA_RO x 1 a
        FCALL f 2 a b c|FCALL_RO f 1 a|FCALL f 0|SORT a|SORT a STORE b|SORT a BY w_* GET o_* STORE b|SORT a LIMIT 0 1 STORE b STORE c
        SORT a GET STORE STORE b|SORT_RO a BY x|SORT a LIMIT STORE b
        SORT a STORE|GEORADIUS a 1 2 3 km|GEORADIUS a 1 2 3 km STORE b|GEORADIUS a 1 2 3 km COUNT 1 STOREDIST b
        GEORADIUSBYMEMBER a m 3 km|GEORADIUSBYMEMBER a m 3 km STORE b|GEORADIUS_RO a 1 2 3 km|GEOSEARCH a FROMMEMBER m BYRADIUS 1 m
        GEOSEARCHSTORE d a FROMMEMBER m BYRADIUS 1 m
        MIGRATE 127.0.0.1 1 a 0 10|MIGRATE 127.0.0.1 1 '' 0 10 KEYS a b c|MIGRATE 127.0.0.1 1 '' 0 10 COPY REPLACE KEYS a b
        MIGRATE 127.0.0.1 1 '' 0 10 AUTH KEYS KEYS a
        MIGRATE 127.0.0.1 1 '' 0 10 AUTH2 u KEYS KEYS a b|MIGRATE 127.0.0.1 1 a 0 10 COPY|XADD a * f v|XREAD STREAMS a 0
        XREAD COUNT 2 STREAMS a b 0 0|XREAD BLOCK 5 COUNT 1 STREAMS a b 0 0
        XREADGROUP GROUP g c STREAMS a b > >|XREADGROUP GROUP g c COUNT 1 NOACK STREAMS a >|XREADGROUP GROUP STREAMS streams STREAMS a >
        XGROUP CREATE a g $
        XGROUP DESTROY a g|XINFO STREAM a|XINFO GROUPS a|XINFO CONSUMERS a g|XINFO HELP|OBJECT ENCODING a|OBJECT FREQ a|OBJECT HELP
        MEMORY USAGE a|MEMORY USAGE a SAMPLES 3|MEMORY DOCTOR
        PING|ECHO a|INFO|PUBLISH a b|CLIENT GETNAME|CONFIG GET x|SCRIPT EXISTS a|BITFIELD a GET u8 0|BITFIELD_RO a GET u8 0|WATCH a b
        DUMP a|RESTORE a 0 x|GETEX a|HSET a f v|ZADD a 1 m
        object encoding a|Mget a b|xRead StReAmS a 0|SUBSCRIBE a|GET|GET a b|OBJECT|OBJECT NONSENSE a|XGROUP CREATE a
        DEBUG SET-ACTIVE-EXPIRE 1|SETEX a 1 b|HELLO 2|EVAL x +1 a|EVAL x 1a a b
        """;

    // Where GETKEYS, which goes by the specifications of the keys, says something else than what a node of a cluster goes by.
    private static readonly string[] OnlyRouted =
        ["SPUBLISH a m", "SSUBSCRIBE a b", "SUNSUBSCRIBE a", "GEORADIUS a 1 2 3 km STORE b STOREDIST c", "XREAD STREAMS a b 0",
            "PFMERGE a"];

    private readonly KeyFinder _finder = KeyFinder.FromCommandReply(cluster.First.AskIn(2, "COMMAND"));

    public static TheoryData<string> All =>
        [.. Requests.Split(['|', '\n'], StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries)];

    [Fact]
    public void FromCommandReply_EitherProtocol_HasAllCommands()
    {
        int count = int.Parse(cluster.First.Ask("COMMAND", "COUNT")[1..], System.Globalization.CultureInfo.InvariantCulture);
        Assert.Equal(count, _finder.Count);
        Assert.Equal(count, KeyFinder.FromCommandReply(cluster.First.AskIn(3, "COMMAND")).Count);
    }

    [Theory]
    [InlineData("-ERR no\r\n")]
    [InlineData("*1\r\n*2\r\n+get\r\n:1\r\n")]
    [InlineData("*1\r\n*6\r\n+get\r\n:x\r\n*0\r\n:1\r\n:1\r\n:1\r\n")]
    [InlineData("*3\r\n")]
    [InlineData("")]
    public void FromCommandReply_OtherReply_IsRefused(string reply) =>
        Assert.Throws<FormatException>(() => KeyFinder.FromCommandReply(Bytes.Of(reply)));

    [Theory]
    [MemberData(nameof(All))]
    public void TryFind_Request_NamesTheKeysThatRedisNames(string request) => CheckKeys(Split(request));

    // Every command and subcommand there is, with as few arguments as it takes, and with some more.
    [Fact]
    public void TryFind_EveryCommand_NamesTheKeysThatRedisNames()
    {
        int at = 0, compared = 0;
        var commands = (List<object?>)CommandReply.Read(cluster.First.AskIn(2, "COMMAND"), ref at)!;
        foreach (List<object?> command in commands.Cast<List<object?>>().SelectMany(c => (IEnumerable<object?>)[c, .. (List<object?>)c[9]!])
            .Cast<List<object?>>())
        {
            string name = (string)command[0]!;
            int arity = Math.Abs(int.Parse((string)command[1]!, System.Globalization.CultureInfo.InvariantCulture));
            if (((List<object?>)command[2]!).Contains("movablekeys") || ((List<object?>)command[9]!).Count > 0) { continue; }
            foreach (int more in (int[])[0, 1, 2, 5])
            {
                string[] names = name.Split('|');
                if (OnlyRouted.Any(r => r.Split(' ')[0].Equals(name, StringComparison.OrdinalIgnoreCase))
                    && (name != "pfmerge" || more == 0))
                {
                    continue;
                }
                CheckKeys([.. names, .. Enumerable.Range(0, Math.Max(0, arity + more - names.Length)).Select(i => $"k{i}")]);
                compared++;
            }
        }
        Assert.True(compared > 1000);
    }

    [Theory]
    [InlineData("GET k", DataUse.Reads)]
    [InlineData("mget k l", DataUse.Reads)]
    [InlineData("OBJECT ENCODING k", DataUse.Reads)]
    [InlineData("DBSIZE", DataUse.Reads)]
    [InlineData("EVAL_RO x 0", DataUse.Reads)]
    [InlineData("SET k v", DataUse.Writes)]
    [InlineData("GETEX k", DataUse.Writes)]
    [InlineData("SORT k", DataUse.Writes)]
    [InlineData("EVAL x 0", DataUse.Writes)]
    [InlineData("FCALL x 0", DataUse.Writes)]
    [InlineData("FUNCTION LOAD x", DataUse.Writes)]
    [InlineData("SCRIPT LOAD x", DataUse.Writes)]
    [InlineData("EXEC", DataUse.Writes)]
    [InlineData("FLUSHALL", DataUse.Writes)]
    [InlineData("INFO", DataUse.Writes)]
    [InlineData("NONSENSE", DataUse.Writes)]
    [InlineData("PING", DataUse.None)]
    [InlineData("MULTI", DataUse.None)]
    [InlineData("PUBLISH c m", DataUse.None)]
    [InlineData("CLIENT ID", DataUse.None)]
    public void TryFind_Request_SaysWhatItHasToDoWithTheData(string request, DataUse expected)
    {
        byte[] bytes = Bytes.Request(request.Split(' '));
        var arguments = new List<(int Offset, int Length)>();
        fixed (byte* p = bytes) { CommandScanner.ReadArguments(p, p + bytes.Length, arguments); }
        _finder.TryFind(bytes, System.Runtime.InteropServices.CollectionsMarshal.AsSpan(arguments), out _, out DataUse use);
        Assert.Equal(expected, use);
    }

    // Where reads are told from writes nothing is taken for a read that Redis gives to its replicas.
    [Fact]
    public void Reads_AllCommands_AreNoneThatRedisCallsAWrite()
    {
        int at = 0;
        var commands = (List<object?>)CommandReply.Read(cluster.First.AskIn(2, "COMMAND"), ref at)!;
        IEnumerable<string> writes = commands.Cast<List<object?>>().Where(static c => ((List<object?>)c[2]!).Contains("write"))
            .Select(static c => (string)c[0]!);
        Assert.Empty(_finder.Reads.Intersect(writes, StringComparer.OrdinalIgnoreCase));
        Assert.Contains("get", _finder.Reads);
    }

    [Fact]
    public void TryFind_UnknownCommand_IsNotKnown()
    {
        Assert.Null(Keys(["NONSENSE", "a"]));
        Assert.Equal(SlotScope.Unknown, Slot(["NONSENSE", "a"]).Scope);
        KeyFinder other = KeyFinder.FromCommandReply(
            Bytes.Of("*1\r\n*6\r\n$5\r\nx.foo\r\n:-2\r\n*1\r\n+movablekeys\r\n:1\r\n:1\r\n:1\r\n"));
        Assert.False(Find(other, ["X.FOO", "a"], out _));
    }

    [Fact]
    public void FindSlot_RandomKeys_IsHowTheClusterAnswers()
    {
        string[] shapes = [.. All.Select(row => row.Data).Where(r => !r.StartsWith("HELLO", StringComparison.Ordinal)), .. OnlyRouted];
        var verdicts = new Dictionary<SlotScope, int>();
        for (int seed = 1; seed <= 12; seed++)
        {
            var random = new Random(seed);
            // Few slots, of both nodes: often the same, often not.
            string[] keys = ["{b}1", "{b}2", "{a}1", "{a}2"];
            foreach (string shape in shapes)
            {
                bool same = random.Next(2) == 0;
                string one = keys[random.Next(4)];
                string[] request = [.. Split(shape).Select(a => a is "a" or "b" or "c" or "d" ? same ? one : keys[random.Next(4)] : a)];
                (SlotScope scope, HashSlot slot) = Slot(request);
                string answer = cluster.First.Ask(request);
                string found = answer.StartsWith("-CROSSSLOT", StringComparison.Ordinal) ? nameof(SlotScope.SeveralSlots)
                    : answer.StartsWith("-MOVED", StringComparison.Ordinal) ? answer[..answer.LastIndexOf(' ')] : "here";
                bool isFirst = slot.Number is <= 8000 and not 101;
                string expected = scope == SlotScope.OneSlot && !isFirst ? $"-MOVED {slot}"
                    : scope == SlotScope.SeveralSlots ? nameof(SlotScope.SeveralSlots) : "here";
                Assert.True(expected == found, $"seed {seed}: {string.Join(' ', request)}: {answer}, expected {expected}");
                verdicts[scope] = verdicts.GetValueOrDefault(scope) + 1;
            }
        }
        Assert.True(verdicts[SlotScope.OneSlot] > 300 && verdicts[SlotScope.SeveralSlots] > 100 && verdicts[SlotScope.NoKey] > 100);
    }

    [Fact]
    public void FindSlot_AnyRequest_AllocatesNothing()
    {
        byte[] bytes = Bytes.Request("ZUNIONSTORE", "{d}1", "2", "{d}2", "{d}3");
        (int, int)[] arguments = Arguments(bytes);
        _finder.FindSlot(bytes, arguments, Partitioning.Hash, out _);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 1000; i++) { _finder.FindSlot(bytes, arguments, Partitioning.Hash, out _); }
        Assert.Equal(before, GC.GetAllocatedBytesForCurrentThread());
    }

    private void CheckKeys(string[] request)
    {
        int at = 0;
        object? reply = CommandReply.Read(cluster.First.AskIn(2, ["COMMAND", "GETKEYS", .. request]), ref at);
        string[] expected = reply is List<object?> keys ? [.. keys.Cast<string>().Order(StringComparer.Ordinal)] : [];
        string[]? found = Keys(request);
        Assert.True(found is not null && expected.SequenceEqual(found),
            $"{string.Join(' ', request)}: expected {string.Join(' ', expected)}, found "
                + $"{(found is null ? "unknown" : string.Join(' ', found))}");
    }

    private static string[] Split(string request) => [.. request.Split(' ').Select(a => a == "''" ? "" : a)];

    private string[]? Keys(string[] request) => Find(_finder, request, out KeyPlaces keys)
        ? [.. Enumerable.Range(0, keys.Total).Select(i => request[keys[i]]).Order(StringComparer.Ordinal)]
        : null;

    private (SlotScope Scope, HashSlot Slot) Slot(string[] request)
    {
        byte[] bytes = Bytes.Request(request);
        return (_finder.FindSlot(bytes, Arguments(bytes), Partitioning.Hash, out HashSlot slot), slot);
    }

    private static bool Find(KeyFinder finder, string[] request, out KeyPlaces keys)
    {
        byte[] bytes = Bytes.Request(request);
        return finder.TryFind(bytes, Arguments(bytes), out keys);
    }

    private static (int, int)[] Arguments(byte[] request)
    {
        var arguments = new List<(int, int)>();
        fixed (byte* p = request) { CommandScanner.ReadArguments(p, p + request.Length, arguments); }
        return [.. arguments];
    }
}

// The Lua scripts of the workload and what each does to the model.
namespace Slogger.Integration.Tests.Model;

internal sealed partial class KeyspaceModel
{
    /// <summary>Adds to a counter and notes the sum in a list: two effects that must never be torn apart.</summary>
    public const string CountAndNote =
        "local n = redis.call('INCRBY', KEYS[1], ARGV[1]) redis.call('RPUSH', KEYS[2], n) redis.call('LTRIM', KEYS[2], 0, 30) return n";

    /// <summary>What <see cref="SetThenFail"/> answers.</summary>
    public const string FailedOnPurpose = "failed half-way on purpose";

    /// <summary>Sets a key, then fails: the effect stays.</summary>
    public const string SetThenFail =
        "redis.call('SET', KEYS[1], ARGV[1]) return redis.error_reply('ERR " + FailedOnPurpose + "')";

    /// <summary>Removes one key and fills another from its value, if there was one.</summary>
    public const string Transfer =
        "local v = redis.call('GET', KEYS[1]) if v then redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[2], v .. ARGV[1]) return "
            + "1 end return 0";

    private string? RunScript(IReadOnlyList<string> a)
    {
        // EVAL script number-of-keys key... argument...
        switch (a[1])
        {
            case CountAndNote:
                string sum = RunOnKeys("INCRBY", ["INCRBY", a[3], a[5]])!;
                RunOnKeys("RPUSH", ["RPUSH", a[4], sum[1..]]);
                RunOnKeys("LTRIM", ["LTRIM", a[4], "0", "30"]);
                return sum;
            case SetThenFail:
                RunOnKeys("SET", ["SET", a[3], a[4]]);
                return "-ERR " + FailedOnPurpose;
            case Transfer:
                if (Find<StringEntry>(a[3]) is not { } found)
                {
                    return ":0";
                }

                string value = found.Value + a[5];
                RunOnKeys("DEL", ["DEL", a[3]]);
                RunOnKeys("SET", ["SET", a[4], value]);
                return ":1";
            default:
                throw new NotSupportedException("the model does not know this script");
        }
    }
}

// Calls of StackExchange.Redis by reflection: every method of IDatabaseAsync whose reply does not hang on chance or time, with arguments by
// seed. The same numbers give the same calls at two servers, so that what they answer can be compared word by word.
using System.Collections;
using System.Globalization;
using System.Reflection;
using System.Text;
using StackExchange.Redis;

namespace Slogger.Integration.Tests.Multiplexer;

/// <summary>A method with its arguments.</summary>
internal sealed record ApiCall(MethodInfo Method, object?[] Arguments)
{
    /// <summary>Begins the call; what it throws at once is its outcome as well.</summary>
    public Task Begin(IDatabaseAsync database)
    {
        try
        {
            return (Task)Method.Invoke(database, Arguments)!;
        }
        catch (TargetInvocationException e)
        {
            return Task.FromException(e.InnerException!);
        }
    }

    /// <inheritdoc />
    public override string ToString() => $"{Method.Name}({string.Join(", ", Arguments.Select(a => ApiCalls.Text(a)))})";
}

/// <param name="seed">Chooses methods and arguments.</param>
/// <param name="tag">Part of every key: a hash tag has all of them in one slot.</param>
/// <param name="isAsked">Which methods to call.</param>
internal sealed class ApiCalls(int seed, string tag, Func<string, bool> isAsked)
{
    // Chance, time, another server, a reply that never ends; and orders for which Redis promises nothing.
    private static readonly string[] s_passed =
    [
        "Random", "SetPop", "KeyMigrate", "IdentifyEndpoint", "Ping", "Debug", "IdleTime", "Frequency", "TimeToLive", "ExpireTime",
            "Subscribe", "KeyDump",
        "StreamConsumerInfo", "StreamPendingMessages", "ExecuteAsync", "ScriptEvaluate", "SortedSetLengthByValue", "SortedSetRangeByValue",
            "SortedSetRemoveRangeByValue",
        "SortedSetRangeAndStore", "SortAsync", "SortAndStore",
    ];

    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(60);

    // The families of methods, each of which mostly uses keys of its own.
    private static readonly string[] s_families = ["String", "Hash", "List", "SortedSet", "Set", "Stream", "Geo", "HyperLogLog", "Lock",
        "Key"];

    private readonly Random _random = new(seed);
    private readonly MethodInfo[][] _methods = [.. typeof(IDatabaseAsync).GetInterfaces().Append(typeof(IDatabaseAsync))
        .SelectMany(t => t.GetMethods())
        .Where(m => typeof(Task).IsAssignableFrom(m.ReturnType) && !m.IsGenericMethod
            && !s_passed.Any(p => m.Name.Contains(p, StringComparison.Ordinal)) && isAsked(m.Name))
        .Where(m => m.GetParameters().All(p => IsKnown(p.ParameterType)))
        .OrderBy(m => m.ToString(), StringComparer.Ordinal).GroupBy(Family).Select(g => g.ToArray())];
    private int _streamId;
    private string _family = "";

    public int Methods => _methods.Sum(m => m.Length);

    public ApiCall Next()
    {
        // A family first: else what Redis 7.0 does not know would be most of it.
        MethodInfo[] family = _methods[_random.Next(_methods.Length)];
        MethodInfo method = family[_random.Next(family.Length)];
        _family = Family(method);
        return new(method, [.. method.GetParameters().Select(Argument)]);
    }

    /// <summary>What a condition of a transaction asks for.</summary>
    public Condition NextCondition()
    {
        RedisKey key = Key();
        return _random.Next(6) switch
        {
            0 => Condition.KeyExists(key),
            1 => Condition.KeyNotExists(key),
            2 => Condition.StringEqual(key, Value()),
            3 => Condition.HashExists(key, Value()),
            4 => Condition.ListLengthGreaterThan(key, _random.Next(3)),
            _ => Condition.SortedSetContains(key, Value()),
        };
    }

    /// <summary>How a call ended, as text that two servers agree on.</summary>
    /// <exception cref="TimeoutException">It did not end.</exception>
    public static async Task<string> OutcomeAsync(ApiCall call, Task task)
    {
        try
        {
            await task.WaitAsync(s_limit);
        }
        catch (TaskCanceledException)
        {
            return "cancelled";
        }
        catch (Exception e) when (e is RedisServerException or RedisCommandException or ArgumentException or InvalidOperationException
            or InvalidCastException or NotSupportedException or FormatException or OverflowException or IndexOutOfRangeException)
        {
            return e.GetType().Name + ": " + e.Message;
        }

        if (!call.Method.ReturnType.IsGenericType) { return "done"; }
        object? result = call.Method.ReturnType.GetProperty(nameof(Task<int>.Result))!.GetValue(task);
        // Two servers have different hash seeds: sets and hashes come in any order.
        bool isUnordered = call.Method.Name.StartsWith("Set", StringComparison.Ordinal)
            || call.Method.Name.StartsWith("Hash", StringComparison.Ordinal);
        return isUnordered && result is Array array and not byte[]
            ? "{" + string.Join(", ", array.Cast<object?>().Select(o => Text(o)).Order(StringComparer.Ordinal)) + "}"
            : Text(result);
    }

    internal static string Text(object? value, int depth = 0)
    {
        switch (value)
        {
            case null:
                return "null";
            case string or RedisKey or RedisValue or bool or Enum or RedisChannel:
                return value.ToString()!;
            case byte[] bytes:
                return Convert.ToHexString(bytes);
            case Lease<byte> lease:
                return Convert.ToHexString(lease.Span);
            case IFormattable number:
                return number.ToString(null, CultureInfo.InvariantCulture);
            case IEnumerable items:
                return "[" + string.Join(", ", items.Cast<object?>().Select(o => Text(o, depth + 1))) + "]";
        }

        if (depth > 4) { return "..."; }
        var text = new StringBuilder();
        foreach (PropertyInfo property in value.GetType().GetProperties(BindingFlags.Public | BindingFlags.Instance)
            .Where(p => p.GetIndexParameters().Length == 0))
        {
            // How long ago a message was delivered, how long a key has to live.
            if (property.Name.Contains("Idle", StringComparison.Ordinal) || property.Name == "Expiry") { continue; }
            text.Append(property.Name).Append('=').Append(Text(property.GetValue(value), depth + 1)).Append(' ');
        }

        return $"({text.ToString().TrimEnd()})";
    }

    private static string Family(MethodInfo method) =>
        s_families.FirstOrDefault(f => method.Name.StartsWith(f, StringComparison.Ordinal)) ?? "";

    private static bool IsKnown(Type type)
    {
        Type plain = Nullable.GetUnderlyingType(type) ?? type;
        return plain.IsEnum || (plain.IsArray ? IsKnown(plain.GetElementType()!)
            : plain == typeof(object) || plain == typeof(RedisKey) || plain == typeof(RedisValue) || plain == typeof(RedisChannel)
            || plain == typeof(string) || plain == typeof(int) || plain == typeof(long) || plain == typeof(double) || plain == typeof(bool)
            || plain == typeof(byte)
            || plain == typeof(TimeSpan) || plain == typeof(DateTime) || plain == typeof(HashEntry) || plain == typeof(SortedSetEntry)
            || plain == typeof(NameValueEntry)
            || plain == typeof(KeyValuePair<RedisKey, RedisValue>) || plain == typeof(StreamPosition) || plain == typeof(GeoEntry));
    }

    private object? Argument(ParameterInfo parameter)
    {
        Type type = parameter.ParameterType;
        if (type == typeof(CommandFlags)) { return CommandFlags.None; }
        if (parameter.Name == "messageId" && parameter.Member.Name.StartsWith("StreamAdd", StringComparison.Ordinal))
        {
            return (RedisValue)$"{++_streamId}-1";
        }
        // Messages that are read by time would not be the same ones.
        if (parameter.Name!.Contains("dle", StringComparison.Ordinal))
        {
            return type == typeof(long) ? 0L : type == typeof(TimeSpan) ? TimeSpan.Zero : null;
        }
        return Argument(type, parameter.IsOptional);
    }

    private object? Argument(Type type, bool isOptional)
    {
        if (Nullable.GetUnderlyingType(type) is { } plain) { return _random.Next(2) == 0 ? null : Argument(plain, false); }
        if (type.IsArray)
        {
            if (isOptional && _random.Next(2) == 0) { return null; }
            var array = Array.CreateInstance(type.GetElementType()!, _random.Next(1, 4));
            for (int i = 0; i < array.Length; i++) { array.SetValue(Argument(type.GetElementType()!, false), i); }
            return array;
        }

        if (type.IsEnum)
        {
            // Expiries are the same to the millisecond at no two servers.
            if (type == typeof(ExpireWhen)) { return _random.Next(2) == 0 ? ExpireWhen.HasExpiry : ExpireWhen.HasNoExpiry; }
            Array values = Enum.GetValues(type);
            return values.GetValue(_random.Next(3) > 0 ? 0 : _random.Next(values.Length));
        }

        return type switch
        {
            _ when type == typeof(RedisKey) => Key(),
            _ when type == typeof(RedisValue) => Value(),
            _ when type == typeof(RedisChannel) => RedisChannel.Literal("c" + tag),
            _ when type == typeof(string) => isOptional && _random.Next(2) == 0 ? null : (string?)Value(),
            _ when type == typeof(int) => _random.Next(-2, 6),
            _ when type == typeof(long) => (long)_random.Next(-2, 6),
            _ when type == typeof(double) => _random.Next(-20, 60) / 2.0,
            _ when type == typeof(bool) => _random.Next(2) == 0,
            _ when type == typeof(byte) => (byte)_random.Next(2),
            // No key expires during a run.
            _ when type == typeof(TimeSpan) => TimeSpan.FromHours(_random.Next(1, 9)),
            _ when type == typeof(DateTime) => new DateTime(2100, 1, 1, 0, 0, _random.Next(60), DateTimeKind.Utc),
            _ when type == typeof(HashEntry) => new HashEntry(Value(), Value()),
            _ when type == typeof(SortedSetEntry) => new SortedSetEntry(Value(), _random.Next(9)),
            _ when type == typeof(NameValueEntry) => new NameValueEntry(Value(), Value()),
            _ when type == typeof(KeyValuePair<RedisKey, RedisValue>) => KeyValuePair.Create(Key(), Value()),
            _ when type == typeof(StreamPosition) => new StreamPosition(Key(), "0-0"),
            _ when type == typeof(GeoEntry) => new GeoEntry(_random.Next(-170, 170), _random.Next(-80, 80), Value()),
            _ => null,
        };
    }

    private RedisKey Key()
    {
        string family = _family is "" or "Key" || _random.Next(20) == 0 ? s_families[_random.Next(s_families.Length)] : _family;
        return string.Create(CultureInfo.InvariantCulture, $"{tag}{family}{_random.Next(3)}");
    }

    private RedisValue Value() => _random.Next(8) switch
    {
        0 => new string('x', _random.Next(300)),
        1 => "a\r\nb" + (char)0,
        2 => _random.Next(3) + "-1",
        _ => _random.Next(6),
    };
}

// The same commands on a real Redis and on the engine; every reply compared. At a difference, the fewest commands that still show it are
// looked for: those that do not matter are left out, by halves, then quarters, then one by one.
using System.Text;
using Slogger.Faster.Commands;
using Slogger.Resp;

namespace Slogger.Faster.Tests.Commands.Differential;

/// <summary>A difference that was found.</summary>
internal sealed record Difference(int Seed, string[][] Commands, string Redis, string Engine)
{
    public override string ToString()
    {
        var text = new StringBuilder($"seed {Seed}: after {Commands.Length} commands a reply differs\n");
        foreach (string[] command in Commands) text.Append("  ").AppendJoin(' ', command.Select(Quote)).Append('\n');
        return text.Append($"Redis:  {Quote(Redis)}\nengine: {Quote(Engine)}").ToString();
    }

    private static string Quote(string text)
    {
        var quoted = new StringBuilder("\"");
        foreach (char c in text)
            quoted.Append(c is '"' or '\\' ? $"\\{c}" : c is >= ' '
                and <= '~' ? c.ToString() : c == '\n' ? "\\n" : c == '\r' ? "\\r" : $"\\x{(int)c:x2}");
        return quoted.Append('"').ToString();
    }
}

internal sealed unsafe class DifferentialRun : IDisposable
{
    /// <summary>Commands from one empty store on.</summary>
    public const int ChapterCommands = 2000;

    private const int AtOnce = 100;
    private static readonly string[][] s_beginning = [["RESET"], ["FLUSHALL"]];
    private readonly RedisServer _redis = new();
    private readonly TestEngine _engine = new(with: o => o with { NowMs = static () => DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() });

    /// <summary>Runs the commands of one seed; null: no reply differs.</summary>
    public Difference? Run(int seed)
    {
        var maker = new CommandMaker(seed);
        var commands = new List<string[]>();
        while (commands.Count < ChapterCommands) commands.AddRange(maker.Next().Commands);
        if (Compare(commands) is not { } found) return null;
        commands = commands[..(found.At + 1)];
        for (int piece = commands.Count / 2; piece > 0; piece /= 2)
        {
            for (int from = 0; from + piece < commands.Count;)
            {
                List<string[]> fewer = [.. commands[..from], .. commands[(from + piece)..]];
                if (Compare(fewer) is not { } still)
                {
                    from += piece;
                    continue;
                }

                found = still;
                commands = fewer[..(found.At + 1)];
            }
        }

        return new(seed, [.. commands], found.Redis, found.Engine);
    }

    public void Dispose()
    {
        _redis.Dispose();
        _engine.Dispose();
    }

    private (int At, string Redis, string Engine)? Compare(List<string[]> commands)
    {
        Compare(s_beginning, []);
        List<string[]> queued = [];
        for (int from = 0; from < commands.Count; from += AtOnce)
        {
            string[][] some = [.. commands.Skip(from).Take(AtOnce)];
            if (Compare(some, queued) is { } found) return (from + found.At, found.Redis, found.Engine);
        }

        return null;
    }

    private (int At, string Redis, string Engine)? Compare(string[][] commands, List<string[]> queued)
    {
        byte[] requests = Encoding.Latin1.GetBytes(string.Concat(commands.Select(c => TestClient.Request(c))));
        byte[] redis = _redis.Exchange(requests, commands.Length), engine =
            Encoding.Latin1.GetBytes(_engine.Client.Raw(Encoding.Latin1.GetString(requests)));
        int[] redisEnds = Ends(redis, commands.Length), engineEnds = Ends(engine, commands.Length);
        int a = 0, b = 0;
        for (int i = 0; i < commands.Length; i++)
        {
            ReadOnlySpan<byte> left = redis.AsSpan(a, redisEnds[i] - a), right = engineEnds[i] < 0 ? default
                : engine.AsSpan(b, engineEnds[i] - b);
            string name = commands[i][0].ToUpperInvariant();
            if (right.IsEmpty || !(name == "EXEC" ? Comparison.IsSameTransaction(queued, left, right)
                : Comparison.IsSame(commands[i], left, right)))
                return (i, Encoding.Latin1.GetString(left), Encoding.Latin1.GetString(right));
            if (left.SequenceEqual("+QUEUED\r\n"u8)) queued.Add(commands[i]);
            else if (name is "EXEC" or "DISCARD" or "RESET") queued.Clear();
            (a, b) = (redisEnds[i], engineEnds[i]);
        }

        return engine.Length == b ? null : (commands.Length - 1, "", Encoding.Latin1.GetString(engine, b, engine.Length - b));
    }

    // Where each reply ends; -1: there is none.
    private static int[] Ends(byte[] replies, int count)
    {
        int[] ends = new int[count];
        Array.Fill(ends, -1);
        fixed (byte* start = replies)
        {
            byte* at = start;
            for (int i = 0; i < count; i++)
            {
                ReplyState state = default;
                int one = 1;
                byte* next = ReplyScanner.Consume(at, start + replies.Length, ref state, ref one);
                if (one != 0) break;
                at = next;
                ends[i] = (int)(at - start);
            }
        }

        return ends;
    }
}

// Seeded requests, well formed or with a few bytes changed where it hurts, and seeded cuts.
using System.Text;

namespace Slogger.Resp.Tests;

internal static class RandomRequests
{
    private static readonly string[] Names = ["GET", "SET", "PING", "MGET", "ECHO", "get", "Set", "ZRANGEBYSCORE", "nosuchcommand", ""];
    private static readonly string[] Splinters = ["*", "$", "\r", "\n", "\r\n", "0", "1", "-", "-1", "\0", " ", "+", ":", "*0\r\n",
        "*-1\r\n", "$-1\r\n", "9999999999", "x"];

    /// <summary>Some requests one behind the other. None of them is special to the proxy.</summary>
    public static byte[] Of(Random random, int count, bool mutilated)
    {
        var text = new StringBuilder();
        for (int i = 0; i < count; i++)
        {
            if (random.Next(10) == 0) { text.Append(random.Next(2) == 0 ? "*0\r\n" : $"*-{random.Next(1, 100)}\r\n"); }
            int arguments = random.Next(8) == 0 ? random.Next(9, 40) : random.Next(0, 5);
            text.Append($"*{arguments + 1}").Append(End(random, mutilated));
            Append(text, Names[random.Next(Names.Length)], random, mutilated);
            for (int a = 0; a < arguments; a++) { Append(text, Content(random), random, mutilated); }
        }
        for (int i = mutilated ? random.Next(0, 4) : 0; i > 0; i--)
        {
            int at = random.Next(text.Length + 1);
            switch (random.Next(3))
            {
                case 0 when at < text.Length:
                    text.Remove(at, Math.Min(random.Next(1, 4), text.Length - at));
                    break;
                case 1 when at < text.Length:
                    text[at] = (char)random.Next(256);
                    break;
                default:
                    text.Insert(at, Splinters[random.Next(Splinters.Length)]);
                    break;
            }
        }
        return Bytes.Of(text.ToString());
    }

    /// <summary>Ascending positions, the last at the end.</summary>
    public static int[] Cuts(Random random, int length) =>
        [.. Enumerable.Range(0, random.Next(0, 6)).Select(_ => random.Next(length + 1)).Order(), length];

    // Redis does not look at line ends: any two bytes of which the first is a CR, or behind content any two at all.
    private static string End(Random random, bool mutilated) => mutilated && random.Next(6) == 0 ? "\r" + (char)random.Next(256) : "\r\n";

    private static void Append(StringBuilder text, string content, Random random, bool mutilated)
    {
        text.Append($"${content.Length}").Append(End(random, mutilated)).Append(content);
        text.Append(mutilated && random.Next(6) == 0 ? $"{(char)random.Next(256)}{(char)random.Next(256)}" : "\r\n");
    }

    private static string Content(Random random) => random.Next(6) switch
    {
        0 => "",
        1 => "\r\n",
        2 => "$3\r\nabc\r\n",
        3 => new string('v', random.Next(0, 300)),
        4 => new string((char)random.Next(256), random.Next(1, 12)),
        _ => $"k{random.Next(10)}",
    };
}

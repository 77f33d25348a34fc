// What a fuzzer says to a proxy: requests of the DPR family and ordinary ones between them, right, wrong and mutilated, and what another
// proxy of the cluster might say after DPR.PEER. All by one Random, so that a seed repeats it.
using System.Buffers;
using System.Buffers.Binary;
using System.Globalization;
using System.Text;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Fuzzing;

/// <param name="random">Decides everything.</param>
/// <param name="shards">How many the cluster has.</param>
/// <param name="secret">By which its proxies know each other; empty for a shard alone.</param>
internal sealed class FuzzWords(Random random, int shards, string secret)
{
    private static readonly string[] s_odd =
    [
        "", "0", "-1", "1", "2", "65536", "65537", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
            "1e3", " 1", "1 ", "+1",
        "\0", "\r\n", "*", "$", "DEP", "dep", "SHARDS", "nan", "00000000000000000000000000000001", "0000000000000000000000000000000G",
            new string('9', 400), new string('x', 5000),
    ];

    private static readonly string[][] s_ordinary =
    [
        ["PING"], ["ECHO", "fuzz"], ["SET", "fuzz", "1"], ["GET", "fuzz"], ["INCR", "fuzz:n"], ["MULTI"], ["EXEC"], ["DISCARD"],
            ["WATCH", "fuzz"], ["SUBSCRIBE", "fuzz"],
        ["UNSUBSCRIBE"], ["CLIENT", "REPLY", "OFF"], ["CLIENT", "REPLY", "SKIP"], ["CLIENT", "REPLY", "ON"], ["CLIENT", "SETNAME", "fuzz"],
            ["HELLO", "2"], ["HELLO", "3"],
        ["SELECT", "1"], ["RESET"], ["QUIT"], ["WAITAOF", "1", "0", "20"], ["WAIT", "1", "20"], ["BLPOP", "fuzz:none", "0.02"],
            ["EVAL", "return 1", "0"], ["INFO", "dpr"],
        ["NOSUCHCOMMAND", "fuzz"],
    ];

    /// <summary>The world-line and the open version, as far as is known.</summary>
    public (long WorldLine, long Open) Now { get; set; }

    /// <summary>Requests made.</summary>
    public long Requests { get; private set; }

    private bool Chance(int oneIn) => random.Next(oneIn) == 0;

    private string Odd() => s_odd[random.Next(s_odd.Length)];

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);

    /// <summary>All that one connection says.</summary>
    public byte[] Conversation()
    {
        var bytes = new ArrayBufferWriter<byte>();
        if (secret.Length > 0 && Chance(4)) { Peer(bytes); }
        else
        {
            for (int requests = random.Next(1, 12); requests > 0; requests--) { Request(bytes); }
        }
        byte[] said = bytes.WrittenSpan.ToArray();
        for (int edits = Chance(3) ? random.Next(1, 8) : 0; edits > 0 && said.Length > 0; edits--)
        {
            said[random.Next(said.Length)] = (byte)random.Next(256);
        }
        return Chance(8) ? said[..random.Next(said.Length + 1)] : said;
    }

    private void Request(ArrayBufferWriter<byte> to)
    {
        switch (random.Next(10))
        {
            case < 3:
                Batch(to);
                return;
            case < 5:
                Say(to, s_ordinary[random.Next(s_ordinary.Length)]);
                return;
            case 5:
                Say(to, ["DPR.HELLO", Chance(4) ? Odd() : "1", Chance(4) ? Odd() : Session()]);
                return;
            case 6:
                Say(to, ["DPR.WAIT", random.Next(3) switch { 0 => "*", 1 => Text(random.Next(5)), _ => Odd() },
                    Chance(3) ? Odd() : Text(random.Next(50))]);
                return;
            case 7:
                Say(to, ["DPR.PEER", .. PeerWords().Select(w => Chance(3) ? Odd() : w)]);
                return;
            default:
                string[] names = ["DPR.COMMITTED", "DPR.CUT", "DPR.WORLDLINE", "DPR.INFO", "DPR.RESUME", "DPR.", "DPR.NONE", "dpr.cut"];
                Say(to, [names[random.Next(names.Length)], .. Enumerable.Range(0, Chance(2) ? 0 : random.Next(3)).Select(_ => Odd())]);
                return;
        }
    }

    private string Session() => Chance(2) ? "000000000000000000000000000000f1"
        : random.NextInt64().ToString("x32", CultureInfo.InvariantCulture);

    private void Batch(ArrayBufferWriter<byte> to)
    {
        int count = random.Next(1, 6);
        var header = new List<string>
        {
            "DPR.BATCH", Session(), Text(Now.WorldLine + (Chance(10) ? random.Next(-1, 2) : 0)),
                Text(Chance(2) ? 0 : Now.Open + random.Next(-5, 60)),
            Text(random.Next(1, 1000)), Text(count),
        };
        for (int dependencies = Chance(3) ? random.Next(1, 4) : 0; dependencies > 0; dependencies--)
        {
            header.AddRange(["DEP", Chance(6) ? Odd() : Text(random.Next(shards + 1)),
                Chance(6) ? Odd() : Text(Math.Max(0, Now.Open - random.Next(50)))]);
        }
        Say(to, header);
        // Mostly as many as the header says.
        for (int i = Chance(6) ? random.Next(8) : count; i > 0; i--) { Say(to, s_ordinary[random.Next(s_ordinary.Length)]); }
    }

    private void Say(ArrayBufferWriter<byte> to, IReadOnlyList<string> request)
    {
        Requests++;
        var words = request.ToList();
        for (int edits = Chance(5) ? random.Next(1, 3) : 0; edits > 0 && words.Count > 0; edits--)
        {
            int place = random.Next(words.Count);
            switch (random.Next(3))
            {
                case 0:
                    words.RemoveAt(place);
                    break;
                case 1:
                    words.Insert(place, Odd());
                    break;
                default:
                    words[place] = Odd();
                    break;
            }
        }
        if (Chance(10)) { to.Write(Encoding.Latin1.GetBytes(string.Join(' ', words) + "\r\n")); }
        else { RespClient.Append(to, words); }
    }

    // ---- As another proxy ----

    private string[] PeerWords() =>
    [
        new[] { "cuts", "keys", "messages" }[random.Next(3)], "2", Chance(2) ? secret : new string('0', 64), Chance(2) ? "*"
            : Text(random.Next(shards)),
        Text(random.Next(shards)), Text(random.Next(3) * 1000),
    ];

    // Properly introduced, so that the conversation takes place: of an epoch that no owner has, for claims of an owner are believed.
    private void Peer(ArrayBufferWriter<byte> to)
    {
        Requests++;
        string[] words = PeerWords();
        words[2] = secret;
        words[3] = "*";
        words[5] = Text(1_000_000 + random.Next(1000));
        RespClient.Append(to, ["DPR.PEER", .. words]);
        for (int frames = random.Next(8); frames > 0; frames--)
        {
            Requests++;
            byte[] body = words[0] switch { "cuts" => Claim(), "messages" => Messages(), _ => Move() };
            Frame(to, words[0] switch { "cuts" => "RWLAC?"[random.Next(6)], "messages" => Chance(5) ? '?' : 'M', _ =>
                "BSCFW?"[random.Next(6)] }, body);
        }
    }

    private void Frame(ArrayBufferWriter<byte> to, char kind, byte[] body)
    {
        Span<byte> head = to.GetSpan(5);
        head[0] = (byte)kind;
        BinaryPrimitives.WriteInt32BigEndian(head[1..], Chance(12)
            ? new[] { -1, int.MaxValue, 1 << 29, 65536, 65537, body.Length + 1 }[random.Next(6)] : body.Length);
        to.Advance(5);
        to.Write(body);
    }

    private byte[] Claim()
    {
        var text = new StringBuilder();
        for (int words = random.Next(8); words > 0; words--)
        {
            string number = random.Next(5) switch { 0 => Odd(), 1 => Text(Now.WorldLine), 2 =>
                Text(random.Next(shards + 1)) + ":" + Text(Now.Open), _ => Text(Now.Open + random.Next(-100, 100)) };
            text.Append(' ').Append(number);
        }
        return Encoding.Latin1.GetBytes(text.ToString());
    }

    private byte[] Messages()
    {
        var parts = new ArrayBufferWriter<byte>();
        for (int count = random.Next(6); count > 0; count--)
        {
            byte[] part = new byte[random.Next(40)];
            random.NextBytes(part);
            BinaryPrimitives.WriteInt32BigEndian(parts.GetSpan(4), Chance(10) ? random.Next() : part.Length);
            parts.Advance(4);
            parts.Write(part);
        }
        return parts.WrittenSpan.ToArray();
    }

    private byte[] Move()
    {
        byte[] body = new byte[Chance(2) ? 16 : random.Next(40)];
        if (Chance(2)) { random.NextBytes(body); }
        return body;
    }
}

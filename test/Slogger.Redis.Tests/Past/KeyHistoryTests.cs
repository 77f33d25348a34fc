// Which commands of a stream are the history of a key, which keys some versions name, and that neither grows without bound.
using System.Globalization;
using System.Text;
using Slogger.Core.Versions;
using Slogger.Redis.Feeding;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Tests.Past;

public sealed class KeyHistoryTests
{
    private const int Start = 1000;

    /// <summary>Gives as many bytes at once as it is told.</summary>
    private sealed class Pieces(byte[] bytes, int piece) : IHistorySource
    {
        public int Read(long offset, Span<byte> destination)
        {
            int count = Math.Min(Math.Min(piece, destination.Length), bytes.Length - (int)(offset - Start));
            bytes.AsSpan((int)(offset - Start), count).CopyTo(destination);
            return count;
        }
    }

    // Commands with a semicolon between.
    private static byte[] Bytes(string stream)
    {
        var text = new StringBuilder();
        foreach (string command in stream.Split(';', StringSplitOptions.RemoveEmptyEntries))
        {
            string[] words = command.Split(' ');
            text.Append(CultureInfo.InvariantCulture, $"*{words.Length}\r\n");
            foreach (string word in words) { text.Append(CultureInfo.InvariantCulture, $"${word.Length}\r\n{word}\r\n"); }
        }
        return Encoding.ASCII.GetBytes(text.ToString());
    }

    private static EffectReader Reader(string stream, int piece = int.MaxValue, int database = 0)
    {
        byte[] bytes = Bytes(stream);
        return new EffectReader(new Pieces(bytes, piece), Start, Start + bytes.Length, database);
    }

    private static KeyHistory Read(EffectReader reader, string key = "k", int database = 0, int count = 100, int bytes = 1 << 20)
    {
        var history = new KeyHistory(new StoreKey(database, Encoding.ASCII.GetBytes(key)), count, bytes);
        while (reader.Next(CancellationToken.None)) { history.Note(reader); }
        return history;
    }

    private static string Text(KeyHistory history) =>
        string.Join(';', history.Commands.Select(c => string.Join(' ', c.Arguments.Select(a => Encoding.ASCII.GetString(a)))));

    [Fact]
    public void SeekTo_AnyOfTheCommands_ReadsThem_HoweverTheBytesCome()
    {
        string stream = string.Join(';', Enumerable.Range(0, 300).Select(i => $"SET k{i} {new string('x', i * 37 % 9000)}"));
        List<(long Place, string Key)> all = [];
        EffectReader whole = Reader(stream);
        while (whole.Next(CancellationToken.None)) { all.Add((whole.Start, Encoding.ASCII.GetString(whole.Effect[1]))); }
        Assert.Equal(300, all.Count);
        var random = new Random(1);
        foreach (int piece in (int[])[1000, 20_000, int.MaxValue])
        {
            EffectReader reader = Reader(stream, piece);
            for (int i = random.Next(5); i < all.Count; i += 1 + random.Next(random.Next(2) == 0 ? 2 : 40))
            {
                reader.SeekTo(all[i].Place, 3);
                Assert.True(reader.Next(CancellationToken.None));
                Assert.Equal((all[i].Place, all[i].Key, 3), (reader.Start, Encoding.ASCII.GetString(reader.Effect[1]), reader.Database));
            }
            Assert.Throws<ArgumentOutOfRangeException>(() => reader.SeekTo(all[0].Place, 0));
        }
    }

    [Theory]
    [InlineData("SET k 1;SET other 2;DEL other k", "SET k 1;DEL other k")]
    [InlineData("RENAME a k;COPY k b;SUNIONSTORE u a k;LMOVE k l LEFT LEFT", "RENAME a k;COPY k b;SUNIONSTORE u a k;LMOVE k l LEFT LEFT")]
    [InlineData("MULTI;INCR k;PUBLISH k x;EXEC;PING;REPLCONF k", "INCR k")]
    [InlineData("SELECT 1;SET k 1;SELECT 0;SET k 2;SELECT 3;MOVE k 0", "SET k 2;MOVE k 0")]
    [InlineData("SELECT 1;COPY k k DB 0;COPY k k", "COPY k k DB 0")]
    [InlineData("FLUSHALL ASYNC;SELECT 1;FLUSHDB;SWAPDB 1 2;SWAPDB 1 0;SELECT 0;flushdb", "FLUSHALL;SWAPDB;flushdb")]
    [InlineData("JSON.SET k . 1;JSON.SET other . 1;SORT l BY w STORE k;SELECT 1;JSON.SET k . 1", "JSON.SET;SORT")]
    [InlineData("SET 1 k;HSET h k k", "")]
    [InlineData("FUNCTION LOAD k", "")]
    public void Commands_ThatNameTheKeyOrChangeAll_AreItsHistory(string stream, string history)
    {
        foreach (int piece in (int[])[1, 7, int.MaxValue]) { Assert.Equal(history, Text(Read(Reader(stream, piece)))); }
    }

    [Fact]
    public void Database_SelectedBefore_IsGiven()
    {
        Assert.Equal("SET k 1", Text(Read(Reader("SET k 1;SELECT 0;SET k 2", database: 5), database: 5)));
        Assert.Equal("SET k 2", Text(Read(Reader("SET k 1;SELECT 0;SET k 2", database: 5))));
    }

    [Fact]
    public void Places_AreWhereCommandsBegin_AndOthersAreTheKeysBesides()
    {
        KeyHistory history = Read(Reader("SET a 1;MSET a 1 k 2 b 3;DEL k k"));
        Assert.Equal([Start + Bytes("SET a 1").Length, Start + Bytes("SET a 1;MSET a 1 k 2 b 3").Length],
            history.Commands.Select(c => c.Place));
        Assert.Equal(["a b", ""], history.Commands.Select(c =>
            string.Join(' ', c.Others.Select(o => Encoding.ASCII.GetString(o.Name)).Order(StringComparer.Ordinal))));
    }

    [Fact]
    public void Bounds_TheNewestStay_TheOthersAreCounted()
    {
        string stream = string.Join(';', Enumerable.Range(0, 50).Select(i => $"SET k {i}"));
        KeyHistory few = Read(Reader(stream), count: 3);
        Assert.Equal(("SET k 47;SET k 48;SET k 49", 47), (Text(few), few.LeftOut));
        KeyHistory small = Read(Reader(stream + ";SET k " + new string('x', 900)), bytes: 1200);
        Assert.InRange(small.Commands.Count, 2, 3);
        Assert.Equal(51, small.LeftOut + small.Commands.Count);
        // One is shown, however large it is.
        KeyHistory large = Read(Reader(stream + ";SET k " + new string('x', 5000)), bytes: 1200);
        Assert.Equal((1, 50), (large.Commands.Count, large.LeftOut));
    }

    [Fact]
    public void Reader_WithoutTheBytes_SaysSo()
    {
        byte[] bytes = Bytes("SET k 1");
        var reader = new EffectReader(new Pieces(bytes, 100), Start, Start + bytes.Length + 1, 0);
        Assert.True(reader.Next(CancellationToken.None));
        Assert.Throws<PastException>(() => reader.Next(CancellationToken.None));
        using var stop = new CancellationTokenSource();
        stop.Cancel();
        Assert.Throws<OperationCanceledException>(() => Reader("SET k 1").Next(stop.Token));
    }

    // With the version of each command that may change data.
    private static (VersionNumber? Enough, string Keys) Named(string stream, int enough, int most, params long[] versions)
    {
        var named = new NamedKeys(0, new VersionNumber(0), enough, most);
        EffectReader reader = Reader(stream);
        VersionNumber? told = null;
        for (int i = 0; told is null && reader.Next(CancellationToken.None); i++)
        {
            told = named.Note(reader, new VersionNumber(versions[i]));
        }
        return (told, string.Join(' ', named.Keys.Select(k => Encoding.ASCII.GetString(k.Name)).Order(StringComparer.Ordinal)));
    }

    [Fact]
    public void Named_EndsWithAVersion_WhenThereAreEnough()
    {
        const string Stream = "SET a 1;SET a 2;SET b 1;MSET c 1 d 1;SET e 1";
        Assert.Equal((null, "a b c d e"), Named(Stream, 100, 100, 1, 1, 2, 2, 7));
        Assert.Equal((new VersionNumber(6), "a b c d"), Named(Stream, 2, 100, 1, 1, 2, 2, 7));
        Assert.Equal((new VersionNumber(1), "a"), Named(Stream, 1, 100, 1, 1, 2, 2, 7));
        Assert.Equal((null, "a"), Named("SELECT 1;SET x 1;SELECT 0;SET a 1", 5, 100, 1, 1));
        Assert.Contains("more than 3 keys, or 128 MB of names, are named in version 2",
            Assert.Throws<PastException>(() => Named(Stream, 2, 3, 1, 1, 2, 2, 7)).Message);
        string large = new('x', 5 << 20);
        Assert.Equal((new VersionNumber(2), $"{large} {large}y"), Named($"SET {large} 1;SET {large}y 1;SET {large}z 1", 9, 9, 2, 2, 3));
    }

    [Theory]
    [InlineData("FLUSHALL")]
    [InlineData("FLUSHDB")]
    [InlineData("SWAPDB 0 1")]
    [InlineData("JSON.SET k . 1")]
    public void Named_AcrossWhatIsNotConfinedToKeys_IsRefusedByName(string command) =>
        Assert.StartsWith($"{command.Split(' ')[0]} in version 4 is not confined to keys",
            Assert.Throws<PastException>(() => Named($"SET a 1;{command};SET b 1", 9, 9, 3, 4, 5)).Message);
}

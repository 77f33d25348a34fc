// Commands as text, and back: words with spaces between them, "; " between commands.
using System.Buffers;
using System.Text;
using Slogger.Redis.Reduction;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Tests.Reduction;

internal static class ReductionText
{
    /// <summary>The stream as text.</summary>
    public static string Of(byte[] stream)
    {
        var effect = new Effect();
        var commands = new List<string>();
        for (int at = 0; at < stream.Length && effect.TryRead(stream, at, stream.Length); at = effect.End)
        {
            commands.Add(string.Join(' ', Enumerable.Range(0, effect.Count).Select(i => Encoding.Latin1.GetString(effect[i]))));
        }
        return string.Join("; ", commands);
    }

    /// <summary>The stream of a text.</summary>
    public static byte[] Stream(string text)
    {
        var stream = new ArrayBufferWriter<byte>();
        foreach (string command in text.Split("; ", StringSplitOptions.RemoveEmptyEntries))
        {
            EffectReplay.Write(stream, [.. command.Split(' ').Select(Encoding.Latin1.GetBytes)]);
        }
        return stream.WrittenSpan.ToArray();
    }

    /// <summary>What a reducer leaves of a text, as one window that begins in database 0.</summary>
    public static string Reduced(string text, EffectReducer? reducer = null)
    {
        byte[] stream = Stream(text);
        reducer ??= new EffectReducer();
        reducer.Begin(stream, 0, 0);
        Assert.True(reducer.TryTake(stream.Length));
        var output = new ArrayBufferWriter<byte>();
        ReducedWindow window = reducer.Write(output);
        Assert.Equal(stream.Length, window.BytesBefore);
        Assert.Equal(output.WrittenCount, window.BytesAfter);
        return Of(output.WrittenSpan.ToArray());
    }
}

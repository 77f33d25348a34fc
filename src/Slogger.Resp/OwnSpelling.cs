// Requests that the proxy makes of its own accord are spelled as no client spells them (Redis does not mind), so that a line
// of MONITOR or an entry of the slow log shows by itself that it is none of a client's doing, whatever connection it came
// from and however long ago. A client that spells so all the same is respelled, or it could hide there.
namespace Slogger.Resp;

/// <summary>The spelling of the names of the proxy's own commands: all letters upper case but the first, as in <c>pING</c>.</summary>
public static class OwnSpelling
{
    /// <summary>Whether a name is spelled so.</summary>
    public static bool Is(ReadOnlySpan<byte> name) =>
        name.Length >= 2 && name[0] is >= (byte)'a' and <= (byte)'z' && name[1] is >= (byte)'A' and <= (byte)'Z'
        && name[2..].IndexOfAnyInRange((byte)'a', (byte)'z') < 0;

    /// <summary>A name spelled so.</summary>
    /// <param name="name">At least two letters, upper case.</param>
    public static string Of(string name)
    {
        ArgumentNullException.ThrowIfNull(name);
        return char.ToLowerInvariant(name[0]) + name[1..];
    }

    /// <summary>Respells the request at <paramref name="p"/>, in place, to upper case.</summary>
    /// <param name="p">A request that <see cref="CommandScanner"/> has stopped at: its name has come, and is spelled so.</param>
    public static unsafe void Undo(byte* p) => *NameIn(p) -= 'a' - 'A';

    /// <summary>The name of such a request.</summary>
    public static unsafe ReadOnlySpan<byte> NameAt(byte* p)
    {
        byte* name = NameIn(p);
        int length = 0;
        while (name[length] != (byte)'\r') { length++; }
        return new(name, length);
    }

    // "*2\r\n$4\r\npING\r\n": as the scanner sees it, a line ends with a carriage return and whatever byte follows.
    private static unsafe byte* NameIn(byte* p)
    {
        for (int lines = 0; lines < 2; lines++)
        {
            while (*p != (byte)'\r') { p++; }
            p += 2;
        }
        return p;
    }
}

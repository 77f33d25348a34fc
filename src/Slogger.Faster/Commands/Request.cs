// The request that a connection executes at present. Its arguments stay where they came in, or are copies that whoever made them keeps.
namespace Slogger.Faster.Commands;

/// <summary>An argument in the request's bytes, or a copy of them.</summary>
internal unsafe struct Argument
{
    public byte* At;
    public int Length;
}

/// <summary>The present request: its arguments, the command that it names, and when it is executed.</summary>
internal sealed unsafe class Request
{
    private const int ArgumentsKept = 1024;
    private Argument[] _own = new Argument[16];
    private Argument[] _arguments;
    private int _first;

    public Request() => _arguments = _own;

    /// <summary>How many arguments it has, its name included; 0: there is no request.</summary>
    public int Count { get; set; }

    /// <summary>The hash of its first key; 0: not computed yet.</summary>
    public long Hash { get; set; }

    /// <summary>What it names. Null only until the first request.</summary>
    public Command Command { get; set; } = null!;

    /// <summary>The time as of which it is executed, in milliseconds since the Unix epoch: which keys have expired depends on it.</summary>
    public long NowMs { get; set; }

    /// <summary>An argument.</summary>
    public ReadOnlySpan<byte> this[int index]
    {
        get
        {
            ref Argument argument = ref _arguments[_first + index];
            return new(argument.At, argument.Length);
        }
    }

    public int LengthOf(int index) => _arguments[_first + index].Length;

    /// <summary>Whether an argument is this word, in letters of any size.</summary>
    public bool Is(int index, ReadOnlySpan<byte> word) => System.Text.Ascii.EqualsIgnoreCase(this[index], word);

    /// <summary>Reads an argument as a whole number. If it is none, that is the reply.</summary>
    public bool TryInteger(int index, Replies replies, out long value, string error = ErrorText.NotAnInteger)
    {
        if (Numbers.TryParse(this[index], out value)) return true;
        replies.Error(error);
        return false;
    }

    /// <summary>Reads an argument as the number of a database: there is one. If it is none, that is the reply.</summary>
    public bool TryDatabase(int index, Replies replies)
    {
        if (!TryInteger(index, replies, out long database)) return false;
        if (database == 0) return true;
        replies.Error(database is < int.MinValue or > int.MaxValue
            ? $"ERR value is out of range, value must between {int.MinValue} and {int.MaxValue}"
            : "ERR DB index is out of range");
        return false;
    }

    /// <summary>The present request is this one, among others that were taken apart ahead.</summary>
    public void Set(Argument[] arguments, in RequestAhead request) =>
        (_arguments, _first, Count, Hash) = (arguments, request.First, request.Count, request.Hash);

    /// <summary>The present request's arguments are in the request's own array, which has room for so many.</summary>
    public Argument[] Own(int count)
    {
        if (count > _own.Length) Array.Resize(ref _own, Math.Max(count, _own.Length * 2));
        (_arguments, _first) = (_own, 0);
        return _own;
    }

    /// <summary>Gives back room that a request of very many arguments has taken, unless the present one is such.</summary>
    public void Shrink(int count)
    {
        if (_own.Length > ArgumentsKept && count <= ArgumentsKept) _arguments = _own = _own[..ArgumentsKept];
    }
}

// What was done to a key: the commands that name it, and those that change all keys. The newest are kept, as many as are wanted and as
// there is room for; the others are counted.
using System.Text;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>A command that was done to a key.</summary>
/// <param name="Place">Where it begins in the log: with each command it rises.</param>
/// <param name="End">Where it ends.</param>
/// <param name="Arguments">Its name, and its arguments; the name alone if it is not known whose keys these tell of.</param>
/// <param name="Others">The other keys that it names.</param>
public sealed record KeyCommand(long Place, long End, IReadOnlyList<byte[]> Arguments, IReadOnlyCollection<StoreKey> Others);

/// <summary>Collects the commands on a key. Not thread-safe.</summary>
/// <param name="key">The key.</param>
/// <param name="countMax">How many are wanted.</param>
/// <param name="bytesMax">How many bytes their arguments may have together. One command may have more.</param>
public sealed class KeyHistory(StoreKey key, int countMax, int bytesMax)
{
    private static readonly string[] s_ofAllKeys = ["FLUSHALL", "FLUSHDB", "SWAPDB"];

    private readonly Queue<KeyCommand> _commands = [];
    private long _bytes;

    /// <summary>The newest, in order.</summary>
    public IReadOnlyCollection<KeyCommand> Commands => _commands;

    /// <summary>How many there are before them.</summary>
    public long LeftOut { get; private set; }

    /// <summary>Takes a command, if it is done to the key.</summary>
    /// <param name="read">The command.</param>
    public void Note(EffectReader read)
    {
        ArgumentNullException.ThrowIfNull(read);
        if (read.Reach == EffectReach.Keys && Names(read)) { Add(read, read.Effect.Count); }
        // Which of its arguments are keys is not known.
        else if (read.Reach == EffectReach.Anything && MayChange(read)) { Add(read, 1); }
    }

    private bool Names(EffectReader read)
    {
        foreach (EffectKey named in read.Keys)
        {
            if (named.Database == key.Database && read.Effect[named.Argument].SequenceEqual(key.Name)) { return true; }
        }
        return false;
    }

    private bool MayChange(EffectReader read)
    {
        Effect effect = read.Effect;
        foreach (string name in s_ofAllKeys)
        {
            if (!Ascii.EqualsIgnoreCase(effect[0], name)) { continue; }
            return name switch
            {
                "FLUSHDB" => read.Database == key.Database,
                "SWAPDB" => IsDatabase(effect, 1) || IsDatabase(effect, 2),
                _ => true,
            };
        }
        for (int i = 1; i < effect.Count && read.Database == key.Database; i++)
        {
            if (effect[i].SequenceEqual(key.Name)) { return true; }
        }
        return false;
    }

    private bool IsDatabase(Effect effect, int argument) =>
        argument < effect.Count && effect[argument].SequenceEqual(EffectReplay.Number(key.Database));

    private void Add(EffectReader read, int arguments)
    {
        Effect effect = read.Effect;
        var words = new byte[arguments][];
        for (int i = 0; i < arguments; i++) { words[i] = effect[i].ToArray(); }
        HashSet<StoreKey> others = arguments == 1 ? [] : [.. read.Keys.Select(k => new StoreKey(k.Database, words[k.Argument]))];
        others.Remove(key);
        var command = new KeyCommand(read.Start, read.End, words, others);
        _commands.Enqueue(command);
        _bytes += SizeOf(command);
        while (_commands.Count > countMax || (_bytes > bytesMax && _commands.Count > 1))
        {
            _bytes -= SizeOf(_commands.Dequeue());
            LeftOut++;
        }
    }

    // With what an argument takes besides its bytes.
    private static long SizeOf(KeyCommand command) => command.Arguments.Sum(a => a.Length + 32L);
}

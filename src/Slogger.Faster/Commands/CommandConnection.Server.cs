// Commands on the server as a whole.
using System.Globalization;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    /// <summary>Whose commands these are.</summary>
    internal const string RedisVersion = "7.0.15";

    internal void GetSettings()
    {
        var found = new SortedDictionary<string, string>(StringComparer.Ordinal);
        (string Name, byte[] Bytes, string Value)[] all = [.. Settings.All(_engine.Options).Select(s => (s.Key, Lower(s.Key), s.Value))];
        for (int i = 2; i < _count && found.Count < all.Length; i++)
        {
            byte[] pattern = Lower(ArgumentAt(i));
            foreach ((string name, byte[] bytes, string value) in all) if (Glob.IsMatch(pattern, bytes)) found[name] = value;
        }

        BeginMap(found.Count);
        foreach ((string name, string value) in found) Field(name, value);
    }

    // What could be set belongs to whoever runs the store.
    internal void SetSettings()
    {
        if (_count % 2 != 0)
        {
            Error(SyntaxError);
            return;
        }

        string name = Text(ArgumentAt(2));
        if (Settings.All(_engine.Options).Any(s => s.Key.Equals(name, StringComparison.OrdinalIgnoreCase))) Error($"ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config");
        else Error($"ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
    }

    internal void ResetStatistics()
    {
        _engine.ResetCounts();
        Ok();
    }

    internal void Info()
    {
        var asked = new HashSet<string>();
        for (int i = 1; i < _count; i++) asked.Add(Text(ArgumentAt(i)).ToLowerInvariant());
        Verbatim(InfoText.Of(_engine, asked, _now));
    }

    internal void MemoryUsage()
    {
        for (int i = 3; i < _count; i++)
        {
            if (IsArgument(i, "samples"u8) && i + 1 < _count)
            {
                if (!TryInteger(++i, out long samples)) return;
                if (samples >= 0) continue;
            }

            Error(SyntaxError);
            return;
        }

        // The record, its key in the directory and its place in the index.
        const int Besides = 8 + 8 + 8 + 60 + 8;
        if (_worker.TryRead(ArgumentAt(2), null, out _, out int length)) Integer(length + (2L * LengthOf(2)) + Besides);
        else Null();
    }

    internal void WhoAmI() => Bulk(DefaultUser);

    internal void Time()
    {
        // In microseconds, as far as the clock goes.
        long now = _engine.Options.NowMs();
        BeginArray(2);
        Bulk(Text(now / 1000));
        Bulk(Text(now % 1000 * 1000));
    }

    internal void LastSave() => Integer(_engine.StartedMs / 1000);

    internal void Role()
    {
        if (_engine.IsFollowing)
        {
            BeginArray(5);
            Bulk("slave");
            Bulk("slogger");
            Integer(0);
            Bulk("connected");
            Integer(0);
            return;
        }

        BeginArray(3);
        Bulk("master");
        Integer(0);
        BeginArray(0);
    }

    internal void NoCluster() => Error("ERR This instance has cluster support disabled");

    // A store alone has no replicas, so it would wait in vain.
    internal void Wait()
    {
        if (!TryInteger(1, out _) || !TryInteger(2, out long timeoutMs, "ERR timeout is not an integer or out of range")) return;
        if (timeoutMs < 0) Error("ERR timeout is negative");
        else Integer(0);
    }

    internal void Commit()
    {
        if (!TryInteger(1, out long line) || !TryInteger(2, out long next)) return;
        var commit = new CommitCommand(new WorldLine(line), new Version(next));
        _engine.OnCommit!(commit);
        if (commit.Refusal is { } why) Error($"ERR SLOGGER {why}");
        else Ok();
    }

    private static byte[] Lower(ReadOnlySpan<byte> text) => System.Text.Encoding.Latin1.GetBytes(Text(text).ToLowerInvariant());

    private static byte[] Lower(string text) => System.Text.Encoding.Latin1.GetBytes(text.ToLower(CultureInfo.InvariantCulture));
}

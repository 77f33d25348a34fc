// Commands on the server as a whole.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Faster.Commands;

/// <summary>Commands on the server.</summary>
internal sealed class ServerCommands(Request request, Replies replies, CommandEngine engine, Keyspace keys)
{
    /// <summary>Whose commands these are.</summary>
    public const string RedisVersion = "7.0.15";

    public void GetSettings()
    {
        var found = new SortedDictionary<string, string>(StringComparer.Ordinal);
        (string Name, byte[] Bytes, string Value)[] all =
            [.. Settings.All(engine.Options).Select(s => (s.Key, Latin1.Lower(s.Key), s.Value))];
        for (int i = 2; i < request.Count && found.Count < all.Length; i++)
        {
            byte[] pattern = Latin1.Lower(request[i]);
            foreach ((string name, byte[] bytes, string value) in all) if (Glob.IsMatch(pattern, bytes)) found[name] = value;
        }

        replies.BeginMap(found.Count);
        foreach ((string name, string value) in found) replies.Field(name, value);
    }

    // What could be set belongs to whoever runs the store.
    public void SetSettings()
    {
        if (request.Count % 2 != 0)
        {
            replies.Error(ErrorText.Syntax);
            return;
        }

        string name = Latin1.Text(request[2]);
        bool exists = Settings.All(engine.Options).Any(s => s.Key.Equals(name, StringComparison.OrdinalIgnoreCase));
        if (exists) replies.Error($"ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config");
        else replies.Error($"ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
    }

    public void ResetStatistics()
    {
        engine.ResetCounts();
        replies.Ok();
    }

    public void RewriteSettings() => replies.Error("ERR The server is running without a config file");

    public void Info()
    {
        var asked = new HashSet<string>();
        for (int i = 1; i < request.Count; i++) asked.Add(Latin1.Text(request[i]).ToLowerInvariant());
        replies.Verbatim(InfoText.Of(engine, asked, request.NowMs));
    }

    public void MemoryUsage()
    {
        for (int i = 3; i < request.Count; i++)
        {
            if (request.Is(i, "samples"u8) && i + 1 < request.Count)
            {
                if (!request.TryInteger(++i, replies, out long samples)) return;
                if (samples >= 0) continue;
            }

            replies.Error(ErrorText.Syntax);
            return;
        }

        // The record, its key in the directory and its place in the index.
        const int Besides = 8 + 8 + 8 + 60 + 8;
        if (keys.HasRecord(request[2], out _, out int length)) replies.Integer(length + (2L * request.LengthOf(2)) + Besides);
        else replies.Null();
    }

    public void PurgeMemory() => replies.Ok();

    public void Time()
    {
        // In microseconds, as far as the clock goes.
        long now = engine.Options.NowMs();
        replies.BeginArray(2);
        replies.BulkNumber(now / 1000);
        replies.BulkNumber(now % 1000 * 1000);
    }

    public void LastSave() => replies.Integer(engine.StartedMs / 1000);

    public void Role()
    {
        if (engine.IsFollowing)
        {
            replies.BeginArray(5);
            replies.Bulk("slave");
            replies.Bulk("slogger");
            replies.Integer(0);
            replies.Bulk("connected");
            replies.Integer(0);
            return;
        }

        replies.BeginArray(3);
        replies.Bulk("master");
        replies.Integer(0);
        replies.BeginArray(0);
    }

    public void NoCluster() => replies.Error("ERR This instance has cluster support disabled");

    // A store alone has no replicas, so it would wait in vain.
    public void Wait()
    {
        if (!request.TryInteger(1, replies, out _)) return;
        if (!request.TryInteger(2, replies, out long timeoutMs, "ERR timeout is not an integer or out of range")) return;
        if (timeoutMs < 0) replies.Error("ERR timeout is negative");
        else replies.Integer(0);
    }

    public void Commit()
    {
        if (!request.TryInteger(1, replies, out long line) || !request.TryInteger(2, replies, out long next)) return;
        var commit = new CommitCommand(new WorldLine(line), new VersionNumber(next));
        engine.OnCommit!(commit);
        if (commit.Refusal is { } why) replies.Error($"ERR SLOGGER {why}");
        else replies.Ok();
    }
}

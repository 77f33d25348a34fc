// Looks at a Redis's saving from outside: is a BGSAVE that was started done, did it work, and is the file that lies there really
// the one it made? Redis tells no save from another, so this is concluded:
//   - rdb_saves counts the saves that were begun (BGSAVE, SAVE, a replica's). If it stands exactly one above what was read
//     before our BGSAVE, no other save was begun since then.
//   - FLUSHALL kills a BGSAVE that runs, and the status stays "ok"; with save points it even writes a file of its own. So the
//     count of FLUSHALLs must not have moved, and the file must be a new one.
//   - LASTSAVE counts whole seconds: it is of no use.
using System.Globalization;
using Slogger.Log.Files;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

/// <summary>What Redis says of its saving.</summary>
internal readonly record struct SaveState(long Saves, long Flushes, long Changes, bool InProgress, bool IsRewriting, bool Failed)
{
    /// <summary>Whether a BGSAVE would be refused now.</summary>
    public bool IsBusy => InProgress || IsRewriting;
}

/// <summary>Where the dump lies, and which file it is.</summary>
internal readonly record struct DumpFile(string Path, long Bytes, long WrittenAt)
{
    public static DumpFile At(string path)
    {
        var file = new FileInfo(path);
        return file.Exists ? new DumpFile(path, file.Length, file.LastWriteTimeUtc.Ticks) : new DumpFile(path, -1, 0);
    }
}

/// <summary>The state before a BGSAVE is started: what comes after is compared with it.</summary>
internal sealed record SaveBase(SaveState State, DumpFile Dump);

/// <summary>Watches one Redis. One caller at a time.</summary>
internal sealed class SaveWatch(RedisConnection connection) : IAsyncDisposable
{
    /// <summary>What Redis says now.</summary>
    /// <exception cref="RedisException">It says nothing.</exception>
    public async Task<SaveState> LookAsync(CancellationToken stop)
    {
        RedisReply reply = await connection.ExpectAsync(["INFO", "persistence", "commandstats"], stop).ConfigureAwait(false);
        var fields = new Dictionary<string, string>(StringComparer.Ordinal);
        foreach (string line in reply.Text.Split('\n'))
        {
            int colon = line.IndexOf(':', StringComparison.Ordinal);
            if (colon > 0) { fields[line[..colon]] = line[(colon + 1)..].TrimEnd('\r'); }
        }
        long Number(string name) => long.TryParse(fields.GetValueOrDefault(name), CultureInfo.InvariantCulture, out long value) ? value : 0;
        return new SaveState(
            Number("rdb_saves"), CallsOf(fields.GetValueOrDefault("cmdstat_flushall", "")), Number("rdb_changes_since_last_save"),
            Number("rdb_bgsave_in_progress") != 0, Number("aof_rewrite_in_progress") != 0,
            fields.GetValueOrDefault("rdb_last_bgsave_status") != "ok");
    }

    /// <summary>Where Redis saves; empty if its working directory was removed.</summary>
    public Task<string> DirectoryAsync(CancellationToken stop) => SettingAsync("dir", stop);

    /// <summary>Which file the dump is now. Settings may be changed at any time, so they are asked for.</summary>
    /// <exception cref="RedisException">Redis does not tell.</exception>
    public async Task<DumpFile> DumpAsync(CancellationToken stop)
    {
        string directory = await DirectoryAsync(stop).ConfigureAwait(false);
        string name = await SettingAsync("dbfilename", stop).ConfigureAwait(false);
        return DumpFile.At(Path.Combine(directory, name));
    }

    /// <summary>The state to compare with; null while a BGSAVE would be refused.</summary>
    public async Task<SaveBase?> BaseAsync(CancellationToken stop)
    {
        // The file first: what is saved between shows in the counts.
        DumpFile dump = await DumpAsync(stop).ConfigureAwait(false);
        SaveState state = await LookAsync(stop).ConfigureAwait(false);
        return state.IsBusy ? null : new SaveBase(state, dump);
    }

    /// <summary>Keeps the file of the BGSAVE that was started after <paramref name="before"/> and has ended.</summary>
    /// <returns>Null if it is kept, else why not.</returns>
    public async Task<string?> KeepAsync(SaveBase before, SaveState ended, string to, CancellationToken stop)
    {
        if (ended.Failed && IsOnlyOne(before, ended)) { return "it failed at Redis; Redis's log says why (its disk may be full)"; }
        if (!IsOnlyOne(before, ended)) { return "another save or a FLUSHALL came between"; }
        DumpFile dump = await DumpAsync(stop).ConfigureAwait(false);
        if (dump == before.Dump || dump.Bytes < 0)
        {
            return $"{dump.Path} is not a new file: the save was given up, or this is not where Redis saves";
        }
        SystemFileLayer.Instance.LinkOrCopy(dump.Path, to);
        SaveState after = await LookAsync(stop).ConfigureAwait(false);
        return IsOnlyOne(before, after) ? null : "another save or a FLUSHALL came between";
    }

    private static bool IsOnlyOne(SaveBase before, SaveState now) =>
        now.Saves == before.State.Saves + 1 && now.Flushes == before.State.Flushes;

    private async Task<string> SettingAsync(string name, CancellationToken stop)
    {
        RedisReply reply = await connection.ExpectAsync(["CONFIG", "GET", name], stop).ConfigureAwait(false);
        return reply.Items.Count == 2 ? reply.Items[1].Text : "";
    }

    // calls=3,usec=...
    private static long CallsOf(string statistics)
    {
        const string Name = "calls=";
        int comma = statistics.IndexOf(',', StringComparison.Ordinal);
        return statistics.StartsWith(Name, StringComparison.Ordinal) && comma > 0
            && long.TryParse(statistics.AsSpan(Name.Length, comma - Name.Length), NumberStyles.None, CultureInfo.InvariantCulture,
            out long calls) ? calls : 0;
    }

    public ValueTask DisposeAsync() => connection.DisposeAsync();
}

// Changes settings of a Redis for a while and puts them back, also after the proxy died in between: the old values are
// in an undo file (mode 0600: one of them is a password) before the first change is made. They are of one run of one Redis: another run has
// settings of its own, which are not touched.
using System.Text.Json;
using System.Text.Json.Serialization;

namespace Slogger.Redis.Connections;

/// <summary>A temporary change of settings by CONFIG SET.</summary>
public sealed class ConfigScope
{
    // No setting of Redis has such a name. Files of before have no run: theirs is taken for the present one.
    private const string RunKey = "@run";

    private readonly Dictionary<string, string> _before;
    private readonly string? _undoFile;

    private ConfigScope(Dictionary<string, string> before, string? undoFile, IReadOnlyList<string> refused)
    {
        _before = before;
        _undoFile = undoFile;
        Refused = refused;
    }

    /// <summary>Settings that Redis did not let us change, each with its answer.</summary>
    public IReadOnlyList<string> Refused { get; }

    /// <summary>Whether <paramref name="name"/> was set as asked.</summary>
    public bool IsSet(string name) => _before.ContainsKey(name);

    /// <summary>Sets each of <paramref name="wanted"/>; what is refused is listed, not thrown. If the undo file exists already
    /// (a former scope died), its values are taken as the ones to return to.</summary>
    /// <exception cref="RedisException">The connection failed.</exception>
    /// <exception cref="IOException">The undo file cannot be written.</exception>
    public static async Task<ConfigScope> EnterAsync(RedisConnection connection, IReadOnlyDictionary<string, string> wanted,
        string? undoFile, CancellationToken cancellation)
    {
        var refused = new List<string>();
        Dictionary<string, string> before = new(StringComparer.OrdinalIgnoreCase);
        string run = undoFile is null ? "" : await RunOfAsync(connection, cancellation).ConfigureAwait(false);
        Dictionary<string, string> inherited = ReadUndo(undoFile, run);
        foreach (string name in wanted.Keys)
        {
            RedisReply reply = await connection.CommandAsync(["CONFIG", "GET", name], cancellation).ConfigureAwait(false);
            if (reply.Kind == RedisReplyKind.Array && reply.Items.Count == 2)
                before[name] = inherited.GetValueOrDefault(name, reply.Items[1].Text);
            else
                refused.Add($"{name}: {(reply.IsError ? reply.Text : "not known to this Redis")}");
        }
        foreach ((string name, string value) in inherited)
            before.TryAdd(name, value);
        if (before.Count > 0)
            WriteUndo(undoFile, new(before) { [RunKey] = run });
        foreach ((string name, string value) in wanted)
        {
            if (!before.ContainsKey(name))
                continue;
            RedisReply reply = await connection.CommandAsync(["CONFIG", "SET", name, value], cancellation).ConfigureAwait(false);
            if (!reply.IsError)
                continue;
            refused.Add($"{name}: {reply.Text}");
            before.Remove(name);
        }
        return new ConfigScope(before, undoFile, refused);
    }

    /// <summary>Puts the old values back and removes the undo file.</summary>
    /// <exception cref="RedisException">The connection failed; the undo file stays, and <see cref="UndoAsync"/> can be tried
    /// later.</exception>
    public async Task LeaveAsync(RedisConnection connection, CancellationToken cancellation)
    {
        await PutBackAsync(connection, cancellation).ConfigureAwait(false);
        Forget();
    }

    /// <summary>Puts the old values back. The undo file stays until <see cref="Forget"/>: on a busy disk it takes tens of milliseconds to
    /// delete a file.</summary>
    /// <exception cref="RedisException">The connection failed.</exception>
    public Task PutBackAsync(RedisConnection connection, CancellationToken cancellation) =>
        ApplyAsync(connection, _before, cancellation);

    /// <summary>Removes the undo file.</summary>
    public void Forget()
    {
        if (_undoFile is not null)
            File.Delete(_undoFile);
    }

    /// <summary>Puts back what a scope that died has left changed; does nothing if there is no undo file.</summary>
    /// <returns>Whether there was something to put back.</returns>
    /// <exception cref="RedisException">Redis refused; the undo file stays.</exception>
    public static async Task<bool> UndoAsync(RedisConnection connection, string undoFile, CancellationToken cancellation)
    {
        if (!File.Exists(undoFile)) return false;
        Dictionary<string, string> values = ReadUndo(undoFile, await RunOfAsync(connection, cancellation).ConfigureAwait(false));
        await ApplyAsync(connection, values, cancellation).ConfigureAwait(false);
        File.Delete(undoFile);
        return values.Count > 0;
    }

    private static async Task<string> RunOfAsync(RedisConnection connection, CancellationToken cancellation) =>
        (await connection.InfoAsync("server", cancellation).ConfigureAwait(false)).GetValueOrDefault("run_id", "");

    private static async Task ApplyAsync(RedisConnection connection, Dictionary<string, string> values, CancellationToken cancellation)
    {
        List<string> command = ["CONFIG", "SET"];
        foreach ((string name, string value) in values)
            command.AddRange([name, value]);
        if (values.Count > 0)
            await connection.ExpectAsync(command, cancellation).ConfigureAwait(false);
    }

    private static Dictionary<string, string> ReadUndo(string? undoFile, string run)
    {
        if (undoFile is null || !File.Exists(undoFile))
            return [];
        try
        {
            Dictionary<string, string> values = JsonSerializer.Deserialize(File.ReadAllText(undoFile), UndoJson.Default.Settings) ?? [];
            return values.Remove(RunKey, out string? of) && of != run ? [] : values;
        }
        catch (JsonException)
        {
            return []; // it is renamed into place, so this is not ours; better the present values than none
        }
    }

    private static void WriteUndo(string? undoFile, Dictionary<string, string> values)
    {
        if (undoFile is null)
            return;
        string temporary = undoFile + ".new";
        using (FileStream file = PrivateFile.Create(temporary))
        {
            JsonSerializer.Serialize(file, values, UndoJson.Default.Settings);
            file.Flush(flushToDisk: true);
        }
        File.Move(temporary, undoFile, overwrite: true);
    }
}

// Made by the compiler: to find out by reflection how a dictionary is written costs a start some milliseconds.
[JsonSerializable(typeof(Dictionary<string, string>), TypeInfoPropertyName = "Settings")]
internal sealed partial class UndoJson : JsonSerializerContext;

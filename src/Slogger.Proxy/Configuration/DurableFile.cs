// Small files that must be whole or absent after a crash: written aside, synced, renamed, and the directory synced too.
using System.Runtime.InteropServices;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;

namespace Slogger.Proxy.Configuration;

/// <summary>Atomic replacement of a small file.</summary>
internal static partial class DurableFile
{
    private const int ReadOnly = 0;

    /// <summary>Replaces <paramref name="path"/>; after return the new content survives a crash of the machine. Throws IOException.</summary>
    public static void Write(string path, byte[] content)
    {
        string aside = path + ".tmp";
        FileStreamOptions options = new() { Mode = FileMode.Create, Access = FileAccess.Write };
        if (!OperatingSystem.IsWindows())
        {
            options.UnixCreateMode = UnixFileMode.UserRead | UnixFileMode.UserWrite;
        }

        using (FileStream stream = new(aside, options))
        {
            stream.Write(content);
            stream.Flush(flushToDisk: true);
        }

        File.Move(aside, path, overwrite: true);
        SyncDirectory(Path.GetDirectoryName(path)!);
    }

    /// <summary>As <see cref="Write"/>, of a value as JSON.</summary>
    public static void WriteJson<T>(string path, T value, JsonTypeInfo<T> type) => Write(path, JsonSerializer.SerializeToUtf8Bytes(value, type));

    /// <summary>What was written; null: there is no such file.</summary>
    /// <exception cref="IOException">The disk refused.</exception>
    /// <exception cref="InvalidDataException">It is damaged; the message says what to do.</exception>
    public static T? ReadJson<T>(string path, JsonTypeInfo<T> type) where T : class
    {
        if (!File.Exists(path)) { return null; }
        try
        {
            return JsonSerializer.Deserialize(File.ReadAllBytes(path), type);
        }
        catch (JsonException e)
        {
            throw new InvalidDataException($"{path} is damaged: {e.Message} Put it back from a copy of the data directory; a shard of a backup can also begin anew with an empty one.", e);
        }
    }

    private static void SyncDirectory(string path)
    {
        if (OperatingSystem.IsWindows())
        {
            return;
        }

        int descriptor = Open(path, ReadOnly);
        if (descriptor < 0)
        {
            throw new IOException($"cannot open the directory {path} to sync it: {Marshal.GetLastPInvokeErrorMessage()}");
        }

        int result = Fsync(descriptor);
        string why = Marshal.GetLastPInvokeErrorMessage();
        _ = Close(descriptor);
        if (result != 0)
        {
            throw new IOException($"cannot sync the directory {path}: {why}");
        }
    }

    [LibraryImport("libc", EntryPoint = "open", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Open(string path, int flags);

    [LibraryImport("libc", EntryPoint = "fsync", SetLastError = true)]
    private static partial int Fsync(int descriptor);

    [LibraryImport("libc", EntryPoint = "close", SetLastError = true)]
    private static partial int Close(int descriptor);
}

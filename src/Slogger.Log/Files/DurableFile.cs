// Small files that must be whole or absent after a crash: written aside, synced, renamed, and the directory synced too. Each attempt
// writes a file of its own, so one whose sync failed is never synced again.
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;

namespace Slogger.Log.Files;

/// <summary>Atomic replacement of a small file.</summary>
public static class DurableFile
{
    private const string AsideExtension = ".tmp";

    /// <summary>Replaces a file; after return the new content survives a crash of the machine.</summary>
    /// <param name="files">The disk.</param>
    /// <param name="path">The file; its directory is there.</param>
    /// <param name="content">All of its content.</param>
    /// <exception cref="IOException">The disk refused. A crash then leaves the old content or the new one.</exception>
    public static void Write(IFileLayer files, string path, ReadOnlySpan<byte> content)
    {
        ArgumentNullException.ThrowIfNull(files);
        string aside = path + AsideExtension;
        using (ILogFile file = files.Create(aside))
        {
            file.Write(content, 0);
            file.SyncData();
        }
        files.Rename(aside, path);
        files.SyncDirectory(Path.GetDirectoryName(path)!);
    }

    /// <summary>As <see cref="Write"/>, of a value as JSON.</summary>
    public static void WriteJson<T>(IFileLayer files, string path, T value, JsonTypeInfo<T> type) =>
        Write(files, path, JsonSerializer.SerializeToUtf8Bytes(value, type));

    /// <summary>What was written, or null if there is no such file. A process that was killed may have left either without syncing it:
    /// that is made up for, so that whoever acts on the answer acts on what is
    /// durable.</summary>
    /// <param name="files">The disk.</param>
    /// <param name="path">The file.</param>
    /// <param name="mayReturn">Whether it does not matter if a crash brings back a file that was deleted: then nothing is waited for while
    /// there is none.</param>
    /// <exception cref="IOException">The disk refused.</exception>
    public static byte[]? Read(IFileLayer files, string path, bool mayReturn = false)
    {
        ArgumentNullException.ThrowIfNull(files);
        byte[]? content = null;
        try
        {
            using ILogFile file = files.Open(path, writable: false);
            content = new byte[file.Length];
            if (file.Read(content, 0) < content.Length) { throw new IOException($"{path} became shorter while it was read."); }
        }
        catch (FileNotFoundException)
        {
            if (mayReturn) { return null; }
        }
        catch (DirectoryNotFoundException)
        {
            return null;
        }
        files.SyncDirectory(Path.GetDirectoryName(path)!);
        return content;
    }

    /// <summary>As <see cref="Read"/>, of a value as JSON.</summary>
    /// <exception cref="IOException">The disk refused.</exception>
    /// <exception cref="InvalidDataException">It is damaged; the message says what to do.</exception>
    public static T? ReadJson<T>(IFileLayer files, string path, JsonTypeInfo<T> type, bool mayReturn = false) where T : class
    {
        if (Read(files, path, mayReturn) is not { } content) { return null; }
        try
        {
            return JsonSerializer.Deserialize(content, type);
        }
        catch (JsonException e)
        {
            throw new InvalidDataException(
                $"{path} is damaged: {e.Message} Put it back from a copy of the data directory; a shard of a backup can also begin anew "
                    + "with an empty one.", e);
        }
    }

    /// <summary>Deletes a file; after return it stays deleted whatever crashes. Nothing happens if there is none.</summary>
    /// <exception cref="IOException">The disk refused.</exception>
    public static void Delete(IFileLayer files, string path)
    {
        ArgumentNullException.ThrowIfNull(files);
        files.Delete(path);
        files.SyncDirectory(Path.GetDirectoryName(path)!);
    }
}

// The open files of a segment: one in the log's own directory, which begins with the segment's header, and one in each further directory
// that the log lies in, which has blocks from its beginning on.
using Slogger.Log.Files;

namespace Slogger.Log.Segments;

/// <summary>The files of a segment, open.</summary>
internal sealed class SegmentFile(IReadOnlyList<ILogFile> parts) : IDisposable
{
    /// <summary>The files; the first has the header.</summary>
    public IReadOnlyList<ILogFile> Parts => parts;

    /// <summary>Opens them all, or none.</summary>
    /// <exception cref="FileNotFoundException">One is missing.</exception>
    public static SegmentFile Open(IFileLayer files, IReadOnlyList<string> paths, bool writable) =>
        new(ForAll(paths, path => files.Open(path, writable)));

    /// <summary>Opens or makes a file for each path; if one fails, the others are closed.</summary>
    public static IReadOnlyList<ILogFile> ForAll(IReadOnlyList<string> paths, Func<string, ILogFile> open)
    {
        var opened = new List<ILogFile>(paths.Count);
        try
        {
            foreach (string path in paths) { opened.Add(open(path)); }
            return opened;
        }
        catch
        {
            opened.ForEach(f => f.Dispose());
            throw;
        }
    }

    public void Dispose()
    {
        foreach (ILogFile part in parts) { part.Dispose(); }
    }
}

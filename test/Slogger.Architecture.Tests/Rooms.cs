// The block "rooms" at the beginning of docs/internals/ARCHITECTURE.md: which project may name which, and within a project which folder may
// name which. On the right of a colon a project stands without "Slogger.".
using System.Runtime.CompilerServices;

namespace Slogger.Architecture.Tests;

/// <summary>A line of the block.</summary>
/// <param name="Name">A project, or "project/folder"; "project/." for the files beside the folders.</param>
/// <param name="MayName">What it may name, of the same kind.</param>
internal sealed record Room(string Name, IReadOnlyList<string> MayName);

internal static class Rooms
{
    private const string Begin = "```rooms", End = "```", Nothing = "nothing", Prefix = "Slogger.";

    /// <summary>The projects and the folders, in the order of the block.</summary>
    /// <exception cref="InvalidDataException">The block is missing, or a line of it cannot be read.</exception>
    public static (IReadOnlyList<Room> Projects, IReadOnlyList<Room> Folders) Read()
    {
        List<Room> projects = [], folders = [];
        string project = "";
        foreach (string line in File.ReadLines(PictureFile()).SkipWhile(l => l != Begin).Skip(1).TakeWhile(l => l != End))
        {
            if (line.Length == 0) { continue; }
            int colon = line.IndexOf(": ", StringComparison.Ordinal);
            if (colon < 0) { throw new InvalidDataException($"\"{line}\" is no line of rooms: it has the form NAME: WHAT, IT, MAY, NAME"); }
            string name = line[..colon].Trim();
            string[] mayName = [.. line[(colon + 2)..].Split(',', StringSplitOptions.TrimEntries).Where(n => n != Nothing)];
            if (line.StartsWith(' ')) { folders.Add(new($"{project}/{name}", [.. mayName.Select(n => $"{project}/{n}")])); }
            else { projects.Add(new(project = name, [.. mayName.Select(n => Prefix + n)])); }
        }
        return projects.Count > 0 ? (projects, folders)
            : throw new InvalidDataException($"{PictureFile()} has no block that begins with {Begin}");
    }

    private static string PictureFile([CallerFilePath] string here = "") =>
        Path.Combine(Path.GetDirectoryName(here)!, "..", "..", "docs", "internals", "ARCHITECTURE.md");
}

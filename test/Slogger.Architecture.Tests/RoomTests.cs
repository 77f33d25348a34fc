// Keeps the picture of the house true. Read from the compiled assemblies, so that nothing has to be run; constants are not seen there.
using ArchUnitNET.Domain;
using ArchUnitNET.Domain.Dependencies;
using ArchUnitNET.Loader;

namespace Slogger.Architecture.Tests;

public class RoomTests
{
    private static readonly Lazy<(HashSet<string> Names, Dictionary<(string From, string To), string> Arrows)> s_house = new(ReadHouse);

    [Fact]
    public void Picture_EachRoomNamesOnlyThoseAboveIt()
    {
        (IReadOnlyList<Room> projects, IReadOnlyList<Room> folders) = Rooms.Read();
        HashSet<string> above = [];
        foreach (Room room in projects.Concat(folders))
        {
            foreach (string other in room.MayName)
            {
                Assert.True(above.Contains(other), $"{room.Name} may name {other}, which does not stand above it: move a line, or a type");
            }
            Assert.True(above.Add(room.Name), $"{room.Name} stands there twice");
        }
    }

    [Fact]
    public void House_HasTheRoomsOfThePicture()
    {
        (IReadOnlyList<Room> projects, IReadOnlyList<Room> folders) = Rooms.Read();
        string[] drawn = [.. projects.Concat(folders).Select(r => r.Name)];
        IEnumerable<string> missing = s_house.Value.Names.Except(drawn).Select(r => $"{r} is not in the picture");
        IEnumerable<string> gone = drawn.Except(s_house.Value.Names).Select(r => $"{r} is in the picture, and not there");
        string wrong = string.Join('\n', missing.Concat(gone).Order());
        Assert.True(wrong.Length == 0, wrong);
    }

    [Fact]
    public void House_NamesWhatThePictureAllows_AndNoMore()
    {
        (IReadOnlyList<Room> projects, IReadOnlyList<Room> folders) = Rooms.Read();
        var allowed = projects.Concat(folders).SelectMany(r => r.MayName.Select(m => (From: r.Name, To: m))).ToHashSet();
        Dictionary<(string From, string To), string> arrows = s_house.Value.Arrows;
        IEnumerable<string> tooMany = arrows.Where(a => !allowed.Contains(a.Key))
            .Select(a => $"{a.Key.From} names {a.Key.To}: it may not ({a.Value})");
        IEnumerable<string> unused = allowed.Except(arrows.Keys)
            .Select(a => $"{a.From} may name {a.To}, and does not: take that out of the picture");
        string wrong = string.Join('\n', tooMany.Concat(unused).Order());
        Assert.True(wrong.Length == 0, wrong);
    }

    // What a method awaits is in a type that the compiler makes: an arrow from there must not be missed.
    [Fact]
    public void House_SeesWhatIsAwaited() => Assert.Contains(("Slogger.Sites/.", "Slogger.Sites/Access"), s_house.Value.Arrows.Keys);

    // With each arrow an example.
    private static (HashSet<string> Names, Dictionary<(string From, string To), string> Arrows) ReadHouse()
    {
        string here = AppContext.BaseDirectory;
        IEnumerable<string> libraries = Directory.GetFiles(here, "Slogger.*.dll")
            .Where(f => !Path.GetFileName(f).Contains("Tests", StringComparison.Ordinal));
        string[] files = [.. libraries, Path.Combine(here, "slogger.dll")];
        ArchUnitNET.Domain.Architecture all = new ArchLoader().LoadAssemblies([.. files.Select(System.Reflection.Assembly.LoadFrom)])
            .Build();
        HashSet<string> names = [];
        Dictionary<(string From, string To), string> arrows = [];
        foreach (IType type in all.Types)
        {
            if (RoomOf(type) is not { } from) { continue; }
            names.Add(from.Project);
            names.Add($"{from.Project}/{from.Folder}");
            foreach (ITypeDependency dependency in type.Dependencies)
            {
                // Parameters of generic methods stand in the first assembly that has one of that name.
                if (dependency.Target is GenericParameter || RoomOf(dependency.Target) is not { } to || from == to) { continue; }
                arrows.TryAdd(
                    from.Project == to.Project ? ($"{from.Project}/{from.Folder}", $"{to.Project}/{to.Folder}")
                        : (from.Project, to.Project),
                    $"{type.FullName} names {dependency.Target.FullName}");
            }
        }
        return (names, arrows);
    }

    // A folder is a namespace. What compilers generate has none of ours, the parameter of a generic type none at all.
    private static (string Project, string Folder)? RoomOf(IType type)
    {
        string[] parts = (type.Namespace?.FullName ?? "").Split('.');
        return parts is ["Slogger", _, ..] ? ($"Slogger.{parts[1]}", parts.Length > 2 ? parts[2] : ".") : null;
    }
}

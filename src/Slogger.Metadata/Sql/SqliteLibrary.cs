// Binds the SQLite provider to the system's library: distributions patch it, and a copy in a package would age. Where there
// is none, the loader's normal search still finds an "e_sqlite3" that the host application ships.
using System.Runtime.InteropServices;
using SQLitePCL;

namespace Slogger.Metadata.Sql;

internal static class SqliteLibrary
{
    private static readonly string[] Names = OperatingSystem.IsWindows()
        ? ["winsqlite3.dll"]
        : ["libsqlite3.so.0", "libsqlite3.0.dylib", "libsqlite3.dylib", "libsqlite3.so"];

    private static readonly Lazy<Exception?> Loaded = new(Load);

    /// <summary>Loads the library, once.</summary>
    /// <exception cref="MetadataException">There is none.</exception>
    public static void EnsureLoaded()
    {
        if (Loaded.Value is { } failure)
        {
            throw new MetadataException(
                "The SQLite library was not found on this machine. Install it (Debian, Ubuntu: libsqlite3-0; "
                + "Fedora: sqlite-libs; Alpine: sqlite-libs), or keep the metadata in postgres: or sqlserver:.", failure);
        }
    }

    private static Exception? Load()
    {
        try
        {
            NativeLibrary.SetDllImportResolver(typeof(SQLite3Provider_e_sqlite3).Assembly, Resolve);
        }
        catch (InvalidOperationException)
        {
            // The host application has bound the provider already: its choice stands.
        }

        try
        {
            raw.SetProvider(new SQLite3Provider_e_sqlite3());
            _ = raw.sqlite3_libversion_number();
            return null;
        }
        catch (Exception failure) when (failure is DllNotFoundException or EntryPointNotFoundException or BadImageFormatException)
        {
            return failure;
        }
    }

    private static IntPtr Resolve(string name, System.Reflection.Assembly assembly, DllImportSearchPath? search)
    {
        if (name == "e_sqlite3")
        {
            foreach (string candidate in Names)
            {
                if (NativeLibrary.TryLoad(candidate, out IntPtr handle))
                {
                    return handle;
                }
            }
        }

        return IntPtr.Zero;
    }
}

// Where cuts, world-lines and ownership are recorded: "sqlite:FILE", "postgres:CONNSTRING" or "sqlserver:CONNSTRING".
// Connection strings hold passwords, so ToString (and with it every record that holds one) never shows the string itself.
using System.Data.Common;
using System.Diagnostics.CodeAnalysis;

namespace Slogger.Proxy.Configuration;

/// <summary>The kinds of SQL database that can hold the metadata.</summary>
public enum MetadataKind
{
    /// <summary>A file on this machine. One proxy, no server.</summary>
    Sqlite,

    /// <summary>A PostgreSQL server.</summary>
    Postgres,

    /// <summary>A Microsoft SQL Server.</summary>
    SqlServer,
}

/// <summary>A metadata store's kind and its file or connection string.</summary>
public sealed class MetadataSpec
{
    private static readonly string[] ShownKeys = ["host", "server", "data source", "port", "database", "initial catalog", "username",
        "user id"];

    private MetadataSpec(MetadataKind kind, string target) => (Kind, Target) = (kind, target);

    /// <summary>The kind of database.</summary>
    public MetadataKind Kind { get; }

    /// <summary>The file (SQLite; absolute) or the connection string. May hold a password: never log it.</summary>
    public string Target { get; }

    /// <summary>The whole specification as the metadata factory takes it. May hold a password: never log it.</summary>
    public string Text => Prefix(Kind) + ":" + Target;

    /// <summary>SQLite in a file; a relative path is made absolute.</summary>
    public static MetadataSpec SqliteFile(string path) => new(MetadataKind.Sqlite, Path.GetFullPath(path));

    /// <summary>Reads a specification; on failure <paramref name="problem"/> says what is wrong, without quoting it.</summary>
    public static bool TryParse(string text, [NotNullWhen(true)] out MetadataSpec? spec, [NotNullWhen(false)] out string? problem)
    {
        spec = null;
        problem = null;
        int colon = text.IndexOf(':');
        string prefix = colon < 0 ? "" : text[..colon];
        string target = colon < 0 ? "" : text[(colon + 1)..];
        MetadataKind? kind = prefix switch
        {
            "sqlite" => MetadataKind.Sqlite,
            "postgres" or "postgresql" => MetadataKind.Postgres,
            "sqlserver" => MetadataKind.SqlServer,
            _ => null,
        };
        if (kind is null)
        {
            problem = "does not begin with sqlite:, postgres: or sqlserver:";
        }
        else if (target.Length == 0)
        {
            problem = kind == MetadataKind.Sqlite ? "names no file" : "has an empty connection string";
        }
        else if (target.StartsWith("//", StringComparison.Ordinal) && kind != MetadataKind.Sqlite)
        {
            problem = "is a URL; the connection string is of the form Host=...;Database=...;Username=...;Password=...";
        }
        else if (kind == MetadataKind.Sqlite)
        {
            spec = SqliteFile(target);
        }
        else if (!TryReadConnectionString(target, out _))
        {
            problem = "has a connection string that is not of the form Key=Value;Key=Value";
        }
        else
        {
            spec = new MetadataSpec(kind.Value, target);
        }

        return spec is not null;
    }

    /// <summary>For people: the kind with the file, or with the parts of the connection string that are not secret.</summary>
    public override string ToString()
    {
        if (Kind == MetadataKind.Sqlite)
        {
            return Text;
        }

        if (!TryReadConnectionString(Target, out DbConnectionStringBuilder? parts))
        {
            return Prefix(Kind) + ":(hidden)";
        }

        IEnumerable<string> shown = ShownKeys.Where(parts.ContainsKey).Select(key => $"{key}={parts[key]}");
        return Prefix(Kind) + ":" + string.Join(';', shown);
    }

    private static string Prefix(MetadataKind kind) => kind switch
    {
        MetadataKind.Sqlite => "sqlite",
        MetadataKind.Postgres => "postgres",
        _ => "sqlserver",
    };

    private static bool TryReadConnectionString(string text, [NotNullWhen(true)] out DbConnectionStringBuilder? parts)
    {
        try
        {
            parts = new DbConnectionStringBuilder { ConnectionString = text };
            return parts.Count > 0;
        }
        catch (ArgumentException)
        {
            parts = null;
            return false;
        }
    }
}

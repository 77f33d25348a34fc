// From what a person writes on the command line to a store. A wrong spec is told with the forms that are right, and never
// with the text itself, which may hold a password.

namespace Slogger.Metadata.Sql;

/// <summary>Makes metadata stores.</summary>
public static class MetadataStoreFactory
{
    /// <summary>The forms of a spec, for help texts.</summary>
    public const string SpecHelp =
        "sqlite:FILE | postgres:CONNECTION-STRING | sqlserver:CONNECTION-STRING, for example "
        + "\"sqlite:/var/lib/slogger/metadata.db\", "
        + "\"postgres:Host=db1;Database=slogger;Username=slogger;Password=...\", "
        + "\"sqlserver:Server=db1;Database=slogger;User Id=slogger;Password=...\"";

    /// <summary>A store for a spec. Does no I/O: the first call connects.</summary>
    /// <param name="spec">See <see cref="SpecHelp"/>.</param>
    /// <param name="options">Time limits; null for the defaults.</param>
    /// <exception cref="ArgumentException">The spec cannot be understood; the message holds the help and no part of the spec
    /// but its kind.</exception>
    public static IMetadataStore Create(string spec, MetadataStoreOptions? options = null) =>
        new SqlMetadataStore(CreateDialect(spec, options ?? new()), options ?? new(), SqlSchema.Steps, TimeProvider.System);

    internal static SqlDialect CreateDialect(string spec, MetadataStoreOptions options)
    {
        ArgumentNullException.ThrowIfNull(spec);
        int colon = spec.IndexOf(':', StringComparison.Ordinal);
        string kind = colon < 0 ? string.Empty : spec[..colon].ToLowerInvariant();
        string rest = spec[(colon + 1)..].Trim();
        if (kind is not ("sqlite" or "postgres" or "postgresql" or "sqlserver"))
        {
            throw Bad("it does not begin with a known kind of database");
        }

        if (rest.Length == 0)
        {
            throw Bad($"nothing follows \"{kind}:\"");
        }

        if (kind == "sqlite")
        {
            return rest.StartsWith(':') || rest.Contains('\0')
                ? throw Bad("metadata has to be in a file: in memory it would not survive")
                : new SqliteDialect(rest, options);
        }

        if (rest.StartsWith("//", StringComparison.Ordinal))
        {
            throw Bad("a URL is not understood here: write Host=...;Database=...;Username=...");
        }

        try
        {
            return kind == "sqlserver" ? new SqlServerDialect(rest, options) : new PostgresDialect(rest, options);
        }
        catch (Exception exception) when (exception is ArgumentException or FormatException or InvalidCastException
            or KeyNotFoundException or OverflowException or InvalidOperationException or NotSupportedException)
        {
            // The provider's message may quote the string: it is not passed on.
            throw Bad($"the connection string after \"{kind}:\" has an unknown or wrong setting, or names no server");
        }
    }

    private static ArgumentException Bad(string what) => new($"The metadata spec is wrong: {what}. Write {SpecHelp}.", "spec");
}

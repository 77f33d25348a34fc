// Two kinds of failure, because callers do two things: call again later, or stop and tell a person. Messages say what
// happened, in which database, and what to do; no message, and no inner exception, holds a password.
namespace Slogger.Metadata;

/// <summary>The metadata cannot be used until a person acts: wrong schema, damaged file, missing rights, missing cluster.</summary>
public class MetadataException : Exception
{
    /// <summary>With what happened and what to do.</summary>
    public MetadataException(string message)
        : base(message)
    {
    }

    /// <summary>With what happened and what to do, and its cause.</summary>
    public MetadataException(string message, Exception? inner)
        : base(message, inner)
    {
    }
}

/// <summary>The metadata cannot be used now: unreachable, locked, full, restarting. Call again later. Whether a write that
/// failed so took effect is unknown; it is safe to repeat.</summary>
public sealed class MetadataUnavailableException : MetadataException
{
    /// <summary>With what happened.</summary>
    public MetadataUnavailableException(string message)
        : base(message)
    {
    }

    /// <summary>With what happened, and its cause.</summary>
    public MetadataUnavailableException(string message, Exception? inner)
        : base(message, inner)
    {
    }
}

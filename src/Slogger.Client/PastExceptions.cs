// What can become of a read of the past besides an answer. A shard that cannot be reached is a ShardUnreachableException, as ever.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client;

/// <summary>A read of the past was answered with an error, which the message is. The types that derive from it are those that a program may
/// have to tell apart.</summary>
public class PastException : SloggerException
{
    private protected PastException(string message) : base(message)
    {
    }

    /// <summary>What an error means.</summary>
    internal static PastException Of(string error) =>
        error.StartsWith("SLOGGER NOTKEPT ", StringComparison.Ordinal) ? new PastNotKeptException(error)
        : error.StartsWith("SLOGGER NOTCLOSED ", StringComparison.Ordinal) ? new PastNotClosedException(error)
        : error.StartsWith("READONLY ", StringComparison.Ordinal) ? new PastReadOnlyException(error) : new PastException(error);
}

/// <summary>The instant is before what a shard still keeps, or before the cluster began. The proxy's options --retention and --log-budget
/// decide how far back the past goes.</summary>
public sealed class PastNotKeptException : PastException
{
    internal PastNotKeptException(string message) : base(message)
    {
    }
}

/// <summary>The instant is no past yet: it is in the future by the cluster's clock, or was not committed within 10 s.</summary>
public sealed class PastNotClosedException : PastException
{
    internal PastNotClosedException(string message) : base(message)
    {
    }
}

/// <summary>The version is of a world-line that a recovery has ended before it: it was never committed, and what was done in it is
/// lost.</summary>
public sealed class PastVoidException : PastException
{
    internal PastVoidException(WorldPoint asked, WorldLine successor, VersionNumber survived)
        : base($"Version {asked.Version} of world-line {asked.WorldLine} is lost: a recovery went back to version {survived}, and world-line "
            + $"{successor} goes on from there.") =>
        (WorldLine, Survived) = (successor, survived);

    /// <summary>The timeline that goes on in its place.</summary>
    public WorldLine WorldLine { get; }

    /// <summary>The last version of the lost timeline that is part of the history.</summary>
    public VersionNumber Survived { get; }
}

/// <summary>The command may change data, or is not about data: the past is only read. Nothing was done.</summary>
public sealed class PastReadOnlyException : PastException
{
    internal PastReadOnlyException(string message) : base(message)
    {
    }
}

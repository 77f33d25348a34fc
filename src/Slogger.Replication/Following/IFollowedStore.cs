// What follows a stream's log from version to version: a Redis, fed as a replica (FollowedRedis), or FASTER in this process
// (FollowedFaster).
using Slogger.Core.WorldLines;

namespace Slogger.Replication.Following;

/// <summary>The store of a stream. One call at a time, if nothing else is said.</summary>
internal interface IFollowedStore : IAsyncDisposable
{
    /// <summary>Whether it follows, or has been promoted where it stood: it can be brought on without loading anything. Any
    /// thread.</summary>
    bool Follows { get; }

    /// <summary>Completes when the store does not hold the history any more; null while none follows. Any thread.</summary>
    Task<string>? Lost { get; }

    /// <summary>Where it stands in the stream; null: unknown.</summary>
    long? Offset { get; }

    /// <summary>Why it cannot be brought on, which only a person can change; null: it can. Any thread.</summary>
    string? Problem => null;

    /// <summary>Whether it was promoted here, and has the settings again that it had before: the note of them is yet to be
    /// deleted.</summary>
    bool SettingsAreBack => false;

    /// <summary>Goes on with what has followed for a process before.</summary>
    /// <param name="mayBePromoted">A failover is under way: it may be a primary's already.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>False: it has to begin from a checkpoint.</returns>
    Task<bool> ResumeAsync(bool mayBePromoted, CancellationToken stop);

    /// <summary>Another life of the stream is about to begin: nobody waits for what is made of this one. Any thread.</summary>
    void Renewing()
    {
    }

    /// <summary>Another life of the stream has begun.</summary>
    void Renewed()
    {
    }

    /// <summary>Throws if the store cannot be brought to the end of a version since it does not know what is in the log, or in what it
    /// would begin from. Readers need not wait for it: nothing is changed.</summary>
    Task RequireKnownAsync(Boundary end, CancellationToken stop) => Task.CompletedTask;

    /// <summary>Brings it to the end of a version: from where it is, or, if it does not follow, from a checkpoint. Throws if it is not
    /// there.</summary>
    Task BringToAsync(Boundary end, CancellationToken stop);

    /// <summary>It has certainly ended: whoever waits for it is told. Any thread.</summary>
    void Lose();

    /// <summary>Makes it a primary's where it stands. Again: nothing. Throws if it could not be done.</summary>
    Task PromoteAsync(CancellationToken stop);
}

/// <summary>What a store is to be brought to holds something that it does not know: the text names that, and says what to do.</summary>
internal sealed class UnknownToStoreException(string message) : Exception(message);

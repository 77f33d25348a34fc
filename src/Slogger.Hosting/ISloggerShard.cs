// What an application has of the shard that it hosts.
using Slogger.Client;
using Slogger.Core.Identities;

namespace Slogger.Hosting;

/// <summary>The shard in this process. Made by <see cref="SloggerShardServiceCollectionExtensions.AddSloggerShard"/>.
/// Thread-safe.</summary>
public interface ISloggerShard
{
    /// <summary>Completes when sessions can be opened.</summary>
    /// <exception cref="SloggerException">Awaiting it: the shard could not be started; the text says why, and what to do.</exception>
    Task Ready { get; }

    /// <summary>Which shard it is. Once <see cref="Ready"/>.</summary>
    ShardId Shard { get; }

    /// <summary>The client with which sessions reach other shards. Once <see cref="Ready"/>.</summary>
    SloggerClient Client { get; }

    /// <summary>Opens a session over all shards, which works on this one without the network. Give each thread one of its own: several may
    /// share one, one after the other.</summary>
    /// <exception cref="InvalidOperationException">The shard is not <see cref="Ready"/>, could not be started, or has ended.</exception>
    LocalSession OpenSession(SloggerSessionOptions? options = null);
}

/// <summary>A key is another shard's, so it cannot be worked on in this process: use a method that is asynchronous.</summary>
public sealed class KeyElsewhereException : SloggerException
{
    internal KeyElsewhereException(ShardId here) : base($"The key is not of shard {here}, which is in this process. Ask IsLocal first, or "
        + "use an asynchronous method: it goes to the key's shard.")
    {
    }
}

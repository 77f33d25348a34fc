// What sessions in the shard's own process need of it: what the front end is to those that come over the network.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commands;

namespace Slogger.Proxy.Embedded;

/// <summary>A shard with an embedded store, from within its process. Any thread.</summary>
internal interface ILocalPort
{
    /// <summary>Which shard it is.</summary>
    ShardId Shard { get; }

    /// <summary>Whether it is told what sessions have seen at other shards (finders exact and hybrid).</summary>
    bool NeedsDependencies { get; }

    /// <summary>The store is about to be closed: when this has been handled nobody uses what <see cref="Connect"/> gave.</summary>
    event Action? Ending;

    /// <summary>A way to the records. Not once <see cref="Ending"/> has come. Whether it may be used the store says at each operation
    /// (<see cref="LocalTerms"/>).</summary>
    LocalConnection Connect();

    /// <summary>Whether a key is this shard's.</summary>
    bool Owns(ReadOnlySpan<byte> key);

    /// <summary>What is committed, as sessions are told: at every shard.</summary>
    WorldPoint Committed { get; }

    /// <summary>What a session has seen elsewhere; before it does something here.</summary>
    /// <returns>False: the shard is in another world-line, or not yet at the session's version.</returns>
    bool Tell(in LocalTerms terms, ReadOnlySpan<Dependency> dependencies);

    /// <summary>Asked by a session that could not do something: has what it needs come about, if it can.</summary>
    /// <param name="header">As of a batch.</param>
    /// <returns>What a batch would be refused with; null: to try again in a moment.</returns>
    string? WhyNot(in BatchHeader header);
}

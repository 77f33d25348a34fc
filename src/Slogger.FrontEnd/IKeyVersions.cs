// What the front end needs to know of keys' versions: the shard reads them in the replication stream.
using Slogger.Core.Keys;

namespace Slogger.FrontEnd;

/// <summary>The versions of a shard's keys. Called by the loop's thread.</summary>
internal interface IKeyVersions
{
    /// <summary>Somebody is about to ask: the stream is read without a pause, and keys are noted from now on.</summary>
    void Prepare();

    /// <summary>Waits until all effects up to an offset have been read.</summary>
    /// <param name="offset">The offset; where the store stands, or less.</param>
    /// <param name="then">Run in the loop when they have, with true; with false when the stream has ended before.</param>
    /// <returns>True: they have been read already, and <paramref name="then"/> is not run.</returns>
    bool WhenReadTo(long offset, Action<bool> then);

    /// <summary>An offset above which a key, or one field of it, was not written, as far as the stream was read.</summary>
    /// <param name="database">The key's database.</param>
    /// <param name="key">The key.</param>
    /// <param name="field">The field; null: the whole key.</param>
    long Find(int database, ReadOnlySpan<byte> key, byte[]? field);

    /// <summary>The world-lines that the stream has passed through.</summary>
    KeyLines Lines { get; }
}

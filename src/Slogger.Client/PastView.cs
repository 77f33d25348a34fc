// The state of a cluster at one instant of its past, as DPR.ASOF shows it: docs/operate/read-the-past.md. All shards show the end of one
// version (Core's CommonVersion finds it). The reads are named as those of a session; those of hashes, lists, sets, sorted sets, streams
// and scripts are in PastView.Collections.cs.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>What was there at the end of one version, at all shards. Made by <see cref="SloggerSession.AsOfAsync(DateTimeOffset,
/// CancellationToken)"/>; it has connections of its own, one to each shard. Thread-safe: a shard answers one read after the other.</summary>
/// <remarks>Shards keep what the view shows as long as it is read at least once a minute, even if it is older than they promise. A shard
/// shows one instant at a time: reads of two views in turn cost more than of one and then of the other.</remarks>
public sealed partial class PastView : IAsyncDisposable
{
    private readonly SloggerClient _client;
    private readonly PastConnections _connections;

    private PastView(SloggerClient client, PastConnections connections, PastInstant at)
    {
        (_client, _connections) = (client, connections);
        (WorldLine, Version, Time) = (at.Point.WorldLine, at.Point.Version, at.Time);
    }

    /// <summary>The timeline that the version is of; of one in which a timeline branched off, that one.</summary>
    public WorldLine WorldLine { get; }

    /// <summary>The version at whose end everything is shown. All shards have closed it.</summary>
    public VersionNumber Version { get; }

    /// <summary>When the version ended, by the cluster's clock.</summary>
    public DateTimeOffset Time { get; }

    internal static async Task<PastView> OpenAsync(SloggerClient client, string by, long number, WorldLine? line,
        CancellationToken cancellation)
    {
        var connections = new PastConnections(client);
        try
        {
            PastInstant at = await connections.FindAsync(by, number, cancellation).ConfigureAwait(false);
            if (line is { } named)
            {
                await connections.ThrowIfVoidAsync(new(named, new(number)), cancellation).ConfigureAwait(false);
            }
            return new(client, connections, at);
        }
        catch
        {
            connections.Dispose();
            throw;
        }
    }

    /// <summary>The value of a key as text (UTF-8); null: there was none. Redis's GET.</summary>
    /// <param name="key">The key.</param>
    /// <param name="cancellation">Ends the wait for the answer.</param>
    /// <exception cref="PastException">It was answered with an error.</exception>
    /// <exception cref="ShardUnreachableException">The shard could not be asked.</exception>
    public ValueTask<string?> GetAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Text, cancellation, "GET", key);

    /// <summary>The value of a key as bytes; null: there was none. Redis's GET. Parameters and exceptions as for
    /// <see cref="GetAsync"/>.</summary>
    public ValueTask<byte[]?> GetBytesAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Bytes, cancellation, "GET", key);

    /// <summary>Whether a key was there. Redis's EXISTS. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<bool> ExistsAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.IsOne, cancellation, "EXISTS", key);

    /// <summary>Any command that only reads, and names its keys. Of several keys all must be in one partition.</summary>
    /// <param name="command">Its name, one word.</param>
    /// <param name="arguments">What follows.</param>
    /// <returns>Its reply.</returns>
    /// <exception cref="PastReadOnlyException">It may change data.</exception>
    /// <exception cref="PastException">It was answered with another error.</exception>
    /// <exception cref="ShardUnreachableException">The shard could not be asked.</exception>
    public ValueTask<RespValue> ExecuteAsync(string command, params ReadOnlySpan<Argument> arguments) =>
        ExecuteAsync(CancellationToken.None, command, arguments);

    /// <summary>Any command that only reads, as <see cref="ExecuteAsync(string, ReadOnlySpan{Argument})"/>.</summary>
    /// <param name="cancellation">Ends the wait for the answer.</param>
    /// <param name="command">Its name, one word.</param>
    /// <param name="arguments">What follows.</param>
    public ValueTask<RespValue> ExecuteAsync(CancellationToken cancellation, string command, params ReadOnlySpan<Argument> arguments)
    {
        ArgumentException.ThrowIfNullOrEmpty(command);
        return ReadAsync(Replies.Value, cancellation, command, arguments);
    }

    /// <summary>Closes its connections. Reads that are under way fail.</summary>
    public ValueTask DisposeAsync()
    {
        _connections.Dispose();
        return default;
    }

    private ValueTask<T> ReadAsync<T>(ReplyConverter<T> convert, CancellationToken cancellation, string command,
        params ReadOnlySpan<Argument> arguments)
    {
        var request = new RequestWriter();
        request.Begin(1 + arguments.Length).Add(command);
        foreach (Argument argument in arguments) { argument.WriteTo(request); }
        SlotScope scope = _client.Discovery.Keys.FindSlot(
            request.Written, request.Arguments, _client.Discovery.Partitions, out Core.Ownership.HashSlot slot);
        bool hasKey = scope is SlotScope.OneSlot or SlotScope.SeveralSlots;
        return AskAsync(convert, hasKey ? slot.Number : Operation.NoSlot,
            [PastConnections.Command, "VERSION", Version.Number, command, .. arguments], cancellation);
    }

    private async ValueTask<T> AskAsync<T>(ReplyConverter<T> convert, int slot, Argument[] request, CancellationToken cancellation)
    {
        byte[] reply = await _connections.AskAsync(slot, request, cancellation).ConfigureAwait(false);
        return convert(new WireReply(reply));
    }
}

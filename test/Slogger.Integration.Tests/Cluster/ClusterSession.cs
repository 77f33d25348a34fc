// A session over all shards of a cluster, for a writer under the exact or the hybrid finder, whose cuts keep the order of sessions only:
// Core's ClientSession with a connection to each shard, one batch at a time.
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Integration.Tests.Sessions;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cluster;

internal sealed class ClusterSession(ClusterDeployment cluster) : IDisposable
{
    private readonly SessionClient?[] _clients = new SessionClient?[cluster.Shards];
    private readonly SessionId _id = SessionClient.NewId();
    private readonly List<SequenceRange> _uncertain = [];
    private ClientSession? _session;

    /// <summary>The last operation begun.</summary>
    public SequenceNumber Begun => _session!.Begun;

    /// <summary>The committed prefix.</summary>
    public SequenceNumber Committed => _session!.Committed;

    /// <summary>How many rollbacks it was told of.</summary>
    public int Rollbacks { get; private set; }

    /// <summary>Connects to all shards anew, and looks at a key at each: what comes after depends on what is there.</summary>
    /// <exception cref="ConnectionLostException">A shard does not serve, or another rollback was told.</exception>
    public async Task ConnectAsync(IReadOnlyList<string> keys)
    {
        Dispose();
        for (int s = 0; s < _clients.Length; s++)
        {
            _clients[s] = await SessionClient.ConnectAsync(cluster.Endpoint(s));
            Dictionary<string, RespValue> hello = await _clients[s]!.HelloAsync(_id);
            _session ??= new ClientSession(_id, new WorldLine(hello["worldline"].AsInteger()),
                new ClientSessionOptions { TrackDependencies = true });
            _session.OnConnectionLost(new ShardId(s), _uncertain);
        }

        // A rollback that this session has not heard of yet is told by the first batch, and ends that connection.
        for (int s = 0; s < _clients.Length; s++)
        {
            WorldLine before = _session!.WorldLine;
            try
            {
                await ExecuteAsync(s, ["LINDEX", keys[s], "-1"]);
            }
            catch (ConnectionLostException) when (_session.WorldLine > before)
            {
                _clients[s]!.Dispose();
                _clients[s] = await SessionClient.ConnectAsync(cluster.Endpoint(s));
                s = -1;
                for (int other = 0; other < _clients.Length; other++) { _session.OnConnectionLost(new ShardId(other), _uncertain); }
            }
        }
    }

    /// <summary>Executes a batch at a shard.</summary>
    /// <exception cref="ConnectionLostException">It was refused, or the connection ended.</exception>
    public async Task<IReadOnlyList<RespValue>> ExecuteAsync(int shard, params string[][] requests)
    {
        if (!_session!.TryBegin(new ShardId(shard), requests.Length, out BatchHeader header))
        {
            throw new InvalidOperationException("the session's window is full");
        }
        await _clients[shard]!.SendAsync(header, requests);
        BatchOutcome outcome = await _clients[shard]!.ReadAsync(requests.Length);
        if (outcome.Refusal is { } refusal)
        {
            if (refusal.StartsWith("ROLLBACK ", StringComparison.Ordinal))
            {
                (WorldLine abandoned, WorldLine next, VersionNumber[] branches) = SessionClient.RollbackByShard(refusal);
                _session.OnRollback(abandoned, next, branches);
                Rollbacks++;
            }

            throw new ConnectionLostException(refusal);
        }

        if (_session.OnReply(new ShardId(shard), header.First, outcome.Reply) == ReplyOutcome.Invalid)
        {
            throw new InvalidDataException($"I1: the reply to {header} is impossible");
        }
        return outcome.Replies;
    }

    /// <summary>Asks a shard for the cut.</summary>
    public async Task LearnCutAsync(int shard)
    {
        RespValue cut = await _clients[shard]!.Wire.CallAsync("DPR.CUT", "SHARDS");
        if (cut.IsError) { throw new ConnectionLostException(cut.Compact); }
        _session!.OnCommitted(new WorldLine(cut.Items[0].Number), [.. cut.Items.Skip(1).Select(v => new VersionNumber(v.Number))]);
    }

    public void Dispose()
    {
        for (int s = 0; s < _clients.Length; s++)
        {
            _clients[s]?.Dispose();
            _clients[s] = null;
        }
    }
}

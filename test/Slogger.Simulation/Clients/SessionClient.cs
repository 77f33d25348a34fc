// A client with the session protocol: the real ClientSession over all shards. What it is told is compared with what is true.
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Clients;

internal sealed class SessionClient
{
    private const int StraysMax = 16;

    private readonly Cluster _cluster;
    private readonly int _number;
    private readonly ClientSession _session;
    private readonly SessionLink?[] _links;
    private readonly List<SessionMessage> _strays = [];   // on their way when their connection was given up
    private readonly List<Op> _ops = [];
    private readonly KeyRoutes _routes;
    private readonly List<ExceptionRange> _exceptions = [];
    private readonly List<SequenceRange> _uncertain = [];
    private int _since;
    private long _checked;

    public SessionClient(Cluster cluster, int number)
    {
        (_cluster, _number, _routes) = (cluster, number, new(cluster));
        ClientSessionOptions options = new()
        {
            WindowMax = 16,
            RunsMax = 1000,
            Strict = cluster.Settings.Seed % 4 == 3,
            TrackDependencies = cluster.Settings.Finder != FinderKind.Approximate,
        };
        _session = new(new((UInt128)number), cluster.Sql.Line, options, cluster.Settings.Client);
        _links = new SessionLink?[Cluster.ShardsMax];
    }

    public ClientSession Session => _session;

    public IReadOnlyList<Op> Ops => _ops;

    /// <summary>The last world-line that it was told of, with what was lost.</summary>
    public ClientRollback? Rollback { get; private set; }

    /// <summary>The connection to a shard; null: none.</summary>
    public SessionLink? LinkAt(int shard) => _links[shard];

    /// <summary>A message that has come from a shard is taken in; a message that comes twice stays.</summary>
    public void Receive(int shard, SessionMessage message, bool comesAgain = false)
    {
        if (!comesAgain) _links[shard]?.ToClient.Remove(message);
        Take(shard, message);
    }

    public void Step(Random random)
    {
        int shard = random.Next(_cluster.Hosts.Length);
        switch (random.Next(20))
        {
            case < 9: if (!_cluster.IsQuiet(shard)) Begin(shard, random.Next(1, 4), random); break;
            case < 18: Receive(shard, random); break;
            case < 19: AskWhatIsCommitted(shard); break;
            default: if (_cluster.Settings.Faults && random.Next(8) == 0) GiveUp(shard); break;
        }
    }

    /// <summary>Begins a batch.</summary>
    /// <param name="shard">Whom it is for.</param>
    /// <param name="count">How many operations.</param>
    /// <param name="random">The dice.</param>
    /// <param name="keyMeant">The key; null: any.</param>
    public void Begin(int shard, int count, Random random, int? keyMeant = null)
    {
        if (LinkTo(shard) is not { } link || !_session.TryBegin(new(shard), count, out BatchHeader header)) return;
        // The header's memory is the session's: it is sent by copying it.
        header = header with { Dependencies = header.Dependencies.ToArray() };
        Op[] ops = new Op[count];
        for (int i = 0; i < count; i++)
        {
            ops[i] = new()
            {
                Client = _number, IsPlain = false, Shard = shard, Begun = _cluster.NextTick(), Key = keyMeant
                    ?? _routes.KeyAt(shard, random), Sequence = header.First.Number + i,
                Dependencies = i == 0 && header.Dependencies.Length > 0 ? header.Dependencies.ToArray() : null,
            };
            _ops.Add(ops[i]);
        }

        link.ToProxy.Enqueue(new(header, ops));
        if (_cluster.IsTraced) _cluster.Note(
            $"session {_number} begins {header.First}+{count} at shard {shard}, world-line {header.WorldLine}, at least {header.AtLeast}");
    }

    /// <summary>What comes back arrives in any order, or twice, or never.</summary>
    public void Receive(int shard, Random random)
    {
        if (_strays.Count > 0 && random.Next(4) == 0)
        {
            SessionMessage stray = _strays[^1];
            _strays.RemoveAt(_strays.Count - 1);
            Take(shard, stray);
            return;
        }

        if (_links[shard] is not { } link) return;
        if (link.ToClient.Count == 0)
        {
            if (link.IsClosed) ConnectionLost(shard);
            return;
        }

        int n = random.Next(link.ToClient.Count);
        SessionMessage message = link.ToClient[n];
        int dice = _cluster.Settings.Faults ? random.Next(40) : 39;
        if (dice == 0) _cluster.Count("message doubled");
        else link.ToClient.RemoveAt(n);
        if (n > 0) _cluster.Count("message reordered");
        if (dice == 1) _cluster.Count("message lost");
        else Take(shard, message);
    }

    public void ReceiveAll()
    {
        for (int shard = 0; shard < _links.Length; shard++)
        {
            while (_links[shard] is { ToClient.Count: > 0 } link)
            {
                SessionMessage message = link.ToClient[0];
                link.ToClient.RemoveAt(0);
                Take(shard, message);
            }

            if (_links[shard] is { IsClosed: true }) ConnectionLost(shard);
        }
    }

    /// <summary>A question without operations; the answer is the cut, or that the session's world-line is over.</summary>
    public void AskWhatIsCommitted(int shard)
    {
        if (LinkTo(shard) is not { } link) return;
        link.ToProxy.Enqueue(new(new(_session.Id, _session.WorldLine, VersionNumber.Zero, SequenceNumber.None, 0, default), []));
    }

    /// <summary>The client's patience ends.</summary>
    public void GiveUp(int shard)
    {
        if (_links[shard] is not { } link) return;
        _cluster.Count("session connection lost");
        link.Proxy.Forget(link);
        // What it has sent already may still be executed: the proxy need not notice at once.
        ConnectionLost(shard);
    }

    /// <summary>Every operation, against what the session says of it.</summary>
    public void CheckAll()
    {
        CheckCommitted();
        _session.CopyExceptions(_exceptions);
        int e = 0;
        for (int i = 0; i < _session.Committed.Number; i++)
        {
            while (e < _exceptions.Count && _exceptions[e].Range.Last.Number < i + 1) e++;
            bool listed = e < _exceptions.Count && _exceptions[e].Range.First.Number <= i + 1;
            if (listed || _ops[i].ToldGone) continue;
            _cluster.Checks.OnToldCommitted(_ops[i], default);
        }
    }

    public bool IsAllTold => _session.Committed == _session.Begun && _session.Unanswered == 0 && _session.RunCount == 0;

    public override string ToString() =>
        $"session {_number} in world-line {_session.WorldLine}, committed {_session.Committed} of {_session.Begun}, {_session.Unanswered} "
            + $"unanswered, {_session.RunCount} runs";

    private SessionLink? LinkTo(int shard)
    {
        if (_links[shard] is { } link) return link.IsClosed ? null : link;
        if (_cluster.Hosts[shard].Newest is not { IsOpen: true } proxy) return null;
        return _links[shard] = proxy.Accept(this);
    }

    private void Take(int shard, SessionMessage message)
    {
        if (message.Batch is { } batch) TakeReply(batch, message.Reply);
        else if (message.Abandoned is { } abandoned) TakeRollback(abandoned, message);
        else if (message.IsUniform) _session.OnCommitted(new WorldPoint(message.Line, message.ByShard![0]));
        else _session.OnCommitted(message.Line, message.ByShard);
        CheckCommitted();
    }

    private void TakeReply(Batch batch, in BatchReply reply)
    {
        ReplyOutcome outcome = _session.OnReply(new(batch.Ops[0].Shard), batch.Header.First, reply);
        _cluster.Count($"reply: {outcome}");
        if (outcome == ReplyOutcome.Invalid) throw new SimException($"I1: session {_number} was given an invalid reply to {batch.Ops[0]}");
        if (outcome != ReplyOutcome.Completed) return;
        long now = _cluster.NextTick();
        if (_cluster.IsTraced) _cluster.Note(
            $"session {_number} hears: {batch.Header.First}+{batch.Ops.Length} in {reply.WorldLine}:{batch.Ops[0].Label}");
        foreach (Op op in batch.Ops)
        {
            op.Answered = now;
            _routes.OnAnswered(op);
            _cluster.Checks.OnAnswered(op);
        }
    }

    private void TakeRollback(WorldLine abandoned, SessionMessage message)
    {
        ClientRollback? rollback = message.IsUniform
            ? _session.OnRollback(abandoned, new WorldPoint(message.Line, message.ByShard![0]))
            : _session.OnRollback(abandoned, message.Line, message.ByShard);
        if (rollback is null) return;
        Rollback = rollback;
        _cluster.Count("session rolled back");
        if (_cluster.IsTraced) _cluster.Note($"session {_number} rolls back into {rollback.WorldLine}, survived {rollback.Survived}");
        CheckRollback(rollback);
    }

    private void CheckRollback(ClientRollback r)
    {
        Dictionary<long, bool> lost = [];
        foreach (ExceptionRange e in r.Exceptions) Add(lost, e.Range, e.Kind == ExceptionKind.Lost);
        foreach (SequenceRange range in r.Lost) Add(lost, range, true);
        foreach (SequenceRange range in r.Uncertain) Add(lost, range, false);
        for (int i = _since; i < _ops.Count; i++)
        {
            Op op = _ops[i];
            bool isListed = lost.TryGetValue(op.Sequence, out bool isLost);
            if (op.ToldGone) continue;
            if (!isListed && !(op.Covered && op.Answered > 0))
                throw new SimException($"I1: said to survive into {r.WorldLine}, but did not: {op}");
            if (isListed && op.ToldCommitted)
                throw new SimException($"I2: reported as committed, now as {(isLost ? "lost" : "uncertain")}: {op}");
            if (isListed && isLost && op.Covered) throw new SimException($"I1: said to be lost, but survived into {r.WorldLine}: {op}");
            if (isListed && !isLost && op.Answered > 0) throw new SimException($"I1: answered, but listed as uncertain: {op}");
            op.ToldGone = isListed;
            _cluster.Count(!isListed ? "operation survived" : isLost ? "operation lost" : "operation uncertain");
        }

        _since = _ops.Count;
    }

    private static void Add(Dictionary<long, bool> lost, SequenceRange range, bool isLost)
    {
        for (long n = range.First.Number; n <= range.Last.Number; n++)
            if (!lost.TryAdd(n, isLost)) throw new SimException($"I1: operation {n} is in two places of a rollback");
    }

    private void ConnectionLost(int shard)
    {
        foreach (SessionMessage message in _links[shard]!.ToClient)
            if (_strays.Count < StraysMax) _strays.Add(message);
        _links[shard] = null;
        _session.OnConnectionLost(new(shard), _uncertain);
        foreach (SequenceRange range in _uncertain)
            for (long n = range.First.Number; n <= range.Last.Number; n++) _ops[(int)n - 1].ToldGone = true;
        CheckCommitted();
    }

    private void CheckCommitted()
    {
        long committed = _session.Committed.Number;
        if (committed < _checked) throw new SimException($"I3: {this}: the prefix went back from {_checked}");
        if (committed == _checked) return;
        _session.CopyExceptions(_exceptions);
        int e = 0;
        for (; _checked < committed; _checked++)
        {
            long n = _checked + 1;
            while (e < _exceptions.Count && _exceptions[e].Range.Last.Number < n) e++;
            Op op = _ops[(int)_checked];
            if (op.ToldGone || (e < _exceptions.Count && _exceptions[e].Range.First.Number <= n)) continue;
            _cluster.Checks.OnToldCommitted(op, default);
        }
    }
}

// The invariants of the design, checked by name as things happen, on what is really in the logs and stores. I4 and I7 speak of a
// backup site: SiteChecks has them.
//
// I1 is checked whenever the cut moves or a world-line branches off: what is newly inside began when? If anything outside had
// been answered before, the cut is not closed: under session order by session; under real time over all clients.
using Slogger.Core.Cuts;
using Slogger.Core.Membership;
using Slogger.Core.Recovery;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Clients;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Checks;

internal sealed class Invariants(Cluster cluster)
{
    private readonly List<Op> _answered = [];             // in the current world-line, and not inside the cut
    private readonly Dictionary<int, Op> _begunLast = []; // by session: of what came inside just now, what began last
    private readonly List<Op> _readElsewhere = [];
    private WorldLine _plainLine = WorldLine.First;

    /// <summary>Whether order in real time holds over all clients.</summary>
    public bool IsRealTime { get; set; }

    // ---- I1: prefix ----

    /// <summary>With a backup: all that was ever answered.</summary>
    public List<Op> AnsweredAll { get; } = [];

    public void OnAnswered(Op op)
    {
        if (cluster.Backup is not null && !op.IsRedirected) AnsweredAll.Add(op);
        if (!op.Covered && !op.IsRedirected && op.Line == cluster.Sql.Line) _answered.Add(op);
    }

    /// <summary>A store is about to be restored: what it will hold is the branch, no more and no less.</summary>
    public void OnRestored(ShardHost host, in Boundary at)
    {
        if (at.Offset < host.CoveredOffset)
            throw new SimException($"I2: shard {host.Number} is restored to offset {at.Offset}, committed are {host.CoveredOffset}");
        if (cluster.Sql.Line != at.WorldLine) return;
        VersionNumber branch = cluster.Sql.Lines[^1].BranchOf(host.Number);
        if (at.Version != branch) throw new SimException($"I1: shard {host.Number} is restored to {at.Point}, the branch is {branch}");
        for (int i = 0; i < at.Offset; i++)
            if (host.Log.Bytes[i].Op is { Covered: false } op)
                throw new SimException($"I1: shard {host.Number} is restored to {at.Point}, which holds what is lost: {op}");
    }

    /// <summary>A store was rolled back in place.</summary>
    public void OnRolledBack(ShardHost host, in Boundary at)
    {
        OnRestored(host, at);
        for (int key = 0; key < cluster.Keys.Count; key++)
        {
            Op? expected = host.Log.ValueAt(key, at.Offset), found = host.Store.ValueOf(key);
            if (found != expected) throw new SimException(
                $"I1: shard {host.Number} is rolled back in place to {at.Point}, but key {key} is ({found}), there it was ({expected})");
        }
    }

    public void OnPlainRollback(PlainLink link, in Boundary branch)
    {
        long answered = link.Progress.Answered.Number;
        RollbackOutcome outcome = link.Progress.OnRollback(branch.WorldLine, branch.Version);
        cluster.Count("plain connection rolled back");
        foreach (Op op in link.Ops)
        {
            if (op.ToldGone) continue;
            bool survives = op.Sequence <= outcome.Survived.Number, isUncertain = !survives && op.Sequence <= outcome.Uncertain.Last.Number;
            if (survives && !op.Covered) throw new SimException($"I1: said to survive, but lost: {op}");
            if (isUncertain && !op.OpenEnded && op.Sequence <= answered)
                throw new SimException($"I1: answered and exact, but listed as uncertain: {op}");
            if (!survives && !isUncertain && op.Covered) throw new SimException($"I1: said to be lost, but survived {branch.Point}: {op}");
            if (!survives && op.ToldCommitted) throw new SimException($"I2: reported as committed, now gone: {op}");
            op.ToldGone = !survives;
        }
    }

    // ---- I2: committed means durable ----

    public void OnToldCommitted(Op op, WorldPoint point)
    {
        if (op.ToldGone || op.ToldCommitted) return;
        if (!op.Covered) throw new SimException($"I2: reported as committed ({point}), but not inside the cut {cluster.Sql.Cut}: {op}");
        op.ToldCommitted = true;
    }

    /// <summary>A disk has lost all that was not synced: the cut must be there.</summary>
    public void OnPowerCut(ShardHost host)
    {
        if (Members.Counts(cluster.Sql.Members.States[host.Number]))
            RestorePoint(host, cluster.Sql.Cut.Versions[host.Number], cluster.Sql.Lines);
    }

    /// <summary>A joiner counts from now on: the cluster could go back to the cut of this moment.</summary>
    public void OnAdmitted(ShardHost host) => OnPowerCut(host);

    // ---- I3: the cut is monotone ----

    public void OnCut(Cut before, Cut after)
    {
        if (cluster.IsTraced) cluster.Note($"SQL records the cut {after}");
        if (!after.IsAtLeast(before) || after.WorldLine != before.WorldLine)
            throw new SimException($"I3: the cut {before} is followed by {after}");
        Cover(after, after.WorldLine);
        cluster.Count("cut");
    }

    public void OnWorldLine(Cut branch, Cut before)
    {
        if (cluster.IsTraced) cluster.Note($"SQL begins a world-line: {branch}");
        if (branch.WorldLine != before.WorldLine.Next)
            throw new SimException($"I5: world-line {branch.WorldLine} begins after {before.WorldLine}");
        if (!branch.IsAtLeast(before)) throw new SimException($"I3: the world-line {branch} branches below the cut {before}");
        Cover(branch, before.WorldLine);
        cluster.Backup?.Checks.OnBranch(new(branch.WorldLine, branch.Versions[0]));
        if (_answered.Count > 0) cluster.Count("answered operations lost");
        // What was lost nothing of the new world-line depends on: its clients are told first.
        _answered.Clear();
        cluster.Count("world-line");
    }

    // ---- I5: world-lines ----

    public void OnExecuted(Op op, int shard, StoreConnection connection, WorldLine storeLine)
    {
        if (op.Line != storeLine) throw new SimException($"I5: shard {shard}, whose store is in world-line {storeLine}, executes {op}");
        // What nobody hears of nobody acts upon, and the store is on its way to the branch.
        if (op.IsPlain && op.Line < _plainLine && !connection.IsGivenUp)
            throw new SimException($"I5: plain clients are served in world-line {_plainLine} already, and shard {shard} executes {op}");
        CheckFenced(shard, connection.Epoch);
    }

    public void OnPlainForwarded(Op op)
    {
        if (op.Line > _plainLine) _plainLine = op.Line;
    }

    // ---- I6: fencing ----

    private void CheckFenced(int shard, long epoch)
    {
        foreach (ProxyProcess p in cluster.Hosts[shard].Proxies)
            if (p.Epoch > epoch && p.Machine is not null)
                throw new SimException($"I6: the store of shard {shard} executes for epoch {epoch}, and {p.Name} owns it with epoch "
                    + $"{p.Epoch}");
    }

    public void OnClaim(int shard, in DurableClaim claim, long epoch)
    {
        long owner = cluster.Sql.Shards[shard].Epoch;
        if (epoch != owner) throw new SimException(
            $"I6: {claim.Point} of shard {shard} is recorded for epoch {epoch}, the owner's is {owner}");
        if (claim.Point.WorldLine != cluster.Sql.Line)
            throw new SimException($"I5: {claim.Point} of shard {shard} is recorded in world-line {cluster.Sql.Line}");
    }

    /// <summary>A deposed owner commits nothing: what goes beyond the rows was said by those who own the shards.</summary>
    public void OnCoordinatedCut(Cut cut, long[] saidBy)
    {
        for (int s = 0; s < saidBy.Length; s++)
        {
            SqlShard shard = cluster.Sql.Shards[s];
            if (!Members.Counts(cluster.Sql.Members.States[s])) continue;
            bool isSaid = cut.Versions[s] > shard.Claim.Point.Version && cut.Versions[s] > cluster.Sql.Cut.Versions[s];
            if (isSaid && saidBy[s] != shard.Epoch)
                throw new SimException($"I6: the cut {cut} rests on what epoch {saidBy[s]} said of shard {s}, whose owner is "
                    + $"{shard.Epoch}");
        }
    }

    /// <summary>The role of the coordinator was taken from one that renewed it last at this time, and could have done so since for that
    /// long.</summary>
    public void OnRoleTaken(long renewedAtUs, long upUs)
    {
        cluster.Count("role taken");
        if (cluster.NowUs - renewedAtUs < Processes.Coordinator.TermUs)
            throw new SimException($"I6: the coordinator was deposed {cluster.NowUs - renewedAtUs} us after it had renewed its lease");
        // An outage between two looks of a taker, which are no further apart than that, it cannot notice.
        if (upUs < Processes.Coordinator.TermUs / 2) throw new SimException($"I6: the coordinator was deposed although SQL could "
            + $"be reached for {upUs} us only since it had renewed its lease");
    }

    // ---- I8: progress ----

    public void OnSettled(Cut before)
    {
        if (cluster.IsTraced)
            foreach (PrecedenceRow row in cluster.Sql.Rows())
                cluster.Note($"SQL has: shard {row.Shard} ({row.After}, {row.Through.Version}] depends on "
                    + $"{string.Join(' ', row.Dependencies.Items.ToArray())}");
        if (cluster.IsTraced)
            foreach (Processes.ShardHost host in cluster.Hosts)
                foreach (Processes.ProxyProcess p in host.Proxies) cluster.Note($"at the end: {p.Describe()}");
        foreach (SessionClient s in cluster.Sessions)
            if (!s.IsAllTold) throw new SimException($"I8: long after the last failure: {s}");
        foreach (PlainClient p in cluster.Plains)
            if (p.Link is { IsClosed: false, Progress: { } at } && at.Committed != at.Forwarded)
                throw new SimException($"I8: long after the last failure: plain client {p.Number} has {at.Committed} of {at.Forwarded} "
                    + "committed");
        if (cluster.Keys.Move) cluster.Histories.OnSettled();
        if (!cluster.IsWhole) throw new SimException($"I8: long after the last failure: {string.Join(", ", cluster.Sql.Members.States)}");
        if (!cluster.HasOneGrid)
            throw new SimException($"I8: long after the last failure the change of the interval for {cluster.Sql.Proposal.ChangeUs} is "
                + $"open, or the cut {cluster.Sql.Cut} has not come to version {cluster.Sql.ClockGrid.Stretches[^1].FirstVersion}, with "
                + "which the interval changes");
        if (!cluster.Sql.Cut.IsAtLeast(before) || cluster.Sql.Cut.Equals(before))
            throw new SimException($"I8: the cut {before} did not move on: {cluster.Sql.Cut}");
    }

    /// <summary>What is inside a cut is taken in, and the cut is checked to be restorable, durable and closed.</summary>
    private void Cover(Cut cut, WorldLine of)
    {
        _begunLast.Clear();
        foreach (ShardHost host in cluster.Hosts)
        {
            MemberState state = cluster.Sql.Members.States[host.Number];
            if (state == MemberState.Left) TakeInLeft(host, cut.Versions[host.Number], of);
            if (!Members.Counts(state)) continue;
            Boundary at = RestorePoint(host, cut.Versions[host.Number], cluster.Sql.Lines);
            for (long i = host.CoveredOffset; i < at.Offset; i++)
                if (host.Log.Bytes[(int)i].Op is { Covered: false } op) TakeIn(op, of);
            host.CoveredOffset = Math.Max(host.CoveredOffset, at.Offset);
        }

        foreach (Op op in _readElsewhere)
            if (!op.Read!.Covered) throw new SimException($"I1: the cut holds {op}, which read what is lost: {op.Read}");
        _readElsewhere.Clear();
        int kept = 0;
        for (int i = 0; i < _answered.Count; i++)
        {
            Op op = _answered[i];
            if (op.Covered) continue;
            _answered[kept++] = op;
            if (_begunLast.TryGetValue(KeyOf(op), out Op? inside) && op.Answered < inside.Begun)
                throw new SimException($"I1: the cut {cut} holds {inside}, which began after the answer to {op}");
        }

        _answered.RemoveRange(kept, _answered.Count - kept);
        cluster.Backup?.Checks.OnRecorded(new(cut.WorldLine, cut.Versions[0]));
    }

    // One that has left is never restored: what it has durable is inside by the versions that its clients were told.
    private void TakeInLeft(ShardHost host, VersionNumber version, WorldLine of)
    {
        if (host.Log.AtOrBelow(host.Log.Sync(0).Version) is not { } end) return;
        long closed = host.Log.AtOrBelow(VersionNumber.Min(version, end.Version))?.Offset ?? 0;
        for (int i = 0; i < end.Offset; i++)
            if (host.Log.Bytes[i].Op is { Covered: false } op && op.Line == of
                && (i < closed || (op.OpenEnded ? op.Upper : op.Label) <= version)) TakeIn(op, of);
    }

    private static VersionNumber LastValid(ShardHost host, IReadOnlyList<SqlLine> lines) =>
        WorldLineBranches.LastValid(host.Log.Last.WorldLine, lines.Select(l => new WorldLineBranch(l.WorldLine, l.BranchOf(host.Number))));

    private void TakeIn(Op op, WorldLine of)
    {
        if (op.Line != of) throw new SimException($"I5: in world-line {of} the cut takes in {op}");
        op.Covered = true;
        if (op.Read is { Covered: false } read)
        {
            // Of another shard it came with its slots: that one's part of the cut may not have been taken in yet.
            if (read.Shard != op.Shard) _readElsewhere.Add(op);
            else throw new SimException($"I1: the cut holds {op}, which read what is lost: {read}");
        }

        int key = KeyOf(op);
        if (!_begunLast.TryGetValue(key, out Op? last) || last.Begun < op.Begun) _begunLast[key] = op;
    }

    // A plain connection is a session: what its client did on another one before is not known to the proxies.
    private int KeyOf(Op op) => IsRealTime ? 0 : op.Via is PlainLink link ? -1 - link.Id : op.Client;

    /// <summary>Where a version that is committed ends in a shard's log: exactly there, durably, and in no void part.</summary>
    public static Boundary RestorePoint(ShardHost host, VersionNumber version, IReadOnlyList<SqlLine> lines)
    {
        ShardLog log = host.Log;
        WorldPoint durable = log.Sync(0);
        if (durable.Version < version)
            throw new SimException($"I2: version {version} of shard {host.Number} is committed, its log has {durable} durable");
        WorldLine own = log.Last.WorldLine;
        VersionNumber valid = LastValid(host, lines);
        if (version > valid) throw new SimException(
            $"I5: version {version} of shard {host.Number} is committed, but its log in world-line {own} is void above {valid}");
        return log.Exactly(version)
            ?? throw new SimException($"I2: version {version} of shard {host.Number} is committed, but its log cannot be restored to it");
    }
}

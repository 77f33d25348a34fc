// What goes wrong in a cluster, and how it comes to rest.
using Slogger.Core.Cuts;
using Slogger.Simulation.Clients;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation;

internal sealed partial class Cluster
{
    // Enough for 512 versions: a report to a coordinator says only with a power of two where a shard can be restored to, so that after
    // a late marker, and a coordinator's death, the grid's next cut may be as far away.
    private const int SettleRounds = 4000;
    private const int PatienceRounds = 60;

    // Of the events of a case: some versions.
    private const int QuietMax = 500;

    /// <summary>Clients hear of what they have asked a shard for, and ask it for nothing more.</summary>
    public bool IsQuiet(int? shard) => shard is { } number && Tick < Hosts[number].QuietUntil;

    /// <summary>Failures are over.</summary>
    public bool IsSettling { get; private set; }

    private void Misfortune(ShardHost host)
    {
        switch (Random.Next(25))
        {
            case 0 or 1: StoreDies(host); break;
            case 2 or 3: ProxyDies(host); break;
            case 4: PowerCut(host); break;
            case 5 or 6: Pause(host); break;
            case 7: TakeOver(host); break;
            case 8: CutOff(host); break;
            case 9: SqlOutage(); break;
            case 10 or 11: StoreIsBusy(host); break;
            case 12 or 13: ConnectionBreaks(host); break;
            case 14 or 15: ReplicationLinkBreaks(host); break;
            case 16: ClockJumps(host); break;
            case 17 or 22: IntervalChanges(); break;
            case 18 or 24: CoordinatorDies(); break;
            case 19: SecondCoordinator(); break;
            case 20: AllDie(); break;
            case 21: Stop(host); break;
            default: NowUs += Random.Next(1, 6) * IntervalUs; break;
        }
    }

    public void StoreDies(ShardHost host)
    {
        Happens("store died", host);
        if (Hosts.Any(h => h.Newest is { IsOpen: false })) Count("store died during a recovery");
        host.Store.Die();
    }

    public void ProxyDies(ShardHost host)
    {
        if (host.Newest is not { } p) return;
        Happens("proxy died", host);
        if (!p.IsOpen) Count("proxy died during a recovery");
        p.Die("killed");
        // What it had not synced was in its memory yet, or in the system's. Its store lives, and the next process reads the stream from
        // there on again.
        if (Backup is { } site && host.Proxies.Count == 0 && site.Dice(2))
        {
            host.Log.PowerCut(site.Random);
            Checks.OnPowerCut(host);
        }
    }

    /// <summary>The machine fails: its processes, its store, and what its disk had not got yet.</summary>
    public void PowerCut(ShardHost host)
    {
        Happens("power cut", host);
        foreach (ProxyProcess p in host.Proxies.ToArray()) p.Die("power cut");
        host.Store.Die();
        host.Log.PowerCut(Settings.Scripted ? new Least() : Random);
        Checks.OnPowerCut(host);
    }

    // Of what was not synced nothing is left.
    private sealed class Least : Random
    {
        public override int Next(int minValue, int maxValue) => minValue;
    }

    private void AllDie()
    {
        Count("power cut everywhere");
        foreach (ShardHost host in Hosts) PowerCut(host);
    }

    /// <summary>Longer than any time-out: it wakes with old requests, replies and beliefs.</summary>
    private void Pause(ShardHost host)
    {
        if (host.Newest is not { } p) return;
        Happens("pause", host);
        p.PausedUntil = Tick + Random.Next(10, 200);
        if (Dice(2)) TakeOver(host);
    }

    /// <summary>Another process takes the shard, while the one that has it lives on.</summary>
    public void TakeOver(ShardHost host)
    {
        if (host.Proxies.Count > 2 || !MayStart(host)) return;
        if (host.Proxies.Count > 0) Happens("takeover", host);
        StartProxy(host);
    }

    private void CutOff(ShardHost host)
    {
        if (host.Newest is not { } p) return;
        Happens("cut off from SQL", host);
        p.CutOffUntil = Tick + Random.Next(20, 200);
        if (Dice(3)) TakeOver(host);
    }

    private void SqlOutage()
    {
        Sql.IsDown = !Sql.IsDown;
        if (Sql.IsDown) Count("SQL outage");
        if (IsTraced) Note(Sql.IsDown ? "SQL is down" : "SQL is back");
    }

    private void ConnectionBreaks(ShardHost host)
    {
        Happens("store connection broke", host);
        host.Store.BreakOne(Random);
    }

    private void ReplicationLinkBreaks(ShardHost host)
    {
        if (host.Newest is not { } p) return;
        Happens("replication link broke", host);
        if (Dice(2))
        {
            Count("backlog gap");
            host.Store.HasGap = true;
        }

        p.LoseReplicationLink();
    }

    private void ClockJumps(ShardHost host)
    {
        long before = host.SkewUs;
        host.SkewUs = DrawSkew();
        Happens(host.SkewUs < before ? "clock jumped back" : "clock jumped forward", host);
    }

    private long DrawSkew() => Settings.Scripted ? 0 : Clocks == ClockKind.WithinBound ? Random.NextInt64(ClockErrorUs + 1)
        : Random.NextInt64(-6 * IntervalUs, 6 * IntervalUs);

    /// <summary>An ordered end: what was done is durable, and the last version closed before its time.</summary>
    private void Stop(ShardHost host)
    {
        if (host.Newest?.Stop() == true) Happens("proxy stopped", host);
    }

    /// <summary>It refuses markers, until it is not busy any more. Those who wait for it ask it for nothing more, for a while: versions
    /// without a write follow.</summary>
    private void StoreIsBusy(ShardHost host)
    {
        host.Store.IsBusy = !host.Store.IsBusy;
        if (!host.Store.IsBusy) return;
        Count("quiet spell");
        host.QuietUntil = Tick + Random.Next(QuietMax);
    }

    private void CoordinatorDies()
    {
        if (Coordinators.Count == 0) return;
        Count("coordinator died");
        Coordinators[0].Die("killed");
        Coordinators.RemoveAt(0);
    }

    /// <summary>Another coordinator takes over from one that lives on.</summary>
    private void SecondCoordinator()
    {
        if (!HasCoordinators || Coordinators.Count != 1) return;
        Count("second coordinator");
        Coordinators[0].PausedUntil = Tick + Random.Next(400);
        Coordinators.Add(new(this, $"coordinator {++_names}"));
    }

    private void Happens(string what, ShardHost host)
    {
        Count(what);
        if (IsTraced) Note($"shard {host.Number}: {what}");
    }

    /// <summary>I8: with failures over, all that clients did gets committed or is reported, and the cut moves on.</summary>
    public void Settle()
    {
        Cut before = Sql.Cut;
        IsSettling = true;
        if (IsTraced) Note("the failures are over");
        for (int round = 0; round < SettleRounds; round++)
        {
            Heal();
            Round();
            foreach (SessionClient s in Sessions)
            {
                // Replies that were lost never come.
                if (round == PatienceRounds)
                    for (int shard = 0; shard < Hosts.Length; shard++) s.GiveUp(shard);
                if (round % 8 == 0) s.AskWhatIsCommitted(Random.Next(Hosts.Length));
            }

            if (round > PatienceRounds && round % 8 == 0 && IsSettled(before)) break;
        }

        Checks.OnSettled(before);
        foreach (SessionClient s in Sessions) s.CheckAll();
        foreach (ShardHost host in Hosts) PowerCut(host);
    }

    /// <summary>Everybody who can does what there is to do, in order, and a part of a version's time passes.</summary>
    /// <param name="held">Chooses the request to SQL that is held back in it: its caller hears nothing.</param>
    public void Round(Predicate<SqlCall>? held = null)
    {
        Tick++;
        NowUs += 150;
        if (IsSettling || Backup is { IsWanted: true }) Backup?.Round();
        foreach (ShardHost host in Hosts)
        {
            foreach (ProxyProcess p in host.Proxies.ToArray())
            {
                p.Loop(Random);
                p.StepTasks();
                for (int n = 0; n < 20; n++) p.StreamOne();
                p.SyncSome(Random);
                if (Tick % 8 == 0) p.BeginToWait();
            }

            host.Store.ExecuteAll();
        }

        foreach (SqlCall call in Calls.ToArray())
        {
            bool isReached = !Sql.IsDown && call.Caller.CutOffUntil <= Tick && held?.Invoke(call) != true;
            call.Complete(isReached ? call.Answer ?? call.Apply() : null);
        }

        Calls.Clear();
        for (int n = 0; n < 3; n++) CoordinatorTurn();
        foreach (Operator o in Operators.ToArray()) o.StepTasks();
        foreach (SessionClient s in Sessions) s.ReceiveAll();
    }

    private bool IsSettled(Cut before) =>
        !Sql.Cut.Equals(before) && Backup?.IsSettled(new(before.WorldLine, before.Versions[0])) != false && Sql.Owners.Moves.IsEmpty
            && IsWhole && HasOneGrid && Sessions.All(s => s.IsAllTold)
        && (!Keys.Move || Hosts.All(h => !Sql.Counts(h.Number) || h.Newest is { IsOpen: true }))
        && Plains.All(p => p.Link is null || p.Link.IsClosed || p.Link.Progress.Committed == p.Link.Progress.Forwarded);

    private void Heal()
    {
        Sql.IsDown = false;
        StartMissing();
        foreach (ShardHost host in Hosts)
        {
            host.Store.IsBusy = host.IsOff = false;
            foreach (ProxyProcess p in host.Proxies) p.PausedUntil = p.CutOffUntil = 0;
        }

        foreach (Coordinator c in Coordinators) c.PausedUntil = 0;
    }
}

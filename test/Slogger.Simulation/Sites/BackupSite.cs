// A backup site: its SQL, its streams with their disks and stores, the processes that receive, the watermark services, and the command that
// has it take over. What happens here is chosen by dice of its own, so that a case's primary does the same with and without it, as long as
// it is not concerned.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Checks;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Sites;

/// <summary>What becomes of the primary.</summary>
internal enum Disaster
{
    /// <summary>Nothing.</summary>
    None,

    /// <summary>All of it is gone.</summary>
    Total,

    /// <summary>It is cut off from the backup, and goes on; later it is not any more.</summary>
    CutOff,

    /// <summary>It is well, and somebody has the backup take over all the same.</summary>
    Mistaken,

    /// <summary>A switch-over is ordered: nothing is to be lost.</summary>
    Planned,
}

internal sealed class BackupSite
{
    private const int CalmMax = 6;
    private const int WindowsAboveMax = 3;
    private const int WindowCommandsMost = 31;
    private const int FinishRoundsMax = 6000;
    private const int HandOverRoundsMax = 3000;

    private readonly int _slots;
    private readonly int _calm;
    private readonly long _disasterAt;
    private readonly Disaster _disaster;
    private readonly Rest[] _rests;   // by stream
    private int _names;
    private int _historyIds = 1_000_000;
    private bool _isWanted;          // a failover was ordered
    private bool _mayFail = true;

    /// <summary>A backup of a cluster that has just begun.</summary>
    /// <param name="primary">The cluster.</param>
    /// <param name="epoch">Its site epoch.</param>
    /// <param name="isFresh">Its logs begin where the primary's do; else everything has to be seeded.</param>
    public BackupSite(Cluster primary, SiteEpoch epoch, bool isFresh)
    {
        Primary = primary;
        SimSettings settings = primary.Settings;
        Random = new(settings.Seed ^ 0x2545F491 ^ (int)epoch.Number);
        Streams = [.. primary.Hosts.Select(h => new StreamHost(h.Number, primary.Keys.Count))];
        // Of its own: a case without windows is the same, whatever those need.
        Random windows = new(settings.Seed ^ 0x3C6EF372 ^ (int)epoch.Number);
        Random few = new(settings.Seed ^ 0x1B873593 ^ (int)epoch.Number);
        _rests = new Rest[Streams.Length];
        for (int s = 0; settings.Windows && s < Streams.Length; s++) _rests[s] = Rest.Draw(windows);
        WindowCommandsMax = windows.Next(3, WindowCommandsMost);
        SiteState state = SiteState.BackupOf(Streams.Length, epoch);
        if (isFresh) state = state with { Streams = [.. state.Streams.Select(s => s with { Phase = StreamPhase.Follows })] };
        else
            foreach (StreamHost s in Streams) s.LogGeneration = 0;
        Sql = new(this, state);
        Wires = new(this);
        Checks = new(this);
        _slots = Random.Next(1, Streams.Length + 1);
        _calm = 1 << (Random.Next(CalmMax) + (settings.Windows ? 2 : 0));
        Disaster drawn = Random.Next(7) switch { 0 or 1 => Disaster.Total, 2 => Disaster.CutOff, 3 => Disaster.Mistaken, 4 or 5 =>
            Disaster.Planned, _ => Disaster.None };
        _disaster = settings.Faults ? settings.Disaster ?? drawn : Disaster.None;
        _disasterAt = primary.Tick + Random.Next(settings.Steps / 3, settings.Steps);
        ShipperOptions = new()
        {
            PieceBytesMax = settings.Windows ? windows.Next(3, 9) : Random.Next(2, 9),
                PiecesMax = settings.Windows ? windows.Next(1, 6) : Random.Next(2, 8), WindowBytes = 24, ResendUs = 5 * Cluster.IntervalUs,
                HeartbeatUs = 2 * Cluster.IntervalUs,
            BudgetBytes = Random.Next(8) == 0 ? Random.Next(30, 90) : 1 << 20, AtBudget = Random.Next(2) == 0 ? BudgetChoice.Stall
                : BudgetChoice.Detach,
            WindowsAboveBytes = settings.Windows ? windows.Next(WindowsAboveMax) : long.MaxValue,
            FewBytes = settings.Faults ? Math.Max(1, few.Next(2) * few.Next(12)) : 1,
        };
        UnansweredPiecesMax = settings.Faults ? few.Next(1, 4) : 1;
        LeaseTermUs = Random.Next(3) == 0 ? Random.Next(4, 12) * Cluster.IntervalUs : 0;
        ShipperOptions = ShipperOptions with { WantsEcho = LeaseTermUs > 0 || !settings.Faults };
        StartMissing();
    }

    public Cluster Primary { get; }

    public Random Random { get; }

    public SiteSql Sql { get; }

    public Wires Wires { get; }

    public SiteChecks Checks { get; }

    public ShipperOptions ShipperOptions { get; }

    public int UnansweredPiecesMax { get; }

    /// <summary>How copies of a store are sent. A long case has a large one, and it has to arrive before the case ends.</summary>
    public ShipperOptions CopyOptions => Primary.Settings.Windows ? ShipperOptions with { PieceBytesMax = 20 } : ShipperOptions;

    /// <summary>A window stands for no more commands than this.</summary>
    public int WindowCommandsMax { get; }

    public StreamHost[] Streams { get; }

    public List<BackupProcess> Processes { get; } = [];

    public List<WatermarkProcess> Services { get; } = [];

    public List<FailoverProcess> Managers { get; } = [];

    public List<SwitchOverProcess> Switchers { get; } = [];

    public List<SqlCall> Calls { get; } = [];

    public ShipMutation Mutation => Primary.Settings.Ship;

    public long NowUs => Primary.NowUs;

    public bool IsTraced => Primary.IsTraced;

    /// <summary>How long a shard of the primary may report commits after a reply; 0: for ever.</summary>
    public long LeaseTermUs { get; }

    public long LeaseWaitUs => LeaseTermUs == 0 ? 0 : SiteLease.WaitUs(LeaseTermUs, 0);

    /// <summary>Whether messages get lost, and the like.</summary>
    public bool MayFail => Primary.Settings.Faults && _mayFail;

    /// <summary>It takes over as the primary has offered.</summary>
    public bool IsSwitched { get; private set; }

    /// <summary>Why it cannot take over, if somebody has wanted it to.</summary>
    public string? Refusal { get; private set; }

    public bool IsOver => Sql.State.Role == SiteRole.Primary;

    public bool Dice(int sides) => Random.Next(sides) == 0;

    public void Count(string what) => Primary.Count(what);

    public void Note(string what) => Primary.Note(what);

    public int NewHistoryId() => ++_historyIds;

    /// <summary>Whoever the stream's shipper reaches: mostly the newest process that has it.</summary>
    public BackupProcess? ReceiverOf(int stream)
    {
        BackupProcess[] all = [.. Processes.Where(p => p.Has(stream))];
        return all.Length == 0 ? null : all[all.Length > 1 && Dice(4) ? Random.Next(all.Length) : all.Length - 1];
    }

    /// <summary>A site that is the primary answers who still ships to it.</summary>
    public void Refuse(ShipRequest request, ProxyProcess from) => Wires.PostWide(request.Stream.Number, () => from.HearReply(
        new(ShipReplyKind.NotLeader, request.Stream, 0, default, default, default, default, 0, new(Sql.State.Epoch, 0, 0))));

    // Where windows are sent a stream's shipper rests for a while now and then, so that the backup falls far behind.
    private readonly record struct Rest(int Steps, int AwakeSteps, int At)
    {
        private const int StepsMax = 500;

        public static Rest Draw(Random random) => new(random.Next(20, StepsMax), random.Next(20, StepsMax), random.Next(StepsMax));

        public bool Is(long tick) => Steps > 0 && (tick + At) % (Steps + AwakeSteps) < Steps;
    }

    // ---- A turn ----

    /// <summary>A little of what there is to do.</summary>
    public void Turn()
    {
        Wires.Deliver();
        for (int n = Primary.IsLost ? 0 : 2; n > 0; n--)
        {
            ShardHost of = Primary.Hosts[Random.Next(Primary.Hosts.Length)];
            if (!_rests[of.Number].Is(Primary.Tick)) of.Newest?.Ship();
        }

        if (!Primary.IsLost && Dice(4) && Primary.Hosts[Random.Next(Primary.Hosts.Length)] is { Proxies.Count: > 1 } host)
            host.Proxies[Random.Next(host.Proxies.Count)].Ship();
        if (IsOver)
        {
            HandOverTurn();
            return;
        }

        foreach (SiteProcess p in Everybody())
        {
            if (Dice(2)) p.Turn(Random.Next(1, 6));
            if (p is BackupProcess b && Dice(2)) b.Work();
        }

        SqlTurn();
        if (Primary.Tick == _disasterAt) Strike();
        if (MayFail && Dice(40) && Dice(_calm)) Misfortune();
        if (Dice(20)) StartMissing();
    }

    /// <summary>Everybody does what there is to do, and nothing fails.</summary>
    public void Round()
    {
        if (IsOver) return;
        _mayFail = false;
        Sql.IsDown = false;
        Wires.CutUntilUs.Clear();
        foreach (SiteProcess p in Everybody()) p.PausedUntil = p.CutOffUntil = 0;
        StartMissing();
        Wires.Deliver();
        foreach (ShardHost host in Primary.Hosts)
        {
            if (Primary.IsLost) break;
            foreach (ProxyProcess p in host.Proxies.ToArray()) p.Ship();
            if (Dice(100)) host.Newest?.AttachBackup();
        }

        foreach (SiteProcess p in Everybody())
        {
            p.Turn(50);
            (p as BackupProcess)?.Work();
        }

        foreach (SqlCall call in Calls.ToArray()) call.Complete(call.Answer ?? call.Apply());
        Calls.Clear();
    }

    /// <summary>Long after the last failure: the backup has what the cut was then.</summary>
    public bool IsSettled(WorldPoint before) =>
        !IsOver && Primary.Sql.Site.Role != SiteRole.HandingOver
            && Streams.All(s => s.At >= before && Sql.State.Streams[s.Number].Phase == StreamPhase.Counts);

    /// <summary>I8: a switch-over that was begun comes to its end, one or the other.</summary>
    public void FinishSwitch()
    {
        for (int n = 0; n < FinishRoundsMax && !IsOver && !Primary.IsLost
            && (Switchers.Count > 0 || Primary.Sql.Site.Role == SiteRole.HandingOver); n++) Primary.RestRound();
        if (Primary.Sql.Site.Role == SiteRole.HandingOver && !Primary.IsLost && !IsOver)
            throw new SimException($"I8: long after the last failure the sites are changing roles: {Primary.Sql.Site}; {Describe()}");
    }

    /// <summary>I8: a failover that was begun ends, if enough processes live.</summary>
    public void Finish()
    {
        // A site that is being seeded may have to copy everything in small pieces first: rounds count since the last one came, and a copy
        // that begins anew for ever is found, too.
        long copied = 0;
        for (int quiet = 0, all = 0; quiet < FinishRoundsMax && all < 10 * FinishRoundsMax && !IsOver
            && (Refusal is null || Sql.State.Role == SiteRole.FailingOver); quiet++, all++)
        {
            Primary.RestRound();
            long copies = Streams.Sum(s => s.CopiedCommands);
            if (copies > copied) (copied, quiet) = (copies, 0);
            // Whose disk was lost holds nothing: somebody has to give that up (SiteState.Lose), and then not all is there.
            if (Sql.State.Role == SiteRole.FailingOver && Streams.Any(s => s.LogGeneration != Sql.State.Streams[s.Number].Generation))
            {
                Count("failover ends with a lost disk");
                Refusal = "a disk is lost";
                return;
            }
        }

        if (!IsOver && Refusal is null)
            throw new SimException($"I8: long after the last failure the failover is not complete: {Describe()}");
    }

    /// <summary>I8: each process whose shard was opened for it hands its store over; that of one that has died begins as any
    /// primary's does.</summary>
    public void FinishHandOver()
    {
        Wires.CutUntilUs.Clear();
        (Sql.IsDown, _mayFail) = (false, false);
        for (int n = 0; n < HandOverRoundsMax && Processes.Exists(p => p.IsTakingOver); n++)
        {
            foreach (SiteProcess p in Everybody()) p.PausedUntil = p.CutOffUntil = 0;
            Primary.PassTime(150);
            Wires.Deliver();
            HandOverTurn();
        }

        if (Processes.Find(p => p.IsTakingOver) is { } late)
            throw new SimException($"I8: the site is the primary, and {late.Describe()} has not handed its store over");
    }

    // The site is the primary. Nobody receives anything any more: what is left is that the stores are handed over.
    private void HandOverTurn()
    {
        if (!Processes.Exists(p => p.IsTakingOver)) return;
        foreach (SiteProcess p in (SiteProcess[])[.. Processes, .. Managers])
            if (Dice(2)) p.Turn(Random.Next(1, 6));
        SqlTurn();
    }

    public string Describe() =>
        $"{Sql.State.Role} in epoch {Sql.State.Epoch}, final {Sql.State.Final}, streams {string.Join(" ", Sql.State.Streams)}; "
        + $"{string.Join("; ", Processes.Select(p => p.Describe()))}; "
        + $"{string.Join("; ", Primary.Hosts.SelectMany(h => h.Proxies).Select(p => p.DescribeShipping()))}; "
        + $"services {string.Join(" ", Services.Select(s => s.Current?.ToString() ?? "none"))}, {Managers.Count} managers";

    /// <summary>Whether a failover was ordered.</summary>
    public bool IsWanted => _isWanted || Sql.State.Role == SiteRole.FailingOver;

    private IEnumerable<SiteProcess> Everybody() => [.. Processes, .. Services, .. Managers, .. Switchers];

    private void SqlTurn()
    {
        for (int n = Random.Next(1, 5); n > 0 && Calls.Count > 0; n--)
        {
            SqlCall call = Calls[Random.Next(Calls.Count)];
            if (Sql.IsDown || call.Caller.CutOffUntil > Primary.Tick)
            {
                if (Dice(2)) continue;
                call.Complete(null);
                if (Dice(2)) Calls.Remove(call);
            }
            else if (call.Answer is not null)
            {
                Calls.Remove(call);
                call.Complete(MayFail && !call.IsDone && Dice(24) ? null : call.Answer);
            }
            else if (MayFail && !call.IsDone && Dice(30))
            {
                // Lost, or late: it may be done long after its caller has given up.
                call.Complete(null);
                if (Dice(2)) Calls.Remove(call);
            }
            else if (!call.IsDone || Dice(30))
            {
                call.Answer = call.Apply();
            }
        }
    }

    private void StartMissing()
    {
        for (int slot = 0; slot < _slots; slot++)
        {
            int of = slot;
            if (!Processes.Exists(p => p.Slot == of)) StartProcess(slot);
        }

        if (Services.Count == 0) Services.Add(new(this, $"watermarks {++_names}"));
        // Whoever has ordered a switch-over sees to it that it ends, one way or the other.
        if (Switchers.Count == 0 && !Primary.IsLost && Primary.Sql.Site.Role == SiteRole.HandingOver)
            Switchers.Add(new(this, $"switch-over {++_names}", NowUs + (Random.Next(20) * Cluster.IntervalUs)));
        bool isBegun = Sql.State.Role == SiteRole.FailingOver;
        if (Managers.Count == 0 && (isBegun || (_isWanted && Refusal is null)))
            Managers.Add(new(this, $"failover {++_names}", begins: true));
    }

    private void StartProcess(int slot) =>
        Processes.Add(new(this, $"backup {slot}{(char)('a' + (_names++ % 26))}", slot, Streams.Where(s => s.Number % _slots == slot)));

    // ---- What goes wrong ----

    private void Misfortune()
    {
        StreamHost stream = Streams[Random.Next(Streams.Length)];
        BackupProcess? process = Processes.Count > 0 ? Processes[Random.Next(Processes.Count)] : null;
        switch (Random.Next(18))
        {
            case 0 or 1: Happens("backup process died", () => process?.Die("killed")); break;
            case 2: Happens("backup process paused", () => Pause(process)); break;
            case 3: Happens("backup process replaced", () => Replace(process)); break;
            case 4: Happens("backup power cut", () => PowerCut(stream)); break;
            case 5: Happens("backup power cut everywhere",
                () => { foreach (StreamHost s in Streams) PowerCut(s); Checks.OnPowerCut(); }); break;
            case 6: Happens("backup store died",
                () => { stream.StoreDies(); foreach (BackupProcess p in Processes) p.Reset(stream.Number); }); break;
            case 7: Happens("watermark service died", () => { if (Services.Count > 0) Services[0].Die("killed"); }); break;
            case 8: if (Services.Count < 2)
                Happens("second watermark service", () => Services.Add(new(this, $"watermarks {++_names}"))); break;
            case 9: if (Services.Count > 0)
                Happens("watermark service paused", () => Services[0].PausedUntil = Primary.Tick + Random.Next(200)); break;
            case 10: Happens("backup SQL outage", () => Sql.IsDown = !Sql.IsDown); break;
            case 11: Happens("stream cut off", () => Wires.CutUntilUs[stream.Number] = NowUs
                + Random.Next(1, 20) * Cluster.IntervalUs); break;
            case 12: Happens("sites cut off", () => Wires.CutUntilUs[-1] = NowUs + Random.Next(1, 15) * Cluster.IntervalUs); break;
            case 13: if (!Primary.IsLost)
                Happens("shipping connection lost", () => Primary.Hosts[stream.Number].Newest?.LoseBackup()); break;
            case 14: if (Managers.Count > 0) Happens("failover command died", () => Managers[0].Die("killed")); break;
            case 15 when Switchers.Count > 0:
                if (Dice(2)) Happens("switch-over command died", () => Switchers[0].Die("killed"));
                else if (Switchers.Count < 3)
                    Happens("second switch-over command",
                        () => Switchers.Add(new(this, $"switch-over {++_names}", NowUs + (Random.Next(60) * Cluster.IntervalUs))));
                break;
            case 15: if (IsWanted && Refusal is null && Managers.Count < 3)
                Happens("second failover command", () => Managers.Add(new(this, $"failover {++_names}", begins: true))); break;
            case 16:
                if (Dice(4) && !IsWanted) Happens("backup disk lost", () => DiskDies(stream));
                break;
            default:
                if (!Primary.IsLost && Dice(2)) Primary.Hosts[stream.Number].Newest?.LoseSeed();
                else if (!Primary.IsLost) Primary.Hosts[stream.Number].Newest?.AttachBackup();
                break;
        }
    }

    private void Happens(string what, Action happens)
    {
        Count(what);
        if (IsTraced) Note(what);
        happens();
    }

    private void Pause(BackupProcess? process)
    {
        if (process is null) return;
        process.PausedUntil = Primary.Tick + Random.Next(10, 250);
        if (Dice(2)) Replace(process);
    }

    /// <summary>Somebody has the backup take over.</summary>
    public void Order() => _isWanted = true;

    /// <summary>Another process begins in one's place. The one that was there lives on, and does not know.</summary>
    public void Replace(BackupProcess? process)
    {
        if (process is not null && Processes.Count(p => p.Slot == process.Slot) < 3) StartProcess(process.Slot);
    }

    private void PowerCut(StreamHost stream)
    {
        foreach (BackupProcess p in Processes.Where(p => p.Has(stream.Number)).ToArray()) p.Die("power cut");
        stream.PowerCut(Random);
    }

    private void DiskDies(StreamHost stream)
    {
        foreach (BackupProcess p in Processes.Where(p => p.Has(stream.Number)).ToArray()) p.Die("its disk is gone");
        stream.DiskDies();
    }

    // ---- Disaster ----

    /// <summary>What is to befall the primary does.</summary>
    private void Strike()
    {
        if (_disaster == Disaster.None) return;
        Happens($"disaster: {_disaster}", () => { });
        if (Streams.Any(s => Sql.State.Streams[s.Number].Phase != StreamPhase.Counts)) Count("disaster while a stream is seeded");
        if (Primary.Hosts.Any(h => h.Newest is null or { IsOpen: false })) Count("disaster during a recovery");
        if (_disaster == Disaster.Total) Primary.Lose();
        if (_disaster == Disaster.CutOff) Wires.CutUntilUs[-1] = NowUs + (Random.Next(5, 60) * Cluster.IntervalUs);
        if (_disaster != Disaster.Planned) _isWanted = true;
        else Switchers.Add(new(this, $"switch-over {++_names}", NowUs + (Random.Next(10, 120) * Cluster.IntervalUs)));
    }

    /// <summary>The primary's SQL is asked, not awaited, to say that the site is deposed.</summary>
    public void TellDeposed(SiteEpoch by) => Wires.PostWide(-2, () =>
    {
        if (!Primary.IsLost && !Primary.Sql.IsDown && by > Primary.Sql.Site.Epoch) Primary.Sql.DeposedBy(by);
    });

    public void OnTaken(SiteEpoch epoch)
    {
        Count("failover begun");
        // Whatever was answered is in the cut that was offered, and nothing is any more.
        IsSwitched = Primary.Sql.Site is { Role: SiteRole.HandingOver, HandOver.Cut: not null };
        if (IsSwitched) Count("switched over");
        if (IsTraced) Note($"the backup takes site epoch {epoch}");
    }

    public void OnRefused(string why)
    {
        Count("failover refused");
        // While the primary lives the operator waits; when it is gone, what is there has to be given up, or nothing can be done.
        if (Primary.IsLost) Refusal = why;
    }

    public void OnPrimary()
    {
        Count("failover complete");
        if (IsTraced) Note($"the backup is the primary, from {Sql.State.Final} on");
        Checks.OnTakenOver();
        Primary.TakenOver(this);
    }
}

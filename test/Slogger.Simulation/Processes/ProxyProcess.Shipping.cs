// A proxy's part in disaster recovery: the real Shipper over its shard's log, and the seeds that it makes for the backup.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Sites;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess : IShippedLog
{
    private const int ShipInboxMax = 100;

    private readonly Queue<Action> _shipInbox = new();
    private readonly List<ShipperEffect> _shipping = [];
    private readonly Dictionary<ShipWindow, (Command[] Commands, Boundary End)> _windows = [];
    private Shipper? _shipper;
    private StreamHistory _shipped;
    private long _incarnation;
    private SiteEpoch _site;                      // under which it leads
    private Sender _self;
    private int _branchesTold;
    private bool _writesHeld;
    private CommitRight? _right;
    private SiteGate? _siteGate;
    private readonly OperationHold _hold;         // a switch-over is under way
    private Seed? _seed;
    private List<Command> _seedContent = [];
    private (long Generation, int Offset, SeedTaken Taken)? _seedUnderWay;
    private SeedFlow? _flow;

    public void HearReply(ShipReply reply) => PostShipping(() =>
    {
        if (Cluster.Backup is { LeaseTermUs: > 0 and var term })
            (_right ??= new(1, term, _settings.Ship)).Granted(0, reply.EchoUs, Cluster.NowUs);
        if (reply.Kind == ShipReplyKind.Welcome && SiteGate.Welcomed(0) is { } epoch) _host.BackupFollows = epoch;
        _shipper?.Replied(reply, Cluster.NowUs, _shipping);
        if (reply.Ask is not null && _shipper?.State == ShipperState.AwaitsSeed) SiteGate.IsSeeded(0);
    });

    private SiteGate SiteGate => _siteGate ??= new(1, isCohort: false, _host.BackupFollows, _settings.Ship);

    // Whether clients may be answered: nothing is answered here that the gate would hold, or else it is checked that it may be.
    private void CheckGate()
    {
        if (!HasLease || !IsOpen) return;
        if (SiteGate.NeedsLease && _right?.Holds(Cluster.NowUs) != true) Cluster.Backup!.Count("silent without a lease");
        else Cluster.Backup!.Checks.OnSpeaks(SiteGate.NeedsLease);
    }

    private bool HasLease => Cluster.Backup is { LeaseTermUs: > 0 };

    // Where the backup grants leases commits are told under one only.
    private WorldPoint ToTell(WorldPoint cut)
    {
        if (!HasLease) return cut;
        WorldPoint told = _right?.Tellable(cut, Cluster.NowUs) ?? new(cut.WorldLine, VersionNumber.Zero);
        if (told.Version > VersionNumber.Zero) Cluster.Backup!.Checks.OnCommitTold(told);
        return told;
    }

    /// <summary>The connection to the backup breaks, and another one is made.</summary>
    public void LoseBackup()
    {
        _shipper?.Disconnected();
        _flow?.Asked(default, null, Cluster.NowUs);
        _shipper?.Connected(Cluster.NowUs, _shipping);
    }

    /// <summary>Somebody has the backup back that was given up.</summary>
    public void AttachBackup() => _shipper?.Attach(Cluster.NowUs, _shipping);

    /// <summary>The copy of the store is deleted.</summary>
    public void LoseSeed() => (_seed, _seedUnderWay) = (null, null);

    public string DescribeShipping() =>
        $"{Name}: {_shipper?.State} to gen {_shipper?.Generation}, received {_shipper?.Received}, backed up {_shipper?.BackedUp}, log "
            + $"{_host.Log.EndIndex} durable {_host.Log.DurableIndex}, held {_writesHeld}";

    /// <summary>A turn of the shipper.</summary>
    public void Ship()
    {
        if (!IsRunning || _machine is not { } machine) return;
        CheckGate();
        ShardLog log = _host.Log;
        // One that was deposed, and does not know, ships on what it has.
        bool isOwner = log.Admits(Epoch);
        if (isOwner && (_shipper is null || _shipped != log.History))
        {
            (_shipped, _branchesTold) = (log.History, log.Branches.Count);
            log.Sync(log.Appended);
            _shipper = new(
                new(Shard), _self = new(_site, Epoch, ++_incarnation), _shipped, log.Branches, _host.TrimmedBefore,
                    log.EndIndex, machine.Committed, Cluster.Backup!.ShipperOptions,
                _settings.Ship);
            _windows.Clear();
            (_writesHeld, _flow) = (false, new(Cluster.Backup!.CopyOptions));
            SiteGate.Begin(_self.Site);
            _shipper.Connected(Cluster.NowUs, _shipping);
        }

        if (_shipper is null) return;
        for (int n = 4; n > 0 && _shipInbox.TryDequeue(out Action? message); n--) message();
        if (isOwner)
        {
            for (; _branchesTold < log.Branches.Count; _branchesTold++) _shipper.Branched(log.Branches[_branchesTold]);
            _shipper.Appended(log.EndIndex);
            _shipper.Synced(log.DurableIndex);
            _shipper.CutRecorded(machine.Committed);
        }

        if (_shipper.WindowWanted is var (from, below)) MakeWindow(from, below, isOwner);
        _shipper.Tick(Cluster.NowUs, this, _shipping);
        foreach (ShipperEffect effect in _shipping.ToArray()) Perform(effect);
        _shipping.Clear();
        SendCopy();
        if (!isOwner) return;
        FinishSeed();
        if (_seed is { } seed && SeedOffer.IsDone(seed, _shipper.State, _shipper.Generation, _shipper.BackedUp)) _seed = null;
        // What may be trimmed is, now and then; what a recovery can go back to is not.
        long keep = Math.Min(_seed?.Base.Offset ?? _seedUnderWay?.Offset ?? long.MaxValue, _shipper.KeepFrom ?? log.DurableIndex.Offset);
        if (Cluster.Backup!.Dice(30)) _host.TrimmedBefore = Math.Max(_host.TrimmedBefore, Math.Min(keep, _host.CoveredOffset));
    }

    LogIndex? IShippedLog.EndOfPiece(LogIndex from, LogIndex limit, int bytesMax) =>
        from.Offset < _host.TrimmedBefore || limit.Offset > _host.Log.End ? null : _host.Log.EndOfPiece(from, limit, bytesMax);

    private void PostShipping(Action message)
    {
        if (!IsDead && _shipInbox.Count < ShipInboxMax) _shipInbox.Enqueue(message);
    }

    private void Perform(ShipperEffect effect)
    {
        BackupSite site = Cluster.Backup!;
        if (site.IsTraced) Cluster.Note($"{Name}: {effect}");
        switch (effect)
        {
            case ShipperEffect.Send { Request: var request }:
                Payload? payload = request is ShipRequest.Piece { IsHeartbeat: false, IsBranch: false } p ? PayloadOf(p) : null;
                site.Wires.PostWide(Shard, () =>
                {
                    if (site.IsOver) site.Refuse(request, this);
                    else site.ReceiverOf(Shard)?.Hear(Shard, request, payload, this);
                });
                break;
            case ShipperEffect.Seed seed:
                site.Count($"seed wanted: {seed.Why[..24]}");
                var wanted = new ShipRequest.WantsSeed(new(Shard), _self, seed.Generation);
                site.Wires.PostWide(Shard, () => site.ReceiverOf(Shard)?.Hear(Shard, wanted, null, this));
                break;
            case ShipperEffect.Copy { Ask: var ask }:
                string? why = SeedOffer.WhyNot(ask, _seed, IsPartOfLog);
                _flow!.Asked(ask, why is null ? _seed : null, Cluster.NowUs);
                if (why is not null) BeginSeed(ask.Generation);
                break;
            case ShipperEffect.HoldWrites hold:
                site.Count("writes held for the backup");
                _writesHeld = hold.IsHeld;
                break;
            case ShipperEffect.Detached:
                site.Count("backup given up");
                break;
            case ShipperEffect.ShardTaken:
                Cluster.Count("deposed by the backup's word");
                Die("its shard was taken, says the backup");
                break;
            case ShipperEffect.SiteDeposed deposed:
                Cluster.Count("site deposed by the backup's word");
                if (!Cluster.Sql.IsDown && CutOffUntil <= Cluster.Tick) Cluster.Sql.DeposedBy(deposed.By.Site);
                Die("another site is the primary");
                break;
        }
    }

    // What was overwritten comes last, and changes nothing any more: so who takes a part of it for the log lacks something.
    private void MakeWindow(LogIndex start, VersionNumber below, bool isOwner)
    {
        ShardLog log = _host.Log;
        List<Boundary> ends = isOwner ? log.Entries(start, new(start.WorldLine, log.End, below)) : [];
        Boundary[] behind = [.. ends.Where(e => e.Offset > start.Offset && e.Offset <= start.Offset + Cluster.Backup!.WindowCommandsMax)];
        if (log.Exactly(start.Closed)?.Offset != start.Offset || behind.Length == 0)
        {
            _shipper!.NotMade(start, behind.Length > 0 ? behind[0].Offset : start.Offset + 1);
            return;
        }

        // Runs of empty versions behind it come as what they are.
        Boundary last = behind.First(e => e.Offset == behind[^1].Offset);
        List<Command> all = log.Bytes.GetRange((int)start.Offset, (int)(last.Offset - start.Offset));
        ILookup<bool, Command> parts = Enumerable.Range(0, all.Count)
            .ToLookup(i => all[i].Key >= 0 && !all.Skip(i + 1).Any(later => later.Key == all[i].Key), i => all[i]);
        Command[] left = [.. parts[true]];
        if (left.Length == all.Count)
        {
            _shipper!.NotMade(start, last.Offset);
            return;
        }

        ShipWindow window = new(start, start with { Offset = last.Offset, Closed = last.Version }, left.Length);
        _windows[window] = ([.. left, .. parts[false].Select(c => c with { IsSpared = true })], last);
        _shipper!.Made(window);
        Cluster.Count("window made");
    }

    private Payload PayloadOf(ShipRequest.Piece piece) => piece.Window is { } window
        ? new(_windows[window].Commands[(int)(piece.From.Offset - window.From.Offset)..(int)(piece.To.Offset - window.From.Offset)],
            piece.To == window.To ? [_windows[window].End] : [])
        : new(
        [.. _host.Log.Bytes.Skip((int)piece.From.Offset).Take((int)(piece.To.Offset - piece.From.Offset))],
            [.. _host.Log.Entries(piece.From, piece.To)]);

    // The store as it is now, within a version: at which offset that is the store says.
    private void BeginSeed(long generation)
    {
        Store store = _host.Store;
        bool isSteady = IsOpen && !_isSuspect && _attachedTo != 0 && store.IsUp && store.HistoryId == _attachedTo
            && store.HistoryId == _host.Log.HistoryId && _host.NotedHistory != store.HistoryId;
        if (!isSteady || _seedUnderWay?.Generation == generation) return;
        if (Cluster.IsTraced) Cluster.Note($"{Name} copies its store at {store.History.Count}, for generation {generation}");
        _seedUnderWay = (generation, store.History.Count, new(_host.Log.Last.WorldLine, _host.Log.History));
    }

    private bool IsPartOfLog => _seed is { } seed && SeedOffer.IsPartOf(seed, _host.Log.History, _host.TrimmedBefore, _host.Log.Branches);

    private void SendCopy()
    {
        for (int n = 0; n < 4 && _shipper!.State == ShipperState.AwaitsSeed && _seed is { } seed && _flow!.Next() is { } chunk; n++)
        {
            if (chunk.Seed != seed) return;
            Payload payload = new([.. _seedContent.Skip((int)chunk.At).Take(chunk.Bytes)], []);
            var copied = new ShipRequest.Copied(new(Shard), _self, chunk);
            Cluster.Backup!.Wires.PostWide(Shard, () => Cluster.Backup!.ReceiverOf(Shard)?.Hear(Shard, copied, payload, this));
        }
    }

    // It can be offered once it is known which version is the first that ends behind it.
    private void FinishSeed()
    {
        if (_seedUnderWay is not { } begun) return;
        ShardLog log = _host.Log;
        (VersionNumber Before, VersionNumber Floor)? found = log.FloorAt(begun.Offset);
        SeedVerdict verdict = begun.Taken.Look(log.History, log.DurableIndex, found?.Floor);
        if (verdict == SeedVerdict.Void) _seedUnderWay = null;
        else if (verdict == SeedVerdict.Offered && found is var (before, floor))
        {
            _seedContent = log.Bytes.GetRange(0, begun.Offset);
            _seed = new($"{Name} {begun.Generation} {begun.Offset}", begun.Generation, begun.Offset, begun.Taken.History,
                new(begun.Taken.Line, begun.Offset, before), new(begun.Taken.Line, floor));
            _seedUnderWay = null;
            Cluster.Count("seed made");
        }
    }
}

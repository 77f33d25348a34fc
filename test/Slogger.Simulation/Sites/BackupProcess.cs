// A process of the backup: the real Receiver of some streams, driven as the product drives it.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Sites;

internal sealed class BackupProcess : SiteProcess
{
    private const long PollUs = 2 * Cluster.IntervalUs;
    private const int DeathBetweenEffects = 400;
    private const int DeathBehindOpen = 4;

    private readonly List<Stream> _streams = [];

    public BackupProcess(BackupSite site, string name, int slot, IEnumerable<StreamHost> streams)
        : base(site, name)
    {
        Slot = slot;
        foreach (StreamHost disk in streams)
        {
            Stream stream = new(disk);
            _streams.Add(stream);
            Start(Run(stream));
        }
    }

    /// <summary>Which of the site's processes it is, or one after that.</summary>
    public int Slot { get; }

    /// <summary>Whether a shard was opened for it, and its store is not a primary's yet.</summary>
    public bool IsTakingOver =>
        !IsDead && _streams.Exists(s => !s.IsHandedOver && s.Epoch > 0 && s.Epoch == Site.Sql.OpenedFor(s.Disk.Number));

    public bool Has(int stream) => _streams.Exists(s => s.Disk.Number == stream);

    public string Describe() => $"{Name}{(IsDead ? " (dead)" : "")}: " + string.Join(", ", _streams.Select(s => s.Receiver is { } r
        ? $"stream {s.Disk.Number} gen {r.Generation} log {s.Disk.Log.EndIndex} held {r.Held} at {r.At} frozen {r.IsFrozen} copy "
            + $"{r.Copy?.HasBytes}"
        : $"stream {s.Disk.Number} without receiver"));

    // What a stream has in this process's memory.
    private sealed class Stream(StreamHost disk)
    {
        public StreamHost Disk => disk;
        public long Epoch { get; set; }
        public Receiver? Receiver { get; set; }
        public ProxyProcess? Peer { get; set; }
        public Dictionary<(LogIndex, LogIndex), Payload> Kept { get; } = [];
        public Payload? Brought { get; set; }
        public (SyncTicket Ticket, int Records)? Syncing { get; set; }
        public SeedTicket? CopySyncing { get; set; }
        public bool IsCopied { get; set; }
        public WorldPoint? ApplyTo { get; set; }
        public StreamTakeover? Takeover { get; set; }
        public List<FailoverProcess> Askers { get; } = [];
        public bool IsReady { get; set; }
        public bool IsPromoting { get; set; }
        public bool IsHandedOver { get; set; }
        public bool IsReset { get; set; }
    }

    // ---- What comes ----

    public void Hear(int stream, ShipRequest request, Payload? payload, ProxyProcess from) => Post(() =>
    {
        if (Of(stream) is not { Receiver: { } receiver } s) return;
        (s.Peer, s.Brought) = (from, payload);
        Do(s, e => receiver.Received(request, e));
    });

    public void HearWatermark(WorldPoint watermark) => Post(() =>
    {
        foreach (Stream s in _streams)
            if (s.Receiver is { } receiver) Do(s, e => receiver.WatermarkTold(watermark, e));
    });

    public void HearFreeze(SiteEpoch number, int stream) => Post(() =>
    {
        if (Of(stream) is { Receiver: { } receiver } s) Do(s, e => receiver.Freeze(number, e));
    });

    /// <summary>The failover is decided: whoever manages it wants to know when the streams are ready.</summary>
    public void HearFinal(SiteEpoch number, WorldPoint final, FailoverProcess from) => Post(() =>
    {
        foreach (Stream s in _streams)
        {
            if (s.Receiver is not { IsSeeded: true } receiver) continue;
            Do(s, e => receiver.Decided(number, final, e, isWord: true));
            if (s.IsReady) SayReady(s, number, from);
            else if (!s.Askers.Contains(from)) s.Askers.Add(from);
        }
    });

    /// <summary>The manager says that the site is the primary.</summary>
    public void HearServe() => Post(() => Start(LookWhetherPrimary()));

    /// <summary>Its store has died, or its disk: the stream begins again with what there is.</summary>
    public void Reset(int stream)
    {
        if (Of(stream) is { } s) s.IsReset = true;
    }

    /// <summary>Disks and stores do something.</summary>
    public void Work()
    {
        if (!IsRunning) return;
        foreach (Stream s in _streams)
        {
            if (s.Receiver is not { } receiver || s.IsReset) continue;
            Do(s, e => receiver.Tick(Site.NowUs, e));
            if (s.CopySyncing is { } copied && Site.Dice(2)) SyncCopy(s, receiver, copied);
            if (s.Syncing is { } sync && Site.Dice(2)) Sync(s, receiver, sync.Ticket, sync.Records);
            if (s.ApplyTo is { } to && !IsDead) Apply(s, receiver, to);
        }
    }

    public override void Die(string why)
    {
        base.Die(why);
        Site.Processes.Remove(this);
    }

    private Stream? Of(int stream) => _streams.Find(s => s.Disk.Number == stream);

    // ---- A stream's life ----

    private IEnumerable<bool> Run(Stream s)
    {
        StreamHost disk = s.Disk;
        while (!IsDead)
        {
            EndReceiver(s);
            s.IsReset = false;
            SqlCall take;
            do
            {
                take = Ask("take", () => Site.Sql.TakeStream(disk.Number));
                while (!take.IsDone) yield return true;
            }
            while (take.Result is null);
            s.Epoch = (long)take.Result;
            if (s.Epoch == 0)
            {
                Die("the site is the primary");
                yield break;
            }

            if (!disk.Log.Open(s.Epoch))
            {
                Die("its log belongs to a later process");
                yield break;
            }

            yield return true;
            StreamLife life = new(new(disk.Number), s.Epoch, Site.Mutation);
            // Until its store has died: then it begins again as another process would.
            while (!IsDead && !s.IsReset)
            {
                SiteState? state = null;
                foreach (bool step in Look(r => state = r)) yield return step;
                if (state!.Role is not (SiteRole.Backup or SiteRole.FailingOver)) yield break;
                SqlCall? tell = null;
                switch (life.Next(state, disk.Found, disk.At))
                {
                    case StreamStep.Seeded seeded: tell = Ask("seeded", () => Site.Sql.Seeded(disk.Number, seeded.Generation)); break;
                    case StreamStep.Reseed reseed: tell = Ask("reseed", () => Site.Sql.Reseed(disk.Number, reseed.Generation)); break;
                    case StreamStep.Receive receive:
                        foreach (bool step in Receive(s, life, receive.Start)) yield return step;
                        EndReceiver(s);
                        break;
                }

                while (tell is { IsDone: false }) yield return true;
            }
        }
    }

    private static void EndReceiver(Stream s)
    {
        (s.Receiver, s.Syncing, s.CopySyncing, s.ApplyTo, s.IsCopied) = (null, null, null, null, false);
        (s.Takeover, s.IsReady, s.IsPromoting) = (null, false, false);
        s.Askers.Clear();
        s.Kept.Clear();
    }

    private IEnumerable<bool> Look(Action<SiteState> then)
    {
        while (true)
        {
            SqlCall look = Ask("look", Site.Sql.Look);
            while (!look.IsDone) yield return true;
            if (look.Result is not SiteState state) continue;
            then(state);
            yield break;
        }
    }

    private IEnumerable<bool> Receive(Stream s, StreamLife life, ReceiverStart start)
    {
        StreamHost disk = s.Disk;
        Receiver receiver = s.Receiver =
            new(start with { CopySyncBytes = Site.Random.Next(1, 20), StagedBytesMax = 600, ReportUs = 2 * Cluster.IntervalUs,
                UnansweredPiecesMax = Site.UnansweredPiecesMax },
                Site.Mutation);
        if (!receiver.IsSeeded) disk.ForgetUnsynced();
        Do(s, receiver.Begin);
        long pollUs = Site.NowUs + (Site.Dice(2) ? PollUs : 0);
        List<StreamStep> steps = [];
        while (!IsDead && !s.IsReset)
        {
            if (s.IsCopied)
            {
                foreach (bool step in BeginLog(s, receiver)) yield return step;
                yield break;
            }

            if (Site.NowUs < pollUs)
            {
                yield return true;
                continue;
            }

            pollUs = Site.NowUs + PollUs;
            SiteState? state = null;
            foreach (bool step in Look(r => state = r)) yield return step;
            steps.Clear();
            life.Look(state!, receiver.Generation, receiver.IsFrozen, steps);
            foreach (StreamStep step in steps)
            {
                switch (step)
                {
                    case StreamStep.Deposed: Die("deposed"); yield break;
                    case StreamStep.Over: yield break;
                    case StreamStep.Freeze freeze: Do(s, e => receiver.Freeze(freeze.Number, e)); break;
                    case StreamStep.Decided decided when receiver.IsSeeded: Do(
                        s, e => receiver.Decided(decided.Number, decided.Final, e)); break;
                }
            }
        }
    }

    private IEnumerable<bool> BeginLog(Stream s, Receiver receiver)
    {
        StreamHost disk = s.Disk;
        yield return true;
        if (IsDead || s.IsReset || !MayWrite(s)) yield break;
        disk.StoreDies();
        disk.BeginLog();
        Site.Count("seeded");
        if (Site.IsTraced) Site.Note($"{Name}: stream {disk.Number} is seeded, life {receiver.Generation}: {disk.Seed}");
        yield return true;
    }

    // ---- Effects ----

    private void Do(Stream s, Action<List<ReceiverEffect>> input)
    {
        if (IsDead || s.Receiver is not { } receiver) return;
        List<ReceiverEffect> effects = [];
        input(effects);
        for (int i = 0; i < effects.Count && !IsDead; i++)
        {
            Perform(s, receiver, effects[i]);
            // Nothing may come behind the word that a shard can be opened: whoever opens it looks at what there is then.
            int odds = effects[i] is ReceiverEffect.Open ? DeathBehindOpen : DeathBetweenEffects;
            if (i + 1 < effects.Count && Site.MayFail && Site.Dice(odds)) Die("killed between two effects");
        }
    }

    private void Perform(Stream s, Receiver receiver, ReceiverEffect effect)
    {
        ShardLog log = s.Disk.Log;
        int stream = s.Disk.Number;
        if (Site.IsTraced) Site.Note($"{Name} stream {stream}: {effect}");
        switch (effect)
        {
            case ReceiverEffect.Reply reply:
                // A receiver that was deposed can write nothing of what it is sent.
                if (reply.Message.Kind == ShipReplyKind.Welcome && log.Admits(s.Epoch))
                    Site.Checks.OnWelcomed(s.Disk, reply.Message.Newest);
                if (s.Peer is { } peer) Site.Wires.PostWide(stream, () => peer.HearReply(reply.Message));
                break;
            case ReceiverEffect.Reseed:
                Start(Reseed(s, receiver));
                break;
            case ReceiverEffect.NoteSender note:
                Start(NoteSender(s, receiver, note.Sender));
                break;
            case ReceiverEffect.WriteCopy copy when log.Admits(s.Epoch):
                s.Disk.Write(copy.Chunk, s.Brought!.Commands);
                Site.Count("seed: piece taken");
                break;
            case ReceiverEffect.SyncCopy sync:
                s.CopySyncing = sync.Ticket;
                break;
            case ReceiverEffect.Copied:
                s.IsCopied = true;
                break;
            case ReceiverEffect.Keep keep:
                s.Kept[(keep.Piece.From, keep.Piece.To)] = s.Brought!;
                break;
            case ReceiverEffect.Forget:
                s.Kept.Clear();
                break;
            case ReceiverEffect.Append append when MayWrite(s):
                s.Kept.Remove((append.Piece.From, append.Piece.To), out Payload? payload);
                Append(s, append.Piece, payload);
                break;
            case ReceiverEffect.NoteCut note when MayWrite(s):
                if (log.Exactly(note.Cut.Version) is null)
                    throw new SimException($"I7: stream {stream} is said to hold {note.Cut}, its log cannot be brought there");
                log.NoteCut(note.Cut);
                break;
            case ReceiverEffect.Sync sync:
                s.Syncing = (sync.Ticket, log.Appended);
                break;
            case ReceiverEffect.Report report:
                foreach (WatermarkProcess w in Site.Services) Site.Wires.PostNear(() => w.Hear(report.Message));
                // Who manages a failover hears it too: it is no final one.
                foreach (FailoverProcess m in Site.Managers)
                    Site.Wires.PostNear(() =>
                        m.Hear(new(default, report.Message.Stream, report.Message.Generation, s.Epoch, report.Message.Held)));
                break;
            case ReceiverEffect.Count:
                Start(Count(s, receiver));
                break;
            case ReceiverEffect.Apply apply:
                s.ApplyTo = apply.To;
                break;
            case ReceiverEffect.Final final:
                foreach (FailoverProcess m in Site.Managers) Site.Wires.PostNear(() => m.Hear(final.Message));
                break;
            case ReceiverEffect.Void v when MayWrite(s):
                if (log.Last.WorldLine < v.Branch.WorldLine)
                {
                    if (log.Exactly(v.Branch.At.Version) is not { } at)
                        throw new SimException($"I7: stream {stream} cannot be brought to {v.Branch.At}, its log is at {log.EndIndex}");
                    log.BeginWorldLine(at with { WorldLine = v.Branch.WorldLine }, Site.NewHistoryId());
                }

                Do(s, receiver.Voided);
                break;
            case ReceiverEffect.Open open:
                if (s.Takeover is null) StartAtOnce(TakeOver(s, receiver, open.Number));
                break;
        }
    }

    private bool MayWrite(Stream s)
    {
        if (s.Disk.Log.Admits(s.Epoch)) return true;
        Die("its log belongs to a later process");
        return false;
    }

    private void Append(Stream s, ShipRequest.Piece piece, Payload? payload)
    {
        ShardLog log = s.Disk.Log;
        Site.Checks.OnAppended(s.Disk, piece, payload);
        if (piece.IsBranch)
        {
            Core.Versions.VersionNumber branch = piece.To.Closed;
            Boundary kept = log.AtOrBelow(branch)
                ?? throw new SimException(
                $"I5: stream {s.Disk.Number}: world-line {piece.To.WorldLine} branches at {branch}, its log cannot be brought there");
            if (kept.Offset != piece.To.Offset)
                throw new SimException($"I5: stream {s.Disk.Number}: world-line {piece.To.WorldLine} branches at {piece.To}, where its "
                    + $"log has {kept}");
            if (s.Disk.Offset > piece.To.Offset) throw new SimException($"I4: stream {s.Disk.Number}: {piece.To} makes void what the "
                + $"store has applied, up to offset {s.Disk.Offset}");
            // What is empty up to the branch is so at any version.
            if (kept.Version < branch && log.Last.Version == kept.Version) log.AppendRun(kept with { Version = branch });
            log.BeginWorldLine(kept with { WorldLine = piece.To.WorldLine, Version = branch }, Site.NewHistoryId());
            Site.Count("world-line shipped");
            return;
        }

        if (piece.Window is { } window && window.From == piece.From)
        {
            log.BeginWindow();
            Site.Count("window");
        }

        int taken = 0;
        foreach (Boundary entry in payload!.Entries)
        {
            while (log.End < entry.Offset && taken < payload.Commands.Length) log.AppendBytes(payload.Commands[taken++]);
            if (entry.Offset <= log.Last.Offset && entry.Offset != log.End) log.AppendRun(entry with { Offset = log.Last.Offset });
            else if (entry.Offset == log.Last.Offset) log.AppendRun(entry);
            else log.AppendBoundary(entry);
        }

        while (taken < payload.Commands.Length) log.AppendBytes(payload.Commands[taken++]);
    }

    private void Sync(Stream s, Receiver receiver, SyncTicket ticket, int records)
    {
        s.Syncing = null;
        if (!MayWrite(s)) return;
        s.Disk.Log.Sync(records);
        Do(s, e => receiver.Synced(ticket, e));
    }

    // A disk that is full refuses, and is asked again.
    private void SyncCopy(Stream s, Receiver receiver, SeedTicket ticket)
    {
        s.CopySyncing = null;
        if (!MayWrite(s)) return;
        if (Site.MayFail && Site.Dice(16))
        {
            Site.Count("seed: disk refused");
            s.Disk.ForgetUnsynced();
            Do(s, e => receiver.CopyRefused(s.Disk.Found.Copy, e));
            return;
        }

        s.Disk.SyncSeed(ticket);
        Do(s, e => receiver.CopySynced(ticket, e));
    }

    // Towards the boundary, some commands at a time: readers see the store at its end only.
    private void Apply(Stream s, Receiver receiver, WorldPoint to)
    {
        StreamHost disk = s.Disk;
        if (!MayWrite(s)) return;
        Boundary end = disk.Log.Exactly(to.Version)
            ?? throw new SimException($"I7: stream {disk.Number} cannot be brought to {to}, its log is at {disk.Log.EndIndex}");
        if (disk.Offset > end.Offset) throw new SimException($"I4: stream {disk.Number} is to be brought to {to} at {end.Offset}, and has "
            + $"applied up to {disk.Offset}");
        for (int n = Site.Random.Next(1, 8); n > 0 && disk.Offset < end.Offset; n--) disk.Execute(disk.Log.Bytes[(int)disk.Offset]);
        if (disk.Offset < end.Offset) return;
        s.ApplyTo = null;
        disk.At = to;
        Site.Checks.OnApplied(disk, to);
        Do(s, e => receiver.Applied(to, e));
    }

    private IEnumerable<bool> NoteSender(Stream s, Receiver receiver, Sender sender)
    {
        SqlCall note = Ask("admit", () => Site.Sql.Admit(s.Disk.Number, sender));
        while (!note.IsDone) yield return true;
        if (note.Result is Sender newest && s.Receiver == receiver) Do(s, e => receiver.SenderNoted(sender, newest, e));
    }

    // Said again until it is done.
    private IEnumerable<bool> Reseed(Stream s, Receiver receiver)
    {
        SqlCall reseed = Ask("reseed", () => Site.Sql.Reseed(s.Disk.Number, receiver.Generation));
        while (!reseed.IsDone) yield return true;
    }

    private IEnumerable<bool> Count(Stream s, Receiver receiver)
    {
        while (s.Receiver == receiver)
        {
            SqlCall count = Ask("count", () => Site.Sql.Counted(s.Disk.Number, receiver.Generation));
            while (!count.IsDone) yield return true;
            if (count.Result is not null) yield break;
        }
    }

    // ---- Taking over ----

    private IEnumerable<bool> TakeOver(Stream s, Receiver receiver, SiteEpoch number)
    {
        StreamTakeover takeover = s.Takeover = new(new(s.Disk.Number), s.Epoch, number, Site.Random.Next(1, 40) * Cluster.IntervalUs,
            2 * Cluster.IntervalUs, Site.Mutation);
        while (!IsDead && s.Receiver == receiver)
        {
            SqlCall? call = null;
            switch (takeover.Next(Site.NowUs))
            {
                case TakeoverStep.Enter enter:
                    for (int turns = Site.Dice(2) ? 0 : Site.Random.Next(1, 30); turns > 0; turns--) yield return true;
                    if (IsDead || s.Receiver != receiver || !MayWrite(s)) yield break;
                    s.Disk.Entered = enter.Line;
                    takeover.Entered();
                    break;
                case TakeoverStep.Ready:
                    s.IsReady = true;
                    foreach (FailoverProcess m in s.Askers) SayReady(s, number, m);
                    break;
                case TakeoverStep.Promote:
                    Start(Promote(s, takeover));
                    break;
                case TakeoverStep.Await:
                    yield return true;
                    break;
                case TakeoverStep.Open open:
                    call = Ask("open", () => Site.Sql.Open(open.Number, [Ready(s)]));
                    Site.Count("opened by its own process");
                    break;
                case TakeoverStep.Look:
                    call = Ask("look", Site.Sql.Look);
                    break;
                case TakeoverStep.HandOver:
                    Site.Checks.OnHandedOver(s.Disk, s.Epoch, s.IsPromoting);
                    s.IsHandedOver = true;
                    yield break;
                case TakeoverStep.Over over:
                    Die(over.Why);
                    yield break;
            }

            while (call is { IsDone: false }) yield return true;
            if (call?.Result is SiteChange { Error: { } error }) takeover.Refused(error);
            else if (call?.Result is SiteChange { After: { } after }) takeover.SiteIs(after, Site.NowUs);
            else if (call?.Result is SiteState state) takeover.SiteIs(state, Site.NowUs);
        }
    }

    // Whether it succeeds or not, the store is found as it is.
    private IEnumerable<bool> Promote(Stream s, StreamTakeover takeover)
    {
        s.IsPromoting = true;
        while (!Site.Dice(8)) yield return true;
        s.IsPromoting = false;
        takeover.Promoted();
    }

    private static ReadyStream Ready(Stream s) => new(new(s.Disk.Number), s.Epoch, "");

    private void SayReady(Stream s, SiteEpoch number, FailoverProcess to)
    {
        ReadyStream ready = Ready(s);
        Site.Wires.PostNear(() => to.HearReady(number, ready));
    }

    // A word alone hands nothing over: SQL says what the site is.
    private IEnumerable<bool> LookWhetherPrimary()
    {
        SiteState? state = null;
        foreach (bool step in Look(r => state = r)) yield return step;
        foreach (Stream s in _streams) s.Takeover?.SiteIs(state!, Site.NowUs);
    }
}

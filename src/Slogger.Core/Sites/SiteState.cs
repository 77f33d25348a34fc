// What a site's SQL says of the site itself: whether it leads, under which epoch, and what its backup's streams are. Immutable and pure:
// SQL performs a change in one transaction by reading the rows, applying it here, and writing the result; a caller who does not hear of it
// does it again.
//
// A failover is a change of one site's SQL alone, since the other may be gone. From the moment on at which it has taken the epoch nothing
// of an older one is received (each receiver that starts reads it here, each that runs is told), and it has one outcome: whoever goes on
// with it finds here how far it came.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sites;

/// <summary>What a site is.</summary>
public enum SiteRole : byte
{
    /// <summary>It serves.</summary>
    Primary,

    /// <summary>It follows a primary.</summary>
    Backup,

    /// <summary>It was a backup, follows nobody any more, and is becoming the primary.</summary>
    FailingOver,

    /// <summary>It is the primary, and about to be no more: clients' operations are held (<see cref="SwitchOver"/>).</summary>
    HandingOver,

    /// <summary>It was the primary; the other site is, or will be. Nothing is served or committed here, and no process starts but as a
    /// backup.</summary>
    Deposed,
}

/// <summary>How far a stream's life at the backup has come.</summary>
public enum StreamPhase : byte
{
    /// <summary>It has no log: the shard's state is being copied.</summary>
    Empty,

    /// <summary>It has a log, and follows; but no watermark has come to what it was seeded with: there is no version yet that all streams
    /// can be brought to.</summary>
    Follows,

    /// <summary>It can be brought to the watermark, and so it will always be.</summary>
    Counts,
}

/// <summary>A stream at the backup.</summary>
/// <param name="Generation">Which life of it counts, from 1 on; each seeding begins another.</param>
/// <param name="Phase">How far that has come.</param>
/// <param name="Newest">The newest sender.</param>
/// <param name="Owner">The epoch of the process that receives it; 0: nobody ever has.</param>
/// <param name="IsLost">In the failover that is under way the operator has given it up.</param>
/// <param name="IsOpen">Its shard is ready to be opened as a primary's.</param>
public readonly record struct StreamState(long Generation, StreamPhase Phase, Sender Newest, long Owner = 0, bool IsLost = false,
    bool IsOpen = false);

/// <summary>A stream that is at the final watermark of a failover, with its store and its log.</summary>
/// <param name="Stream">Which.</param>
/// <param name="Owner">The epoch of the process that has received it.</param>
/// <param name="Name">Who that is, for people.</param>
public readonly record struct ReadyStream(ShardId Stream, long Owner, string Name);

/// <summary>A switch-over that a primary has begun.</summary>
/// <param name="Number">Counted, at this primary.</param>
/// <param name="Cut">Set: everything that was ever answered is in this cut, the backup holds it, and has been offered to take over. Only
/// its word that it will not lets the primary go on.</param>
public readonly record struct HandOver(long Number, WorldPoint? Cut);

/// <summary>What becomes of a change: the state after it, or why it is refused.</summary>
/// <param name="After">Null: refused.</param>
/// <param name="Error">For a person; null: done.</param>
public readonly record struct SiteChange(SiteState? After, string? Error);

/// <summary>A site.</summary>
/// <param name="Epoch">The newest site epoch that it knows of: its own, while it is the primary.</param>
/// <param name="Role">What it is.</param>
/// <param name="Streams">While it is a backup, and while it fails over: one for each shard of the primary, by number; with another number
/// of shards, as <see cref="Layout"/> says.</param>
/// <param name="Final">The final watermark of the failover that has taken the epoch; null before it is decided.</param>
public sealed record SiteState(SiteEpoch Epoch, SiteRole Role, ImmutableArray<StreamState> Streams, WorldPoint? Final)
{
    /// <summary>The last switch-over that was begun, while it is the primary.</summary>
    public HandOver HandOver { get; init; }

    /// <summary>Of which shards of the two sites the streams are. The default: each of those of its own number.</summary>
    public StreamLayout Layout { get; init; }

    /// <summary>At a backup: switch-overs up to this one were called off.</summary>
    public long CalledOff { get; init; }

    /// <summary>A cluster that no other site is concerned with.</summary>
    public static readonly SiteState Alone = new(SiteEpoch.First, SiteRole.Primary, [], null);

    /// <summary>A site that is to follow a primary of as many shards: all of its streams have to be seeded.</summary>
    /// <param name="streams">How many shards the primary has.</param>
    /// <param name="of">The primary's site epoch.</param>
    public static SiteState BackupOf(int streams, SiteEpoch of) => BackupOf(streams, streams, of);

    /// <summary>A site that is to follow a primary: all of its streams have to be seeded.</summary>
    /// <param name="sources">How many shards the primary has.</param>
    /// <param name="shards">How many the backup has.</param>
    /// <param name="of">The primary's site epoch.</param>
    public static SiteState BackupOf(int sources, int shards, SiteEpoch of)
    {
        StreamLayout layout = StreamLayout.Of(sources, shards);
        int streams = layout.IsPlain ? shards : layout.Pairs.Length;
        return new(of, SiteRole.Backup, [.. Enumerable.Repeat(new StreamState(1, StreamPhase.Empty, default), streams)],
            null) { Layout = layout };
    }

    /// <summary>For <see cref="Slogger.Core.Watermarks.WatermarkService"/>: the generations that count.</summary>
    public ImmutableArray<long> Generations => [.. Streams.Select(s => s.Generation)];

    /// <summary>How many shards a backup has.</summary>
    public int Shards => Layout.IsPlain ? Streams.Length : Layout.Shards;

    /// <summary>How many shards its primary has.</summary>
    public int Sources => Layout.IsPlain ? Streams.Length : Layout.Sources;

    /// <summary>The backup's shard that a stream is brought to.</summary>
    public int ShardOf(int stream) => Layout[stream].Shard;

    /// <summary>The streams of a shard of the backup.</summary>
    public ImmutableArray<int> StreamsOf(ShardId shard) => Layout.StreamsOf(shard.Number);

    /// <summary>The epoch of the process that receives a shard's streams; 0: nobody ever has, or there is no such shard.</summary>
    public long OwnerOf(ShardId shard) => shard.Number < Shards ? StreamsOf(shard).Max(s => Streams[s].Owner) : 0;

    /// <summary>A stream, for people: the backup's shard, and the primary's if that has another number.</summary>
    public string NameOf(int stream) => Layout.IsPlain ? $"{stream}" : $"{Layout[stream].Shard} (of the primary's {Layout[stream].Source})";

    private string ShardsOf(IEnumerable<int> streams) => string.Join(", ", streams.Select(ShardOf).Distinct());

    // ---- Following ----

    /// <summary>A process is to receive a stream, instead of whoever did. It begins with what the state after that says: if a failover has
    /// taken the epoch before, it is frozen, and the stream is open when this process is ready: the shard would else be of the one before,
    /// which is gone. Of a site that receives nothing any more no stream can be taken.</summary>
    /// <param name="stream">Which.</param>
    /// <param name="owner">Its epoch, above all that were given out.</param>
    public SiteState TakeStream(ShardId stream, long owner) =>
        Role is not (SiteRole.Backup or SiteRole.FailingOver) || owner <= Streams[stream.Number].Owner ? this
            : With(stream, Streams[stream.Number] with { Owner = owner, IsOpen = false });

    /// <summary>The same for all streams of a shard.</summary>
    public SiteState TakeShard(ShardId shard, long owner) =>
        StreamsOf(shard).Aggregate(this, (site, stream) => site.TakeStream(new(stream), owner));

    /// <summary>A shipper says hello.</summary>
    /// <returns>The state, and the newest sender: only if that is this one may it be answered. Null: the site is no backup, and it not
    /// older than the site's own epoch either; there is nothing to say to it.</returns>
    public (SiteState After, Sender? Newest) Admit(ShardId stream, Sender sender)
    {
        StreamState s = Streams[stream.Number];
        Sender newest = s.Newest.Site < Epoch ? new(Epoch, 0, 0) : s.Newest;
        if (sender < newest) return (this, newest);
        if (Role != SiteRole.Backup) return (this, null);
        return (With(stream, s with { Newest = sender }) with { Epoch = sender.Site }, sender);
    }

    /// <summary>A stream has to be seeded (anew): what it had is given up. The watermark stays where it is until it counts again. A shard
    /// of several streams begins with the copies of all of them: they are all seeded.</summary>
    /// <param name="stream">Which.</param>
    /// <param name="generation">The life of it that is over; if that is not the one that counts, or it is being seeded, nothing
    /// changes.</param>
    public SiteChange Reseed(ShardId stream, long generation)
    {
        if (Role != SiteRole.Backup) return new(null, $"the site is {Text(Role)}: only a backup's streams are seeded");
        StreamState s = Streams[stream.Number];
        if (s.Generation != generation || s.Phase == StreamPhase.Empty) return new(this, null);
        return new(this with { Streams =
            [.. Streams.Select((other, i) => ShardOf(i) == ShardOf(stream.Number) && other.Phase != StreamPhase.Empty
                ? other with { Generation = other.Generation + 1, Phase = StreamPhase.Empty } : other)] }, null);
    }

    /// <summary>A stream's seed is complete and durable, and its log has begun there.</summary>
    public SiteState Seeded(ShardId stream, long generation) => Grow(stream, generation, StreamPhase.Follows);

    /// <summary>A stream can be brought to the watermark.</summary>
    public SiteState Count(ShardId stream, long generation) => Grow(stream, generation, StreamPhase.Counts);

    /// <summary>A site that was the primary becomes the backup of the one that took over: all that it has is void, and comes
    /// anew.</summary>
    /// <param name="streams">How many shards the other has, and this one.</param>
    /// <param name="of">The other's site epoch.</param>
    public SiteChange Follow(int streams, SiteEpoch of) => Follow(streams, streams, of);

    /// <summary>The same, of a site with another number of shards.</summary>
    /// <param name="sources">How many shards the other has.</param>
    /// <param name="shards">How many this one has.</param>
    /// <param name="of">The other's site epoch.</param>
    public SiteChange Follow(int sources, int shards, SiteEpoch of) =>
        // Of a life that it had as a backup before, something may be left on its disks: no two are numbered alike.
        Role == SiteRole.Deposed && of >= Epoch && BackupOf(sources, shards, of) is var begun
            ? new(begun with { Streams = [.. begun.Streams.Select((s, i) => s with { Generation = GenerationAfter(i, begun.Layout) })] },
            null)
        : new(null, $"the site is {Text(Role)} in epoch {Epoch}: only one that was deposed can follow another, and only one of "
        + $"a later epoch ({of} was given)");

    private long GenerationAfter(int stream, StreamLayout layout) =>
        (layout != Layout ? Streams.Select(s => s.Generation).DefaultIfEmpty().Max()
            : stream < Streams.Length ? Streams[stream].Generation : 0) + 1;

    // ---- Failing over ----

    /// <summary>Begins a failover: takes the next epoch. Again, while it is under way: nothing changes, and who did it goes on with
    /// it.</summary>
    /// <param name="losing">Shards that the operator gives up, by number: what they hold is lost.</param>
    public SiteChange Take(ImmutableArray<int> losing) => Take(losing, ShipMutation.None);

    internal SiteChange Take(ImmutableArray<int> losing, ShipMutation mutation)
    {
        if (Role == SiteRole.FailingOver) return new(this, null);
        if (Role != SiteRole.Backup) return new(null, $"it is {Text(Role)}: only a backup can take over");
        int[] seeding = [.. Enumerable.Range(0, Streams.Length)
            .Where(s => Streams[s].Phase != StreamPhase.Counts && !losing.Contains(ShardOf(s)))];
        if (seeding.Length > 0 && mutation != ShipMutation.SeedingIgnored)
        {
            return new(null, $"shard {ShardsOf(seeding)} is being seeded, and holds nothing yet that could be taken over together "
                + "with the others. If the primary lives let the seeding end first; if it is gone for good, what these shards held is "
                + "lost: name them in the command to take over without it");
        }

        return new(this with { Epoch = Epoch.Next, Role = SiteRole.FailingOver, Final = null,
            Streams = [.. Streams.Select((s, i) => s with { IsLost = losing.Contains(ShardOf(i)), IsOpen = false })] }, null);
    }

    /// <summary>The operator gives up a shard while a failover is under way, since its disk is gone: else that would wait for
    /// ever.</summary>
    public SiteChange Lose(ShardId shard) =>
        Role == SiteRole.FailingOver && Final is null
            ? new(StreamsOf(shard).Aggregate(this, (site, s) => site.With(new(s), site.Streams[s] with { IsLost = true })), null)
        : new(null, $"the site is {Text(Role)}{(Final is null ? "" : ", and its final watermark decided")}: a stream is given up only "
        + "before that, while a failover is under way");

    /// <summary>Decides a failover. Again: nothing changes, whatever is given.</summary>
    /// <param name="number">The failover, by the epoch that it took.</param>
    /// <param name="final">The newest recorded cut that all streams hold.</param>
    public SiteChange Decide(SiteEpoch number, WorldPoint final)
    {
        if (number != Epoch || !(Role == SiteRole.FailingOver || (Role == SiteRole.Primary && Final is not null)))
            return new(null, $"failover {number} is over: the site is {Text(Role)} in epoch {Epoch}");
        return new(Final is null ? this with { Final = final } : this, null);
    }

    /// <summary>A stream is at the final watermark. Its shard is open with the last one of its streams, and with the last of all the site
    /// is the primary. Only the process that has the stream by now can have it opened: the shard would else be of one that is
    /// gone.</summary>
    public SiteChange Open(SiteEpoch number, in ReadyStream ready) => Open(number, ready, ShipMutation.None);

    internal SiteChange Open(SiteEpoch number, in ReadyStream ready, ShipMutation mutation)
    {
        if (number != Epoch || Final is null)
            return new(null, $"failover {number} is not decided, or over: the site is {Text(Role)} in epoch {Epoch}");
        ShardId stream = ready.Stream;
        bool isOwner = stream.Number < Streams.Length
            && (Streams[stream.Number].Owner == ready.Owner || mutation == ShipMutation.OpensForAnyOwner);
        if (!isOwner) return new(null, $"stream {stream} is received by another process");
        if (Role == SiteRole.Primary) return new(this, null);
        SiteState after = With(stream, Streams[stream.Number] with { IsOpen = true });
        bool isDone = after.Streams.All(s => s.IsOpen || s.IsLost);
        return new(isDone ? after with { Role = SiteRole.Primary } : after, null);
    }

    /// <summary>Whether all streams of a stream's shard are ready.</summary>
    public bool IsShardOpen(ShardId stream) => StreamsOf(new(ShardOf(stream.Number))).All(s => Streams[s].IsOpen || Streams[s].IsLost);

    /// <summary>Another site has taken over, or is about to.</summary>
    /// <param name="by">Its epoch.</param>
    public SiteState DeposedBy(SiteEpoch by) => by > Epoch ? this with { Epoch = by, Role = SiteRole.Deposed } : this;

    // Said late of an earlier generation, or when the site has taken over: nothing.
    private SiteState Grow(ShardId stream, long generation, StreamPhase phase)
    {
        StreamState s = Streams[stream.Number];
        return Role == SiteRole.Backup && s.Generation == generation && s.Phase < phase ? With(stream, s with { Phase = phase }) : this;
    }

    private SiteState With(ShardId stream, StreamState state) => this with { Streams = Streams.SetItem(stream.Number, state) };

    // ---- Switching over ----

    /// <summary>At the primary: begins a switch-over. From now on clients' operations are held: by each process that reads this, and by
    /// each that starts.</summary>
    /// <param name="after">The last one, <see cref="HandOver.Number"/>, as it was read: an order that is late begins nothing that nobody
    /// manages.</param>
    public SiteChange Hold(long after) => Role switch
    {
        _ when HandOver.Number != after => new(null, $"switch-over {HandOver.Number} was begun since"),
        SiteRole.Primary => new(this with { Role = SiteRole.HandingOver, HandOver = new(HandOver.Number + 1, null) }, null),
        SiteRole.HandingOver => new(this, null),
        _ => new(null, $"it is {Text(Role)}: only a primary can be switched over"),
    };

    /// <summary>At the primary: the backup is about to be offered to take over.</summary>
    public SiteChange Offer(long number, WorldPoint cut) =>
        Role != SiteRole.HandingOver || HandOver.Number != number ? new(null, $"switch-over {number} is over: the site is {Text(Role)}")
        : new(HandOver.Cut is null ? this with { HandOver = HandOver with { Cut = cut } } : this, null);

    /// <summary>At the primary: goes on as before.</summary>
    /// <param name="number">The switch-over that has come to nothing.</param>
    /// <param name="isCalledOff">Whether the backup's SQL has said that it will not take over any more (<see cref="CallOff"/>).</param>
    public SiteChange Resume(long number, bool isCalledOff) => Resume(number, isCalledOff, ShipMutation.None);

    internal SiteChange Resume(long number, bool isCalledOff, ShipMutation mutation)
    {
        if (Role == SiteRole.Primary && HandOver.Number == number) return new(this, null);
        if (Role != SiteRole.HandingOver || HandOver.Number != number)
            return new(null, $"switch-over {number} is over: the site is {Text(Role)}");
        bool mayBeTaken = HandOver.Cut is not null && !isCalledOff && mutation != ShipMutation.ResumesUnasked;
        return mayBeTaken ? new(null, "the backup was offered to take over, and may have: ask it first")
            : new(this with { Role = SiteRole.Primary, HandOver = HandOver with { Cut = null } }, null);
    }

    /// <summary>At the backup: this switch-over, and all before, will not take place.</summary>
    public SiteChange CallOff(long number) =>
        Role == SiteRole.Backup ? new(this with { CalledOff = Math.Max(CalledOff, number) }, null)
            : new(null, $"the site is {Text(Role)}: it is too late to call the switch-over off");

    /// <summary>At the backup: takes over as offered. Again: nothing changes.</summary>
    public SiteChange TakeOffered(long number) =>
        Role == SiteRole.Backup && number <= CalledOff ? new(null, $"switch-over {number} was called off") : Take([]);

    private static string Text(SiteRole role) => role switch
    {
        SiteRole.Primary => "the primary",
        SiteRole.Backup => "a backup",
        SiteRole.FailingOver => "taking over",
        SiteRole.HandingOver => "handing over",
        _ => "deposed",
    };
}

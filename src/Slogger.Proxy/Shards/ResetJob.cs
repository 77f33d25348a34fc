// What is prepared for one reset of a shard, while clients go on: the keys that were changed since the instant, here and at shards that had
// them before their slots moved, and the writes that put them back.
using System.Globalization;
using System.Security.Cryptography;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log.Files;
using Slogger.Proxy.Past;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;

namespace Slogger.Proxy.Shards;

/// <summary>One reset, from when it is prepared. Any thread, if nothing else is said.</summary>
/// <param name="shard">Whose.</param>
/// <param name="store">What it needs of the store.</param>
/// <param name="end">The instant.</param>
/// <param name="prefix">Only keys that begin so.</param>
/// <param name="shiftMs">Expiries are put off so long, in milliseconds.</param>
/// <param name="owners">Who had which slots when it was begun; null: a shard alone has all.</param>
/// <param name="ending">The shard ends.</param>
internal sealed class ResetJob(VersionedShard shard, IResetStore store, Boundary end, byte[] prefix, long shiftMs, MapRevision? owners,
    CancellationToken ending)
{
    /// <summary>So long one that is prepared waits for whoever manages it.</summary>
    public static readonly TimeSpan SilentMax = TimeSpan.FromMinutes(1);

    private static readonly TimeSpan s_inPlaceMax = TimeSpan.FromSeconds(30), s_lookPause = TimeSpan.FromMilliseconds(50);
    private static readonly TimeSpan s_holdPause = TimeSpan.FromMilliseconds(5), s_renewPause = TimeSpan.FromSeconds(5);

    // Of each kind of work. What is above is on disk.
    private const int HeldMax = 32 << 20;
    private const string Folder = "reset";

    // So many are told apart in memory: some 65 MB.
    private const int KeysAtOnce = 500_000;

    // So few may be new at the end of a turn: those that come later are prepared while clients wait.
    private const int KeysLeftMax = 1000;

    // Of the disk, for what others write meanwhile.
    private const long RoomLeft = 64 << 20;
    private const double LogOverhead = 17.0 / 16;

    private int _steps;
    private long _askedAt = Environment.TickCount64;
    private volatile bool _isReady;
    private volatile string? _failure;

    // Keys whose values are yet to be taken out, or more.
    private long _left;

    // Up to there the log was read.
    private VersionNumber _upTo = end.Version;

    /// <summary>Known to nobody but whoever prepares it.</summary>
    public string Name { get; } = Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(16));

    /// <summary>The instant.</summary>
    public Boundary End { get; } = end;

    /// <summary>Who had which slots when it was begun; null: a shard alone has all.</summary>
    public MapRevision? Owners => owners;

    /// <summary>The writes. Whoever adds to them, or performs them.</summary>
    public ResetPlan Plan { get; } = new(() => NewSpill(store), shiftMs);

    /// <summary>Ends when nobody prepares any more: operations are held, or it has failed.</summary>
    public Task Preparing { get; private set; } = Task.CompletedTask;

    /// <summary>Whether it is prepared.</summary>
    public bool IsReady => _isReady;

    /// <summary>Why it cannot be; null: nothing has failed.</summary>
    public string? Failure => _failure;

    /// <summary>Ends what is done for it.</summary>
    public CancellationTokenSource Life { get; } = CancellationTokenSource.CreateLinkedTokenSource(ending);

    /// <summary>When a step ended last, in milliseconds of the system's uptime.</summary>
    public long AskedAt => Volatile.Read(ref _askedAt);

    /// <summary>For how long nobody has asked.</summary>
    public TimeSpan Silent => TimeSpan.FromMilliseconds(Environment.TickCount64 - AskedAt);

    /// <summary>Whether a step is under way; to prepare it is one.</summary>
    public bool IsBusy => Volatile.Read(ref _steps) > 0;

    private static string FolderOf(IResetStore store) => Path.Combine(store.Room[0].Directory, Folder);

    private static Spill NewSpill(IResetStore store) => new(SystemFileLayer.Instance, FolderOf(store), HeldMax);

    /// <summary>Deletes what a process before has left behind.</summary>
    /// <exception cref="IOException">It cannot be deleted.</exception>
    public static void Clear(IResetStore store) => Spill.Clear(FolderOf(store));

    private PastInstants Instants => store.Past.Instants;

    private PastPeers Others => new(shard.Seat, shard.Moves.Watch!);

    /// <summary>A step begins.</summary>
    public void Begin() => Interlocked.Increment(ref _steps);

    /// <summary>It has ended.</summary>
    public void Finish()
    {
        Volatile.Write(ref _askedAt, Environment.TickCount64);
        // No step begins once it is given up.
        if (Interlocked.Decrement(ref _steps) == 0 && Life.IsCancellationRequested) { Plan.Dispose(); }
    }

    /// <summary>Gives it up. Nobody begins a step any more; those that are under way end, and then its memory and its disk are free.
    /// </summary>
    public async Task GiveUpAsync()
    {
        Begin();
        await Life.CancelAsync().ConfigureAwait(false);
        Finish();
    }

    /// <summary>Prepares it; <see cref="IsReady"/> or <see cref="Failure"/> says how that ended.</summary>
    public void BeginPreparing()
    {
        Begin();
        Preparing = Task.Run(async () =>
        {
            try
            {
                await PrepareAsync().ConfigureAwait(false);
            }
            finally
            {
                Finish();
            }
        });
    }

    /// <summary>Adds what has been done up to the newest version that is committed: all, once operations are held.</summary>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="PastException">It is not possible; the text says why.</exception>
    public async Task AddAsync(CancellationToken stop)
    {
        if (Instants.LastCommitted is not { } last) { throw new PastException("nothing is kept yet"); }
        using (SpilledKeys named = NewKeys())
        {
            foreach (StoreKey key in store.Past.Touched.For(shard.Seat.Shard, at: null, _upTo, last, stop)) { Take(named, key); }
            await AddAsync(named, stop).ConfigureAwait(false);
        }
        RequireRoom();
        _upTo = last.Version;
    }

    private async Task PrepareAsync()
    {
        try
        {
            await Instants.CommittedAsync(new(InstantBy.Ago, 0), Life.Token).ConfigureAwait(false);
            long before;
            do
            {
                before = Plan.Keys;
                await AddAsync(Life.Token).ConfigureAwait(false);
            }
            while (Plan.Keys - before > KeysLeftMax);
            await AddOfOthersAsync(Life.Token).ConfigureAwait(false);
            // A shard whose store would have to be loaded as a whole is not waited for for ever.
            long until = Environment.TickCount64 + (long)s_inPlaceMax.TotalMilliseconds;
            while (!store.GoesBackInPlace() && Environment.TickCount64 < until)
            {
                await Task.Delay(s_lookPause, Life.Token).ConfigureAwait(false);
            }
            _isReady = true;
            await KeepUpAsync().ConfigureAwait(false);
        }
        catch (Exception e)
        {
            // Whoever asks for the state is told, whatever it is.
            _failure = PastAnswer.WhyOf(e) ?? e.ToString();
            Plan.Dispose();
        }
    }

    // Other shards may take much longer: what clients do meanwhile is not left to when they wait.
    private async Task KeepUpAsync()
    {
        long added = Environment.TickCount64;
        while (!shard.Reset.IsHeld && Silent < SilentMax)
        {
            await Task.Delay(s_holdPause, Life.Token).ConfigureAwait(false);
            if (Environment.TickCount64 - added < s_renewPause.TotalMilliseconds) { continue; }
            await AddAsync(Life.Token).ConfigureAwait(false);
            added = Environment.TickCount64;
        }
    }

    // What was done elsewhere to keys that have come since.
    private async Task AddOfOthersAsync(CancellationToken stop)
    {
        foreach (ShardId other in Instants.Owners.GaveBehind(End.Version))
        {
            using SpilledKeys named = NewKeys();
            await foreach (StoreKey key in Others.TouchedAsync(other, End.Version, at: null, stop).ConfigureAwait(false))
            {
                if (Instants.Owners.Has(shard.Seat.Shard, key)) { Take(named, key); }
            }
            await AddAsync(named, stop).ConfigureAwait(false);
        }
    }

    private SpilledKeys NewKeys() => new(NewSpill(store), KeysAtOnce);

    private void Take(SpilledKeys named, in StoreKey key)
    {
        if (!key.Name.AsSpan().StartsWith(prefix)) { return; }
        long before = named.Count;
        named.Add(key);
        if (named.Count > before && named.Count % KeysAtOnce == 0) { RequireRoom(named.Bytes); }
    }

    // However many there are, and however often each: by their hashes in parts that are told apart in memory.
    private async Task AddAsync(SpilledKeys named, CancellationToken stop)
    {
        _left = named.Count;
        ulong parts = (ulong)(named.Count / KeysAtOnce) + 1;
        for (ulong part = 0; part < parts; part++)
        {
            HashSet<StoreKey> some = [.. named.Read(hash => Math.BigMul(hash, parts, out _) == part)];
            Plan.RemoveKnown(some);
            await DumpAsync(some, stop).ConfigureAwait(false);
        }
    }

    // With what they were, at whoever had them.
    private async Task DumpAsync(HashSet<StoreKey> keys, CancellationToken stop)
    {
        VersionNumber version = End.Version;
        foreach (IGrouping<ShardId, StoreKey> some in Instants.Owners.ByOwner(keys, version))
        {
            await foreach (IReadOnlyList<DumpedKey> dumped in (some.Key == shard.Seat.Shard ? store.Past.DumpAllAsync(version, some, stop)
                : Others.DumpAllAsync(some.Key, version, some, stop)).ConfigureAwait(false))
            {
                Plan.Add(dumped);
                _left -= dumped.Count;
                RequireRoom();
                if (!shard.Reset.IsHeld && Silent > SilentMax) { throw new PastException("nobody has asked for the reset for a minute"); }
            }
        }
    }

    // A disk that is full stops the shard.
    private void RequireRoom(long names = 0)
    {
        foreach ((string directory, double times) in store.Room)
        {
            long needed = (long)(Plan.Bytes * times * LogOverhead) + Math.Min(Plan.Bytes + names, RoomLeft);
            long free = new DriveInfo(directory).AvailableFreeSpace;
            if (free >= needed) { continue; }
            double more = Plan.Keys == 0 ? 0 : (double)Plan.Bytes / Plan.Keys * _left;
            long values = (long)(Plan.Bytes + more) >> 20, all = (long)(needed + (more * (times * LogOverhead + 1))) >> 20;
            throw new PastException(string.Create(CultureInfo.InvariantCulture, $"about {values} MB of values are to be written in this "
                + $"shard. For that about {all} MB are needed on the disk of {directory}, and {free >> 20} MB are free there")
                + ": make room, and give the command again");
        }
    }
}

// What is prepared for one reset of a shard, while clients go on: the keys that were changed since the instant, here and at shards that had
// them before their slots moved, and the writes that put them back.
using System.Security.Cryptography;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
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
    private static readonly TimeSpan s_inPlaceMax = TimeSpan.FromSeconds(30), s_lookPause = TimeSpan.FromMilliseconds(50);

    private int _steps;
    private long _askedAt = Environment.TickCount64;
    private volatile bool _isReady;
    private volatile string? _failure;

    // Up to there the log was read.
    private VersionNumber _upTo = end.Version;

    /// <summary>Known to nobody but whoever prepares it.</summary>
    public string Name { get; } = Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(16));

    /// <summary>The instant.</summary>
    public Boundary End { get; } = end;

    /// <summary>Who had which slots when it was begun; null: a shard alone has all.</summary>
    public MapRevision? Owners => owners;

    /// <summary>The writes. Whoever adds to them, or performs them.</summary>
    public ResetPlan Plan { get; } = new(shiftMs);

    /// <summary>Whether it is prepared.</summary>
    public bool IsReady => _isReady;

    /// <summary>Why it cannot be; null: nothing has failed.</summary>
    public string? Failure => _failure;

    /// <summary>Ends what is done for it.</summary>
    public CancellationTokenSource Life { get; } = CancellationTokenSource.CreateLinkedTokenSource(ending);

    /// <summary>When a step ended last, in milliseconds of the system's uptime.</summary>
    public long AskedAt => Volatile.Read(ref _askedAt);

    /// <summary>Whether a step is under way; to prepare it is one.</summary>
    public bool IsBusy => Volatile.Read(ref _steps) > 0;

    private PastInstants Instants => store.Past.Instants;

    private PastPeers Others => new(shard.Seat, shard.Moves.Watch!);

    /// <summary>A step begins.</summary>
    public void Begin() => Interlocked.Increment(ref _steps);

    /// <summary>It has ended.</summary>
    public void Finish()
    {
        Volatile.Write(ref _askedAt, Environment.TickCount64);
        Interlocked.Decrement(ref _steps);
    }

    /// <summary>Prepares it; <see cref="IsReady"/> or <see cref="Failure"/> says how that ended.</summary>
    public void BeginPreparing()
    {
        Begin();
        _ = Task.Run(async () =>
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
        await AddAsync(store.Past.Touched.For(shard.Seat.Shard, _upTo, last, stop), stop).ConfigureAwait(false);
        _upTo = last.Version;
    }

    private async Task PrepareAsync()
    {
        try
        {
            await Instants.CommittedAsync(new(InstantBy.Ago, 0), Life.Token).ConfigureAwait(false);
            int before;
            do
            {
                before = Plan.Keys;
                await AddAsync(Life.Token).ConfigureAwait(false);
            }
            while (Plan.Keys - before > ShardPast.KeysAtOnce);
            await AddOfOthersAsync(Life.Token).ConfigureAwait(false);
            // A shard whose store would have to be loaded as a whole is not waited for for ever.
            long until = Environment.TickCount64 + (long)s_inPlaceMax.TotalMilliseconds;
            while (!store.GoesBackInPlace() && Environment.TickCount64 < until)
            {
                await Task.Delay(s_lookPause, Life.Token).ConfigureAwait(false);
            }
            _isReady = true;
        }
        catch (Exception e) when (PastAnswer.WhyOf(e) is not null)
        {
            _failure = PastAnswer.WhyOf(e);
        }
    }

    // What was done elsewhere to keys that have come since.
    private async Task AddOfOthersAsync(CancellationToken stop)
    {
        if (Instants.Owners.Table is not { } table) { return; }
        foreach (ShardId other in table.Landings.Where(m => m.Landed > End.Version).Select(m => m.From).Distinct())
        {
            if (other == shard.Seat.Shard) { continue; }
            IReadOnlyList<StoreKey> touched = await Others.TouchedAsync(other, End.Version, stop).ConfigureAwait(false);
            await AddAsync(touched.Where(k => Instants.Owners.Has(shard.Seat.Shard, k)), stop).ConfigureAwait(false);
        }
    }

    // With what they were, at whoever had them.
    private async Task AddAsync(IEnumerable<StoreKey> keys, CancellationToken stop)
    {
        if (prefix.Length > 0) { keys = keys.Where(k => k.Name.AsSpan().StartsWith(prefix)); }
        VersionNumber version = End.Version;
        foreach (IGrouping<ShardId, StoreKey> some in Instants.Owners.ByOwner(Plan.Missing(keys), version))
        {
            await foreach (IReadOnlyList<DumpedKey> dumped in (some.Key == shard.Seat.Shard ? store.Past.DumpAllAsync(version, some, stop)
                : Others.DumpAllAsync(some.Key, version, some, stop)).ConfigureAwait(false))
            {
                Plan.Add(dumped);
            }
        }
    }
}

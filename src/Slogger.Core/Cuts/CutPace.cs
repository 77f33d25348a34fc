// How often the shards of a cluster speak of cuts: so that what all of them do together in a second has a bound, however many they are.
namespace Slogger.Core.Cuts;

/// <summary>The pace at which cuts are found in a cluster of so many shards.</summary>
/// <param name="Shards">How many shards there are.</param>
public readonly record struct CutPace(int Shards)
{
    private const int FewShards = 8;
    private const long LookUsPerPair = 30;
    private const long LookUsMax = 2_000_000;
    private const long ClaimUsPerShard = 250;
    private const long TurnUsPerShard = 45;

    /// <summary>The longest time for which others hurry ahead of what somebody waits for, in microseconds, unless a version takes
    /// longer.</summary>
    public const long HurryUsMax = 500_000;

    /// <summary>Whether there are so many that they have to hold back; few are as fast as SQL answers.</summary>
    public bool IsCrowded => Shards > FewShards;

    /// <summary>The least time between two looks of one shard at the claims of all, in SQL, while there is no coordinator, in microseconds:
    /// what they all read is some 33,000 claims a second, and more only where one would look less often than every two seconds.</summary>
    public long LookUs => Math.Max(2000, Math.Min(LookUsMax, (long)Shards * Shards * LookUsPerPair));

    /// <summary>How long it is until a shard looks again, in microseconds; 0: it is time. Whoever is woken just before waits for the rest,
    /// not for another period.</summary>
    /// <param name="sinceUs">The time since its last look.</param>
    /// <param name="leastUs">What it leaves between two looks itself.</param>
    public long UntilLookUs(long sinceUs, long leastUs = 0) => Math.Max(0, Math.Max(LookUs, leastUs) - sinceUs);

    /// <summary>The least time between two claims of one shard in SQL, in microseconds: 4000 statements a second of all; 0 for
    /// few.</summary>
    public long ClaimUs => IsCrowded ? Shards * ClaimUsPerShard : 0;

    /// <summary>The same of rows of the exact finder, which are larger: at most 200 a second of one shard.</summary>
    public long RowUs => Math.Max(5000, Shards * ClaimUsPerShard);

    /// <summary>The time between two turns of the coordinator while somebody waits, in microseconds: some in each version, at most a
    /// thousand a second, and so few that to hear and to tell all shards takes less than a core.</summary>
    /// <param name="intervalUs">The length of a version, in microseconds.</param>
    public long TurnUs(long intervalUs) => Math.Max(Shards * TurnUsPerShard, Math.Clamp(intervalUs / 4, 1000, 25_000));

    /// <summary>For how long the others hurry, in microseconds, when somebody waits for one version after the other: twice as long each
    /// time. It is never shorter than a version.</summary>
    /// <param name="beforeUs">The time before; 0: there was none.</param>
    /// <param name="versionUs">The length of a version, in microseconds.</param>
    public static long HurryUs(long beforeUs, long versionUs) => Math.Max(versionUs, Math.Min(2 * beforeUs, HurryUsMax));
}

// How much of the memory for the log may be used for what, in bytes above the page in which the log begins. FASTER puts a page out of
// memory without asking when the log grows beyond it; so nobody may let it grow that far.
namespace Slogger.Faster.Memory;

/// <summary>Where to do what.</summary>
/// <param name="PageBytes">A page.</param>
/// <param name="Pages">How many there are.</param>
internal readonly record struct LogBudget(long PageBytes, long Pages)
{
    /// <summary>Nothing is written from here on. The two pages behind are for the records of those who have just been admitted: a large
    /// one, which may take the rest of a page and another, and small ones.</summary>
    public long Wall => (Pages - 2) * PageBytes;

    /// <summary>Keys and values that are longer are written one at a time.</summary>
    public long LargeBytes => PageBytes / 16;

    /// <summary>From here on no writes of applications: the rest is for compaction and for rollbacks.</summary>
    public long Full => Wall - (Wall / 8);

    /// <summary>From here on no compaction: the rest is for rollbacks.</summary>
    public long CompactionEnd => Wall - (Wall / 16);

    /// <summary>From here on they are slowed down.</summary>
    public long Pressed => Wall - (Wall / 4);

    /// <summary>More than this cannot be in use: there would be no room to move it.</summary>
    public long LiveMax => Wall / 8 * 5;

    /// <summary>How much of the log is compacted at once.</summary>
    public long Step => Wall / 8;

    /// <summary>Whether compaction gives back enough.</summary>
    /// <param name="used">Bytes of the log that compaction has not seen.</param>
    /// <param name="live">Bytes of it that are in use.</param>
    public bool IsWorthwhile(long used, long live) => used - live > (used > Wall / 2 ? Wall / 16 : Wall / 4);
}

// Callers in the same process as the store, past all connections (DPR, section 5: co-location). Nobody stands between them and the records,
// so what a shard decides for its clients by holding their requests back is decided here at each operation's own moment: in which
// world-line the store may be used at all, and in which version the operation is. Both change while all stripes are held, so whoever holds
// one of them sees them as they are.
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Faster;

public sealed partial class FasterStore
{
    private long _admitted;     // changes with all stripes held
    private long _localUntil = long.MaxValue;

    /// <summary>The world-line in which callers in this process may use the store; 0: none.</summary>
    public WorldLine Admitted => new(Volatile.Read(ref _admitted));

    /// <summary>Until when they may begin something, by Stopwatch: where other shards close the same versions, what begins after a
    /// version's end is in the next. Default: without end.</summary>
    public long LocalUntil
    {
        get => Volatile.Read(ref _localUntil);
        set => Volatile.Write(ref _localUntil, value);
    }

    /// <summary>Lets callers in this process in.</summary>
    /// <param name="line">The store's world-line.</param>
    /// <param name="open">The version that is open; the store's own is behind if versions have passed without it.</param>
    public void AdmitLocal(WorldLine line, Version open) => Stripes.Alone(() =>
    {
        Raise(open);
        Volatile.Write(ref _admitted, line.Number);
    });

    /// <summary>Lets nobody in this process in any more. When it returns none of their changes is under way; a read that is learns at its
    /// end that it does not count.</summary>
    public void ShutOutLocal() => Stripes.Alone(() => Volatile.Write(ref _admitted, 0));

    /// <summary>Has versions pass in which nothing was done, while nobody does anything.</summary>
    /// <param name="pass">Given whether anything has changed in the open version. Returns the version that is open
    /// from now on; null if it does not change now. Must be short.</param>
    public void PassVersions(Func<bool, Version?> pass) => Stripes.Alone(() =>
    {
        if (pass(IsChanged) is { } open) Raise(open);
    });

    private void Raise(Version open)
    {
        if (open.Number > _open) Volatile.Write(ref _open, open.Number);
    }
}

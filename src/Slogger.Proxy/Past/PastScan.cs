// Reads the log from the end of one version to the end of another: what was done to a key, and to which keys something was done. Where
// there are indexes of keys, what was done to one key is sought by them. The log is held against trimming meanwhile.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Past;

/// <summary>Goes through a stretch of the log. One caller at a time.</summary>
/// <param name="log">The log.</param>
/// <param name="keys">The indexes of its segments; null: there are none.</param>
/// <param name="hold">Keeps it from an offset on, for another minute.</param>
internal sealed class PastScan(VersionLog log, KeyIndexes? keys, Action<long> hold)
{
    // Of one reply.
    private const int HistoryBytesMax = 4 << 20, NamedMax = 1_000_000;

    // A hold is renewed after so many commands.
    private const int HeldFor = 1 << 16;

    /// <summary>What was done to a key between two versions' ends.</summary>
    /// <param name="asked">The question.</param>
    /// <param name="rights">Who may read what.</param>
    /// <param name="from">The first end.</param>
    /// <param name="to">The second, at or above it, and committed.</param>
    /// <param name="earlier">The version up to which another shard has done what was done before; zero: none has.</param>
    /// <param name="timeUs">When a version ended, in microseconds since the Unix epoch.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>The reply.</returns>
    /// <exception cref="LogHistoryChangedException">What was read is void now, or trimmed.</exception>
    /// <exception cref="PastException">It cannot be read; the text says why.</exception>
    public async Task<byte[]> HistoryAsync(PastHistory asked, ReadRights rights, Boundary from, Boundary to, VersionNumber earlier,
        Func<Boundary, long> timeUs, CancellationToken stop)
    {
        if (await rights.RefusalAsync(asked.User, ReadRights.OfValue(asked.Key), stop).ConfigureAwait(false) is { } why)
        {
            return PastAnswer.Error(why);
        }
        var key = new StoreKey(asked.Database, asked.Key);
        var found = new KeyHistory(key, asked.Count, HistoryBytesMax);
        using var history = new LogHistory(log);
        // The history that is read is fixed here: once it is another, its bytes are refused.
        history.Read(from.Offset, []);
        foreach (EffectReader command in EffectsOf(key, history, from, to, stop))
        {
            if (command.Start >= asked.Before) { break; }
            found.Note(command);
        }
        Boundary[] versions = [.. EndsOf(found.Commands)];
        history.Read(to.Offset, []);
        StoreKey[] others = [.. found.Commands.SelectMany(c => c.Others).Distinct()];
        IReadOnlySet<StoreKey> hidden = await rights.UnreadableAsync(asked.User, others, stop).ConfigureAwait(false);
        return PastReplies.History(from.Version, to.Version, found, versions, hidden, timeUs, earlier);
    }

    /// <summary>Which keys were named between two versions' ends: as many as are wanted, of whole versions.</summary>
    /// <param name="asked">The question.</param>
    /// <param name="rights">Who may read what.</param>
    /// <param name="from">The first end.</param>
    /// <param name="to">The second, at or above it, and committed.</param>
    /// <param name="isOwn">Whether this shard had a key at the end of a version: what was done behind that, clients have done. Null: it had
    /// all.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>The reply.</returns>
    /// <exception cref="LogHistoryChangedException">What was read is void now, or trimmed.</exception>
    /// <exception cref="PastException">It cannot be read, or told; the text says why.</exception>
    public async Task<byte[]> ChangedAsync(PastChanges asked, ReadRights rights, Boundary from, Boundary to,
        Func<StoreKey, VersionNumber, bool>? isOwn, CancellationToken stop)
    {
        if (await rights.RefusalAsync(asked.User, ReadRights.OfNames, stop).ConfigureAwait(false) is { } why)
        {
            return PastAnswer.Error(why);
        }
        var found = new NamedKeys(asked.Database, from.Version, asked.Count, NamedMax);
        // Between the end that was found and the one that was asked for there is nothing.
        var told = new VersionNumber(asked.To);
        foreach ((EffectReader command, VersionNumber behind, VersionNumber version) in Commands(from, to, stop))
        {
            if (found.Note(command, version, isOwn is null ? null : key => isOwn(key, behind)) is not { } enough) { continue; }
            told = enough;
            break;
        }
        return PastReplies.Changed(told, found.Keys);
    }

    /// <summary>The commands between two command boundaries that may change data. It is always the same reader.</summary>
    /// <param name="from">The offset of the first.</param>
    /// <param name="to">That of the second.</param>
    /// <param name="database">The database selected at the first.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="LogHistoryChangedException">What was read is void now, or trimmed.</exception>
    /// <exception cref="PastException">It cannot be read; the text says why.</exception>
    public IEnumerable<EffectReader> Effects(long from, long to, int database, CancellationToken stop)
    {
        using var history = new LogHistory(log);
        // The history that is read is fixed at the first step: once it is another, its bytes are refused.
        history.Read(from, []);
        var reader = new EffectReader(history, from, to, database);
        for (int i = 0; reader.Next(stop); i++)
        {
            if (i % HeldFor == 0) { hold(from); }
            yield return reader;
        }
    }

    // At least those that are done to the key.
    private IEnumerable<EffectReader> EffectsOf(StoreKey key, LogHistory history, Boundary from, Boundary to, CancellationToken stop)
    {
        IEnumerable<EffectStretch> stretches = keys is null ? [new(from.Offset, to.Offset, from.Database, null)]
            : keys.Stretches(from.Offset, from.Database, to.Offset);
        int read = 0;
        foreach (EffectStretch stretch in stretches)
        {
            using KeyIndex? index = stretch.Index;
            // An index may go further.
            if (stretch.From >= to.Offset) { break; }
            long end = Math.Min(stretch.To, to.Offset);
            hold(from.Offset);
            var reader = new EffectReader(history, stretch.From, end, stretch.Database);
            if (index?.Find((uint)(key.Hash >> 32)) is { } named)
            {
                IEnumerable<long> places = named.Concat(index.Unconfined.Select(u => u.Offset));
                foreach (long place in places.Where(p => p >= stretch.From && p < end).Order())
                {
                    if (++read % HeldFor == 0) { hold(from.Offset); }
                    reader.SeekTo(place, index.DatabaseAt(place));
                    if (!reader.Next(stop)) { throw new PastException($"the log has no command at {place}, where its index has one"); }
                    yield return reader;
                }
                continue;
            }
            while (reader.Next(stop))
            {
                if (++read % HeldFor == 0) { hold(from.Offset); }
                yield return reader;
            }
        }
    }

    // The ends of the versions that commands are in.
    private IEnumerable<Boundary> EndsOf(IEnumerable<KeyCommand> commands)
    {
        Boundary end = default;
        foreach (KeyCommand command in commands)
        {
            if (end.Offset < command.End)
            {
                end = log.BoundaryAtOrAbove(command.End) ?? throw new LogHistoryChangedException("The log ends before the version.");
            }
            yield return end;
        }
    }

    /// <summary>The commands between two ends of versions that may change data, in order: each with its version, and the last one before it
    /// that was closed by itself. It is always the same reader.</summary>
    /// <exception cref="LogHistoryChangedException">What was read is void now, or trimmed.</exception>
    /// <exception cref="PastException">It cannot be read; the text says why.</exception>
    public IEnumerable<(EffectReader Command, VersionNumber Behind, VersionNumber In)> Commands(Boundary from, Boundary to,
        CancellationToken stop)
    {
        using IEnumerator<EffectReader> effects = Effects(from.Offset, to.Offset, from.Database, stop).GetEnumerator();
        bool isThere = effects.MoveNext();
        // Not before the history that is read is fixed.
        using IEnumerator<Boundary> ends = log.BoundariesFrom(from.Version.Next).GetEnumerator();
        VersionNumber behind = from.Version;
        bool isKnown = ends.MoveNext();
        for (; isThere; isThere = effects.MoveNext())
        {
            EffectReader reader = effects.Current;
            for (; isKnown && ends.Current.Offset < reader.End; isKnown = ends.MoveNext()) { behind = ends.Current.Version; }
            if (!isKnown) { throw new LogHistoryChangedException("The log ends before the version."); }
            yield return (reader, behind, ends.Current.Version);
        }
    }
}

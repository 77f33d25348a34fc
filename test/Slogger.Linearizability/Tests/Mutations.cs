// Right histories made wrong. Each mutation is wrong by its construction, whatever else the history holds: the comment says why. It
// returns null where a history has nothing that fits.
using Slogger.Linearizability.Checking;
using Slogger.Linearizability.Histories;
using static Slogger.Linearizability.Checking.AnomalyKind;

namespace Slogger.Linearizability.Tests;

/// <param name="Name">What was done to the history.</param>
/// <param name="IsOfLists">To which kind of history.</param>
/// <param name="Kinds">What the checker may call it.</param>
/// <param name="Apply">The wrong history, or null.</param>
internal sealed record Mutation(string Name, bool IsOfLists, AnomalyKind[] Kinds,
    Func<Operation[], Random, IReadOnlyList<Operation>?> Apply)
{
    public override string ToString() => Name;
}

internal static class Mutations
{
    private const long Stranger = 1_000_000;

    public static readonly IReadOnlyList<Mutation> All =
    [
        // One write ended before the next began, and that one before the read.
        new("stale read", false, [StaleRead, LostWrite], (h, r) =>
            Pick(r, SuccessiveWrites(h, StepKind.Read)) is { Reader: { } reader } found
            ? Replace(h, reader with { Steps = [reader.Step with { Value = found.Early.Step.Value }] }) : null),
        new("compare-and-set on an old value", false, [CompareAndSetOnOldValue, LostWrite, StaleRead], (h, r) =>
            Pick(r, SuccessiveWrites(h, StepKind.CompareAndSet).Where(f => f.Reader.Step.Succeeded == true)) is { Reader: { } reader } found
            ? Replace(h, reader with { Steps = [reader.Step with { Expected = found.Early.Step.Value }] }) : null),
        // The same behind the end of all: nobody sees the write any more.
        new("lost write", false, [LostWrite], (h, r) => Pick(r, SuccessiveWrites(h, null)) is { Early: { } early }
            ? Behind(h, Step.Read(early.Step.Key, early.Step.Value)) : null),
        new("everything of a register lost", false, [LostWrite], (h, r) =>
            Pick(r, h.Where(IsDoneWrite)) is { } write ? Behind(h, Step.Read(write.Step.Key, null)) : null),
        new("write without an answer seen, then gone", false, [SeenThenLost, LostWrite], (h, r) =>
            Pick(r, SuccessiveWrites(h, StepKind.Read).Where(f => f.Reader.Step.Value == f.Late.Step.Value)) is { Late: { } late } found
            ? Behind(Replace(h, late with { Outcome = Outcome.Unknown }), Step.Read(late.Step.Key, found.Early.Step.Value)) : null),
        new("write applied twice", false, [LostWrite], (h, _) =>
        {
            // Both writes overlap all three reads, so either order of the writes would do; three changes are too many for two writes.
            long end = End(h);
            return [.. h, Late(h, 1, end + 10, end + 90, Step.Write("k0", Stranger)),
                Late(h, 2, end + 10, end + 90, Step.Write("k0", Stranger + 1)),
                Late(h, 3, end + 20, end + 30, Step.Read("k0", Stranger)), Late(h, 4, end + 40, end + 50, Step.Read("k0", Stranger + 1)),
                Late(h, 5, end + 60, end + 70, Step.Read("k0", Stranger))];
        }),
        new("two compare-and-sets from one value", false, [CompareAndSetOnOldValue], (h, r) =>
            Pick(r, h.Where(o => o is { Outcome: Outcome.Done, Step: { Kind: StepKind.CompareAndSet, Succeeded: true } })) is { } first
            ? [.. h, Late(h, 1, first.InvokedUs, first.ReturnedUs, first.Step with { Value = Stranger })] : null),
        new("read of a value never written", false, [NeverWritten], (h, r) =>
            Pick(r, h.Where(o => o is { Outcome: Outcome.Done, Step.Kind: StepKind.Read })) is { } reader
            ? Replace(h, reader with { Steps = [reader.Step with { Value = Stranger }] }) : null),
        new("refused write seen", false, [AbortedRead], (h, r) =>
            Pick(r, h.Where(o => RegisterChecker.Sets(o, out long v) && IsSeen(h, o.Step.Key, v))) is { } write
            ? Replace(h, write with { Outcome = Outcome.Failed }) : null),
        new("refused compare-and-set seen", false, [AbortedRead], (h, r) =>
            Pick(r, h.Where(o => o is { Outcome: Outcome.Done, Step: { Kind: StepKind.CompareAndSet, Succeeded: true } }
                && IsSeen(h, o.Step.Key, o.Step.Value!.Value))) is { } write
            ? Replace(h, write with { Steps = [write.Step with { Succeeded = false }] }) : null),
        new("read before the write began", false, [NotLinearizable, CompareAndSetOnOldValue], (h, r) =>
            Pick(r, from w in h where RegisterChecker.Sets(w, out _)
                    from o in h where o is { Outcome: Outcome.Done, Step.Kind: StepKind.Read } && o.Step.Key == w.Step.Key
                        && o.ReturnedUs < w.InvokedUs
                    select (w, o)) is { o: { } reader } found
            ? Replace(h, reader with { Steps = [reader.Step with { Value = found.w.Step.Value }] }) : null),

        // The append had been acknowledged when the read began.
        new("stale read of a list", true, [StaleRead, LostAppend, OwnStepMissed], (h, r) =>
            Pick(r, Misses(h)) is { Reader: { } reader } found
            ? Replace(h, WithList(reader, found.Step, [.. reader.Steps[found.Step].List!.TakeWhile(v => v != found.Value)])) : null),
        new("lost append", true, [LostAppend, OwnStepMissed], (h, r) => Pick(r, Misses(h)) is { Reader: not null } found
            ? Without(h, h[0].InvokedUs, found.Reader.Steps[found.Step].Key, [found.Value]) : null),
        new("acknowledged appends missing after a failover", true, [LostAppend, StaleRead, OwnStepMissed, AppliedTwice], (h, r) =>
        {
            // All that was acknowledged in some time before it is gone for all that began behind it.
            if (Pick(r, Misses(h)) is not { Reader: { } reader } found) { return null; }
            string key = reader.Steps[found.Step].Key;
            long[] order = reader.Steps[found.Step].List!;
            return Without(h, reader.InvokedUs, key, [.. order.SkipWhile(v => v != found.Value)]);
        }),
        new("append applied twice", true, [AppliedTwice, OwnStepMissed], (h, r) =>
            Pick(r, Lists(h).Where(l => l.List.Length > 0)) is { By: { } reader } found
            ? Replace(h, WithList(reader, found.Step, [.. found.List, found.List[r.Next(found.List.Length)]])) : null),
        new("orders that differ", true, [IncompatibleOrders, OwnStepMissed, IntermediateRead], (h, r) =>
        {
            // Another read has both numbers, too.
            var reads = Lists(h).Where(l => l.List.Length > 1 && Lists(h).Any(o => o.By.Id != l.By.Id && o.Key == l.Key
                && o.List.Length >= l.List.Length));
            if (Pick(r, reads) is not { By: { } reader } found) { return null; }
            int at = r.Next(1, found.List.Length);
            return Replace(h, WithList(reader, found.Step, Swapped(found.List, at)));
        }),
        new("appends reordered for all", true, [WriteCycle, IntermediateRead, StaleRead, LostAppend, OwnStepMissed, MissedWriteCycle,
            InformationCycle, IncompatibleOrders], (h, r) =>
        {
            // The first of both had returned before the second began.
            var appenders = Appenders(h);
            var order = Lists(h).MaxBy(l => l.List.Length);
            if (order.List is null) { return null; }
            var places = Enumerable.Range(1, Math.Max(0, order.List.Length - 1)).Where(i =>
                appenders[(order.Key, order.List[i - 1])] is { Outcome: Outcome.Done } first
                && first.ReturnedUs < appenders[(order.Key, order.List[i])].InvokedUs).ToArray();
            if (places.Length == 0) { return null; }
            int at = places[r.Next(places.Length)];
            return [.. h.Select(o => Lists([o]).Where(l => l.Key == order.Key && l.List.Length > at)
                .Aggregate(o, (now, l) => WithList(now, l.Step, Swapped(l.List, at))))];
        }),
        new("number never appended", true, [NeverWritten, OwnStepMissed], (h, r) => Pick(r, Lists(h)) is { By: { } reader } found
            ? Replace(h, WithList(reader, found.Step, [Stranger, .. found.List])) : null),
        new("refused append seen", true, [AbortedRead], (h, r) => Pick(r, Appenders(h).Where(a => Lists(h).Any(l => l.Key == a.Key.Key
                && l.By.Id != a.Value.Id && l.List.Contains(a.Key.Value)))) is { Value: { } appender }
            ? Replace(h, appender with { Outcome = Outcome.Failed }) : null),
        new("transaction seen in part", true, [MissedWriteCycle, StaleRead, LostAppend, InformationCycle, OwnStepMissed,
            IntermediateRead], (h, r) =>
        {
            // A transaction appended to two lists, and one that read both has the one number and not the other.
            var appenders = Appenders(h);
            var seen = from one in Lists(h)
                       from other in Lists([one.By])
                       where one.Key != other.Key
                       from value in other.List
                       let writer = appenders[(other.Key, value)]
                       where writer.Id != one.By.Id && writer.Steps.Any(s =>
                           s.Kind == StepKind.Append && s.Key == one.Key && one.List.Contains(s.Value!.Value))
                       select (other, value);
            if (Pick(r, seen) is not { other.By: { } reader } found) { return null; }
            return Replace(h, WithList(reader, found.other.Step, [.. found.other.List.TakeWhile(v => v != found.value)]));
        }),
        new("appends of a transaction seen in part", true, [IntermediateRead, OwnStepMissed, StaleRead, LostAppend], (h, r) =>
        {
            var appenders = Appenders(h);
            var seen = from list in Lists(h)
                       from at in Enumerable.Range(1, Math.Max(0, list.List.Length - 1))
                       let writer = appenders[(list.Key, list.List[at])]
                       where writer.Id != list.By.Id && writer.Id == appenders[(list.Key, list.List[at - 1])].Id
                       select (list, at);
            if (Pick(r, seen) is not { list.By: { } reader } found) { return null; }
            return Replace(h, WithList(reader, found.list.Step, found.list.List[..found.at]));
        }),
        new("transaction misses its own append", true, [OwnStepMissed], (h, r) =>
        {
            var own = Lists(h).Where(l => l.List.Length > 0
                && l.By.Steps.Take(l.Step).Any(s => s.Kind == StepKind.Append && s.Key == l.Key));
            return Pick(r, own) is { By: { } reader } found ? Replace(h, WithList(reader, found.Step, found.List[..^1])) : null;
        }),
    ];

    private static T? Pick<T>(Random random, IEnumerable<T> from)
    {
        T[] all = [.. from];
        return all.Length == 0 ? default : all[random.Next(all.Length)];
    }

    private static IReadOnlyList<Operation> Replace(IReadOnlyList<Operation> history, Operation by) =>
        [.. history.Select(o => o.Id == by.Id ? by : o)];

    private static long End(IReadOnlyList<Operation> history) => history.Max(o => Math.Max(o.InvokedUs, o.ReturnedUs));

    // By a client of its own.
    private static Operation Late(IReadOnlyList<Operation> history, int number, long from, long to, Step step) =>
        new(history.Max(o => o.Id) + number, 100 + number, [step], Outcome.Done, from, to);

    private static IReadOnlyList<Operation> Behind(IReadOnlyList<Operation> history, Step step) =>
        [.. history, Late(history, 1, End(history) + 10, End(history) + 20, step)];

    private static bool IsDoneWrite(Operation o) => o.Outcome == Outcome.Done && RegisterChecker.Sets(o, out _);

    private static bool IsSeen(Operation[] history, string key, long value) =>
        history.Any(o => o.Step.Key == key && RegisterChecker.Sees(o, out long seen) && seen == value);

    private static IEnumerable<(Operation Early, Operation Late, Operation Reader)> SuccessiveWrites(
        Operation[] history, StepKind? reader) =>
        from early in history where IsDoneWrite(early)
        from late in history where IsDoneWrite(late) && late.Step.Key == early.Step.Key && early.ReturnedUs < late.InvokedUs
        from read in reader is null ? [late] : history.Where(o => o.Outcome == Outcome.Done && o.Step.Kind == reader
            && o.Step.Key == early.Step.Key && o.InvokedUs > late.ReturnedUs)
        select (early, late, read);

    private static IEnumerable<(Operation By, int Step, string Key, long[] List)> Lists(IReadOnlyList<Operation> history) =>
        from o in history where o.Outcome == Outcome.Done
        from i in Enumerable.Range(0, o.Steps.Length) where o.Steps[i].Kind == StepKind.ReadList
        select (o, i, o.Steps[i].Key, o.Steps[i].List!);

    private static Dictionary<(string Key, long Value), Operation> Appenders(Operation[] history) =>
        (from o in history from s in o.Steps where s.Kind == StepKind.Append select (o, s))
            .ToDictionary(a => (a.s.Key, a.s.Value!.Value), a => a.o);

    // A read with a number that was acknowledged before it began.
    private static IEnumerable<(Operation Reader, int Step, long Value)> Misses(Operation[] history)
    {
        var appenders = Appenders(history);
        return from list in Lists(history) from value in list.List
               let appender = appenders[(list.Key, value)]
               where appender.Outcome == Outcome.Done && appender.ReturnedUs < list.By.InvokedUs
               select (list.By, list.Step, value);
    }

    private static Operation WithList(Operation operation, int step, long[] list) =>
        operation with { Steps = [.. operation.Steps.Select((s, i) => i == step ? s with { List = list } : s)] };

    private static IReadOnlyList<Operation> Without(Operation[] history, long fromUs, string key, long[] values) =>
        [.. history.Select(o => o.InvokedUs < fromUs ? o : o with
        {
            Steps = [.. o.Steps.Select(s => s.List is { } list && s.Key == key ? s with { List = [.. list.Except(values)] } : s)],
        })];

    private static long[] Swapped(long[] list, int at)
    {
        long[] swapped = [.. list];
        (swapped[at - 1], swapped[at]) = (swapped[at], swapped[at - 1]);
        return swapped;
    }
}

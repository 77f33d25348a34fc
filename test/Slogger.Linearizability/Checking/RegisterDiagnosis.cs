// Names what a few operations on a register show. They are known to be wrong together; this only finds the word for it.
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Checking;

internal static class RegisterDiagnosis
{
    /// <param name="history">All operations on the register.</param>
    /// <param name="few">Those of them that are wrong together, none to spare.</param>
    public static Anomaly Of(IReadOnlyList<Operation> history, IReadOnlyList<Operation> few)
    {
        Anomaly Named(AnomalyKind kind, string text) => Anomaly.Of(kind, text, few);
        string key = few[0].Step.Key;
        var viewers = few.Where(o => RegisterChecker.Sees(o, out _)).ToArray();
        var twice = viewers.Where(o => o.Step.Kind == StepKind.CompareAndSet).GroupBy(o => o.Step.Expected)
            .FirstOrDefault(g => g.Count() > 1);
        if (twice is not null)
        {
            return Named(AnomalyKind.CompareAndSetOnOldValue,
                $"{twice.Count()} compare-and-sets of {key} from {Said(twice.Key)} have succeeded; one alone can.");
        }

        foreach (var viewer in viewers)
        {
            _ = RegisterChecker.Sees(viewer, out long seen);
            if (few.FirstOrDefault(o => RegisterChecker.Sets(o, out long set) && set == seen) is { } writer
                && writer.InvokedUs > viewer.ReturnedUs)
            {
                return Named(AnomalyKind.NotLinearizable, $"#{viewer.Id} saw {seen} in {key} before its write #{writer.Id} had begun.");
            }
        }

        foreach (var viewer in viewers)
        {
            _ = RegisterChecker.Sees(viewer, out long seen);
            // A value that was there later than what was seen, and whose operation had ended before this one began.
            foreach (var later in few.Where(o => o.Outcome == Outcome.Done && o.ReturnedUs < viewer.InvokedUs))
            {
                if (!(RegisterChecker.Sets(later, out long newer) || RegisterChecker.Sees(later, out newer)) || newer == seen) { continue; }
                if (!IsBefore(few, seen, newer, later)) { continue; }
                string text = $"#{viewer.Id} saw {Said(viewer)} in {key}, though {newer} was there before it began (#{later.Id})";
                if (viewer.Step.Kind == StepKind.CompareAndSet)
                {
                    return Named(AnomalyKind.CompareAndSetOnOldValue, $"{text}. So the compare-and-set succeeded on an old value.");
                }

                bool isAcknowledged = few.Any(o => o.Outcome == Outcome.Done && RegisterChecker.Sets(o, out long set) && set == newer);
                bool isSeenLater = history.Any(o => o.InvokedUs > viewer.ReturnedUs && RegisterChecker.Sees(o, out long v)
                    && IsAsNew(history, v, newer, viewer));
                return isSeenLater
                    ? Named(AnomalyKind.StaleRead, $"{text}. Later ones saw that, or what came behind it.")
                    : isAcknowledged ? Named(AnomalyKind.LostWrite, $"{text}. That write was acknowledged, and is gone.")
                    : Named(AnomalyKind.SeenThenLost, $"{text}. That is gone.");
            }
        }

        return Named(AnomalyKind.NotLinearizable, $"no order of these operations on {key} explains what they returned.");
    }

    // Whether a value was written no earlier than another, and before an operation that has seen neither. Who sees it later sees a
    // register that has lost nothing.
    private static bool IsAsNew(IReadOnlyList<Operation> history, long value, long newer, Operation viewer)
    {
        var writer = Writer(value);
        return writer is not null && writer.InvokedUs < viewer.InvokedUs && writer.InvokedUs >= Writer(newer)?.InvokedUs;

        Operation? Writer(long of) => history.FirstOrDefault(o => RegisterChecker.Sets(o, out long v) && v == of);
    }

    // Whether one value was there before another, which an operation has set or seen: by their writes, or by who has seen them.
    private static bool IsBefore(IReadOnlyList<Operation> few, long early, long late, Operation ofLate)
    {
        var laters = few.Where(o => RegisterChecker.Sets(o, out long v) && v == late).Append(ofLate).ToArray();
        if (early == RegisterChecker.Nothing) { return true; }
        if (laters.Any(o => RegisterChecker.Sets(o, out long to) && to == late && RegisterChecker.Sees(o, out long from) && from == early))
        {
            return true;
        }

        var ofEarly = few.Where(o => o.Outcome == Outcome.Done
            && ((RegisterChecker.Sets(o, out long set) && set == early) || (RegisterChecker.Sees(o, out long seen) && seen == early)));
        if (ofEarly.Any(e => laters.Any(l => e.ReturnedUs < l.InvokedUs))) { return true; }
        // Nothing comes between a compare-and-set and what it expected.
        var setter = few.FirstOrDefault(o =>
            o.Step.Kind == StepKind.CompareAndSet && RegisterChecker.Sets(o, out long set) && set == early);
        return setter is not null
            && IsBefore([.. few.Where(o => o.Id != setter.Id)], setter.Step.Expected ?? RegisterChecker.Nothing, late, ofLate);
    }

    private static string Said(Operation viewer) => Said(viewer.Step.Kind == StepKind.Read ? viewer.Step.Value : viewer.Step.Expected);

    private static string Said(long? value) => value?.ToString(System.Globalization.CultureInfo.InvariantCulture) ?? "nothing";
}

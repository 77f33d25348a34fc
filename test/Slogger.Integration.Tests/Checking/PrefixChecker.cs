// Decides whether a recovered state keeps the promises: for every writer an exact prefix of its commands, nothing
// committed lost, the survivor as told; over all writers a prefix in real time (invariants I1, I2). Pure: histories and
// an observed state in, violations and the new starting states out.
using Slogger.Integration.Tests.Model;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Checking;

/// <param name="AcknowledgedIsDurable">The fault may lose nothing that was answered (the proxy alone was killed).</param>
/// <param name="SharedIsExact">Only blocking or transacting clients may be told that answered commands are uncertain.</param>
/// <param name="MayBeKilledAgain">There may have been a second rollback that a client whose connection ended was not told of.</param>
internal sealed record CheckRules(int Round, bool AcknowledgedIsDurable = false, bool SharedIsExact = true, bool MayBeKilledAgain = false);

/// <summary>What the check found for one writer: it kept k commands, KMin &lt;= k &lt;= KMax (commands without effect blur it),
/// and the state it goes on from.</summary>
internal sealed record WriterOutcome(int KMin, int KMax, KeyspaceModel State)
{
    /// <summary>What ran behind a rollback notice: each course that explains the state.</summary>
    public IReadOnlyList<Issued[]> Later { get; init; } = [[]];
}

internal sealed record CheckResult(IReadOnlyList<Violation> Violations, IReadOnlyList<WriterOutcome> Writers)
{
    /// <summary>Answered commands that are gone; allowed unless committed, and proof that the faults bite.</summary>
    public required long AcknowledgedLost { get; init; }
}

internal static class PrefixChecker
{
    public static CheckResult Check(IReadOnlyList<WriterHistory> histories, ObservedState observed, CheckRules rules)
    {
        var violations = new List<Violation>();
        var outcomes = histories.Select(h => CheckWriter(h, observed, rules, violations)).ToArray();
        CheckRealTime(histories, outcomes, violations);
        CheckReferences(histories, outcomes, observed, rules, violations);
        var owned = histories.SelectMany(h => observed.OfWriter(h.Writer)).Select(e => e.Key).ToHashSet();
        violations.AddRange(observed.Entries.Keys.Where(k => !owned.Contains(k)).Take(10)
            .Select(k => new Violation(ViolationKind.StrayKey, k.ToString())));
        violations.AddRange(histories.SelectMany(h => h.Complaints).Select(c => new Violation(ViolationKind.Complaint, c)));
        return new(violations, outcomes)
        {
            AcknowledgedLost = histories.Zip(outcomes, (h, o) => Math.Max(0L, h.Acknowledged - o.KMax)).Sum(),
        };
    }

    private static WriterOutcome CheckWriter(WriterHistory history, ObservedState observed, CheckRules rules, List<Violation> violations)
    {
        ulong wanted = observed.Fingerprint(history.Writer);
        int database = history.NoticeAt < history.Commands.Count ? LastAnsweredDatabase(history) : 0;
        (WriterOutcome Outcome, List<Violation> Violations)? best = null;
        var explained = new List<Issued[]>();
        Lazy<List<(int K, KeyspaceModel State)>> survivors = new(() => Survivors(history));
        foreach (var later in LaterCourses.Of(history, rules))
        {
            List<int> fits = later.Length == 0
                ? [.. Enumerable.Range(0, history.Fingerprints.Count)
                .Where(k => history.Fingerprints[k] == wanted && IsBeforeNotice(history, k))]
                : [.. survivors.Value.Where(s => After(s.State, later, database).Fingerprint == wanted).Select(s => s.K)];
            if (fits.Count == 0)
            {
                continue;
            }

            var found = new List<Violation>();
            var outcome = CheckFits(history, observed, rules, fits, state => After(state, later, database), found);
            explained.AddRange(found.Count == 0 ? [later] : []);
            if (best is null || (best.Value.Violations.Count > 0 && found.Count == 0))
            {
                best = (outcome, found);
            }
        }

        if (best is not { } judged)
        {
            violations.Add(new(ViolationKind.NotAPrefix, PrefixDiagnosis.Explain(history, observed)));
            var found = new KeyspaceModel();
            CopyObserved(found, history, observed, _ => true);
            return new(0, history.Commands.Count, found);
        }

        violations.AddRange(judged.Violations);
        return explained.Count > 0 ? judged.Outcome with { Later = explained } : judged.Outcome;
    }

    // What was sent behind a notice that was answered can never be part of the surviving prefix.
    private static bool IsBeforeNotice(WriterHistory history, int k) => history.Rollback is null || k <= history.NoticeAt;

    private static WriterOutcome CheckFits(WriterHistory history, ObservedState observed, CheckRules rules, List<int> fits,
        Func<KeyspaceModel, KeyspaceModel> after, List<Violation> violations)
    {
        fits = RequireAtLeast(history, fits, history.Committed, ViolationKind.CommittedLost, violations);
        if (rules.AcknowledgedIsDurable)
        {
            fits = RequireAtLeast(history, fits, history.Acknowledged, ViolationKind.AcknowledgedLost, violations);
        }

        fits = RequireSurvivor(history, fits, rules, violations);
        return Replay(history, observed, fits, after, violations);
    }

    // The database is the connection's own, not data: it stays what the last answered command made it.
    private static int LastAnsweredDatabase(WriterHistory history)
    {
        var state = history.Start.Clone();
        foreach (var command in history.Commands.Take(history.Acknowledged))
        {
            state.Apply(command.Arguments, command.Expired);
        }

        return state.Database;
    }

    /// <summary>The states that the notice allows: after the survivor, and after those of the uncertain ones behind it.</summary>
    private static List<(int K, KeyspaceModel State)> Survivors(WriterHistory history)
    {
        var survivors = new List<(int, KeyspaceModel)>();
        var state = history.Start.Clone();
        int survived = history.IndexOf(history.Rollback!.Survived);
        for (int k = 0; k <= history.NoticeAt && (k <= survived || history.Rollback.IsUncertain(history.SequenceOf(k))); k++)
        {
            if (k > 0)
            {
                state.Apply(history.Commands[k - 1].Arguments, history.Commands[k - 1].Expired);
            }

            if (k >= survived)
            {
                survivors.Add((k, state.Clone()));
            }
        }

        return survivors;
    }

    /// <summary>The state after the rollback and the commands that ran in the new world-line.</summary>
    private static KeyspaceModel After(KeyspaceModel state, Issued[] afterwards, int database)
    {
        var after = state.Clone();
        if (afterwards.Length > 0)
        {
            after.ResetConnection(database);
        }

        foreach (var command in afterwards)
        {
            after.Apply(command.Arguments, command.Expired);
        }

        return after;
    }

    private static List<int> RequireAtLeast(WriterHistory history, List<int> fits, int least, ViolationKind kind,
        List<Violation> violations)
    {
        var kept = fits.Where(k => k >= least).ToList();
        if (kept.Count > 0)
        {
            return kept;
        }

        violations.Add(new(kind, $"{history.Name}: the state is that after {fits[^1]} of {history.Commands.Count} commands, "
            + $"{least} had been promised; first lost: #{fits[^1] + 1} {history.Commands[fits[^1]]}"));
        return fits;
    }

    /// <summary>All commands up to the survivor are there; those above are not, unless listed as uncertain.</summary>
    private static List<int> RequireSurvivor(WriterHistory history, List<int> fits, CheckRules rules, List<Violation> violations)
    {
        if (history.Rollback is not { } told)
        {
            return fits;
        }

        int survived = history.IndexOf(told.Survived);
        var kept = fits.Where(k => k >= survived && Enumerable.Range(survived + 1, k - survived)
            .All(i => !history.Commands[i - 1].HasEffect || told.IsUncertain(history.SequenceOf(i)))).ToList();
        if (kept.Count == 0)
        {
            violations.Add(new(ViolationKind.WrongSurvivor, $"{history.Name}: told that {survived} survived (sequence {told.Survived}, "
                + $"uncertain {string.Join(',', told.Uncertain)}), but the state is that after {fits[0]}..{fits[^1]}"));
        }

        if (survived < history.Committed)
        {
            violations.Add(new(ViolationKind.CommittedLost, $"{history.Name}: told that {survived} survived, {history.Committed} had been "
                + "reported committed"));
        }

        if (rules.SharedIsExact && !history.Profile.Transactions && !history.Profile.PopsFrom
            && Enumerable.Range(survived + 1, Math.Max(0, history.Acknowledged - survived))
            .Any(k => told.IsUncertain(history.SequenceOf(k)) && !IsNearScript(history, k)))
        {
            violations.Add(new(ViolationKind.WrongSurvivor,
                $"{history.Name}: answered commands (to {history.SequenceOf(history.Acknowledged)}) are uncertain without a "
                    + $"connection of its own: {string.Join(',', told.Uncertain)}"));
        }

        return kept.Count > 0 ? kept : fits;
    }

    // Scripts run on a connection of the client's own, and so does what is pipelined with them.
    private static bool IsNearScript(WriterHistory history, int index) =>
        history.Commands.Skip(Math.Max(0, index - history.Profile.Depth)).Take(2 * history.Profile.Depth)
            .Any(c => c.Arguments[0] == "EVAL");

    /// <summary>Finds among the fitting k one that explains the short-lived keys too, and builds the state after it.</summary>
    private static WriterOutcome Replay(WriterHistory history, ObservedState observed, List<int> fits,
        Func<KeyspaceModel, KeyspaceModel> after, List<Violation> violations)
    {
        var state = history.Start.Clone();
        KeyspaceModel? best = null;
        List<string> problems = [];
        int done = 0;
        var explained = new List<int>();
        foreach (int k in fits)
        {
            for (; done < k; done++)
            {
                state.Apply(history.Commands[done].Arguments, history.Commands[done].Expired);
            }

            var candidate = after(state);

            problems = [.. ShortLivedProblems(history, candidate, observed)];
            if (problems.Count == 0)
            {
                best = candidate;
                explained.Add(k);
            }
        }

        if (best is null)
        {
            violations.Add(new(ViolationKind.NotAPrefix,
                $"{history.Name}: short-lived keys after {fits[^1]} commands: {string.Join("; ", problems)}"));
            best = state;
            explained = fits;
        }

        CopyObserved(best, history, observed, key => KeyspaceModel.Family(key) == 'x');
        var differences = ObservedState.Differences(best.Entries,
            observed.OfWriter(history.Writer).Where(e => KeyspaceModel.Family(e.Key.Name) != 'q').ToDictionary()).ToArray();
        if (differences.Length > 0)
        {
            violations.Add(new(ViolationKind.NotAPrefix, $"{history.Name}: {string.Join("; ", differences)}"));
        }

        best.ResetConnection();
        return new(explained[0], explained[^1], best);
    }

    private static IEnumerable<string> ShortLivedProblems(WriterHistory history, KeyspaceModel state, ObservedState observed)
    {
        foreach (var key in Own(state.Entries).Union(Own(observed.Entries)))
        {
            var expected = state.Entries.GetValueOrDefault(key);
            var found = observed.Entries.GetValueOrDefault(key);
            bool mayHaveExpired = expected is { ExpiresAtMs: > 0 } && expected.ExpiresAtMs <= observed.ReadToMs;
            if (found is null ? expected is not null && !mayHaveExpired : expected?.Canonical != found.Canonical)
            {
                yield return $"{key}: expected {expected?.Canonical ?? "nothing"}, found {found?.Canonical ?? "nothing"}";
            }
        }

        IEnumerable<DatabaseKey> Own(IReadOnlyDictionary<DatabaseKey, Entry> entries) => entries.Keys.Where(k =>
            k.Name.StartsWith($"w{history.Writer}:x", StringComparison.Ordinal));
    }

    private static void CopyObserved(KeyspaceModel state, WriterHistory history, ObservedState observed, Func<string, bool> which)
    {
        foreach (var key in state.Entries.Keys.Where(k => which(k.Name)).ToArray())
        {
            state.Force(key, null);
        }

        foreach (var (key, entry) in observed.OfWriter(history.Writer)
            .Where(e => KeyspaceModel.Family(e.Key.Name) != 'q' && which(e.Key.Name)))
        {
            state.Force(key, entry.Clone());
        }
    }

    /// <summary>The prefix respects real time: nothing survives that was sent after the reply of something lost.</summary>
    private static void CheckRealTime(IReadOnlyList<WriterHistory> histories, WriterOutcome[] outcomes, List<Violation> violations)
    {
        long latest = long.MinValue;
        string witness = "";
        for (int i = 0; i < histories.Count; i++)
        {
            int k = histories[i].Commands.Take(outcomes[i].KMin).ToList().FindLastIndex(c => c.HasEffect);
            if (!histories[i].RanAfterRollback && outcomes[i].KMin > 0 && k >= 0 && histories[i].Commands[k].SentAt > latest)
            {
                latest = histories[i].Commands[k].SentAt;
                witness = $"{histories[i].Name} #{k + 1} {histories[i].Commands[k]}";
            }
        }

        for (int i = 0; i < histories.Count; i++)
        {
            var lost = histories[i].Commands.Skip(outcomes[i].KMax).FirstOrDefault(c => c.HasEffect);
            if (lost is { Fate: Fate.Answered } && lost.RepliedAt < latest)
            {
                violations.Add(new(ViolationKind.OrderBroken,
                    $"{histories[i].Name} lost {lost}, which had been answered before {witness} was sent, which survived"));
            }
        }
    }

    private static void CheckReferences(IReadOnlyList<WriterHistory> histories, WriterOutcome[] outcomes, ObservedState observed,
        CheckRules rules, List<Violation> violations)
    {
        foreach (var (key, entry) in observed.Entries.Where(e => KeyspaceModel.Family(e.Key.Name) == 'r'))
        {
            var parts = ((StringEntry)entry).Value.Split(':').Select(int.Parse).ToArray();
            int writer = parts[0] == rules.Round ? histories.ToList().FindIndex(h => h.Writer == parts[1]) : -1;
            // Sent before its client learnt of the rollback, run after it: such a client has been told, and may see this.
            string reference = ((StringEntry)entry).Value;
            bool ranLater = histories.Zip(outcomes)
                .Any(w => w.Second.Later.SelectMany(l => l).Concat(w.First.RanAfterRollback ? w.First.Commands : [])
                .Any(c => c.Arguments.Contains(reference)));
            if (writer >= 0 && outcomes[writer].KMax < parts[2] && !ranLater)
            {
                violations.Add(new(ViolationKind.ReferenceBroken,
                    $"{key} refers to command {parts[2]} of {histories[writer].Name}, which kept {outcomes[writer].KMax}"));
            }
        }
    }
}

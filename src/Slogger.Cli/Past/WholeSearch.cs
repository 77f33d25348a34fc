// Looks for the version at which a condition on the whole store came true: at one version after the other, or by halves.
using System.Globalization;
using Slogger.Cli.Access;

namespace Slogger.Cli.Past;

/// <summary>Looks for it.</summary>
/// <param name="past">The cluster.</param>
/// <param name="condition">The condition.</param>
/// <param name="progress">Where it is told how far it is.</param>
internal sealed class WholeSearch(PastCluster past, FindCondition condition, TextWriter progress)
{
    private static readonly TimeSpan ToldEvery = TimeSpan.FromSeconds(2);

    private DateTimeOffset _due;   // of the last step
    private int _asked;
    private long _toldAt = Environment.TickCount64;

    /// <summary>Asks every version at which something differs from the one before, or one in each step.</summary>
    /// <param name="from">The first instant, as DPR.ASOF has it; null: all that is kept.</param>
    /// <param name="to">The last.</param>
    /// <param name="step">How much time there is between two that are asked; null: none.</param>
    public async Task<FindReport> FirstAsync(string[]? from, string[] to, TimeSpan? step)
    {
        PastInstant end = await past.FindAsync(to).ConfigureAwait(false);
        long begin = await BeginningAsync(from, end).ConfigureAwait(false);
        await using PastRoll roll = await PastRoll.OpenAsync(past, begin, end.Version, progress).ConfigureAwait(false);
        PastInstant? before = null;
        for (long? next = roll.First; next is { } version; next = await NextAsync(roll, end, step).ConfigureAwait(false))
        {
            await roll.MoveToAsync(version).ConfigureAwait(false);
            if (await IsTrueAsync(roll).ConfigureAwait(false))
            {
                return await FoundAsync(roll, before, isFirst: true).ConfigureAwait(false);
            }
            before = roll.At;
        }
        return new(before, null, IsFirst: true, _asked, LeftOut: 0, []);
    }

    /// <summary>Finds a version at which it is true, and was not at the one before.</summary>
    /// <param name="from">The first instant, as DPR.ASOF has it; null: all that is kept.</param>
    /// <param name="to">The last. If it is not true there, nothing is found.</param>
    public async Task<FindReport> BisectAsync(string[]? from, string[] to)
    {
        PastInstant end = await past.FindAsync(to).ConfigureAwait(false);
        long begin = await BeginningAsync(from, end).ConfigureAwait(false);
        PastRoll roll = await PastRoll.OpenAsync(past, begin, end.Version, progress).ConfigureAwait(false);
        try
        {
            await roll.MoveToAsync(roll.First).ConfigureAwait(false);
            if (await IsTrueAsync(roll).ConfigureAwait(false)) { return await FoundAsync(roll, null, isFirst: true).ConfigureAwait(false); }
            // Not true at the one, true at the other; no version above low and below middle has to be asked.
            PastInstant low = roll.At, high = end;
            await roll.MoveToAsync(end.Version).ConfigureAwait(false);
            if (!await IsTrueAsync(roll).ConfigureAwait(false)) { return new(roll.At, null, IsFirst: false, _asked, LeftOut: 0, []); }
            for (long least = low.Version + 1, most = high.Version - 1; least <= most;)
            {
                long middle = least + ((most - least) / 2);
                PastInstant common = await past.FindAsync(["VERSION", PastCluster.Text(middle)]).ConfigureAwait(false);
                if (common.Version < least)
                {
                    least = middle + 1;
                    continue;
                }
                roll = await BringAsync(roll, common, end).ConfigureAwait(false);
                if (await IsTrueAsync(roll).ConfigureAwait(false)) { (high, most) = (common, common.Version - 1); }
                else { (low, least) = (common, middle + 1); }
            }
            // What was done between the two is told from one question to the next.
            roll = await BringAsync(roll, low, end).ConfigureAwait(false);
            await IsTrueAsync(roll).ConfigureAwait(false);
            await roll.MoveToAsync(high.Version).ConfigureAwait(false);
            return await FoundAsync(roll, low, isFirst: false).ConfigureAwait(false);
        }
        finally
        {
            await roll.DisposeAsync().ConfigureAwait(false);
        }
    }

    private async Task<PastRoll> BringAsync(PastRoll roll, PastInstant at, PastInstant end)
    {
        if (at.Version < roll.At.Version)
        {
            await roll.DisposeAsync().ConfigureAwait(false);
            roll = await PastRoll.OpenAsync(past, at.Version, end.Version, progress).ConfigureAwait(false);
        }
        await roll.MoveToAsync(at.Version).ConfigureAwait(false);
        return roll;
    }

    // The next version to ask; null: there is none.
    private async Task<long?> NextAsync(PastRoll roll, PastInstant end, TimeSpan? step)
    {
        if (roll.Next is not { } next || step is not { } each) { return roll.Next; }
        if (_due == default) { _due = roll.At.Time; }
        // The steps before the next change would show the same.
        PastInstant change = await past.FindThereAsync(["VERSION", PastCluster.Text(next)]).ConfigureAwait(false);
        _due += each;
        if (_due < change.Time) { _due += each * Math.Ceiling((change.Time - _due) / each); }
        for (; _due < end.Time; _due += each)
        {
            string due = PastCluster.Text(_due.ToUnixTimeMilliseconds());
            PastInstant there = await past.FindThereAsync(["TIME", due]).ConfigureAwait(false);
            if (there.Version >= next) { return Math.Min(there.Version, end.Version); }
        }
        return end.Version;
    }

    // The first version of which all shards that had slots since have everything.
    private async Task<long> BeginningAsync(string[]? from, PastInstant end)
    {
        if (from is not null) { return (await past.FindAsync(from).ConfigureAwait(false)).Version; }
        long first = await KeptFromAsync(await past.Shards.AddressesAsync().ConfigureAwait(false)).ConfigureAwait(false);
        IReadOnlyList<(long, string Address)> owners = await past.OwnersOfAllAsync(first, end.Version).ConfigureAwait(false);
        return Math.Max(first, await KeptFromAsync(owners.Select(o => o.Address)).ConfigureAwait(false));
    }

    private async Task<long> KeptFromAsync(IEnumerable<string> addresses)
    {
        long first = 0;
        foreach (string address in addresses)
        {
            ProxyConnection proxy = await past.Shards.AtAsync(address).ConfigureAwait(false);
            IReadOnlyList<KeyValuePair<string, string>> facts = await StatusClient.AskAsync(proxy, address).ConfigureAwait(false);
            string fact = facts.FirstOrDefault(f => f.Key == "past_detail_from_version").Value ?? "0";
            long kept = long.Parse(fact, CultureInfo.InvariantCulture);
            // Of one that has joined there is nothing from before it had slots.
            if (kept > first && await past.HadSlotsAsync(address, kept - 1).ConfigureAwait(false)) { first = kept; }
        }
        return first;
    }

    private async Task<bool> IsTrueAsync(PastRoll roll)
    {
        _asked++;
        if (Environment.TickCount64 - _toldAt >= ToldEvery.TotalMilliseconds)
        {
            _toldAt = Environment.TickCount64;
            await progress.WriteLineAsync($"{_asked} versions, now at {PastText.Of(roll.At.Time)}").ConfigureAwait(false);
        }
        ProxyReply[] replies = await roll.EvalAsync(FindCondition.Script, condition.When).ConfigureAwait(false);
        return await condition.IsTrueAsync(roll.At.Version, replies.Select(Task.FromResult)).ConfigureAwait(false);
    }

    private async Task<FindReport> FoundAsync(PastRoll roll, PastInstant? before, bool isFirst)
    {
        (long leftOut, IReadOnlyList<FoundEffect> commands) = await roll.CommandsAsync().ConfigureAwait(false);
        return new(before, roll.At, isFirst, _asked, leftOut, commands);
    }
}

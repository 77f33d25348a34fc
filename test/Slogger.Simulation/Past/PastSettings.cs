// What a case of the past is made from.
using Slogger.Core.Resets;
using Slogger.Core.Retention;
using Slogger.Core.Versions;

namespace Slogger.Simulation.Past;

/// <summary>Rules of those who drive the machines, each left out to prove that the checks notice.</summary>
internal enum PastSimMutation
{
    None,

    /// <summary>A reduced file counts before it is durable.</summary>
    ReducedNotDurable,

    /// <summary>A checkpoint of what a recovery took back is used.</summary>
    OtherLineUsed,

    /// <summary>It is said that something is durable, and it is not synced.</summary>
    SyncForgotten,
}

/// <summary>One case.</summary>
internal sealed record PastSettings
{
    public required int Seed { get; init; }

    /// <summary>How many steps the failures go on.</summary>
    public int Steps { get; init; } = 260;

    public PastSimMutation Sim { get; init; }

    public PastMutation Past { get; init; }

    public TileMutation Tiles { get; init; }

    public ResetMutation Reset { get; init; }

    public CommonMutation Common { get; init; }

    /// <summary>The same with one rule switched off; null: no rule has this name.</summary>
    /// <param name="rule">Its name in the ...Mutation types; where two have one, with the type before it, as Past.GapIgnored.</param>
    public PastSettings? Without(string rule)
    {
        string[] parts = rule.Split('.');
        bool Is<T>(out T value) where T : struct, Enum
        {
            value = default;
            bool isMeant = parts.Length == 1 || string.Equals(parts[0] + "Mutation", typeof(T).Name, StringComparison.OrdinalIgnoreCase);
            return isMeant && parts[^1].All(char.IsLetter) && Enum.TryParse(parts[^1], ignoreCase: true, out value);
        }
        return Is(out PastSimMutation sim) ? this with { Sim = sim } : Is(out PastMutation past) ? this with { Past = past }
            : Is(out TileMutation tiles) ? this with { Tiles = tiles } : Is(out ResetMutation reset) ? this with { Reset = reset }
            : Is(out CommonMutation common) ? this with { Common = common } : null;
    }
}

// What a chaos run is to do; from the command line of the test program or from the environment.
using System.Globalization;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Chaos;

/// <param name="Rounds">How many times something is killed (default 6; a long run has 200 and more).</param>
/// <param name="Seed">Chooses commands, faults and moments; printed with every failure.</param>
/// <param name="RunMinMs">The shortest time the writers run before the fault, in ms.</param>
/// <param name="RunMaxMs">The longest, in ms.</param>
/// <param name="ReplayEvery">After every so many rounds the log is replayed elsewhere and compared; 0 for never.</param>
internal sealed record ChaosOptions(int Rounds, int Seed, int RunMinMs = 200, int RunMaxMs = 1500, int ReplayEvery = 5)
{
    public const string RoundsVariable = "SLOGGER_CHAOS_ROUNDS";
    public const string SeedVariable = "SLOGGER_CHAOS_SEED";
    private const int RoundsInCi = 6;

    public IReadOnlyList<WriterProfile> Profiles { get; init; } = WriterProfile.Mixed;

    /// <summary>Keys that expire during the run; off where the store's clock is moved.</summary>
    public bool ShortLivedKeys { get; init; } = true;

    /// <summary>Called with a line per round.</summary>
    public Action<string> Report { get; init; } = _ => { };

    /// <summary>The environment's SLOGGER_CHAOS_ROUNDS and SLOGGER_CHAOS_SEED; else a short run with a seed of the day's clock.</summary>
    public static ChaosOptions FromEnvironment(int? rounds = null) => new(
        Number(RoundsVariable) ?? rounds ?? RoundsInCi,
        Number(SeedVariable) ?? (int)(DateTimeOffset.UtcNow.ToUnixTimeSeconds() & 0x7fffffff));

    private static int? Number(string variable) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), NumberStyles.None, CultureInfo.InvariantCulture, out int number)
            ? number
            : null;
}

// How long the writes of a reset take. Clients wait meanwhile, so whoever gives the command is told before. Each step that waits for the
// writes has a limit that they fit in.
namespace Slogger.Core.Resets;

/// <summary>Times of a reset's writes.</summary>
public static class ResetTime
{
    // A store that is slower than this does not work any more.
    private const long BytesPerSecondMin = 4 << 20;

    private const double BytesPerSecond = 80e6, KeysPerSecond = 200e3;
    private static readonly TimeSpan s_least = TimeSpan.FromSeconds(40);

    /// <summary>How long a step may take that waits for all writes of a shard, or for their commit.</summary>
    /// <param name="bytes">Of the writes.</param>
    public static TimeSpan Limit(long bytes) => s_least + TimeSpan.FromSeconds(bytes / BytesPerSecondMin);

    /// <summary>About how long clients wait for a shard, as seen on a machine of two processors.</summary>
    /// <param name="keys">That are written.</param>
    /// <param name="bytes">Of the writes.</param>
    public static TimeSpan Expected(long keys, long bytes) => TimeSpan.FromSeconds((bytes / BytesPerSecond) + (keys / KeysPerSecond));
}

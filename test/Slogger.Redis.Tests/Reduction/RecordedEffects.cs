namespace Slogger.Redis.Tests.Reduction;

/// <summary>What a server has propagated.</summary>
/// <param name="Bytes">The stream.</param>
/// <param name="Database">The database selected where it begins.</param>
/// <param name="Ends">Where versions end. The first one is what a store holds before the first window.</param>
/// <param name="Windows">Of the ends those at which windows end.</param>
internal sealed record RecordedEffects(byte[] Bytes, int Database, int[] Ends, HashSet<int> Windows)
{
    /// <summary>The raw store behind the base and each window; filled when it has been there.</summary>
    public List<StoreView> Views { get; } = [];

    /// <summary>One window on top of a base, as text.</summary>
    public static RecordedEffects Of(string before, string window)
    {
        byte[] start = ReductionText.Stream(before), rest = ReductionText.Stream(window);
        int end = start.Length + rest.Length;
        return new([.. start, .. rest], 0, [start.Length, end], [start.Length, end]);
    }
}

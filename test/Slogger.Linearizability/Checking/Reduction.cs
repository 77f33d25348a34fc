// The fewest parts that still show a fault: delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing
// input", 2002). Nothing can be left out of what it returns.
namespace Slogger.Linearizability.Checking;

internal static class Reduction
{
    /// <param name="parts">Which show the fault together.</param>
    /// <param name="isWrong">Whether some of them show it; in the same order.</param>
    public static List<T> Smallest<T>(List<T> parts, Func<List<T>, bool> isWrong)
    {
        for (int size = (parts.Count + 1) / 2; size >= 1;)
        {
            bool isSmaller = false;
            for (int at = 0; at < parts.Count && parts.Count > 1;)
            {
                List<T> rest = [.. parts[..at], .. parts[Math.Min(at + size, parts.Count)..]];
                if (isWrong(rest)) { (parts, isSmaller) = (rest, true); }
                else { at += size; }
            }

            size = size == 1 ? (isSmaller ? 1 : 0) : Math.Min((size + 1) / 2, size - 1);
        }

        return parts;
    }
}

// "Did you mean": the known name nearest to a mistyped one, by edit distance, if it is near enough to be a likely slip.
namespace Slogger.Proxy.Configuration;

/// <summary>Finds the likely meaning of a mistyped name.</summary>
public static class NearestName
{
    /// <summary>The nearest of <paramref name="known"/>, or null if none is within a third of its length (2 edits at least).</summary>
    public static string? Find(string typed, IEnumerable<string> known)
    {
        string? best = null;
        int bestDistance = int.MaxValue;
        foreach (string name in known)
        {
            int distance = Distance(typed.ToUpperInvariant(), name.ToUpperInvariant());
            if (distance < bestDistance)
            {
                (best, bestDistance) = (name, distance);
            }
        }

        return best is not null && bestDistance <= Math.Max(2, best.Length / 3) && bestDistance < best.Length ? best : null;
    }

    private static int Distance(string a, string b)
    {
        int[] previous = [.. Enumerable.Range(0, b.Length + 1)];
        int[] current = new int[b.Length + 1];
        for (int i = 1; i <= a.Length; i++)
        {
            current[0] = i;
            for (int j = 1; j <= b.Length; j++)
            {
                int replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
                current[j] = Math.Min(replace, Math.Min(previous[j], current[j - 1]) + 1);
            }

            (previous, current) = (current, previous);
        }

        return previous[b.Length];
    }
}

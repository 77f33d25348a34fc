// What is under way between the sites, and within the backup: lost, doubled, late, in any order. The wide-area link may be cut, for one
// stream or for all.
namespace Slogger.Simulation.Sites;

internal sealed class Wires(BackupSite site)
{
    private const int UnderWayMax = 400;

    private readonly List<(long DueUs, Action Deliver)> _underWay = [];

    /// <summary>Nothing of these streams passes before this time; [^1]: of none.</summary>
    public Dictionary<int, long> CutUntilUs { get; } = [];

    /// <summary>Sends something between the sites.</summary>
    public void PostWide(int stream, Action deliver)
    {
        if (IsCut(stream) || IsCut(-1))
        {
            site.Count("wide-area message lost in a partition");
            return;
        }

        Post(deliver, 200, 1500, "wide-area message");
    }

    /// <summary>Sends something within the backup site.</summary>
    public void PostNear(Action deliver) => Post(deliver, 10, 200, "message at the backup");

    /// <summary>What has come to its end.</summary>
    public void Deliver()
    {
        for (int i = 0; i < _underWay.Count; i++)
        {
            (long dueUs, Action deliver) = _underWay[i];
            if (dueUs > site.NowUs) continue;
            _underWay.RemoveAt(i--);
            deliver();
        }
    }

    private bool IsCut(int stream) => CutUntilUs.TryGetValue(stream, out long until) && until > site.NowUs;

    private void Post(Action deliver, int minUs, int maxUs, string what)
    {
        bool mayFail = site.MayFail;
        if (_underWay.Count >= UnderWayMax || (mayFail && site.Dice(40)))
        {
            site.Count($"{what} lost");
            return;
        }

        for (int copies = mayFail && site.Dice(30) ? 2 : 1; copies > 0; copies--)
        {
            // Some are very late: whoever sent them may be gone, or replaced.
            long us = mayFail && site.Dice(40) ? site.Random.Next(maxUs, 12 * maxUs) : site.Random.Next(minUs, maxUs);
            _underWay.Add((site.NowUs + us, deliver));
        }
    }
}

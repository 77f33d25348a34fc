// A watermark service: the real machine. There may be none, one, or two at once.
using System.Collections.Immutable;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Watermarks;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Sites;

internal sealed class WatermarkProcess : SiteProcess
{
    private const long ReadUs = 3 * Cluster.IntervalUs;

    private WatermarkService? _service;
    private ImmutableArray<long> _generations = [];

    public WatermarkProcess(BackupSite site, string name)
        : base(site, name) => Start(Run());

    public WorldPoint? Current => _service?.Current;

    /// <summary>Whether it goes by this life of a stream.</summary>
    public bool Counts(int stream, long generation) => _generations[stream] == generation;

    public void Hear(WatermarkReport report) => Post(() =>
    {
        if (_service is not { } service) return;
        WorldPoint? before = service.Current;
        bool isToTell = service.Report(report);
        if (service.Current is not { } current) return;
        if (before != current)
        {
            Site.Checks.OnWatermark(current, this);
            Site.Count("watermark");
        }

        if (!isToTell) return;
        foreach (BackupProcess p in Site.Processes) Site.Wires.PostNear(() => p.HearWatermark(current));
    });

    public override void Die(string why)
    {
        base.Die(why);
        Site.Services.Remove(this);
    }

    private IEnumerable<bool> Run()
    {
        while (!IsDead)
        {
            SqlCall look = Ask("look", Site.Sql.Look);
            while (!look.IsDone) yield return true;
            if (look.Result is SiteState state)
            {
                _generations = state.Generations;
                _service ??= new(state.Generations, Site.Mutation);
                _service.Members(state.Generations, state.Role == SiteRole.Backup);
            }

            long nextUs = Site.NowUs + ReadUs;
            while (Site.NowUs < nextUs) yield return true;
        }
    }
}

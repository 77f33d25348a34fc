// A cluster and its backup: what becomes of the primary, and the cluster that goes on where the backup has taken over.
using Slogger.Core.WorldLines;
using Slogger.Simulation.Processes;
using Slogger.Simulation.Sites;

namespace Slogger.Simulation;

internal sealed partial class Cluster
{
    /// <summary>The backup site; null: there is none.</summary>
    public BackupSite? Backup { get; }

    /// <summary>The cluster at the backup site, once that has taken over.</summary>
    public Cluster? Successor { get; private set; }

    /// <summary>All of it is gone.</summary>
    public bool IsLost { get; private set; }

    /// <summary>A disaster: nothing of it ever does anything again.</summary>
    public void Lose()
    {
        IsLost = true;
        Sql.IsDown = true;
        foreach (ShardHost host in Hosts)
            foreach (ProxyProcess p in host.Proxies.ToArray()) p.Die("disaster");
    }

    /// <summary>Failures are over, at either site; of one that is gone nothing comes back.</summary>
    public void RestRound()
    {
        IsSettling = true;
        if (IsLost)
        {
            PassTime(150);
            Tick++;
            Backup?.Round();
            return;
        }

        Heal();
        Round();
    }

    /// <summary>The backup is the primary. What is left of the old one learns of that, or goes on alone.</summary>
    public void TakenOver(BackupSite by)
    {
        // The site that was the primary becomes the backup of the new one in some of the cases, and that may take over again.
        bool isFollowed = by.Dice(2) && by.Sql.State.Epoch.Number < 2;
        Successor = new(Settings with { Moves = false, Members = false, Shards = Hosts.Length, Backup = isFollowed,
            Steps = Settings.Steps / 2 }, by);
    }

    private void BeginWhere(BackupSite from)
    {
        Sql.BeginAt(from.Sql.State, from.Sql.EpochLast);
        foreach (ShardHost host in Hosts)
        {
            WorldLine line = Sql.Line;
            host.Store.Restore(host.Log.Bytes, (int)host.Log.End, host.Log.HistoryId, line);
            host.CoveredOffset = host.Log.End;
            foreach (Command c in host.Log.Bytes)
                if (c.Op is { Covered: false } op)
                    throw new SimException($"I2: the site that has taken over holds what the primary never committed: {op}");
        }
    }
}

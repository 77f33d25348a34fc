// Shards that come and go while all else goes on: operators who add some and have others leave, and what fails just when one of them has
// come a step further.
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation;

internal sealed partial class Cluster
{
    private const int NumbersMax = 7;
    private int? _emptied;           // its slots are moved away, so that it can leave

    /// <summary>Whether shards join and leave.</summary>
    public bool Grows { get; }

    public List<Operator> Operators { get; } = [];

    /// <summary>Nobody is on the way in, or out.</summary>
    public bool IsWhole => !Hosts.Where(h => !h.NeverComes && Sql.Members.States[h.Number] is MemberState.Joining or MemberState.Leaving)
        .Any();

    /// <summary>A shard has come a step further: now and then somebody dies of it.</summary>
    public void OnMember(string what, int shard)
    {
        Count($"member: {what}{(IsSettling ? ", at rest" : "")}");
        if (IsTraced) Note($"shard {shard}: {what}");
        if (Settings.Faults && !IsSettling && Dice(4)) _failsNext = Hosts[Dice(2) ? shard : Random.Next(Hosts.Length)];
    }

    /// <summary>Somebody has a shard join.</summary>
    public ShardHost? AddShard(bool neverComes = false)
    {
        if (!Sql.AddShard()) return null;
        ShardHost added = new(this, Hosts.Length, Settings.Mutation == SimMutation.GapForgetsLog) { SkewUs = DrawSkew(),
            NeverComes = neverComes };
        Hosts = [.. Hosts, added];
        OnMember("added", added.Number);
        return added;
    }

    /// <summary>Somebody has a shard leave. It takes until its proxy has ended; if that is dead, somebody else does it.</summary>
    public void BeginToLeave(int shard) => Operators.Add(new(this, $"operator {++_names}", shard));

    private bool MayStart(ShardHost host) => !host.IsOff && !host.NeverComes && Sql.Members.States[host.Number] != MemberState.Left;

    private void MembersTurn()
    {
        Operators.RemoveAll(o => o.IsDead);
        if (Dice(2))
            foreach (Operator o in Operators.ToArray()) o.StepTask(Random);
        if (!Settings.Faults) return;
        switch (Random.Next(500))
        {
            case < 3:
                if (Hosts.Length < NumbersMax && Sql.Members.States.Count(s => s == MemberState.Joining) < 2) AddShard(neverComes: Dice(8));
                break;
            case < 6:
                _emptied ??= SomeMember();
                break;
            case 6:
                if (Operators.Count > 0) Operators[Random.Next(Operators.Count)].Die("interrupted");
                break;
            case 7:
                foreach (ShardHost host in Hosts) host.IsOff = false;
                break;
            case < 11:
                GiveTo(Random.Next(Hosts.Length));
                break;
            case 11:
                // A joiner is given up.
                if (Operators.Count == 0) BeginToLeave(Random.Next(Hosts.Length));
                break;
        }

        if (_emptied is { } shard && Dice(4)) Empty(shard);
    }

    // Those that the cluster was made with may go as well, but somebody has to stay.
    private int? SomeMember()
    {
        int[] members = [.. Enumerable.Range(0, Hosts.Length).Where(s => Sql.Members.States[s] == MemberState.Member)];
        return members.Length > 2 ? members[Random.Next(members.Length)] : null;
    }

    // A member that owns nothing is of no use.
    private void GiveTo(int shard)
    {
        if (shard != _emptied && Sql.Members.States[shard] == MemberState.Member && Sql.Owners.Map.Rows.All(r => r.Shard.Number != shard))
            PlanMove(Random.Next(Keys.Count), 2, shard);
    }

    private void Empty(int shard)
    {
        SlotMap map = Sql.Owners.Map;
        int[] owned = [.. Enumerable.Range(0, Keys.Count).Where(k => Keys.OwnerOf(k, map) == shard)];
        bool isBusy = Sql.Owners.Moves.Any(m => m.From.Number == shard || m.To.Number == shard);
        if (owned.Length == 0 && !isBusy)
        {
            _emptied = null;
            BeginToLeave(shard);
            // What it has not said dies with it.
            if (!Dice(3)) return;
            Hosts[shard].IsOff = true;
            PowerCut(Hosts[shard]);
        }
        else if (owned.Length > 0 && SomeMember() is { } to && to != shard)
        {
            PlanMove(owned[0], 1, to);
        }
    }
}

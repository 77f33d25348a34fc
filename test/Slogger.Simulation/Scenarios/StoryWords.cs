// What has happened since one looked last, in words and in one order: what SQL holds, what each shard does, what each client was told.
using System.Globalization;
using System.Text.RegularExpressions;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.Sessions;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Simulation.Clients;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Scenarios;

internal sealed partial class StoryWords(Cluster cluster, Dictionary<Op, string> names)
{
    public const string KeyNames = "xyzuvw", SessionNames = "abc", PlainNames = "pqd";

    private readonly Dictionary<string, string> _known = [];
    private readonly Dictionary<Op, string> _heard = [];
    private readonly Dictionary<int, ClientRollback> _rollbacks = [];
    private readonly SortedDictionary<long, (string Keys, SlotMove Move)> _moves = [];
    private readonly List<string> _said = [];

    [GeneratedRegex("""operation (\d+) of (session|plain client) (\d+) at shard (\d+) \([^()]*\)""")]
    private static partial Regex Operation();

    [GeneratedRegex("""session 0*(\d+)\b""")]
    private static partial Regex Session();

    [GeneratedRegex("""proxy (\d+)[a-z]""")]
    private static partial Regex Proxy();

    /// <summary>Something that is to be told with the next news, before all else.</summary>
    public void Say(string what) => _said.Add(what);

    /// <summary>The sessions that have just asked what is committed: of them it is told with the next news. Answers bring word of commits,
    /// too, sooner or later.</summary>
    public HashSet<int> TellsCommits { get; } = [];

    /// <summary>Whether each cut is told. Where a clock was set its number hangs on how often the clock is read.</summary>
    public bool TellsCuts { get; init; } = true;

    public string NameOf(Op op) => names.GetValueOrDefault(op, $"write {op.Sequence}");

    /// <summary>What an invariant says, with the names of clients and operations.</summary>
    public string InWords(string violation)
    {
        string text = Operation().Replace(violation, m =>
        {
            int Number(int group) => int.Parse(m.Groups[group].ValueSpan, CultureInfo.InvariantCulture);
            (int sequence, int client, int shard) = (Number(1), Number(3), Number(4));
            bool isPlain = m.Groups[2].Value != "session";
            IEnumerable<Op> ops = isPlain ? cluster.Plains[client - 1].Ops.Where(o => o.Shard == shard) : cluster.Sessions[client - 1].Ops;
            Op? op = ops.LastOrDefault(o => o.Sequence == sequence);
            return op is null ? m.Value : $"{NameOf(op)} of client {(isPlain ? PlainNames : SessionNames)[client - 1]}";
        });
        text = Session().Replace(text, m => $"client {SessionNames[int.Parse(m.Groups[1].ValueSpan, CultureInfo.InvariantCulture) - 1]}");
        return Proxy().Replace(text, "the process of shard $1").Split('\n')[0];
    }

    public List<string> News()
    {
        List<string> news = [.. _said];
        _said.Clear();
        TellSql(news);
        // Who has left is not spoken of any more.
        var changed = cluster.Hosts.Where(h => cluster.Sql.Members.States[h.Number] != MemberState.Left)
            .Select(h => (h.Number, State: StateOf(h))).Where(s => IsNew($"shard {s.Number}", s.State));
        foreach (var same in changed.ToArray().GroupBy(s => s.State, s => s.Number))
            news.Add($"{(same.Count() > 1 ? "shards" : "shard")} {string.Join(' ', same)}: {same.Key}");

        for (int i = 0; i < cluster.Sessions.Length; i++) TellSession(news, i, cluster.Sessions[i]);
        for (int i = 0; i < cluster.Plains.Length; i++) TellPlain(news, i, cluster.Plains[i]);
        TellBackup(news);
        TellsCommits.Clear();
        return news;
    }

    private void Tell(List<string> news, string of, string now, string text)
    {
        if (IsNew(of, now)) news.Add(text);
    }

    private bool IsNew(string of, string now)
    {
        if (_known.TryGetValue(of, out string? before) && before == now) return false;
        _known[of] = now;
        return true;
    }

    // ---- SQL ----

    private void TellSql(List<string> news)
    {
        if (cluster.IsLost) return;
        Processes.Sql sql = cluster.Sql;
        foreach (SqlLine line in sql.Lines.Skip(1)) {
            if (!IsNew($"world-line {line.WorldLine}", "begun")) continue;
            news.Add($"world-line {line.WorldLine} begins{(TellsCuts ? $", {Versions(line.Branch)}" : "")}");
            _known["cut"] = $"{line.WorldLine}, {Versions(line.Branch)}";
        }

        for (int i = 1; i < sql.ClockGrid.Stretches.Length; i++)
        {
            var stretch = sql.ClockGrid.Stretches[i];
            string ms = (stretch.IntervalUs / 1000.0).ToString(CultureInfo.InvariantCulture);
            Tell(news, $"stretch {i}", "known", $"from version {stretch.FirstVersion} on versions are {ms} ms long");
        }

        for (int s = 0; s < sql.Members.States.Length; s++)
        {
            string state = sql.Members.States[s] switch
            {
                MemberState.Joining => "is to join",
                MemberState.Leaving => "is to leave",
                MemberState.Left => "has left",
                _ => "is a member",
            };
            if (state == "is a member" && !_known.ContainsKey($"member {s}")) continue;
            Tell(news, $"member {s}", state, $"shard {s} {state}");
        }

        foreach (SlotMove move in sql.Owners.Moves)
        {
            string keys = string.Join(' ', cluster.Keys.KeysIn(move.Slots).Select(k => KeyNames[k]));
            string text = move.State switch
            {
                MoveState.Planned => $"{keys} is to move from shard {move.From} to {move.To}, which copies it",
                MoveState.Leaving => $"shard {move.From} has renounced {keys}",
                MoveState.Landed => $"{keys} is shard {move.To}'s, from version {move.Landed} on",
                _ => $"{keys} stays with shard {move.From}",
            };
            Tell(news, $"move {move.Id.Number}", text, text);
            _moves.TryAdd(move.Id.Number, (keys, move));
        }

        foreach ((long number, (string keys, SlotMove move)) in _moves)
        {
            if (sql.Owners.Moves.Any(m => m.Id.Number == number)) continue;
            int owner = sql.Owners.Map.Owner(move.Slots[0].First).Number;
            Tell(news, $"move {number}", "over", $"the move of {keys} is over: it is shard {owner}'s");
        }

        if (TellsCuts) Tell(news, "cut", $"{sql.Line}, {Versions(sql.Cut)}", $"the cut is {Versions(sql.Cut)}");
    }

    private string Versions(Core.Cuts.Cut cut)
    {
        VersionNumber[] versions = cut.Versions.ToArray();
        return versions.Distinct().Count() == 1 ? $"at version {versions[0]}" : $"at versions {string.Join(' ', versions)}";
    }

    // ---- Shards ----

    private static string StateOf(ShardHost host) => host.Newest switch
    {
        null => "no process",
        { IsRunning: false } => "asleep",
        { IsOpen: true, Machine: { MarkerInFlight: true } m } =>
            $"serving in world-line {m.WorldLine}; a marker is on its way, version {m.OpenVersion} is open",
        { IsOpen: true } p => $"serving in world-line {p.Machine!.WorldLine}",
        _ => "serving nobody",
    };

    // ---- Clients ----

    private void TellSession(List<string> news, int i, SessionClient session)
    {
        string name = $"client {SessionNames[i]}";
        if (session.Rollback is { } rollback && _rollbacks.GetValueOrDefault(i) != rollback)
        {
            _rollbacks[i] = rollback;
            List<string> fates = [];
            foreach (Op op in session.Ops)
            {
                // What was told before is no news.
                if (_heard.GetValueOrDefault(op) is "gone" or "redirected" or "committed") continue;
                if (!op.ToldGone && !op.Covered) continue;
                fates.Add($"{NameOf(op)} {(!op.ToldGone ? "has survived" : IsLost(rollback, op) ? "is lost" : "is uncertain")}");
                if (op.ToldGone) _heard[op] = "gone";
            }

            news.Add($"{name} hears of world-line {rollback.WorldLine}{(fates.Count > 0 ? $": {string.Join(", ", fates)}" : "")}");
        }

        TellOps(news, name, session.Ops, TellsCommits.Contains(i), "its connection was lost, and nobody says what became of");
    }

    private static bool IsLost(ClientRollback rollback, Op op)
    {
        IEnumerable<SequenceRange> exceptions = rollback.Exceptions.Where(e => e.Kind == ExceptionKind.Lost).Select(e => e.Range);
        return rollback.Lost.Concat(exceptions).Any(r => r.First.Number <= op.Sequence && op.Sequence <= r.Last.Number);
    }

    private void TellPlain(List<string> news, int i, PlainClient plain)
    {
        string name = $"client {PlainNames[i]}";
        if (plain.Link is { IsClosed: true }) Tell(news, $"link of {name}", "closed", $"the connection of {name} is closed");
        else if (plain.Link is not null) _known[$"link of {name}"] = "open";
        TellOps(news, name, plain.Ops, tellsCommits: true, "it is told that these are not committed:");
    }

    private void TellOps(List<string> news, string name, IReadOnlyList<Op> ops, bool tellsCommits, string gone)
    {
        List<Op> committed = [], lost = [];
        List<VersionNumber> many = [];
        foreach (Op op in ops)
        {
            string before = _heard.GetValueOrDefault(op, "");
            if (op.IsRedirected && op.Answered > 0 && before == "")
            {
                news.Add($"{name} hears: {KeyNames[op.Key]} is shard {op.RedirectedTo}'s");
                _heard[op] = "redirected";
            }
            else if (op.Answered > 0 && before == "" && !op.IsRedirected)
            {
                _heard[op] = before = "answered";
                if (!names.ContainsKey(op))
                {
                    many.Add(op.Label);
                    continue;
                }

                string version = op.OpenEnded ? $"in a version from {op.Label} to {op.Upper}" : $"in version {op.Label}";
                news.Add($"{name} hears: {NameOf(op)} is done {version}{(op.Read is { } read ? $", after {NameOf(read)}" : "")}");
            }

            if (op.ToldGone && !op.IsRedirected && before != "gone" && _heard.GetValueOrDefault(op) != "gone")
            {
                lost.Add(op);
                _heard[op] = "gone";
            }

            if (tellsCommits && op.ToldCommitted && before != "committed")
            {
                committed.Add(op);
                _heard[op] = "committed";
            }
        }

        if (many.Count > 0) news.Add($"{name} hears: {many.Count} writes are done, in versions {string.Join(' ', many.Distinct())}");
        if (committed.Count > 0) news.Add($"{name} is told that {Names(committed)} {(committed.Count > 1 ? "are" : "is")} committed");
        if (lost.Count > 0) news.Add($"{name}: {gone} {Names(lost)}");
    }

    // Those without a name together.
    private string Names(List<Op> ops)
    {
        IEnumerable<string> named = ops.Where(names.ContainsKey).Select(NameOf);
        int others = ops.Count(o => !names.ContainsKey(o));
        return string.Join(", ", others > 0 ? named.Append($"{others} writes") : named);
    }

    // ---- The backup ----

    private void TellBackup(List<string> news)
    {
        if (cluster.Backup is not { } site) return;
        if (cluster.IsLost) Tell(news, "primary", "gone", "all of the primary is gone");
        string role = site.Sql.State.Role switch
        {
            SiteRole.Backup => "the backup follows",
            SiteRole.FailingOver => "the backup is taking over",
            _ => "the backup is the primary now",
        };
        string has = site.IsOver ? $"; it has {Content(site.Streams.SelectMany(s => ContentOf(s.Log)))}" : "";
        Tell(news, "backup", role, role + has);
        string primary = cluster.Sql.Site.Role switch
        {
            SiteRole.Deposed => "the primary knows that it is deposed",
            SiteRole.HandingOver => "the primary hands over",
            _ => "",
        };
        if (primary.Length > 0) Tell(news, "primary's site", primary, primary);
    }

    /// <summary>The values of all keys at the end of a log.</summary>
    public IEnumerable<Op?> ContentOf(ShardLog log) => Enumerable.Range(0, cluster.Keys.Count).Select(k => log.ValueAt(k, log.End));

    /// <summary>What a store holds.</summary>
    public string Content(IEnumerable<Op?> values)
    {
        string text = string.Join(", ", values.Where(v => v is not null).Select(v => NameOf(v!)).Order(StringComparer.Ordinal));
        return text.Length > 0 ? text : "nothing";
    }
}

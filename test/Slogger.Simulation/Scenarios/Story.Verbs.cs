// The language of scenario files: which sentences there are, and what each does.
using System.Globalization;
using System.Text.RegularExpressions;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.Sites;
using Slogger.Simulation.Clients;
using Slogger.Simulation.Processes;
using Slogger.Simulation.Sites;

namespace Slogger.Simulation.Scenarios;

internal sealed partial class Story
{
    // {n}: a shard's number; {m}: another number; {k}: a key; {v}: a word; {s}: a client with the session protocol; {p}: a plain client;
    // {t}: a time.
    private static readonly Dictionary<string, string> Holes = new()
    {
        ["n"] = "\\d+", ["m"] = "\\d+", ["t"] = "\\d+(?:us|ms)", ["all"] = "\\d+(?: \\d+)*", ["v"] = "\\w+", ["until"] = ".+",
        ["k"] = $"[{StoryWords.KeyNames}]", ["s"] = $"[{StoryWords.SessionNames}]", ["other"] = $"[{StoryWords.SessionNames}]",
        ["p"] = $"[{StoryWords.PlainNames}]",
    };

    private static readonly (Regex Pattern, string Text, Action<Story, Step, Words> Act)[] Verbs =
    [
        // ---- Before the cluster is there ----
        Verb("the finder is {v}", (s, step, w) => s.UseFinder(step, w["v"])),
        Verb("clocks are within {t} of each other", (s, _, w) => s._settings = s._settings with { ClockErrorUs = w.Us("t") }),
        Verb("slots move", (s, _, _) => s._settings = s._settings with { Moves = true }),
        Verb("slots move, and shards join and leave", (s, _, _) => s._settings = s._settings with { Moves = true, Members = true }),
        Verb("stores go back in place", (s, _, _) => s._settings = s._settings with { InPlace = true }),
        Verb("there is a backup site", (s, _, _) => s.UseBackup(hasLease: false)),
        Verb("there is a backup site, which grants leases", (s, _, _) => s.UseBackup(hasLease: true)),
        Verb("shards {all}", (s, _, w) => s.Make(w["all"].Split(' ').Length)),

        Verb("cuts are not told", (s, _, _) => s._tellsCuts = false),

        // ---- Clients ----
        Verb("client {s} writes {k}={v} at shard {n}", (s, step, w) => s.Write(step, w.Session, w.Shard, w.Key, $"{w["k"]}={w["v"]}")),
        Verb("client {s} says {v} to shard {n}", (s, step, w) => s.Write(step, w.Session, w.Shard, -1, w["v"])),
        Verb("clients {s} and {other} write in turn at shards {n} and {m} for {t}", (s, _, w) => s.WriteInTurn(w)),
        Verb("client {s} asks shard {n} what is committed", (s, _, w) => s.AskWhatIsCommitted(w.Session, w.Shard)),
        Verb("requests of client {s} are held", (s, _, w) => s._requestsHeld.Add(w.Session)),
        Verb("requests of client {s} go on", (s, _, w) => s.SendHeld(w.Session)),
        Verb("answers to client {s} are held", (s, _, w) => s._answersHeld.Add(w.Session)),
        Verb("answers to client {s} go on", (s, _, w) => s._answersHeld.Remove(w.Session)),
        Verb("the answer to {k}={v} arrives", (s, step, w) => s.Deliver(step, $"{w["k"]}={w["v"]}", Delivery.Once)),
        Verb("the answer to {k}={v} arrives, and will again", (s, step, w) => s.Deliver(step, $"{w["k"]}={w["v"]}", Delivery.Again)),
        Verb("the answer to {k}={v} is lost", (s, step, w) => s.Deliver(step, $"{w["k"]}={w["v"]}", Delivery.Lost)),
        Verb("plain client {p} connects to shard {n}", (s, _, w) => s.C.Plains[w.Plain].Connect(w.Shard)),
        Verb("plain client {p} writes {k}={v}", (s, _, w) => s.WritePlain(w.Plain, w.Key, $"{w["k"]}={w["v"]}")),

        // ---- Time ----
        Verb("{t} pass", (s, _, w) => s.Pass(w.Us("t"))),
        Verb("time passes until {until}", (s, step, w) => s.Await(step, w["until"])),

        // ---- What fails, and comes back ----
        Verb("shard {n} crashes", (s, _, w) => s.C.ProxyDies(s.C.Hosts[w.Shard])),
        Verb("shard {n} recovers", (s, _, w) => s.C.StartProxy(s.C.Hosts[w.Shard])),
        Verb("shard {n} stops in order", (s, step, w) => s.Stop(step, w.Shard)),
        Verb("shard {n} sleeps", (s, _, w) => s.ProcessOf(w.Shard).PausedUntil = long.MaxValue),
        Verb("shard {n} wakes up", (s, _, w) => Each(s.C.Hosts[w.Shard].Proxies, p => p.PausedUntil = 0)),
        Verb("another process takes shard {n}", (s, _, w) => s.C.TakeOver(s.C.Hosts[w.Shard])),
        Verb("the store of shard {n} dies", (s, _, w) => s.C.StoreDies(s.C.Hosts[w.Shard])),
        Verb("the stores of shards {n} and {m} die", (s, _, w) => Each([w.Shard, w.Number], n => s.C.StoreDies(s.C.Hosts[n]))),
        Verb("the store of shard {n} refuses markers", (s, _, w) => s.C.Hosts[w.Shard].Store.IsBusy = true),
        Verb("the store of shard {n} takes markers again", (s, _, w) => s.C.Hosts[w.Shard].Store.IsBusy = false),
        Verb("the store of shard {n} reads nothing", (s, _, w) => s._storesHeld.Add(w.Shard)),
        Verb("the store of shard {n} reads what client {p} has sent", (s, _, w) => s.ReadOf(w.Shard, w.Plain)),
        Verb("the store of shard {n} reads on", (s, _, w) => s._storesHeld.Remove(w.Shard)),
        Verb("the store of shard {n} reads on, the newest connection first", (s, _, w) => s.ReadNewestFirst(w.Shard)),
        Verb("the connection of shard {n} to its store breaks", (s, _, w) => s.C.Hosts[w.Shard].Store.Connections[^1].IsDead = true),
        Verb("the stream of shard {n} is held", (s, _, w) => s.ProcessOf(w.Shard).IsStreamHeld = true),
        Verb("the stream of shard {n} goes on", (s, _, w) => Each(s.C.Hosts[w.Shard].Proxies, p => p.IsStreamHeld = false)),
        Verb("the stream of shard {n} breaks", (s, _, w) => s.ProcessOf(w.Shard).LoseReplicationLink()),
        Verb("the stream of shard {n} breaks, and its store has not kept all of it", (s, _, w) => s.BreakWithGap(w.Shard)),
        Verb("the disk of shard {n} syncs nothing", (s, _, w) => s.ProcessOf(w.Shard).IsSyncHeld = true),
        Verb("the disk of shard {n} syncs again", (s, _, w) => Each(s.C.Hosts[w.Shard].Proxies, p => p.IsSyncHeld = false)),
        Verb("the machine of shard {n} loses power", (s, _, w) => s.C.PowerCut(s.C.Hosts[w.Shard])),
        Verb("the machine of shard {n} is lost", (s, _, w) => { s.C.Hosts[w.Shard].IsOff = true; s.C.PowerCut(s.C.Hosts[w.Shard]); }),
        Verb("the clock of shard {n} is set back by {t}", (s, _, w) => s.C.Hosts[w.Shard].SkewUs -= w.Us("t")),
        Verb("the clock of shard {n} is set forward by {t}", (s, _, w) => s.C.Hosts[w.Shard].SkewUs += w.Us("t")),
        Verb("the clocks of shard {n} are read {t} apart", (s, _, w) => s.C.Hosts[w.Shard].SpreadUs = w.Us("t")),
        Verb("nobody knows how far the clocks are apart", (s, _, _) => s.C.Checks.IsRealTime = false),
        Verb("SQL goes down", (s, _, _) => s.C.Sql.IsDown = true),
        Verb("SQL is back", (s, _, _) => s.C.Sql.IsDown = false),
        Verb("shard {n} is cut off from SQL", (s, _, w) => s.ProcessOf(w.Shard).CutOffUntil = long.MaxValue),
        Verb("shard {n} reaches SQL again", (s, _, w) => Each(s.C.Hosts[w.Shard].Proxies, p => p.CutOffUntil = 0)),
        Verb("the next {v} of shard {n} is late", (s, _, w) => s._late.Add(new(w["v"], w.IsOfShard, isEach: false))),
        Verb("each {v} of shard {n} is lost", (s, _, w) => s._late.Add(new(w["v"], w.IsOfShard, isEach: true))),
        Verb("the next {v} of the coordinator is late", (s, _, w) => s._late.Add(new(w["v"], p => p is Coordinator, isEach: false))),
        Verb("the late {v} arrives", (s, _, w) => s.Arrive(w["v"])),
        Verb("a {v} is lost no more", (s, _, w) => s._late.RemoveAll(l => l.IsEach && l.What == w["v"])),

        // ---- Coordinators, slots, members, versions ----
        Verb("the coordinator dies", (s, _, _) => { s.C.Coordinators[0].Die("killed"); s.C.Coordinators.RemoveAt(0); }),
        Verb("the coordinator sleeps", (s, _, _) => s.C.Coordinators[0].PausedUntil = long.MaxValue),
        Verb("the coordinator wakes up", (s, _, _) => s.C.Coordinators[0].PausedUntil = 0),
        Verb("another coordinator comes", (s, _, _) => s.C.Coordinators.Add(new(s.C, "another coordinator"))),
        Verb("{k} is to move to shard {n}", (s, _, w) => s.C.PlanMove(w.Key, 1, w.Shard)),
        Verb("a shard is added, and never comes", (s, _, _) => s.C.AddShard(neverComes: true)),
        Verb("a shard is added", (s, _, _) => s.C.AddShard()),
        Verb("shard {n} starts", (s, _, w) => s.C.StartProxy(s.C.Hosts[w.Shard])),
        Verb("shard {n} starts, and its disk syncs nothing", (s, _, w) => s.C.StartProxy(s.C.Hosts[w.Shard]).IsSyncHeld = true),
        Verb("shard {n} is to leave", (s, _, w) => s.C.BeginToLeave(w.Shard)),
        Verb("versions are to be {t} long, after {m} more versions", (s, _, w) => s.ProposeInterval(w.Us("t"), w.Number)),

        // ---- The backup site ----
        Verb("nothing of shard {n} reaches the backup", (s, _, w) => s.C.Backup!.Wires.CutUntilUs[w.Shard] = long.MaxValue),
        Verb("the sites are cut off from each other", (s, _, _) => s.C.Backup!.Wires.CutUntilUs[-1] = long.MaxValue),
        Verb("all of the primary is lost", (s, _, _) => s.C.Lose()),
        Verb("the backup is to take over", (s, _, _) => s.C.Backup!.Order()),
        Verb("the backup's processes sleep", (s, _, _) => s.PauseBackup()),
        Verb("the sites are to change roles", (s, _, _) => s.ChangeRoles()),
        Verb("the backup's process of shard {n} sleeps, and another one takes its place", (s, step, w) => s.ReplaceReceiver(step, w.Shard)),
        Verb("the second backup process of shard {n} sleeps", (s, _, w) => s.ReceiversOf(w.Shard)[^1].PausedUntil = long.MaxValue),
        Verb("the first backup process of shard {n} wakes up, and cannot reach SQL", (s, _, w) => s.WakeFirstReceiver(w.Shard)),
        Verb("the backup's process of shard {n} wakes up", (s, _, w) => Each(s.ReceiversOf(w.Shard), p => p.PausedUntil = 0)),

        // ---- For the reader ----
        Verb("show", (s, _, _) => s.Show()),
        Verb("show the backup", (s, _, _) => s.ShowBackup()),
    ];

    private static readonly (Regex Pattern, string Text, Func<Story, Words, bool> IsSo)[] Conditions =
    [
        Condition("world-line {m} begins", (s, w) => s.C.Sql.Line.Number >= w.Number),
        Condition("the cut is past version {m}", (s, w) => s.C.Sql.Cut.Versions.ToArray().Min().Number > w.Number),
        Condition("all shards serve", (s, _) => s.AllServe()),
        Condition("shard {n} serves", (s, w) => s.C.Hosts[w.Shard].Newest is { IsOpen: true }),
        Condition("a marker of shard {n} is on its way", (s, w) => s.C.Hosts[w.Shard].Newest is { Machine.MarkerInFlight: true }),
        Condition("shard {n} has durable what shard {m} has open", (s, w) => s.HasDurable(w.Shard, w.Number)),
        Condition("the store of shard {n} is in world-line {m}", (s, w) => s.C.Hosts[w.Shard].Store.Line.Number >= w.Number),
        Condition("the log of shard {n} is in world-line {m}", (s, w) => s.C.Hosts[w.Shard].Log.Last.WorldLine.Number >= w.Number),
        Condition("{k} is shard {n}'s", (s, w) => s.C.Keys.OwnerOf(w.Key, s.C.Sql.Owners.Map) == w.Shard),
        Condition("the cut has come to where {k} was given up", (s, w) => s.IsCutAtLanding(w)),
        Condition("the move of {k} is over", (s, w) => s.RowOf(w) is null),
        Condition("shard {n} is a member", (s, w) => s.C.Sql.Members.States[w.Shard] == MemberState.Member),
        Condition("shard {n} has left", (s, w) => s.C.Sql.Members.States[w.Shard] == MemberState.Left),
        Condition("shard {n} has agreed", (s, w) => s.Proposed == 0 || s.C.Sql.Shards[w.Shard].AgreedUs == s.Proposed),
        Condition("versions have another length", (s, _) => s.Proposed == 0 && s.C.NowUs > s.C.Sql.ClockGrid.Stretches[^1].StartUs),
        Condition("the late {v} is under way", (s, w) => s._late.Exists(l => l.What == w["v"] && l.Call is not null)),
        Condition("the backup shows what is committed", (s, _) => s.BackupShows()),
        Condition("the watermark is past version {m}", (s, w) => s.C.Backup!.Checks.Told.Version.Number > w.Number),
        Condition("the backup is the primary", (s, _) => s.C.Backup!.IsOver),
        Condition("the primary has ended", (s, _) => s.HasPrimaryEnded()),
        Condition("the backup has begun to take over", (s, _) => s.C.Backup!.Sql.State.Role is SiteRole.FailingOver or SiteRole.Primary),
        Condition("the backup has decided where it takes over", (s, _) => s.C.Backup!.Sql.State.Final is not null),
    ];

    private enum Delivery { Once, Again, Lost }

    /// <summary>The sentences that there are, for people.</summary>
    public static IEnumerable<string> Language => [.. Verbs.Select(v => v.Text), .. Conditions.Select(c => $"time passes until {c.Text}")];

    /// <summary>The sentences that none of these steps is.</summary>
    public static IEnumerable<string> Unused(IReadOnlyCollection<string> steps) => Language.Where(l => !steps.Any(PatternOf(l).IsMatch));

    private sealed class Words(Match match)
    {
        public string this[string hole] => match.Groups[hole].Value;

        public int Shard => int.Parse(this["n"], CultureInfo.InvariantCulture);

        public int Number => int.Parse(this["m"], CultureInfo.InvariantCulture);

        public int Key => StoryWords.KeyNames.IndexOf(this["k"], StringComparison.Ordinal);

        public int Session => StoryWords.SessionNames.IndexOf(this["s"], StringComparison.Ordinal);

        public int OtherSession => StoryWords.SessionNames.IndexOf(this["other"], StringComparison.Ordinal);

        public int Plain => StoryWords.PlainNames.IndexOf(this["p"], StringComparison.Ordinal);

        public bool IsOfShard(Process process) => process is ProxyProcess p && p.Shard == Shard;

        public long Us(string hole)
        {
            string time = this[hole];
            return long.Parse(time[..^2], CultureInfo.InvariantCulture) * (time[^2] == 'm' ? 1000 : 1);
        }
    }

    private static (Regex, string, Action<Story, Step, Words>) Verb(string text, Action<Story, Step, Words> act) =>
        (PatternOf(text), text, act);

    private static (Regex, string, Func<Story, Words, bool>) Condition(string text, Func<Story, Words, bool> isSo) =>
        (PatternOf(text), text, isSo);

    private static void Each<T>(IEnumerable<T> of, Action<T> act)
    {
        foreach (T one in of.ToArray()) act(one);
    }

    private static Regex PatternOf(string text)
    {
        foreach ((string hole, string pattern) in Holes)
            text = text.Replace($"{{{hole}}}", $"(?<{hole}>{pattern})", StringComparison.Ordinal);
        return new($"^{text}$", RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture);
    }

    private void Perform(Step step)
    {
        foreach ((Regex pattern, _, Action<Story, Step, Words> act) in Verbs)
        {
            if (pattern.Match(step.Text) is not { Success: true } match) continue;
            try
            {
                act(this, step, new(match));
            }
            catch (Exception e) when (e is InvalidOperationException or NullReferenceException or IndexOutOfRangeException)
            {
                if (!_isFaulty) throw step.Error($"that cannot be done now: {e.Message}");
            }

            return;
        }

        string first = step.Text.Split(' ')[0];
        IEnumerable<string> like = Language.Where(l => l.StartsWith(first, StringComparison.Ordinal));
        throw step.Error($"nothing is said like that: \"{step.Text}\". What begins so is: {string.Join("; ", like)}");
    }

    private void Await(Step step, string until)
    {
        foreach ((Regex pattern, _, Func<Story, Words, bool> isSo) in Conditions)
        {
            if (pattern.Match(until) is not { Success: true } match) continue;
            Words words = new(match);
            if (!PassUntil(() => isSo(this, words)) && !_isFaulty) throw step.Error("it does not come to that");
            return;
        }

        throw step.Error($"nothing can be waited for like that. What can: {string.Join("; ", Conditions.Select(c => c.Text))}");
    }

    private ProxyProcess ProcessOf(int shard) =>
        C.Hosts[shard].Newest ?? throw new InvalidOperationException($"shard {shard} has no process");

    private long Proposed => C.Sql.Proposal.ChangeUs;

    private bool AllServe() =>
        C.Hosts.Where(h => C.Sql.Counts(h.Number)).All(h => h.Newest is { IsOpen: true } p && p.Machine!.WorldLine == C.Sql.Line);

    private bool HasDurable(int shard, int other) => C.Hosts[shard].Log.DurableIndex.Closed >= C.Hosts[other].Newest?.Machine?.OpenVersion;

    private bool IsCutAtLanding(Words words) =>
        RowOf(words) is not { } row || (row.State == MoveState.Landed && C.Sql.Cut.Versions[0].Number >= row.Landed.Number);

    // ---- Clients ----

    private void Write(Step step, int client, int shard, int key, string name)
    {
        if (key >= C.Keys.Count) throw step.Error("there is no such key where slots do not move");
        SessionClient session = C.Sessions[client];
        int before = session.Ops.Count;
        session.Begin(shard, 1, C.Random, key);
        if (session.Ops.Count == before)
        {
            _words!.Say($"client {StoryWords.SessionNames[client]} reaches nobody at shard {shard}");
            return;
        }

        Op op = session.Ops[^1];
        _names[op] = name;
        HoldRequest(client, shard);
        Quieten();
        if (op.Answered == 0) _words!.Say($"client {StoryWords.SessionNames[client]} waits for {name}");
    }

    // What one hears the other acts upon. They are told of together.
    private void WriteInTurn(Words words)
    {
        for (long untilUs = C.NowUs + words.Us("t"); C.NowUs < untilUs;)
        {
            foreach ((int client, int shard) in new[] { (words.Session, words.Shard), (words.OtherSession, words.Number) })
            {
                C.Sessions[client].Begin(shard, 1, C.Random, client);
                Quieten();
                PassHalf();
            }
        }
    }

    private void AskWhatIsCommitted(int client, int shard)
    {
        SessionClient session = C.Sessions[client];
        session.AskWhatIsCommitted(shard);
        _words!.TellsCommits.Add(client);
        if (session.LinkAt(shard) is null) _words!.Say($"client {StoryWords.SessionNames[client]} reaches nobody at shard {shard}");
        HoldRequest(client, shard);
    }

    private void HoldRequest(int client, int shard)
    {
        if (!_requestsHeld.Contains(client) || C.Sessions[client].LinkAt(shard) is not { } link) return;
        while (link.ToProxy.TryDequeue(out Batch? batch)) _requests.Add((link, batch));
    }

    private void SendHeld(int client)
    {
        _requestsHeld.Remove(client);
        foreach ((SessionLink link, Batch batch) in _requests.Where(r => r.Link.Client == C.Sessions[client])) link.ToProxy.Enqueue(batch);
        _requests.RemoveAll(r => r.Link.Client == C.Sessions[client]);
    }

    private void Deliver(Step step, string name, Delivery how)
    {
        foreach (SessionClient session in C.Sessions)
        {
            for (int shard = 0; shard < C.Hosts.Length; shard++)
            {
                SessionLink? link = session.LinkAt(shard);
                SessionMessage? message = link?.ToClient.Find(m => m.Batch?.Ops.Any(o => _names.GetValueOrDefault(o) == name) == true);
                if (message is null) continue;
                if (how == Delivery.Lost) link!.ToClient.Remove(message);
                else session.Receive(shard, message, comesAgain: how == Delivery.Again);
                return;
            }
        }

        if (!_isFaulty) throw step.Error("there is no such answer on its way");
    }

    private void WritePlain(int client, int key, string name)
    {
        PlainClient plain = C.Plains[client];
        plain.Blocks = false;
        int before = plain.Ops.Count;
        plain.Begin(C.Random, key);
        if (plain.Ops.Count == before)
        {
            _words!.Say($"client {StoryWords.PlainNames[client]} has no connection");
            return;
        }

        Op op = plain.Ops[^1];
        _names[op] = name;
        Quieten();
        if (op.Answered == 0) _words!.Say($"client {StoryWords.PlainNames[client]} waits for {name}");
    }

    // ---- What fails ----

    private void BreakWithGap(int shard)
    {
        C.Hosts[shard].Store.HasGap = true;
        ProcessOf(shard).LoseReplicationLink();
    }

    private void ReadNewestFirst(int shard)
    {
        _storesHeld.Remove(shard);
        Store store = C.Hosts[shard].Store;
        foreach (StoreConnection connection in store.Connections.Reverse().ToArray()) store.ExecuteAllOf(connection);
    }

    private void Arrive(string what)
    {
        Late? late = _late.Find(l => l.What == what && l.Call is not null && !l.IsEach);
        if (late is null) throw new InvalidOperationException($"no {what} is late");
        _late.Remove(late);
        object answer = late.Call!.Apply();
        string text = answer switch
        {
            RecordResult r => $"{r.Outcome}",
            ChangeOutcome c => $"{c}",
            true => "Yes",
            false => "No",
            _ => "Done",
        };
        _words!.Say($"SQL answers, and nobody hears it: {Spaced(text)}");
    }

    // StaleWorldLine: "stale world line".
    private static string Spaced(string name) =>
        string.Concat(name.Select(c => char.IsUpper(c) ? $" {char.ToLowerInvariant(c)}" : $"{c}")).TrimStart();

    private void ProposeInterval(long intervalUs, int versions) =>
        C.ProposeInterval(intervalUs, C.NowUs + HalfUs + (versions * Cluster.IntervalUs));

    private void Stop(Step step, int shard)
    {
        if (!ProcessOf(shard).Stop() && !_isFaulty) throw step.Error("it cannot be stopped in order now");
    }

    private void ReadOf(int shard, int plain) => C.Hosts[shard].Store.ExecuteAllOf(C.Plains[plain].Link!.Own!);

    private SlotMove? RowOf(Words words) => C.Sql.Owners.Moves.FirstOrDefault(m => C.Keys.KeysIn(m.Slots).Contains(words.Key));

    // ---- The backup ----

    // Where it grants leases, and for how long, it draws itself.
    private void UseBackup(bool hasLease)
    {
        _settings = _settings with { Backup = true };
        while (new Cluster(_settings with { Shards = 2 }).Backup!.LeaseTermUs > 0 != hasLease)
            _settings = _settings with { Seed = _settings.Seed + (3 * 4620) };
    }

    private BackupProcess[] ReceiversOf(int shard) => [.. C.Backup!.Processes.Where(p => p.Has(shard))];

    // By now, of what was committed then and is not written over since.
    private bool BackupShows() => C.Backup!.Streams.All(s =>
    {
        ShardHost host = C.Hosts[s.Number];
        return Enumerable.Range(0, C.Keys.Count).All(k => s.Values[k] == host.Log.ValueAt(k, host.CoveredOffset));
    });

    // Whoever manages a failover is one of them.
    private void PauseBackup()
    {
        foreach (SiteProcess p in (SiteProcess[])[.. C.Backup!.Processes, .. C.Backup.Managers]) p.PausedUntil = long.MaxValue;
    }

    private bool HasPrimaryEnded() =>
        C.Backup!.IsOver && C.Sql.Site.Role == SiteRole.Deposed && C.Hosts.All(h => h.Proxies.Count == 0);

    private void ChangeRoles() => C.Backup!.Switchers.Add(new(C.Backup, "switch-over", C.NowUs + (300 * Cluster.IntervalUs)));

    private void ReplaceReceiver(Step step, int shard)
    {
        BackupProcess old = ReceiversOf(shard) is [var one, ..] ? one : throw step.Error("the backup has no process of that shard");
        old.PausedUntil = long.MaxValue;
        C.Backup!.Replace(old);
    }

    private void WakeFirstReceiver(int shard)
    {
        BackupProcess first = ReceiversOf(shard)[0];
        first.ForgetInbox();
        (first.PausedUntil, first.CutOffUntil) = (0, long.MaxValue);
    }

    // ---- For the reader ----

    private void Show()
    {
        foreach (ShardHost host in C.Hosts)
        {
            string content = host.Store.IsUp ? _words!.Content(Enumerable.Range(0, C.Keys.Count).Select(host.Store.ValueOf)) : "is dead";
            _words!.Say($"store {host.Number}: {content}; its log is in world-line {host.Log.Last.WorldLine}");
        }
    }

    private void ShowBackup()
    {
        foreach (StreamHost s in C.Backup!.Streams)
        {
            string log = _words!.Content(_words.ContentOf(s.Log));
            _words.Say($"stream {s.Number}: its log has {log}; its store shows {_words.Content(s.Values)}");
        }
    }
}

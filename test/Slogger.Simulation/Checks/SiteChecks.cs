// The invariants of disaster recovery, by name, on what is really in the backup's logs and stores: I4, the watermark is never above the
// recorded cut, nor is what is applied ever taken back; I6, who was deposed ships nothing; I7, at each watermark the store is what the
// primary's was at that version; and after a failover: all that any watermark held is there, and the state is a prefix of the primary's
// history over all shards, real time included.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Processes;
using Slogger.Simulation.Sites;

namespace Slogger.Simulation.Checks;

internal sealed class SiteChecks(BackupSite site)
{
    // For each recorded cut what each of the primary's shards held there, by key.
    private readonly Dictionary<WorldPoint, Op?[][]> _recorded = [];
    private readonly Dictionary<int, Sender> _newest = [];
    private readonly Dictionary<int, Sender> _welcomed = [];
    private WorldPoint _told;          // the newest watermark that anybody was told

    public WorldPoint Told => _told;

    /// <summary>The primary's SQL has recorded a cut, or a world-line's branch.</summary>
    public void OnRecorded(WorldPoint cut)
    {
        if (site.IsOver) return;
        Cluster primary = site.Primary;
        Op?[][] states = new Op?[primary.Hosts.Length][];
        foreach (ShardHost host in primary.Hosts)
        {
            long end = Invariants.RestorePoint(host, cut.Version, primary.Sql.Lines).Offset;
            Op?[] values = new Op?[primary.Keys.Count];
            for (int i = 0; i < end; i++)
                if (host.Log.Bytes[i].Key is >= 0 and var key) values[key] = host.Log.Bytes[i].Value;
            states[host.Number] = values;
        }

        _recorded[cut] = states;
    }

    // ---- I4 ----

    public void OnWatermark(WorldPoint watermark, WatermarkProcess by)
    {
        if (site.IsTraced) site.Note($"{by.Name}: the watermark is {watermark}");
        if (!_recorded.ContainsKey(watermark)) throw new SimException($"I4: the watermark {watermark} was never a recorded cut");
        foreach (StreamHost s in site.Streams)
        {
            // What a stream held before it is seeded anew is gone; what was told of it before is a watermark still.
            if (site.Sql.State.Streams[s.Number].Phase == StreamPhase.Empty
                || site.Sql.State.Streams[s.Number].Generation != s.LogGeneration) continue;
            if (s.Log.Floor > watermark && by.Counts(s.Number, s.LogGeneration))
                throw new SimException($"I7: the watermark is {watermark}, and stream {s.Number} was seeded: it cannot be brought to "
                    + $"anything before {s.Log.Floor}");
            if (s.Log.Floor > watermark) continue;
            if (s.Log.DurableCut < watermark)
                throw new SimException($"I4: the watermark is {watermark}, and stream {s.Number} holds {s.Log.DurableCut} durably, its "
                    + $"log {s.Log.DurableIndex}");
            if (watermark > s.At && s.Log.Exactly(watermark.Version) is null)
                throw new SimException($"I7: the watermark is {watermark}, and stream {s.Number} cannot be brought there, its windows are "
                    + $"{s.Log.Windows}");
        }

        if (watermark > _told) _told = watermark;
    }

    /// <summary>All of the backup's machines have lost what was not synced: what was told is held.</summary>
    public void OnPowerCut()
    {
        foreach (StreamHost s in site.Streams)
        {
            StreamState row = site.Sql.State.Streams[s.Number];
            if (row.Phase != StreamPhase.Counts || row.Generation != s.LogGeneration || row.IsLost) continue;
            if (s.Log.DurableCut < _told)
                throw new SimException($"I4: the watermark was {_told}, and after a power cut stream {s.Number} holds {s.Log.DurableCut}");
        }
    }

    /// <summary>The primary began a world-line.</summary>
    public void OnBranch(WorldPoint branch)
    {
        if (branch.Version < _told.Version) throw new SimException($"I4: the watermark was {_told}, and the primary goes back to {branch}");
    }

    // ---- I6 ----

    public void OnAppended(StreamHost stream, ShipRequest.Piece piece, Payload? payload)
    {
        CheckSame(stream, piece, payload);
        _newest.TryGetValue(stream.Number, out Sender newest);
        if (piece.Sender < newest)
            throw new SimException($"I6: stream {stream.Number} takes {piece.From} to {piece.To} from {piece.Sender}, and took from "
                + $"{newest} before");
        _newest[stream.Number] = piece.Sender;
        if (site.Sql.State.Final is { } final)
            throw new SimException($"I6: stream {stream.Number} takes {piece.From} to {piece.To} from {piece.Sender}, and the "
                + $"final watermark is {final}");
        site.Count("piece appended");
    }

    /// <summary>A sender is let in: none that came before one that was let in is, whatever has died since.</summary>
    public void OnWelcomed(StreamHost stream, Sender sender)
    {
        _welcomed.TryGetValue(stream.Number, out Sender newest);
        if (sender < newest) throw new SimException($"I6: stream {stream.Number} welcomes {sender}, and welcomed {newest} before");
        _welcomed[stream.Number] = sender;
    }

    // What the primary has not got durable it may lose, and go on otherwise: then its log and the backup's would differ below a cut.
    private void CheckSame(StreamHost stream, ShipRequest.Piece piece, Payload? payload)
    {
        ShardLog log = site.Primary.Hosts[stream.Number].Log;
        // Of a history that is over: the stream has to be seeded anew.
        if (stream.Log.History != log.History) return;
        if (piece.To > log.DurableIndex)
            throw new SimException($"I4: stream {stream.Number} takes {piece.From} to {piece.To} from {piece.Sender}, the primary has "
                + $"{log.DurableIndex} durable");
        // Of a window only the state behind it is the same.
        if (piece.Window is { } window)
        {
            WorldPoint cut = new(site.Primary.Sql.Line, site.Primary.Sql.Cut.Versions[0]);
            if (window.To.Point > cut)
                throw new SimException($"I4: stream {stream.Number} takes the window from {window.From} to {window.To}, the recorded cut "
                    + $"is {cut}");
            return;
        }

        // What a world-line has made void since is so here, too, when that arrives.
        if (payload is null || piece.To.WorldLine != log.Last.WorldLine) return;
        bool isSame = payload.Commands.SequenceEqual(log.Bytes.Skip((int)piece.From.Offset).Take(payload.Commands.Length))
            && payload.Entries.Select(e => (e.Version, e.Offset))
            .SequenceEqual(log.Entries(piece.From, piece.To).Select(e => (e.Version, e.Offset)));
        if (!isSame) throw new SimException(
            $"I7: stream {stream.Number} takes {piece.From} to {piece.To} from {piece.Sender}, and the primary's log is another there");
    }

    /// <summary>The primary, under a lease, is about to report a commit: no failover has been decided without it.</summary>
    public void OnCommitTold(WorldPoint cut)
    {
        if (site.Sql.State.Final is { } final && cut > final)
            throw new SimException($"I6: the primary reports {cut} as committed, and the backup has taken over at {final}");
        site.Count("commit told under a lease");
    }

    /// <summary>The primary may answer its clients: no failover has been decided.</summary>
    public void OnSpeaks(bool underLease)
    {
        if (site.Sql.State.Final is { } final && !site.IsSwitched)
            throw new SimException($"I6: the primary may answer, {(underLease ? "under" : "without")} a lease, and the backup has taken "
                + $"over at {final}");
        site.Count(underLease ? "answers under a lease" : "answers without a lease");
    }

    // ---- I7 ----

    public void OnApplied(StreamHost stream, WorldPoint at)
    {
        if (!_recorded.TryGetValue(at, out Op?[][]? states))
            throw new SimException($"I4: stream {stream.Number} is applied up to {at}, which was never a recorded cut");
        if (at > _told && site.Sql.State.Final != at)
            throw new SimException($"I4: stream {stream.Number} is applied up to {at}, the watermark is {_told}");
        if (site.Sql.State.Final is { } final && at > final)
            throw new SimException($"I4: stream {stream.Number} is applied up to {at}, the final watermark is {final}");
        Op?[] expected = states[stream.Number];
        for (int key = 0; key < expected.Length; key++)
        {
            if (stream.Values[key] != expected[key])
                throw new SimException($"I7: stream {stream.Number} is applied up to {at}, and key {key} is ({Text(stream.Values[key])}), "
                    + $"at the primary it was ({Text(expected[key])})");
        }

        site.Count("applied");
    }

    // ---- Failover ----

    public void OnDecided(WorldPoint final)
    {
        if (site.IsTraced) site.Note($"the final watermark is {final}");
        if (!_recorded.ContainsKey(final)) throw new SimException($"I4: the final watermark {final} was never a recorded cut");
        if (final < _told) throw new SimException($"I4: the final watermark is {final}, and {_told} was told before");
        foreach (StreamHost s in site.Streams)
            if (final < s.At) throw new SimException($"I4: the final watermark is {final}, and stream {s.Number} has applied {s.At}");
    }

    /// <summary>Every shard is ready: what will be served is what the primary had at the final watermark, and a prefix of its
    /// history.</summary>
    public void OnTakenOver()
    {
        WorldPoint final = site.Sql.State.Final!.Value;
        HashSet<Op> inside = [];
        Op? last = null;
        foreach (StreamHost s in site.Streams)
        {
            Boundary end = s.Log.Last;
            if (site.Sql.OpenedFor(s.Number) != site.Sql.State.Streams[s.Number].Owner)
                throw new SimException($"I6: stream {s.Number} is opened for process {site.Sql.OpenedFor(s.Number)}, and another one has "
                    + $"it: {site.Sql.State.Streams[s.Number]}");
            if (s.Entered != site.Sql.State.Epoch.FirstWorldLine)
                throw new SimException($"I5: stream {s.Number} is opened, and its store has entered world-line {s.Entered}");
            if (end.WorldLine != site.Sql.State.Epoch.FirstWorldLine)
                throw new SimException($"I5: stream {s.Number} is opened, and its log is in world-line {end.WorldLine}");
            if (end.Version != final.Version || s.Log.End != end.Offset)
                throw new SimException($"I7: stream {s.Number} is opened at {s.Log.EndIndex}, the final watermark is {final}");
            // A store that has died since is filled from the log, like any.
            if (s.At == final) OnApplied(s, final);
            for (int key = 0; key < s.Values.Length; key++)
                if (s.Log.ValueAt(key, end.Offset) is var value && value != _recorded[final][s.Number][key])
                    throw new SimException($"I7: stream {s.Number} is opened at {final} with ({Text(value)}) for key {key}, at the "
                        + $"primary it was ({Text(_recorded[final][s.Number][key])})");
            foreach (Command c in s.Log.Bytes)
            {
                if (c.Op is not { } op) continue;
                inside.Add(op);
                if (last is null || op.Begun > last.Begun) last = op;
            }
        }

        if (site.IsSwitched)
        {
            foreach (Op op in site.Primary.Checks.AnsweredAll)
                if ((op.Covered || op.Line >= final.WorldLine) && !inside.Contains(op))
                    throw new SimException($"I2: the sites have changed roles by plan, at {final}, and what was answered is lost: {op}");
        }

        if (last is null || !site.Primary.Checks.IsRealTime) return;
        foreach (Op op in site.Primary.Checks.AnsweredAll)
        {
            // What the primary has lost by its own recoveries is not missed here.
            bool counts = op.Covered || op.Line >= final.WorldLine;
            if (counts && op.Answered < last.Begun && !inside.Contains(op))
                throw new SimException($"I1: after the failover to {final} there is {last}, which began after the answer to what is "
                    + $"lost: {op}");
        }
    }

    /// <summary>From here on the store takes operations of clients.</summary>
    public void OnHandedOver(StreamHost stream, long owner, bool isPromoting)
    {
        SiteState state = site.Sql.State;
        if (state.Role != SiteRole.Primary || state.Streams[stream.Number].Owner != owner)
            throw new SimException($"I6: stream {stream.Number} is handed over by process {owner}, and the site is {state}");
        if (isPromoting) throw new SimException($"I7: stream {stream.Number} is handed over while its store is being promoted");
        site.Count("store handed over");
    }

    private static string Text(Op? op) => op?.ToString() ?? "nothing";
}

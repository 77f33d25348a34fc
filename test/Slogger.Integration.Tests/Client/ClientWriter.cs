// One application with one session of Slogger.Client: appends numbers of its own to a list on each shard, awaited or in bursts,
// looks now and then at what others have appended, and keeps what the client told it of each. Then what is in the stores must
// be what it was told: committed is there, survived is there, lost is not, uncertain may be; and whatever is there has all of
// what it depends on (I1, I2).
using System.Globalization;
using Slogger.Client;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Wire;
using Slogger.Resp;
using RespValue = Slogger.Resp.RespValue;

namespace Slogger.Integration.Tests.Client;

internal sealed class ClientWriter(int id, SloggerSession session, ClusterDeployment cluster, int seed)
{
    private const int BurstMax = 40;
    private const int PieceOperations = 100;
    private readonly Random _random = new(seed);
    private readonly string[] _keys = [.. Enumerable.Range(0, cluster.Shards)
        .Select(i => cluster.Key(i, string.Create(CultureInfo.InvariantCulture, $"client-chaos:{id}")))];
    private readonly List<Appended> _all = [];
    private readonly List<Appended> _answered = [];     // in the order of the answers
    private readonly List<Seen> _seen = [];             // what was seen of others
    private int _answeredFrom, _seenFrom;               // from there on: in the present world-line
    private readonly Lock _gate = new();
    private RollbackException? _lastRollback;
    private long _checked;
    private long _repliesLost;

    private enum Fate { Open, Answered, Committed, Lost, Uncertain }

    /// <summary>What one operation was, and what was said of it.</summary>
    private sealed class Appended
    {
        public required long Number { get; init; }

        public required int Shard { get; init; }

        /// <summary>Which of the answers, and looks, came before it was started, in the same world-line.</summary>
        public required Range AnsweredBefore { get; init; }

        public required Range SeenBefore { get; init; }

        public SequenceNumber Sequence { get; set; }

        public Fate Fate { get; set; }
    }

    /// <summary>The last element of another writer's list, when it was looked at.</summary>
    private sealed record Seen(ClientWriter Other, int Shard, long Number);

    public int Id => id;

    /// <summary>How many operations were begun; rolled back; committed and found; lost and not found; uncertain.</summary>
    public long Begun => _all.Count;

    public long Rollbacks { get; private set; }

    public long CommittedFound { get; private set; }

    public long LostMissing { get; private set; }

    public long UncertainSeen { get; private set; }

    /// <summary>How many were said to be executed, with the answer lost.</summary>
    public long RepliesLost => Volatile.Read(ref _repliesLost);

    /// <summary>Works until told to stop.</summary>
    public async Task RunAsync(IReadOnlyList<ClientWriter> all, CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            try
            {
                switch (_random.Next(8))
                {
                    case 0:
                        await LookAsync(all[_random.Next(all.Count)]);
                        break;
                    case 1:
                        await session.WaitForCommitAsync(stop);
                        NoteCommitted();
                        break;
                    case < 5:
                        await AppendAsync();
                        break;
                    default:
                        await Task.WhenAll(Enumerable.Range(0, _random.Next(2, BurstMax)).Select(_ => AppendAsync()));
                        break;
                }
            }
            catch (RollbackException rollback)
            {
                Take(rollback);
            }
            catch (Exception e) when (e is UncertainException or ReplyLostException or ShardUnreachableException
                || (e is OperationCanceledException && stop.IsCancellationRequested))
            {
                // Noted where it was started.
            }
        }
    }

    /// <summary>Until all is committed, or said to be lost.</summary>
    public async Task SettleAsync()
    {
        while (true)
        {
            try
            {
                await session.WaitForCommitAsync().WaitAsync(TimeSpan.FromSeconds(60));
                NoteCommitted();
                return;
            }
            catch (RollbackException rollback)
            {
                Take(rollback);
            }
        }
    }

    private async Task AppendAsync()
    {
        Appended appended;
        Task<(SequenceNumber Sequence, WorldLine Line)> task;
        lock (_gate)
        {
            int shard = _random.Next(cluster.Shards);
            appended = new() { Number = _all.Count + 1, Shard = shard, AnsweredBefore = _answeredFrom.._answered.Count,
                SeenBefore = _seenFrom.._seen.Count };
            _all.Add(appended);
            task = cluster.Embedded == 0
                ? PlaceAsync(session.ListAppendAsync(_keys[shard], appended.Number))
                : PlaceAsync(session.ExecuteAsync("APPEND", Piece(shard, appended.Number / PieceOperations), Text(appended.Number) + ","));
        }

        try
        {
            (SequenceNumber sequence, WorldLine line) = await task;
            NoteAnswered(appended, sequence, line);
        }
        catch (ReplyLostException lost)
        {
            // As good as an answer: it was executed, and what is started now rests on it.
            Interlocked.Increment(ref _repliesLost);
            NoteAnswered(appended, lost.Sequence, lost.WorldLine);
            throw;
        }
        catch (RollbackException rollback)
        {
            lock (_gate) { appended.Fate = rollback.Operation == SequenceNumber.None ? Fate.Lost : FateIn(rollback, rollback.Operation); }
            throw;
        }
        catch (UncertainException uncertain)
        {
            lock (_gate) { (appended.Fate, appended.Sequence) = (Fate.Uncertain, uncertain.Sequence); }
            throw;
        }
        catch (ShardUnreachableException)
        {
            lock (_gate) { appended.Fate = Fate.Lost; }
            throw;
        }
    }

    private static async Task<(SequenceNumber Sequence, WorldLine Line)> PlaceAsync<T>(ValueTask<Result<T>> operation)
    {
        Result<T> result = await operation;
        return (result.Sequence, result.WorldLine);
    }

    // An embedded store knows strings only: a list there is a row of them, which do not grow without end.
    private string Piece(int shard, long number) => $"{{{_keys[shard]}}}{Text(number)}";

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);

    private void NoteAnswered(Appended appended, SequenceNumber sequence, WorldLine line)
    {
        lock (_gate)
        {
            appended.Sequence = sequence;
            // A rollback may have been taken in since it was answered: it spoke of this number too.
            Fate fate = _lastRollback is { } r && line < r.WorldLine ? FateIn(r, sequence) : Fate.Answered;
            appended.Fate = fate;
            if (fate == Fate.Answered) { _answered.Add(appended); }
        }
    }

    private static Fate FateIn(RollbackException rollback, SequenceNumber operation) => rollback.FateOf(operation) switch
    {
        OperationFate.Survived => Fate.Committed,
        OperationFate.Lost => Fate.Lost,
        _ => Fate.Uncertain,
    };

    private async Task LookAsync(ClientWriter other)
    {
        int shard = _random.Next(cluster.Shards);
        Result<RespValue> last = cluster.Embedded == 0
            ? await session.ExecuteAsync("LINDEX", other._keys[shard], -1)
            : await session.ExecuteAsync("GET", other.Piece(shard, other._all.Count / PieceOperations));
        lock (_gate)
        {
            if (last.Value.IsNull || (_lastRollback is not null && last.WorldLine < _lastRollback.WorldLine)) { return; }
            _seen.Add(new(other, shard, long.Parse(last.Value.AsText()!.TrimEnd(',').Split(',')[^1], CultureInfo.InvariantCulture)));
        }
    }

    /// <summary>What was answered up to here is committed.</summary>
    private void NoteCommitted()
    {
        lock (_gate)
        {
            SequenceNumber upTo = session.CommittedUpTo;
            IReadOnlyList<ExceptionRange> exceptions = session.Exceptions;
            foreach (Appended a in _answered)
            {
                if (a.Fate == Fate.Answered && a.Sequence <= upTo
                    && !exceptions.Any(e => e.Range.First <= a.Sequence && a.Sequence <= e.Range.Last))
                {
                    a.Fate = Fate.Committed;
                }
            }
        }
    }

    private void Take(RollbackException rollback)
    {
        lock (_gate)
        {
            if (_lastRollback?.Rollback == rollback.Rollback) { return; }
            foreach (Appended a in _answered.Skip(_answeredFrom))
            {
                Fate fate = FateIn(rollback, a.Sequence);
                if (a.Fate == Fate.Committed && fate != Fate.Committed)
                {
                    throw Violation($"I2: operation {a.Number} ({a.Sequence}) was committed, and the rollback says that it is {fate}: "
                        + $"{rollback.Message}");
                }
                a.Fate = fate;
            }

            _lastRollback = rollback;
            (_answeredFrom, _seenFrom) = (_answered.Count, _seen.Count);
            Rollbacks++;
        }

        // Only now: what is started from here on rests on nothing that was lost.
        session.Resume(rollback);
    }

    /// <summary>What is in the stores.</summary>
    public async Task<HashSet<long>> StoredAsync()
    {
        HashSet<long> stored = [];
        for (int shard = 0; shard < cluster.Shards; shard++)
        {
            using RespClient client = await cluster.ConnectAsync(shard);
            long last = 0;
            Wire.RespValue looked = cluster.Embedded == 0
                ? await client.DoAsync("LRANGE", _keys[shard], "0", "-1")
                : await client.DoAsync(["MGET", .. Enumerable.Range(0, (_all.Count / PieceOperations) + 1).Select(i => Piece(shard, i))]);
            foreach (string item in looked.Items.SelectMany(i => i.Text.Split(',', StringSplitOptions.RemoveEmptyEntries)))
            {
                long number = long.Parse(item, CultureInfo.InvariantCulture);
                if (number <= last)
                {
                    throw Violation($"I1: operation {number} stands behind {last} at shard {shard}, which was started later");
                }
                if (!stored.Add(number)) { throw Violation($"I1: operation {number} is there twice"); }
                if (_all[(int)number - 1].Shard != shard) { throw Violation($"operation {number} is at shard {shard}"); }
                last = number;
            }
        }

        return stored;
    }

    /// <summary>Compares what was said with what is there.</summary>
    public void Check(IReadOnlyDictionary<ClientWriter, HashSet<long>> stored)
    {
        HashSet<long> mine = stored[this];
        foreach (Appended a in _all)
        {
            bool isThere = mine.Contains(a.Number);
            string what = $"operation {a.Number} (number {a.Sequence} of session {session.Id}, shard {a.Shard}) is said to be {a.Fate}, "
                + $"and is {(isThere ? "" : "not ")}there; {_lastRollback?.Message}";
            switch (a.Fate)
            {
                case Fate.Open: throw Violation($"nothing was said of it: {what}");
                case Fate.Answered: throw Violation($"I8: it is neither committed nor lost: {what}");
                case Fate.Committed when !isThere: throw Violation($"I2: {what}");
                case Fate.Lost when isThere: throw Violation($"I1: {what}");
                case var _ when a.Number <= _checked: break; // Counted in an earlier round.
                case Fate.Committed: CommittedFound++; break;
                case Fate.Lost: LostMissing++; break;
                case Fate.Uncertain: UncertainSeen++; break;
            }

            if (!isThere) { continue; }
            foreach (Appended before in _answered[a.AnsweredBefore])
            {
                if (!mine.Contains(before.Number))
                {
                    throw Violation($"I1: operation {a.Number} is there, and {before.Number} is not, which was answered before "
                        + "it was started");
                }
            }

            foreach (Seen seen in _seen[a.SeenBefore])
            {
                if (!stored[seen.Other].Contains(seen.Number))
                {
                    throw Violation($"I1: operation {a.Number} is there, which rests on {seen.Number} of writer {seen.Other.Id}, "
                        + "which is not");
                }
            }
        }
    }

    /// <summary>The next round begins with nothing to remember: all is decided.</summary>
    public void Forget(HashSet<long> mine)
    {
        // Lists begin anew, so that the checks stay short; numbers go on.
        for (int i = 0; i < _all.Count; i++)
        {
            Appended a = _all[i];
            _all[i] = new() { Number = a.Number, Shard = a.Shard, AnsweredBefore = 0..0, SeenBefore = 0..0, Sequence = a.Sequence,
                Fate = mine.Contains(a.Number) ? Fate.Committed : Fate.Lost };
        }

        _checked = _all.Count;
        _answered.Clear();
        _seen.Clear();
        _answeredFrom = _seenFrom = 0;
    }

    private InvalidDataException Violation(string text) => new($"writer {id}: {text}");
}

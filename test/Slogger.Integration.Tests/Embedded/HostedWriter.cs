// One session in the shard's own process (LocalSession), while other shards fail: it sets keys of its own, here and elsewhere, to numbers
// that rise. Nothing that goes out is awaited before the next operation (relaxed DPR). It keeps what it was told of each: what a store
// holds of a key must be what was told of it.
using System.Globalization;
using System.Text;
using Slogger.Client;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Slogger.Hosting;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Embedded;

internal sealed class HostedWriter(int id, LocalSession session, ClusterDeployment cluster, int seed)
{
    private const int KeysOfAShard = 12, BurstMax = 60, PendingMax = 100;
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(120);
    private readonly Random _random = new(seed);
    private readonly string[][] _keys = [.. Enumerable.Range(0, cluster.Shards)
        .Select(s => Enumerable.Range(0, KeysOfAShard)
            .Select(k => cluster.Key(s, string.Create(CultureInfo.InvariantCulture, $"hosted:{id}:{k}:"))).ToArray())];
    private readonly Dictionary<string, long> _before = [];   // what each key held when the round began
    private readonly List<Write> _writes = [];
    private readonly List<Task> _pending = [];
    private readonly Lock _gate = new();
    private RollbackException? _last;
    private int _from;              // from there on: of the present world-line
    private long _number;

    private enum Fate { Open, Answered, There, Lost, Uncertain }

    /// <summary>A key was set to a number, by the operation that has one of these numbers in its session.</summary>
    private sealed class Write(string key, long number)
    {
        public string Key => key;

        public long Number => number;

        public SequenceNumber First { get; set; }

        public SequenceNumber Last { get; set; }

        public Fate Fate { get; set; }
    }

    /// <summary>How many were executed here, and elsewhere; rollbacks that it was told of; writes that were said to be there, lost, or
    /// neither.</summary>
    public (long Here, long Elsewhere, long Rollbacks, long There, long Lost, long Uncertain) Counts { get; private set; }

    /// <summary>Works until told to stop. Then all that was sent has an end.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            try
            {
                switch (_random.Next(40))
                {
                    case 0:
                        await session.WaitForCommitAsync(stop);
                        NoteCommitted();
                        break;
                    case < 20:
                        SetHere();
                        break;
                    default:
                        SetElsewhere();
                        break;
                }

                _pending.RemoveAll(static t => t.IsCompleted);
                if (_pending.Count >= PendingMax) { await Task.WhenAny(_pending); }
            }
            catch (RollbackException rollback)
            {
                Take(rollback);
            }
            catch (ShardUnreachableException)
            {
                // This one, for too long. Noted where it was tried.
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
                // The end.
            }
        }

        await Task.WhenAll(_pending).WaitAsync(s_patience);
        _pending.Clear();
    }

    /// <summary>Until all is committed, or said to be lost.</summary>
    public async Task SettleAsync()
    {
        while (true)
        {
            try
            {
                await session.WaitForCommitAsync().WaitAsync(s_patience);
                NoteCommitted();
                return;
            }
            catch (RollbackException rollback)
            {
                Take(rollback);
            }
        }
    }

    /// <summary>Compares what the stores hold with what was said. Then nothing is remembered but what they hold.</summary>
    /// <exception cref="InvalidDataException">A violation.</exception>
    public async Task CheckAsync()
    {
        var found = new Dictionary<string, long>();
        for (int shard = 0; shard < cluster.Shards; shard++)
        {
            using RespClient client = await cluster.ConnectAsync(shard);
            foreach (string key in _keys[shard])
            {
                string reply = (await client.CallAsync("GET", key)).Compact;
                found[key] = reply == "_" ? 0 : long.Parse(reply[1..], CultureInfo.InvariantCulture);
            }
        }

        lock (_gate)
        {
            foreach (IGrouping<string, Write> writes in _writes.GroupBy(w => w.Key))
            {
                Write? last = writes.LastOrDefault(w => w.Fate == Fate.There);
                long there = found[writes.Key], atLeast = last?.Number ?? _before.GetValueOrDefault(writes.Key);
                if (writes.FirstOrDefault(w => w.Fate is Fate.Open or Fate.Answered) is { } open)
                {
                    throw Violation(open, there, "I8: it is neither there nor lost");
                }
                if (there < atLeast) { throw Violation(last ?? writes.First(), there, "I2: what was said to be there is not"); }
                if (there == atLeast) { continue; }
                Write? actual = writes.FirstOrDefault(w => w.Number == there);
                if (actual?.Fate != Fate.Uncertain)
                {
                    throw Violation(actual ?? writes.Last(), there, "I1: what is there was said to be lost");
                }
            }

            if (found.FirstOrDefault(f => f.Value != _before.GetValueOrDefault(f.Key)
                && _writes.All(w => w.Key != f.Key)) is { Key: { } stray })
            {
                throw new InvalidDataException($"session {id}: {stray} has changed, which nobody has set");
            }
            Counts = Counts with { There = Counts.There + Of(Fate.There), Lost = Counts.Lost + Of(Fate.Lost),
                Uncertain = Counts.Uncertain + Of(Fate.Uncertain) };
            _writes.Clear();
            _from = 0;
            foreach ((string key, long number) in found) { _before[key] = number; }
        }

        long Of(Fate fate) => _writes.Count(w => w.Fate == fate);
    }

    // Some in a row: each has a number of its own, unless something is sent meanwhile and takes one between.
    private void SetHere()
    {
        SequenceNumber before = session.Last;
        var done = new List<Write>();
        Write? one = null;
        try
        {
            for (int i = _random.Next(1, BurstMax); i > 0; i--)
            {
                one = Add(0);
                session.Set(Bytes(one.Key), Bytes(Text(one.Number)));
                done.Add(one);
                one = null;
            }
        }
        finally
        {
            SequenceNumber after = session.Last;
            lock (_gate)
            {
                // It was told of a rollback, or held up for too long, and not executed.
                if (one is not null) { one.Fate = Fate.Lost; }
                bool isExact = after.Number - before.Number == done.Count;
                for (int i = 0; i < done.Count; i++)
                {
                    done[i].First = new(before.Number + 1 + (isExact ? i : 0));
                    done[i].Last = isExact ? done[i].First : after;
                    done[i].Fate = Fate.Answered;
                }
            }

            Counts = Counts with { Here = Counts.Here + done.Count };
        }
    }

    private void SetElsewhere()
    {
        Write write = Add(_random.Next(1, cluster.Shards));
        _pending.Add(SendAsync(write, session.SetAsync(Bytes(write.Key), Bytes(Text(write.Number)))));
        Counts = Counts with { Elsewhere = Counts.Elsewhere + 1 };
    }

    // What becomes of it is told by its end; what a rollback says besides is taken in by the thread that works.
    private async Task SendAsync(Write write, ValueTask<Result<bool>> sent)
    {
        try
        {
            Result<bool> result = await sent;
            NoteAnswered(write, result.Sequence, result.WorldLine);
        }
        catch (ReplyLostException lost)
        {
            NoteAnswered(write, lost.Sequence, lost.WorldLine);
        }
        catch (RollbackException rollback)
        {
            Note(write, rollback.Operation == SequenceNumber.None ? Fate.Lost : FateIn(rollback, rollback.Operation, rollback.Operation));
        }
        catch (UncertainException)
        {
            Note(write, Fate.Uncertain);
        }
        catch (ShardUnreachableException)
        {
            // It was not sent.
            Note(write, Fate.Lost);
        }
    }

    private Write Add(int shard)
    {
        var write = new Write(_keys[shard][_random.Next(KeysOfAShard)], ++_number);
        lock (_gate) { _writes.Add(write); }
        return write;
    }

    private void Note(Write write, Fate fate)
    {
        lock (_gate) { write.Fate = fate; }
    }

    private void NoteAnswered(Write write, SequenceNumber sequence, WorldLine line)
    {
        lock (_gate)
        {
            (write.First, write.Last) = (sequence, sequence);
            // A rollback may have been taken in since it was answered: it spoke of this number too.
            write.Fate = _last is { } last && line < last.WorldLine ? FateIn(last, sequence, sequence) : Fate.Answered;
        }
    }

    private static Fate FateIn(RollbackException rollback, SequenceNumber first, SequenceNumber last)
    {
        OperationFate fate = rollback.FateOf(first);
        for (long number = first.Number + 1; number <= last.Number; number++)
        {
            if (rollback.FateOf(new(number)) != fate) { return Fate.Uncertain; }
        }

        return fate switch { OperationFate.Survived => Fate.There, OperationFate.Lost => Fate.Lost, _ => Fate.Uncertain };
    }

    private void NoteCommitted()
    {
        lock (_gate)
        {
            SequenceNumber upTo = session.CommittedUpTo;
            IReadOnlyList<ExceptionRange> exceptions = session.Exceptions;
            foreach (Write write in _writes.Where(w => w.Fate == Fate.Answered && w.Last <= upTo))
            {
                ExceptionRange[] among = [.. exceptions.Where(e => e.Range.First <= write.Last && write.First <= e.Range.Last)];
                if (among.Length == 0) { write.Fate = Fate.There; }
                // Its number may be the one, or that of what was sent meanwhile.
                else if (write.First < write.Last && among.All(e => e.Kind != ExceptionKind.Open)) { write.Fate = Fate.Uncertain; }
            }
        }
    }

    private void Take(RollbackException rollback)
    {
        lock (_gate)
        {
            if (_last?.Rollback == rollback.Rollback) { return; }
            foreach (Write write in _writes.Skip(_from).Where(w => w.Fate is Fate.Answered or Fate.There))
            {
                Fate fate = FateIn(rollback, write.First, write.Last);
                if (write.Fate == Fate.There && fate == Fate.Lost)
                {
                    throw Violation(write, 0, $"I2: it was committed, and is lost: {rollback.Message}");
                }
                if (write.Fate == Fate.Answered) { write.Fate = fate; }
            }

            _last = rollback;
            _from = _writes.Count;
            Counts = Counts with { Rollbacks = Counts.Rollbacks + 1 };
        }

        session.Resume(rollback);
    }

    private InvalidDataException Violation(Write write, long there, string what) =>
        new($"session {id}: {write.Key} was set to {write.Number} (numbers {write.First} to {write.Last} of session {session.Id}), which "
            + $"is said to be {write.Fate}, and is {there}: {what}; {_last?.Message}");

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);

    private static byte[] Bytes(string text) => Encoding.ASCII.GetBytes(text);
}

// What comes back: trailers that answer batches, redirections, and connections that end.
using System.Diagnostics;
using Slogger.Client.Wire;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client;

public sealed partial class SloggerSession
{
    // Shards that send an operation to each other do not know of the same owner yet: soon they will.
    private const int RedirectionsAtOnce = 2;
    private static readonly TimeSpan s_tryAgainAfter = TimeSpan.FromMilliseconds(20);
    private readonly List<SequenceRange> _uncertain = [];

    internal static ReadOnlySpan<byte> Asking => "*1\r\n$6\r\nASKING\r\n"u8;

    /// <summary>A batch has all of its replies, and its trailer.</summary>
    /// <returns>False: the trailer breaks the protocol.</returns>
    internal bool OnAnswered(Batch batch, in BatchReply reply)
    {
        PendingFlush flush;
        lock (_gate)
        {
            if (batch.IsSettled) { return true; }
            _local.Settle();
            // A backup may have gone on to the next world-line: for what is read there that changes nothing.
            BatchReply taken = _client.Options.ReadsBackup ? reply with { WorldLine = batch.WorldLine } : reply;
            if (_machine.OnReply(batch.Lane.Link.Shard, batch.First, taken) != ReplyOutcome.Completed) { return false; }
            if (batch.Lane.Sent.Dequeue() != batch)
            {
                throw new BrokenInvariantException($"session {Id}: a batch was answered that is not the oldest of its shard");
            }
            foreach (Operation operation in batch.Operations)
            {
                if (operation.Redirection != Redirection.None) { continue; }
                // An error may come from a shard that has not looked at the slot.
                if (operation is { IsElsewhere: true, IsAsking: false, Error: null })
                {
                    _client.Routes.NoteServed(operation.Slot, batch.Lane.Link);
                }
                Ended(operation);
            }

            Redirect(batch);
            GoOnInTurn();
            if (_lanes.IsBlocked) { _lanes.PumpBlocked(); }
            else { _lanes.Pump(batch.Lane); }
            MakeRoom();
            _commits.Check();
            flush = _lanes.TakeFlush();
        }

        flush.Run();
        Measure(batch);
        Complete(batch, reply);
        lock (_gate) { _lanes.GiveBack(batch); }

        return true;
    }

    private static void Complete(Batch batch, in BatchReply reply)
    {
        ReadOnlySpan<VersionRun> runs = reply.Versions.Span;
        long sequence = batch.First.Number - 1, end = sequence + runs[0].Count;
        int run = 0;
        foreach (Operation operation in batch.Operations)
        {
            sequence += operation.RequestsOnWire;
            while (sequence > end) { end += runs[++run].Count; }
            if (operation.Redirection == Redirection.None)
            {
                operation.Complete(new(sequence), batch.Lane.Link.Shard, runs[run].Version, reply.WorldLine);
            }
        }
    }

    private static void Measure(Batch batch)
    {
        Telemetry.Batches.Add(1);
        Telemetry.Operations.Add(batch.Count);
        if (Telemetry.BatchDuration.Enabled) { Telemetry.BatchDuration.Record(Stopwatch.GetElapsedTime(batch.Since).TotalMilliseconds); }
        batch.Activity?.Dispose();
    }

    /// <summary>Operations that another shard is to answer are started there.</summary>
    private void Redirect(Batch batch)
    {
        for (int i = 0; i < batch.Count; i++)
        {
            Operation operation = batch.Operations[i];
            if (operation.Redirection == Redirection.None) { continue; }
            Link? to = operation.Redirection == Redirection.TryAgain ? batch.Lane.Link
                : _client.Discovery.Redirected(operation.Error!, batch.Lane.Link, operation.Redirection == Redirection.Moved);
            // A transaction that is sent elsewhere would need its MULTI behind the ASKING: it may try again when the move is over.
            if (operation.Redirection == Redirection.Ask && operation.Requests > 1) { to = null; }
            if (to is null || operation.Redirections >= _client.Options.RedirectionsMax)
            {
                operation.Redirection = Redirection.None;
                Ended(operation);
                continue;
            }

            operation.Redirections++;
            Telemetry.Redirections.Add(1);
            Resend(batch.Detach(i, out byte[] requests), requests, to);
        }
    }

    /// <summary>How long an operation waits before it is sent once more. Shards that send one to each other learn within about a second who
    /// owns it.</summary>
    /// <param name="why">What its reply was.</param>
    /// <param name="redirections">How often it was sent elsewhere, this time included.</param>
    internal static TimeSpan PauseBefore(Redirection why, int redirections) =>
        why != Redirection.TryAgain && redirections <= RedirectionsAtOnce ? TimeSpan.Zero : s_tryAgainAfter * redirections;

    private void Resend(Operation operation, byte[] requests, Link to)
    {
        Redirection why = operation.Redirection;
        _turns.SetElsewhere(operation, true);
        if (operation.Slot != Operation.NoSlot) { _client.Routes.NoteServed(operation.Slot, null); }
        (operation.Redirection, operation.Error) = (Redirection.None, null);
        if (why != Redirection.TryAgain)
        {
            operation.IsAsking = why == Redirection.Ask;
            if (operation.IsAsking) { requests = [.. Asking, .. requests]; }
        }

        TimeSpan pause = PauseBefore(why, operation.Redirections);
        var redirected = new SlotTurns.Redirected(operation, requests, operation.IsAsking ? to : null, pause);
        if (_turns.MayResend(redirected)) { SendAgain(operation, requests, to, redirected.Pause); }
    }

    private void SendAgain(Operation operation, byte[] requests, Link to, TimeSpan pause)
    {
        if (pause == TimeSpan.Zero)
        {
            _lanes.Append(operation, to, requests);
            return;
        }

        int endings = _endings;
        _ = Task.Delay(pause).ContinueWith(_ =>
        {
            PendingFlush flush;
            lock (_gate)
            {
                // What was open then has ended, this one too, even if the session goes on.
                if (_endings != endings)
                {
                    Ended(operation);
                    operation.Fail(_endedBy!);
                    GoOnInTurn();
                    MakeRoom();
                    _commits.Check();
                }
                else
                {
                    _lanes.Append(operation, to, requests);
                }

                flush = _lanes.TakeFlush();
            }

            flush.Run();
        }, TaskScheduler.Default);
    }

    /// <summary>A link's connection has ended, and the world-line has not: what it did not answer is uncertain, less what the shard
    /// says that it has executed.</summary>
    internal void OnConnectionLost(Link link, Exception why, Executed executed)
    {
        PendingFlush flush;
        lock (_gate)
        {
            if (_lanes.Find(link) is not { Sent.Count: > 0 } lane) { return; }
            _local.Settle();
            if (executed.Last > SequenceNumber.None) { _machine.OnExecuted(link.Shard, executed.Last, executed.Latest); }
            _machine.OnConnectionLost(link.Shard, _uncertain);
            // What is sent again goes before what was started later.
            List<Batch> unsent = lane.TakeUnsent();
            while (lane.Sent.TryDequeue(out Batch? batch))
            {
                batch.IsSettled = true;
                batch.Activity?.Dispose();
                GiveUp(batch, link, why, batch.Last <= executed.Last ? executed.Latest : null);
            }

            lane.Append(unsent);
            GoOnInTurn();
            _lanes.PumpBlocked();
            MakeRoom();
            _commits.Check();
            flush = _lanes.TakeFlush();
        }

        flush.Run();
    }

    /// <summary>A new connection to a shard will be used from now on, and nothing is under way there.</summary>
    internal void OnNewConnection(ShardId shard)
    {
        lock (_gate)
        {
            _local.Settle();
            _machine.OnConnectionLost(shard, _uncertain);
            if (_closed is null && _uncertain.Count > 0)
            {
                throw new BrokenInvariantException($"session {Id}: {_uncertain[0]} is under way at shard {shard}, and nobody waits for it");
            }
        }
    }

    private void GiveUp(Batch batch, Link link, Exception why, VersionNumber? executed)
    {
        long sequence = batch.First.Number - 1;
        for (int i = 0; i < batch.Count; i++)
        {
            Operation operation = batch.Operations[i];
            sequence += operation.RequestsOnWire;
            if ((operation.Flags & OperationFlags.Idempotent) != 0 || _client.Options.ReadsBackup)
            {
                Operation again = batch.Detach(i, out byte[] requests);
                (again.Redirection, again.Error) = (Redirection.None, null);
                _lanes.Append(again, link, requests);
                continue;
            }

            Ended(operation);
            if (executed is { } latest)
            {
                operation.Fail(new ReplyLostException($"Operation {sequence} of session {Id} was executed at {link.Name} (shard "
                    + $"{link.Shard}), no later than in version {latest}; the connection ended before the answer ({why.Message}).",
                    new(sequence), link.Shard, latest, batch.WorldLine, why));
                Telemetry.RepliesLost.Add(1);
                continue;
            }

            operation.Fail(new UncertainException($"Operation {sequence} of session {Id}: the connection to {link.Name} (shard "
                + $"{link.Shard}) ended before the answer ({why.Message}). It may have been executed, or not.", new(sequence), why));
            Telemetry.Uncertain.Add(1);
        }
    }

    /// <summary>A link has a connection again.</summary>
    internal void OnLive(Link link)
    {
        PendingFlush flush;
        lock (_gate)
        {
            if (_lanes.Find(link) is not { } lane) { return; }
            _lanes.Pump(lane);
            flush = _lanes.TakeFlush();
        }

        flush.Run();
    }

    /// <summary>A link has had no connection for too long: what waits for it as long fails.</summary>
    internal void OnUnreachable(Link link, Exception why)
    {
        PendingFlush flush;
        lock (_gate)
        {
            if (_lanes.Find(link) is not { } lane) { return; }
            foreach (Batch batch in lane.TakeUnsent())
            {
                if (Stopwatch.GetElapsedTime(batch.Since) >= _client.Options.GiveUpAfter)
                {
                    Fail(batch, new ShardUnreachableException($"{link.Name} cannot be reached for "
                        + $"{_client.Options.GiveUpAfter.TotalSeconds:0.#} s: {why.Message}. The operation was not sent.", why));
                }
                else
                {
                    lane.Full.Enqueue(batch);
                }
            }

            GoOnInTurn();
            MakeRoom();
            _commits.Check();
            flush = _lanes.TakeFlush();
        }

        flush.Run();
    }
}

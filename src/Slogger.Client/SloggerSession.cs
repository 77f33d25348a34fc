// A session: operations over all shards, numbered, batched, and accounted for. Core's ClientSession decides what is committed
// and what survived; this gathers operations into batches, and tells callers.
//
// What order is promised
// - Operations on one shard (so those on one key) are executed in the order in which they were started.
// - Operations on different shards are concurrent, unless one was awaited before the other was started: then no crash keeps
//   the later one without the earlier one. That is relaxed DPR: the session depends on what it has seen.
// - A redirection (-MOVED, -ASK, -TRYAGAIN, -CLUSTERDOWN) does not change that order: operations on a slot whose owner changes wait for the
//   earlier ones, and the first one that goes to an owner goes alone (SlotTurns). One case is left: a slot that the client has used at
//   its owner moves away and back without the client's hearing of it, and operations meet the moment in which the owner has not heard of it
//   either.
// - An operation that is sent again because it is idempotent counts as started then.
// - The numbers are given when a batch leaves, so operations on different shards may be numbered in another order than started.
using System.Security.Cryptography;
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>A session over all shards of a cluster. Thread-safe: operations of several threads are one session's, so a rollback
/// is told to all of them. The tasks of operations are to be awaited once, as all of type ValueTask.</summary>
public sealed partial class SloggerSession : IAsyncDisposable
{
    private readonly SloggerClient _client;
    private readonly SloggerSessionOptions _options;
    private readonly ClientSession _machine;
    private readonly Lock _gate = new();
    private readonly RequestWriter _scratch = new();
    private readonly LocalOperations _local;
    private readonly Lanes _lanes;
    private readonly CommitWaiters _commits;
    private readonly SlotTurns _turns = new();
    private int _outstanding;             // started, and neither answered nor failed
    private TaskCompletionSource? _room;
    private Exception? _closed;           // why nothing can be started: a rollback, or the end
    private long _ownersSeen;             // which owners of slots the turns go by
    private Exception? _endedBy;          // why operations were failed last, and how often that has happened
    private int _endings;

    internal SloggerSession(SloggerClient client, SloggerSessionOptions options, WorldLine line)
    {
        _client = client;
        _options = options;
        _machine = new(NewId(), line, new() { WindowMax = options.Window, RunsMax = options.RunsMax, TrackDependencies = true });
        _local = new(_machine);
        _lanes = new(this, _machine, _local, client.Watch, options.BatchMax);
        _commits = new(_machine, client.Watch);
        IdText = Id.ToString();
    }

    /// <summary>Its name, unique for ever.</summary>
    public SessionId Id => _machine.Id;

    /// <summary>The timeline that it lives in.</summary>
    public WorldLine WorldLine
    {
        get { lock (_gate) { return _machine.WorldLine; } }
    }

    /// <summary>The last operation that was sent.</summary>
    public SequenceNumber LastSent
    {
        get => TakeIn();
    }

    internal string IdText { get; }

    internal static SessionId NewId()
    {
        Span<byte> bits = stackalloc byte[16];
        RandomNumberGenerator.Fill(bits);
        return new(System.Buffers.Binary.BinaryPrimitives.ReadUInt128BigEndian(bits));
    }

    /// <summary>Completes when the session has room for another operation. Whoever starts operations without awaiting each awaits this
    /// instead, before each or now and then: <see cref="SloggerSessionOptions.OutstandingMax"/> bounds what may be started.</summary>
    public ValueTask ReadyAsync(CancellationToken cancellation = default)
    {
        lock (_gate)
        {
            if (_outstanding < _options.Window || _closed is not null) { return default; }
            _room ??= new(TaskCreationOptions.RunContinuationsAsynchronously);
            return new(_room.Task.WaitAsync(cancellation));
        }
    }

    /// <summary>Closes the session. Operations that are unanswered fail; what was sent may still be executed.</summary>
    public ValueTask DisposeAsync()
    {
        _client.Forget(this);
        lock (_gate)
        {
            if (_closed is not ObjectDisposedException) { Close(new ObjectDisposedException(nameof(SloggerSession))); }
        }

        return default;
    }

    /// <summary>Nothing that the session says can be relied on any more.</summary>
    internal void Break(Exception why)
    {
        lock (_gate)
        {
            if (_closed is not ObjectDisposedException) { Close(new SloggerException($"Session {Id} cannot go on: {why.Message}", why)); }
        }
    }

    /// <summary>Vs: what is executed now is of no earlier version. What another thread is answered at this moment need not count.</summary>
    internal VersionNumber AtLeast => _machine.AtLeast;

    /// <summary>Rises when the session has seen something new.</summary>
    internal long Learned => _machine.Learned;

    /// <summary>Takes operations in that are executed past it. Once, before anything is done.</summary>
    internal void Join(ILocalWork local)
    {
        lock (_gate)
        {
            _local.Join(local);
            GoOnLocally();
        }
    }

    /// <summary>Takes in what was executed.</summary>
    /// <returns>The last operation's number.</returns>
    internal SequenceNumber TakeIn()
    {
        lock (_gate)
        {
            _local.Settle();
            _commits.Check();
            return _machine.Begun;
        }
    }

    /// <summary>Tells the shard in this process what was seen at others.</summary>
    /// <param name="tell">Does so, and says whether the shard has taken it in.</param>
    /// <param name="learned">What <see cref="Learned"/> was when it was told last; then, if it was told, what it is now.</param>
    internal bool TryTellDependencies(Func<ReadOnlyMemory<Dependency>, bool> tell, ref long learned)
    {
        lock (_gate)
        {
            _local.Settle();
            if (!tell(_local.DependenciesSince(learned))) { return false; }
            learned = _machine.Learned;
            return true;
        }
    }

    /// <summary>Throws if the session cannot be used: after a rollback that has not been taken in, or at its end.</summary>
    internal void ThrowIfClosed()
    {
        lock (_gate)
        {
            if (_closed is { } why) { throw why; }
        }
    }

    /// <summary>Starts an operation at the owner of its slot. The request is written by the caller, between Begin and this, under the
    /// lock.</summary>
    private ValueTask<Result<T>> Start<T>(Operation<T> operation, int slot, CancellationToken cancellation)
    {
        operation.Slot = slot;
        Link owner = OwnerOf(slot);
        if (!_turns.MustWait(slot))
        {
            if (slot != Operation.NoSlot && !_client.Routes.HasServed(slot, owner)) { _turns.GoAlone(operation); }
            return StartAt(operation, owner, cancellation);
        }

        ValueTask<Result<T>> task = Count(operation, cancellation);
        _turns.Wait(operation, _scratch.Written);
        return task;
    }

    /// <summary>Starts an operation at a shard.</summary>
    private ValueTask<Result<T>> StartAt<T>(Operation<T> operation, Link link, CancellationToken cancellation)
    {
        ValueTask<Result<T>> task = Count(operation, cancellation);
        _lanes.Append(operation, link, _scratch.Written);
        return task;
    }

    private ValueTask<Result<T>> Count<T>(Operation<T> operation, CancellationToken cancellation)
    {
        _commits.Started(operation);
        _outstanding++;
        ValueTask<Result<T>> task = operation.Task;
        operation.CancelBy(cancellation);
        return task;
    }

    /// <summary>The owner of a slot; of none, any shard. When owners have changed, what is under way to the old ones is noted
    /// first.</summary>
    private Link OwnerOf(int slot)
    {
        while (true)
        {
            long owners = _client.Routes.Changed;
            Link owner = _client.Routes.OwnerOf(slot);
            if (owners != _ownersSeen) { NoteElsewhere(); }
            if (owners != _client.Routes.Changed) { continue; }
            _ownersSeen = owners;
            return owner;
        }
    }

    private void NoteElsewhere()
    {
        foreach (Lane lane in _lanes.All)
        {
            foreach (Batch batch in lane.Open)
            {
                foreach (Operation operation in batch.Operations)
                {
                    if (_client.Routes.OwnerOf(operation.Slot) != lane.Link) { _turns.SetElsewhere(operation, true); }
                }
            }
        }
    }

    /// <summary>Sends what has waited for earlier operations of its slot.</summary>
    private void GoOnInTurn()
    {
        while (_turns.TryFindReady(out int slot))
        {
            Link owner = OwnerOf(slot);
            if (!_turns.IsReady(slot)) { continue; }
            SlotTurns.Redirected next = _turns.Take(slot, goesAlone: !_client.Routes.HasServed(slot, owner));
            SendAgain(next.Operation, next.Requests, next.To ?? owner, next.Pause);
        }
    }

    // Why an operation cannot be started, if it cannot.
    private Exception? WhyNot() => _closed
        ?? (_outstanding >= _options.OutstandingMax
            ? new InvalidOperationException($"Session {Id} has {_outstanding} operations under way, which is the most that OutstandingMax "
                + "allows: await results, or ReadyAsync.")
            : null);

    /// <summary>One operation less is outstanding.</summary>
    private void Ended(Operation operation)
    {
        _turns.SetElsewhere(operation, false);
        operation.Generation.Outstanding--;
        _outstanding--;
    }

    private void MakeRoom()
    {
        if (_room is { } room && _outstanding < _options.Window)
        {
            _room = null;
            room.SetResult();
        }
    }

    /// <summary>Nothing can be started any more, and all that is under way fails.</summary>
    /// <param name="why">What calls from now on fail with.</param>
    /// <param name="ofSent">What an operation under way fails with, by its number; null: the same.</param>
    private void Close(Exception why, Func<SequenceNumber, Exception>? ofSent = null)
    {
        _local.GoOn(null);
        _local.Settle();
        _closed = _endedBy = why;
        _endings++;
        foreach (Operation operation in _turns.TakeAll())
        {
            Ended(operation);
            operation.Fail(why);
        }

        foreach (Lane lane in _lanes.All)
        {
            foreach (Batch batch in lane.Sent)
            {
                batch.IsSettled = true;
                Fail(batch, why, ofSent);
            }

            lane.Sent.Clear();
            foreach (Batch batch in lane.TakeUnsent()) { Fail(batch, why); }
        }

        _commits.Fail(why);
        MakeRoom();
    }

    private void Fail(Batch batch, Exception why, Func<SequenceNumber, Exception>? ofSent = null)
    {
        long sequence = batch.First.Number - 1;
        batch.Activity?.SetStatus(System.Diagnostics.ActivityStatusCode.Error, why.Message);
        batch.Activity?.Dispose();
        foreach (Operation operation in batch.Operations)
        {
            sequence += operation.RequestsOnWire;
            Ended(operation);
            operation.Fail(ofSent?.Invoke(new(sequence)) ?? why);
        }
    }

    private void GoOnLocally()
    {
        if (_closed is null) { _local.GoOn(_machine.WorldLine); }
    }
}

// The follower's half of a cohort's replication: what goes into its log, what it tells the leader, and how far its store may go.
//
// What Receiver does for another site this does for the same shard, under other rules:
// - A piece is appended at once, and made durable as soon as a version has ended in it: nothing else counts. So the leader's disk and this
//   one work at the same time, and what a majority has counts (CommitRule). A log may so hold what no majority ever had. The next leader has
//   that made void (Rewind).
// - A log takes a line's beginning only when it has all that lies below it. Else a short log of a newer line would win an election
//   against a long one that holds what was committed.
// - The store goes to what is committed, and to nothing else. So nothing that it has executed is ever void (R4). Among several shards a
//   world-line may begin below what this shard has committed, but never below the recorded cut: there the store goes no further.
// - A node that has lost what it had told a leader only learns, until its leader admits it (Leader).
//
// Contract with the driver
// - Calls are serialised, effects performed in order. A message is given to Election.Heard first: if that says no, it does not come here.
// - A Rewind is durable before Rewound is called. A line that begins is durable before anything behind it is appended.
// - What is durable the log says when Synced is called, not when the sync began: meanwhile it may have been rewound, and have gone on.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Cohorts;

/// <summary>What a follower begins with.</summary>
public sealed record FollowerStart
{
    /// <summary>The shard.</summary>
    public required ShardId Shard { get; init; }

    /// <summary>The history of the log; null: there is none, it has to be copied.</summary>
    public StreamHistory? History { get; init; }

    /// <summary>The log, durable all of it. Of no meaning without one.</summary>
    public LogLines? Lines { get; init; }

    /// <summary>Which life of the log: each copy begins another.</summary>
    public long Generation { get; init; }

    /// <summary>The store can be brought to no version before this one: its copy holds parts of those before.</summary>
    public WorldPoint Floor { get; init; }

    /// <summary>Where the store is.</summary>
    public WorldPoint Applied { get; init; }

    /// <summary>Without a log: what there is on the disk of a copy.</summary>
    public SeedPart Copy { get; init; }

    /// <summary>A copy that came whole, and was not what it should be; null: none.</summary>
    public string? BadCopy { get; init; }

    /// <summary>Of one of several shards: at which offset of the log a version ends. The store executes nothing above the recorded cut.
    /// Null: it executes all that is committed.</summary>
    public Func<VersionNumber, long>? EndOf { get; init; }

    /// <summary>How much of a copy may be lost by a crash, and has to come again. Bytes.</summary>
    public long CopySyncBytes { get; init; } = 4L << 20;
}

/// <summary>Follows one shard's leaders. Not thread-safe. Source: design, replicated shards, 4.2, 4.3 and 4.6.</summary>
public sealed class Follower : ICopyReceiver
{
    private readonly FollowerStart _start;
    private readonly CohortMutation _mutation;
    private readonly SeedReceiver? _seeding;
    private LogLines? _lines;          // as of the last rewind
    private Sender? _current;
    private bool _isWelcoming;         // nothing has come since it said where it is
    private bool _isRewinding;
    private LogIndex _received;
    private LogIndex _durable;         // the last version that is
    private LogIndex _synced;          // what the last sync was for
    private LogIndex _commit;          // that it knows of
    private WorldPoint _cut;           // the newest that it knows of
    private WorldPoint _applyTo;
    private long _echoUs;
    private bool _isSyncing;

    /// <summary>Begins with what the disk holds.</summary>
    public Follower(FollowerStart start)
        : this(start, CohortMutation.None)
    {
    }

    internal Follower(FollowerStart start, CohortMutation mutation)
    {
        (_start, _mutation, _lines, _applyTo) = (start, mutation, start.Lines, start.Applied);
        if (start.Lines is { } lines) { _received = _durable = _synced = lines.End; }
        if (!HasLog) { _seeding = new(start.Generation, start.Copy, start.BadCopy, start.CopySyncBytes, ShipMutation.None); }
    }

    /// <summary>What the node has promised; the driver sets it whenever that changes. What comes of an older reign is acknowledged no more: the
    /// node has voted without it.</summary>
    public Ballot Ballot { get; set; }

    /// <summary>Whether there is a log to go on with.</summary>
    public bool HasLog => _start.History is not null;

    /// <summary>The last version that it knows to be committed, and has.</summary>
    public LogIndex Commit => LogIndex.Min(_commit, _durable);

    /// <inheritdoc />
    public (Seed Of, long HasBytes)? Copy => _seeding is { Seed: { } seed } seeding ? (seed, seeding.HasBytes) : null;

    /// <inheritdoc />
    public void Begin(List<ReceiverEffect> effects) => _seeding?.SyncIfDue(effects);

    /// <inheritdoc />
    public void CopySynced(in SeedTicket ticket, List<ReceiverEffect> effects) => _seeding?.Synced(ticket, effects);

    /// <inheritdoc />
    public void CopyRefused(in SeedPart part, List<ReceiverEffect> effects) => _seeding?.Refused(part, effects);

    /// <summary>The leader says something.</summary>
    /// <exception cref="BrokenInvariantException">R4: it would make void what was committed.</exception>
    public void Received(ShipRequest request, List<ReceiverEffect> effects)
    {
        switch (request)
        {
            case ShipRequest.Hello hello: Greeted(hello, effects); break;
            case ShipRequest.Rewind rewind: GoBack(rewind, effects); break;
            case ShipRequest.Piece piece: Take(piece, effects); break;
            case ShipRequest.WantsSeed wanted when wanted.Generation == _start.Generation && HasLog:
                effects.Add(new ReceiverEffect.Reseed("the leader's log does not reach back to where this one ends"));
                break;
            case ShipRequest.Copied copied when _seeding is { } seeding:
                seeding.Take(copied.Chunk, effects);
                effects.Add(Say(ShipReplyKind.NeedsSeed));
                break;
        }
    }

    /// <summary>The log has been rewound.</summary>
    /// <param name="lines">What it is now.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void Rewound(LogLines lines, List<ReceiverEffect> effects)
    {
        (_lines, _received, _durable, _synced, _isRewinding) = (lines, lines.End, lines.End, lines.End, false);
        effects.Add(Say(ShipReplyKind.Welcome));
    }

    /// <summary>A sync has ended.</summary>
    /// <param name="durable">Up to where the log is durable now.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void Synced(LogIndex durable, List<ReceiverEffect> effects)
    {
        (_isSyncing, _durable) = (false, durable);
        ApplyIfDue(effects);
        SyncIfDue(effects);
        bool isOfNow = _current?.Epoch >= Ballot.Promised.Number || _mutation == CohortMutation.AcksAfterVote;
        if (isOfNow && !_isRewinding) { effects.Add(Say(ShipReplyKind.Ack)); }
    }

    private void Greeted(ShipRequest.Hello hello, List<ReceiverEffect> effects)
    {
        bool isNew = hello.Sender != _current;
        _current = hello.Sender;
        // By another clock.
        if (isNew) { _echoUs = 0; }
        if (!HasLog)
        {
            effects.Add(Say(ShipReplyKind.NeedsSeed));
        }
        else if (hello.History != _start.History)
        {
            effects.Add(new ReceiverEffect.Reseed($"the leader's log is of another history ({hello.History.ReplicationId} from "
                + $"{hello.History.Offset} on)"));
        }
        else if (isNew)
        {
            // What lies behind the last version's end is of a version that nobody had closed.
            (_isWelcoming, _isRewinding) = (true, true);
            effects.Add(new ReceiverEffect.Rewind(null));
        }
        else if (!_isRewinding)
        {
            effects.Add(Say(ShipReplyKind.Welcome));
        }
    }

    private void GoBack(ShipRequest.Rewind rewind, List<ReceiverEffect> effects)
    {
        // Late ones are about where it was once.
        if (rewind.Sender != _current || !_isWelcoming || _isRewinding || !HasLog || rewind.To > _received) { return; }
        if (rewind.To == _received)
        {
            effects.Add(Say(ShipReplyKind.Welcome));
            return;
        }
        if (rewind.To.Offset < _lines!.Begins[0].Offset)
        {
            effects.Add(new ReceiverEffect.Reseed("the leader's log has nothing of what this one begins with"));
            return;
        }
        if (rewind.To < Commit || rewind.To.Point < _applyTo)
        {
            throw new BrokenInvariantException(
                $"R4: shard {_start.Shard} has committed {Commit} and executed {_applyTo}, and its log is to be rewound to {rewind.To}.");
        }
        _isRewinding = true;
        effects.Add(new ReceiverEffect.Rewind(rewind.To));
    }

    private void Take(ShipRequest.Piece piece, List<ReceiverEffect> effects)
    {
        if (piece.Sender != _current || !HasLog)
        {
            effects.Add(Say(ShipReplyKind.WhoAreYou));
            return;
        }
        if (_isRewinding) { return; }
        _echoUs = Math.Max(_echoUs, piece.SentUs);
        bool isNext = piece.From == _received;
        // Before that the leader did not know where this log ends, and what it counts as committed says nothing of that end.
        _isWelcoming &= !isNext;
        if (isNext && !piece.IsHeartbeat)
        {
            _received = piece.To;
            effects.Add(new ReceiverEffect.Append(piece));
            // It was durable when it was appended.
            if (piece.IsBranch) { _durable = _synced = piece.To; }
        }
        if (!_isWelcoming) { _commit = LogIndex.Max(_commit, piece.Durable); }
        if (piece.Cut > _cut) { _cut = piece.Cut; }
        if (_mutation == CohortMutation.AckBeforeSync) { _durable = _received; }
        if (piece.Admits && Ballot.Learns) { effects.Add(new ReceiverEffect.Learned()); }
        ApplyIfDue(effects);
        SyncIfDue(effects);
        bool isMissed = piece.IsHeartbeat ? piece.From > _received : !isNext && piece.To > _received;
        // What is being made durable is acknowledged when it is.
        if (isNext && !piece.IsHeartbeat && _isSyncing) { return; }
        effects.Add(Say(isMissed ? ShipReplyKind.Nack : ShipReplyKind.Ack));
    }

    private void ApplyIfDue(List<ReceiverEffect> effects)
    {
        LogIndex committed = _mutation == CohortMutation.AppliesUncommitted ? _durable : Commit;
        WorldPoint to = _start.EndOf is { } endOf ? Allowed(committed, endOf) : committed.Point;
        if (to <= _applyTo || to < _start.Floor) { return; }
        _applyTo = to;
        effects.Add(new ReceiverEffect.Apply(to));
    }

    // What a world-line that begins now cannot make void.
    private WorldPoint Allowed(in LogIndex committed, Func<VersionNumber, long> endOf)
    {
        // It has begun, and this log has not come to it: where it branches off is not known here.
        if (_cut.WorldLine > committed.WorldLine) { return _applyTo; }
        // Empty versions behind the cut execute nothing.
        return _cut >= committed.Point || endOf(_cut.Version) >= committed.Offset ? committed.Point : _cut;
    }

    private void SyncIfDue(List<ReceiverEffect> effects)
    {
        if (_isSyncing || _isRewinding || _received.Point == _synced.Point) { return; }
        (_isSyncing, _synced) = (true, _received);
        effects.Add(new ReceiverEffect.Sync(new(_received, default, _current, _echoUs)));
    }

    private ReceiverEffect.Reply Say(ShipReplyKind kind) => new(new(kind, _start.Shard, _start.Generation, _received, _durable, default,
        default, kind is ShipReplyKind.Ack or ShipReplyKind.Nack ? _echoUs : 0, _current ?? default)
    {
        Ask = kind == ShipReplyKind.NeedsSeed ? _seeding?.Ask : null,
        Lines = kind == ShipReplyKind.Welcome ? _lines : null,
        Learns = Ballot.Learns,
    });
}

// Which of this client's operations are of which version, how far they are committed, and what a rollback did to them.
using System.Globalization;
using System.Text;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private readonly SessionProgress? _progress;
    private bool _usesDpr;
    private int _owed;

    // A store that dies is noticed within this time; a connection that has been dead for longer, beside a store that is
    // there, died alone.
    private const long VerdictMicroseconds = 200_000;
    private long _verdictDue;

    // Not what the client asked for, but what the proxy needs for its answer.
    private static bool IsUncounted(ReplyKind kind) =>
        kind is ReplyKind.Probe or ReplyKind.Exec or ReplyKind.KillStep or ReplyKind.Census or ReplyKind.SlowLogAll or ReplyKind.KeysOfSlot or ReplyKind.StatisticsResetAgain;

    /// <summary>Requests were given to an upstream.</summary>
    public void OnForwarded(Upstream upstream, int count, ReplyKind kind, long version, bool inexact)
    {
        if (kind is ReplyKind.Subscribe or ReplyKind.Unsubscribe) { count = 1; }
        if (upstream.Exclusive is null) { _sharedInFlight += count; }
        _loop.Forwarded += count;
        if (_progress is null) { return; }
        _loop.Gate.MarkBusy();
        if (IsUncounted(kind)) { return; }
        if (_batchLeft > 0) { CountForwardedInBatch(upstream, count); }
        if (inexact)
        {
            _progress.OnForwardedOpenEnded(count, _loop.Gate.Answered);
        }
        else
        {
            _progress.OnForwarded(count, new Version(version));
        }
    }

    /// <summary>Replies have come.</summary>
    public void OnAnswered(Upstream upstream, int count, ReplyKind kind, long version, bool inexact)
    {
        if (upstream.Exclusive is null) { _sharedInFlight -= count; }
        if (_progress is null || IsUncounted(kind)) { return; }
        if (inexact) { _loop.Gate.MarkBusy(); }
        if (_streaming && upstream.InFlight == 0)
        {
            // Redis refused the large request before its end, and hangs up: it counts as forwarded all the same.
            _progress.OnForwardedOpenEnded(1, _loop.Gate.Answered);
            if (_batchLeft > 0) { CountForwardedInBatch(upstream, 1); }
        }
        _progress.OnAnswered(count, _loop.Gate.Open);
        if (IsInBatch) { OnBatchAnswered(count, inexact ? _loop.Gate.Open : new Version(version), inexact); }
    }

    /// <summary>What was to be one version is known by two bounds only.</summary>
    public void OnExactnessLost() => _progress?.OnExactnessLost();

    // The proxy has answered by itself: an operation without effect.
    private void CountLocal()
    {
        if (_progress is null) { return; }
        // Not the version of held dedicated upstreams: the next request may take the shared one before the marker does.
        _progress.OnForwarded(1, _loop.Gate.Open);
        _progress.OnAnswered(1, _loop.Gate.Open);
        if (_batchLeft > 0) { CountLocalInBatch(); }
    }

    private long Sequence => _progress?.Forwarded.Number ?? 0;

    private long CommittedSequence => _progress is null ? 0 : _progress.OnCommitted(Cut).Number;

    // What is said of it in the reply that is being made; 0 says nothing.
    private long TellSequence() => Told(Cut) is { Version.Number: > 0 } ? CommittedSequence : 0;

    // What is said of a recorded cut in the reply that is being made; version 0 says nothing.
    private WorldPoint Told(WorldPoint cut)
    {
        if (!MayTell) { return cut with { Version = Version.Zero }; }
        Tells();
        return cut;
    }

    // The status says what is committed, too.
    private string InfoText()
    {
        bool mayTell = MayTell;
        string text = _loop.Shard.InfoText(_loop);
        if (mayTell || MayTell) { Tells(); }
        return text;
    }

    // The recorded cut, which not everybody may be told. Both parts as of one moment: a version of the next world-line says nothing of this one.
    private WorldPoint Cut
    {
        get
        {
            while (true)
            {
                long line = _loop.Shard.WorldLine, version = _loop.Shard.CommittedVersion;
                if (_loop.Shard.WorldLine == line) { return new WorldPoint(new WorldLine(line), new Version(version)); }
            }
        }
    }

    // In another world-line nothing can be said before the rollback has been looked at.
    private bool IsCommitted(long version) => MayTell && Cut is var cut && cut.WorldLine == _progress!.WorldLine && version <= cut.Version.Number;

    private long VersionOf(long sequence)
    {
        _ = CommittedSequence;
        return _progress!.TryVersionNeededFor(new Sequence(sequence), out Version version) ? version.Number : long.MaxValue;
    }

    // ---- Losing the store ----

    // A client that knows of versions is kept and told; so are all, if the operator wants that. What cannot be made up
    // again at another connection ends all the same, and so does one whose replies are off: it could not be told.
    private bool IsKept => _progress is not null && (_usesDpr || _loop.Shard.KeepsClients) && !IsInBatch && !IsOutputHeld && !IsClosed && !_closeWhenSent && !_ended && !_quits
        && (!_streaming || _dropsStream) && _replyMode == ReplyMode.On && _lingerUntil == 0
        && (_pins & ~(Pins.Multi | Pins.Watch | Pins.Identity | Pins.Auth)) == 0 && (_user is null || _loop.IsOwnUser(_user));

    // The connection on which it logged in is lost. If the store is lost with it, and the client is kept, the proxy logs in
    // again in its place; if not, Redis has closed that connection, and with it the client.
    private bool _lostLogin;

    // Nothing is at stake for it, whatever was lost: mostly it has come while the store was away, and waits for it. Among other
    // shards nobody can tell what it has seen there.
    private bool HasDoneNothing => !_loop.Gate.IsPunctual && _progress is { Forwarded.Number: 0 } && !IsInBatch && _owed == 0 && !_closeWhenSent && !_ended && !_streaming;

    /// <summary>A connection died that owed replies: what came of their requests will be told when the shard knows.</summary>
    public void OnReplyLost(int count, ReplyKind kind)
    {
        if (IsClosed || _closeWhenSent) { return; }
        if (!IsKept || kind == ReplyKind.Exec)
        {
            // Of a transaction that may have changed the database nobody can tell where the client stands now.
            LoseReplies();
            return;
        }
        _owed += count;
        _waiting = Waiting.Verdict;
        _verdictDue = _loop.Now + VerdictMicroseconds;
        UpdateWatch();
    }

    /// <summary>The store is lost: who is not kept goes.</summary>
    public void OnStoreLost()
    {
        Shared = null;
        _undecided = true;
        _sharedInFlight = 0;
        _lostLogin |= _user is not null && Dedicated is not null;
        Dedicated?.Close("the store was lost");
        Dedicated = null;
        if (!IsKept && !HasDoneNothing)
        {
            if (!IsClosed) { LoseReplies(); }
            return;
        }
        _pins = _user is null ? Pins.None : Pins.Auth;
        _transaction.End(runs: false);
    }

    /// <summary>The store was not lost after all; only a connection to it was.</summary>
    public void OnStoreSame()
    {
        if (IsClosed) { return; }
        if (_lostLogin)
        {
            LoseReplies();
            return;
        }
        if (_waiting != Waiting.Verdict) { return; }
        SequenceRange uncertain = _progress!.OnUpstreamLost();
        GiveOwed($"-ERR SLOGGER the connection to Redis broke: it is not known whether operations {uncertain} were done\r\n");
    }
}

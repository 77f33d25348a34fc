// Which of this client's operations are of which version, how far they are committed, and what a rollback did to them.
using System.Globalization;
using System.Text;
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private readonly SessionProgress? _progress;

    // Not what the client asked for, but what the proxy needs for its answer.
    private static bool IsUncounted(ReplyKind kind) =>
        kind is ReplyKind.Uncounted or ReplyKind.Exec;

    /// <summary>It knows of versions: it has asked of them.</summary>
    public bool UsesDpr { get; set; }

    /// <summary>The world-line that it is in.</summary>
    public WorldLine WorldLine => _progress!.WorldLine;

    // ---- Waiting for a commit ----

    private CommitWait? _commitWait;

    /// <summary>A wait has begun: its end answers the request.</summary>
    public void WaitForCommit(CommitWait wait, long hurriedVersion)
    {
        _commitWait = wait;
        _waiting = Waiting.Commit;
        UpdateWatch();
        _loop.Waits.WaitForCommit(this, hurriedVersion);
    }

    /// <summary>Looks whether the commit waited for has come, or the time is over. True when the wait has ended.</summary>
    public bool CheckCommit(long now) => IsClosed || _waiting != Waiting.Commit || _commitWait!.Check(this, now);

    /// <summary>Requests were given to an upstream.</summary>
    public void OnForwarded(Upstream upstream, int count, ReplyKind kind, long version, bool inexact)
    {
        if (kind is ReplyKind.Subscribe or ReplyKind.Unsubscribe) { count = 1; }
        if (upstream.Exclusive is null) { _sharedInFlight += count; }
        _loop.Forwarded += count;
        if (_progress is null) { return; }
        _loop.Gate.MarkBusy();
        if (IsUncounted(kind)) { return; }
        if (BatchLeft > 0) { _batches!.OnForwarded(upstream, count); }
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
        if (IsStreaming && upstream.InFlight == 0)
        {
            // Redis refused the large request before its end, and hangs up: it counts as forwarded all the same.
            _progress.OnForwardedOpenEnded(1, _loop.Gate.Answered);
            if (BatchLeft > 0) { _batches!.OnForwarded(upstream, 1); }
        }
        _progress.OnAnswered(count, _loop.Gate.Open);
        if (IsInBatch) { _batches!.OnAnswered(count, inexact ? _loop.Gate.Open : new Version(version), inexact); }
    }

    /// <summary>What was to be one version is known by two bounds only.</summary>
    public void OnExactnessLost() => _progress?.OnExactnessLost();

    // The proxy has answered by itself: an operation without effect.
    public void CountLocal()
    {
        if (_progress is null) { return; }
        // Not the version of held dedicated upstreams: the next request may take the shared one before the marker does.
        _progress.OnForwarded(1, _loop.Gate.Open);
        _progress.OnAnswered(1, _loop.Gate.Open);
        if (BatchLeft > 0) { _batches!.OnAnsweredHere(); }
    }

    public long Sequence => _progress?.Forwarded.Number ?? 0;

    private long CommittedSequence => _progress is null ? 0 : _progress.OnCommitted(Cut).Number;

    // What is said of it in the reply that is being made; 0 says nothing.
    public long TellSequence() => Told(Cut) is { Version.Number: > 0 } ? CommittedSequence : 0;

    // What is said of a recorded cut in the reply that is being made; version 0 says nothing.
    public WorldPoint Told(WorldPoint cut)
    {
        if (!MayTell) { return cut with { Version = Version.Zero }; }
        Tells();
        return cut;
    }

    // The status says what is committed, too.
    public string InfoText()
    {
        bool mayTell = MayTell;
        string text = _loop.Shard.InfoText(_loop);
        if (mayTell || MayTell) { Tells(); }
        return text;
    }

    // The recorded cut, which not everybody may be told. Both parts as of one moment: a version of the next world-line says nothing of
    // this one.
    public WorldPoint Cut
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

    /// <summary>Whether a version is committed, and may be told to be. In another world-line nothing can be said before the rollback has
    /// been looked at.</summary>
    public bool IsCommitted(long version) =>
        MayTell && Cut is var cut && cut.WorldLine == _progress!.WorldLine && version <= cut.Version.Number;

    public long VersionOf(long sequence)
    {
        _ = CommittedSequence;
        return _progress!.TryVersionNeededFor(new Sequence(sequence), out Version version) ? version.Number : long.MaxValue;
    }

    // ---- Batches ----

    private ClientBatches? _batches;

    private bool IsInBatch => _batches is { IsUnderWay: true };

    /// <summary>Its sessions' batches.</summary>
    public ClientBatches Batches => _batches ??= new(_loop, this, _output);

    /// <summary>See <see cref="ClientBatches.Left"/>.</summary>
    public int BatchLeft => _batches?.Left ?? 0;

    /// <summary>Operations that have been forwarded and are not answered.</summary>
    public long UnansweredOperations => _progress!.Forwarded.Number - _progress.Answered.Number;

    /// <summary>Looks whether the batch that was held can go on, or has waited too long. True when the wait has ended.</summary>
    public bool IsBatchReleased() => IsClosed || _waiting != Waiting.Batch || _batches!.IsReleased();

    /// <summary>Replies were looked at, and are yet to be given out.</summary>
    public bool IsReplyPutOff => _waiting is Waiting.Reply or Waiting.Checkpoint;

    /// <summary>What the connection is in that a batch cannot be part of; null: nothing.</summary>
    public string? WhyNoBatch()
    {
        if ((_pins & Pins.Multi) != 0 || _rollback is { LosesTransaction: true })
        {
            return "ERR SLOGGER DPR.BATCH cannot be queued in a transaction";
        }
        if (_replyMode != ReplyMode.On) { return "ERR SLOGGER DPR.BATCH needs the replies that CLIENT REPLY has switched off"; }
        return (_pins & Pins.Monitor) != 0 || (Protocol == 2 && (_pins & Pins.PubSub) != 0)
            ? "ERR SLOGGER DPR.BATCH cannot be used on a connection that is subscribed or monitors" : null;
    }

    /// <summary>Whether it is known what this client may do; if not, that is waited for.</summary>
    /// <param name="isNotLetIn">It has not given the password that Redis wants, and needs no connection of its own to hear of it.</param>
    public bool KnowsItsRights(out bool isNotLetIn)
    {
        isNotLetIn = false;
        if (Shared is not null || (_pins & Pins.Auth) != 0) { return true; }
        if (!_loop.Probe.IsSharingKnown)
        {
            Wait(Waiting.Store);
            return false;
        }
        Decide();
        isNotLetIn = Shared is null && _loop.Probe.NeedsPassword;
        return true;
    }

    /// <summary>Whether a command of the proxy's own can be put behind what this client's own upstream has been sent.</summary>
    public bool TakesMarks(Upstream upstream) => upstream == Dedicated && !IsClosed && !IsStreaming && !_ended && !_quits
        && (_pins & (Pins.Multi | Pins.Raw | Pins.PubSub | Pins.Monitor)) == 0 && (_user is null || _loop.IsOwnUser(_user));

    /// <summary>What sessions are told: committed at every shard.</summary>
    public WorldPoint SessionCut => Told(_loop.Shard.Batches is { } port && !port.Finder.HasGridCuts
        ? port.CommittedEverywhere : Cut);
}

// Counts this client's operations as they are forwarded and answered, by versions and by batches.
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private readonly SessionProgress? _progress;

    // Not what the client asked for, but what the proxy needs for its answer.
    private static bool IsUncounted(ReplyKind kind) =>
        kind is ReplyKind.Uncounted or ReplyKind.Exec or ReplyKind.Inner or ReplyKind.Conditional;

    /// <summary>It knows of versions: it has asked of them.</summary>
    public bool UsesDpr { get; set; }

    /// <summary>The world-line that it is in.</summary>
    public WorldLine WorldLine => _progress!.WorldLine;

    /// <summary>Requests were given to an upstream.</summary>
    public void OnForwarded(Upstream upstream, int count, ReplyKind kind, long version, bool inexact)
    {
        if (kind is ReplyKind.Subscribe or ReplyKind.Unsubscribe) { count = 1; }
        if (upstream.Exclusive is null) { _sharing.InFlight += count; }
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
            _progress.OnForwarded(count, new VersionNumber(version));
        }
    }

    /// <summary>Replies have come.</summary>
    public void OnAnswered(Upstream upstream, int count, ReplyKind kind, long version, bool inexact)
    {
        if (upstream.Exclusive is null) { _sharing.InFlight -= count; }
        if (_progress is null || (IsUncounted(kind) && kind != ReplyKind.Conditional)) { return; }
        if (inexact) { _loop.Gate.MarkBusy(); }
        if (kind == ReplyKind.Conditional) { CountConditional(upstream, version, inexact); }
        if (IsStreaming && upstream.InFlight == 0)
        {
            // Redis refused the large request before its end, and hangs up: it counts as forwarded all the same.
            _progress.OnForwardedOpenEnded(1, _loop.Gate.Answered);
            if (BatchLeft > 0) { _batches!.OnForwarded(upstream, 1); }
        }
        _progress.OnAnswered(count, _loop.Gate.Open);
        if (IsInBatch) { _batches!.OnAnswered(count, inexact ? _loop.Gate.Open : new VersionNumber(version), inexact); }
    }

    // It has turned out to be an operation. Nothing of this client was forwarded behind it.
    private void CountConditional(Upstream upstream, long version, bool inexact)
    {
        if (inexact) { _progress!.OnForwardedOpenEnded(1, _keyWrite!.SentAt); }
        else { _progress!.OnForwarded(1, new VersionNumber(version)); }
        if (BatchLeft > 0) { _batches!.OnForwarded(upstream, 1); }
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
    public bool IsReplyPutOff => _waiting is Waiting.Reply or Waiting.Checkpoint or Waiting.Past or Waiting.Stream;

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
        _sharing.Decide(_loop.Sharing);
        isNotLetIn = Shared is null && _loop.Probe.NeedsPassword;
        return true;
    }

    /// <summary>Whether a command of the proxy's own can be put behind what this client's own upstream has been sent.</summary>
    public bool TakesMarks(Upstream upstream) => upstream == Dedicated && !IsClosed && !IsStreaming && !_end.IsInputOver && !_end.HasQuit
        && (_pins & (Pins.Multi | Pins.Raw | Pins.PubSub | Pins.Monitor)) == 0 && IsLoginKnown;
}

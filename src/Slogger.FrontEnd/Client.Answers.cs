// Replies that the proxy looks at before, or instead of, passing them on.
using System.Buffers.Text;
using System.Globalization;
using System.Text;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    /// <summary>A whole reply to a request that was expected with anything but <see cref="ReplyKind.Plain"/>.</summary>
    public void OnCaptured(Upstream upstream, ReplyKind kind, ReadOnlySpan<byte> reply)
    {
        if (kind == ReplyKind.Unlogged)
        {
            OnUnloggedAnswered(upstream, reply);
            return;
        }
        if (IsClosed) { return; }
        bool failed = reply[0] == (byte)'-';
        switch (kind)
        {
            case ReplyKind.Select:
                if (!failed)
                {
                    Db = (int)_argumentNumber;
                    _loop.Spares.PreferView(Db, Protocol);
                }
                if (upstream.Db == -1) { upstream.Db = Db; }
                Answer(reply);
                break;
            case ReplyKind.Hello:
                if (!failed)
                {
                    if (_argumentNumber is 2 or 3) { Protocol = (int)_argumentNumber; }
                    if (_argumentBytes is not null)
                    {
                        Name = _argumentBytes.Length == 0 ? null : _argumentBytes;
                        upstream.Name = Name;
                    }
                    if (_authenticating is not null) { LogIn(upstream, _authenticating); }
                }
                if (upstream.Protocol == 0) { upstream.Protocol = Protocol; }
                Answer(WithClusterMode(upstream.Exclusive is null && !failed ? WithOwnId(reply) : reply));
                break;
            case ReplyKind.Auth:
                if (!failed) { LogIn(upstream, _authenticating!); }
                Answer(reply);
                break;
            case ReplyKind.SetName:
                if (!failed)
                {
                    Name = _argumentBytes is { Length: > 0 } name ? name : null;
                    upstream.Name = Name;
                }
                Answer(reply);
                break;
            case ReplyKind.GetName:
                Answer(failed ? reply : NameReply());
                break;
            case ReplyKind.ReplyMode:
                SetReplyMode(failed, reply);
                break;
            case ReplyKind.Reset:
                bool skipped = IsSkipping;
                if (!failed)
                {
                    BecomeNew();
                    // The connection was reset too, so it is like a new one.
                    upstream.Db = 0;
                    upstream.Protocol = 2;
                    upstream.Name = null;
                    upstream.IsMonitor = false;
                    upstream.MayInvalidate = false;
                    upstream.ForgetSubscriptions();
                }
                if (skipped) { EndWait(); } else { Answer(reply); }
                break;
            case ReplyKind.Setting:
                if (!failed) { LearnSettings(); }
                Answer(reply);
                break;
            case ReplyKind.Config:
                if (!failed) { LearnSettings(); }
                Answer(reply);
                _loop.Probe.Check();
                break;
            case ReplyKind.Module:
                if (!failed) { _loop.Catalog.Learn(); }
                Answer(reply);
                break;
            case ReplyKind.Pause:
                _loop.Pause.Begin(failed ? 0 : _argumentNumber);
                Answer(reply);
                break;
            case ReplyKind.QueuedPause:
                if (!failed) { _transaction.QueuePause(_argumentNumber); }
                Answer(reply);
                break;
            case ReplyKind.Unpause:
                if (!failed) { _loop.Pause.End(); }
                Answer(reply);
                break;
            case ReplyKind.Multi:
                OnTransactionAnswered(failed);
                Pass(reply);
                break;
            case ReplyKind.Exec:
                LearnView(upstream, reply);
                if (_transaction.TakeRights())
                {
                    _loop.Settings.Learn();
                    _loop.Probe.Suspend();
                    _loop.Probe.Check();
                }
                EndWait();
                break;
            case ReplyKind.Refused:
                Answer(_refusal == NoReplyToExec ? NilReply : Encoding.Latin1.GetBytes($"-{_refusal}\r\n"));
                break;
            case ReplyKind.Blocked:
                Pass(reply.StartsWith("-UNBLOCKED"u8) ? AnswerOfUnblocked(reply) : reply);
                break;
            case ReplyKind.Cluster:
                OnCluster(upstream, reply);
                break;
            case ReplyKind.KeysOfSlot:
                OnKeysOfSlot(upstream, failed, reply);
                break;
            case ReplyKind.Info:
                OnInfo(failed, reply);
                break;
            case ReplyKind.SlowLog:
                OnSlowLog(upstream, failed, reply);
                break;
            case ReplyKind.StatisticsReset or ReplyKind.StatisticsResetAgain:
                OnStatisticsReset(upstream, failed, reply);
                break;
            case ReplyKind.Latency:
                Pass(failed ? reply : WithoutInternalHistograms(reply));
                break;
            case ReplyKind.Role:
                Pass(failed ? reply : WithoutOwnReplica(reply));
                break;
            case ReplyKind.WaitCount:
                Pass(failed ? reply : WithoutOwnAcknowledgement(reply));
                break;
            case ReplyKind.ClientList:
                if (!IsPutOff(reply, later => Answer(WithOwnClients(later)))) { Answer(failed ? reply : WithOwnClients(reply)); }
                break;
            case ReplyKind.ClientKill:
                OnKillChecked(reply);
                break;
            case ReplyKind.KillStep:
                if (!IsPutOff(reply, later => OnKillStep(later))) { OnKillStep(reply); }
                break;
            case ReplyKind.Census:
                if (!IsPutOff(reply, later => OnCensus(later))) { OnCensus(reply); }
                break;
            case ReplyKind.SlowLogAll:
                AnswerSlowLog(failed, reply);
                break;
            case ReplyKind.Probe or ReplyKind.CommitWait:
                AnswerDpr(failed, reply);
                break;
            case ReplyKind.Subscribe or ReplyKind.Unsubscribe:
                _subscribing--;
                Pass(reply);
                break;
            default:
                Pass(reply);
                break;
        }
    }

    // Ends the wait for this reply, and passes it on.
    private void Answer(ReadOnlySpan<byte> reply)
    {
        // The next request is here: its answer may follow at once.
        if (_input.Count > 0 && !IsClosed) { GatherUntilResumed(); }
        Pass(reply);
        if (!IsClosed) { EndWait(); }
    }

    // One reply, subject to CLIENT REPLY.
    private void Pass(ReadOnlySpan<byte> reply)
    {
        if (_replyMode == ReplyMode.On) { Deliver(reply); }
    }

    private void SetReplyMode(bool failed, ReadOnlySpan<byte> reply)
    {
        if (failed)
        {
            Answer(reply);
            if (_replyMode == ReplyMode.SkipNext) { _replyMode = ReplyMode.On; }
            return;
        }
        var mode = (ReplyMode)_argumentNumber;
        switch (mode)
        {
            case ReplyMode.On:
                _replyMode = ReplyMode.On;
                Answer("+OK\r\n"u8);
                return;
            case ReplyMode.Off:
                _replyMode = ReplyMode.Off;
                break;
            case ReplyMode.SkipNext when _replyMode != ReplyMode.Off:
                _replyMode = ReplyMode.SkipNext;
                break;
        }
        EndWait();
    }

    /// <summary>The next reply is to be dropped.</summary>
    public bool IsSkipping => _replyMode == ReplyMode.SkipNext;

    /// <summary>The reply to be dropped has come and gone.</summary>
    public void EndSkip() => _replyMode = ReplyMode.On;

    private ReadOnlySpan<byte> NameReply()
    {
        if (Name is null) { return Protocol == 3 ? "_\r\n"u8 : "$-1\r\n"u8; }
        var bytes = new List<byte>();
        AppendBulk(bytes, Name);
        return bytes.ToArray();
    }

    // HELLO tells the id of the connection that it came over: not this client's.
    private byte[] WithOwnId(ReadOnlySpan<byte> reply)
    {
        ReadOnlySpan<byte> field = "$2\r\nid\r\n:"u8;
        int at = reply.IndexOf(field);
        if (at < 0) { return reply.ToArray(); }
        int from = at + field.Length;
        int to = from + reply[from..].IndexOf((byte)'\r');
        return [.. reply[..from], .. Encoding.ASCII.GetBytes(VirtualId.ToString(CultureInfo.InvariantCulture)), .. reply[to..]];
    }

    private void LogIn(Upstream upstream, string user)
    {
        _pins |= Pins.Auth;
        BecomeUser(user);
        _loop.Directory.LearnId(upstream);
    }

    // After a transaction that may have changed the connection: what does Redis say of it now?
    private void LearnView(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        if (reply[0] is not ((byte)'$' or (byte)'='))
        {
            // It may not even ask (subscribed under RESP2, or without the right).
            PassRaw(upstream);
            return;
        }
        string line = Encoding.UTF8.GetString(reply);
        string Field(string name)
        {
            int at = line.IndexOf($" {name}=", StringComparison.Ordinal);
            if (at < 0) { return ""; }
            at += name.Length + 2;
            int end = line.IndexOfAny([' ', '\n', '\r'], at);
            return line[at..(end < 0 ? line.Length : end)];
        }
        if (int.TryParse(Field("db"), out int db)) { Db = upstream.Db = db; }
        if (int.TryParse(Field("resp"), out int protocol)) { Protocol = upstream.Protocol = upstream.ReplyProtocol = protocol; }
        string name = Field("name");
        Name = upstream.Name = name.Length == 0 ? null : Encoding.UTF8.GetBytes(name);
        _pins &= ~(Pins.Multi | Pins.Watch);
        if (Field("user") is { Length: > 0 } user && (user != FrontEndLoop.DefaultUser || (_pins & Pins.Auth) != 0)) { LogIn(upstream, user); }
        if (Field("flags").Contains('t', StringComparison.Ordinal))
        {
            _pins |= Pins.Tracking;
            upstream.MayInvalidate = true;
        }
        if (Field("sub") is not ("0" or "") || Field("psub") is not ("0" or "") || Field("ssub") is not ("0" or ""))
        {
            PassRaw(upstream);
        }
    }

    // What Redis will answer can no longer be matched. Without versions bytes pass as they are from here on; with versions
    // nothing may pass that was not looked at, so the connection ends.
    private void PassRaw(Upstream upstream)
    {
        if (_loop.Gate.IsVersioned)
        {
            CloseWhenSent();
            return;
        }
        _pins |= Pins.Raw;
        upstream.IsRaw = true;
    }
}

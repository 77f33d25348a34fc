// DPR.* and WAITAOF: what a client can ask of versions and commits. See docs/PROTOCOL.md.
using System.Globalization;
using System.Text;

namespace Slogger.Proxy.FrontEnd;

internal sealed unsafe partial class Client
{
    private enum Question : byte { Info, Cut, WorldLine, Wait, Committed, WaitAof }

    private Question _question;
    private long _waitSequence;
    private long _waitMilliseconds;

    /// <summary>When the wait for a commit ends unsuccessfully; 0 for never. Unit: microseconds of the loop's clock.</summary>
    public long WaitDeadline { get; private set; }

    private long _waitVersion;

    private bool HandleDpr()
    {
        string name = Encoding.ASCII.GetString(Argument(0)).ToUpperInvariant();
        (_question, int arguments) = name switch
        {
            "DPR.INFO" => (Question.Info, 1),
            "DPR.CUT" => (Question.Cut, 1),
            "DPR.WORLDLINE" => (Question.WorldLine, 1),
            "DPR.WAIT" => (Question.Wait, 3),
            _ => (Question.Committed, 1),
        };
        if ((_pins & Pins.Multi) != 0) { return RefuseCommand($"ERR SLOGGER {name} cannot be queued in a transaction"); }
        if (Dedicated is { IsSubscribed: true } && Protocol == 2)
        {
            return RefuseCommand($"ERR Can't execute '{name.ToLowerInvariant()}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context");
        }
        if (ArgumentCount != arguments)
        {
            return RefuseCommand($"ERR wrong number of arguments for '{name.ToLowerInvariant()}' command");
        }
        if (_question == Question.Wait)
        {
            if (!_loop.Gate.IsVersioned) { return RefuseCommand("ERR SLOGGER nothing is committed with --commit none"); }
            bool all = ArgumentIs(1, "*"u8);
            if (!all && (!ArgumentNumber(1, out _waitSequence) || _waitSequence < 0))
            {
                return RefuseCommand("ERR SLOGGER the sequence number must be '*' or a number of 0 or more");
            }
            if (all) { _waitSequence = Sequence; }
            if (_waitSequence > Sequence)
            {
                return RefuseCommand($"ERR SLOGGER this connection has done {Sequence} operations: {_waitSequence} is not among them");
            }
            if (!ArgumentNumber(2, out _waitMilliseconds) || _waitMilliseconds < 0)
            {
                return RefuseCommand("ERR timeout is not an integer or out of range");
            }
        }
        if (!_loop.Shard.IsOpen && !_loop.NeedsPassword && _question != Question.Wait && IsDrained)
        {
            // While the store is being recovered people want to know how it goes; nobody's rights can be asked for then.
            _input.Consume((nint)_requestBytes);
            AnswerDpr(failed: false, default);
            return true;
        }
        return ForwardProbe(ReplyKind.Probe);
    }

    private bool HandleWaitAof()
    {
        if ((_pins & Pins.Multi) != 0) { return RefuseCommand("ERR SLOGGER WAITAOF cannot be queued in a transaction"); }
        if (ArgumentCount != 4) { return RefuseCommand("ERR wrong number of arguments for 'waitaof' command"); }
        if (!ArgumentNumber(1, out long local) || local is < 0 or > 1 || !ArgumentNumber(2, out long replicas) || replicas < 0)
        {
            return RefuseCommand("ERR value is out of range, must be positive");
        }
        if (!ArgumentNumber(3, out _waitMilliseconds) || _waitMilliseconds < 0)
        {
            return RefuseCommand("ERR timeout is negative");
        }
        if (replicas > 0) { return RefuseCommand("ERR SLOGGER replicas are not known to the proxy: use WAITAOF 1 0 <timeout>"); }
        _question = Question.WaitAof;
        _waitSequence = local == 0 ? 0 : Sequence;
        return ForwardProbe(ReplyKind.CommitWait);
    }

    // The probe was answered: everything before it has been too.
    private void AnswerDpr(bool failed, ReadOnlySpan<byte> reply)
    {
        if (failed)
        {
            Answer(reply);
            return;
        }
        _usesDpr |= _question != Question.WaitAof;
        IShardPort shard = _loop.Shard;
        switch (_question)
        {
            case Question.Info:
                AnswerBulk(shard.InfoText(_loop));
                break;
            case Question.Cut:
                AnswerIntegers(shard.WorldLine, shard.CommittedVersion);
                break;
            case Question.WorldLine:
                Answer(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $":{shard.WorldLine}\r\n")));
                break;
            case Question.Committed:
                AnswerIntegers(shard.WorldLine, CommittedSequence, Sequence, shard.CommittedVersion);
                break;
            default:
                _waitVersion = VersionOf(_waitSequence);
                if (_waitVersion <= shard.CommittedVersion)
                {
                    AnswerWait(reached: true);
                    break;
                }
                WaitDeadline = _waitMilliseconds == 0 ? 0 : _loop.Now + (_waitMilliseconds * 1000);
                _waiting = Waiting.Commit;
                UpdateWatch();
                _loop.WaitForCommit(this);
                break;
        }
    }

    private void AnswerWait(bool reached)
    {
        if (_question == Question.WaitAof)
        {
            AnswerIntegers(reached ? 1 : 0, 0);
        }
        else
        {
            AnswerIntegers(_loop.Shard.WorldLine, CommittedSequence, reached ? 1 : 0);
        }
    }

    /// <summary>Looks whether the commit waited for has come, or the time is over. True when the wait has ended.</summary>
    public bool CheckCommit(long committed, long now)
    {
        if (IsClosed || _waiting != Waiting.Commit) { return true; }
        bool reached = _waitVersion <= committed;
        if (!reached && (WaitDeadline == 0 || now < WaitDeadline)) { return false; }
        AnswerWait(reached);
        return true;
    }

    private void AnswerIntegers(params ReadOnlySpan<long> numbers)
    {
        var bytes = new List<byte>();
        AppendHeader(bytes, '*', numbers.Length);
        foreach (long number in numbers) { AppendHeader(bytes, ':', number); }
        Answer(bytes.ToArray());
    }

    private void AnswerBulk(string text)
    {
        var bytes = new List<byte>();
        AppendBulk(bytes, Encoding.UTF8.GetBytes(text));
        Answer(bytes.ToArray());
    }

    // ---- INFO ----

    private bool _addsSection;

    private bool HandleInfo()
    {
        _addsSection = ArgumentCount == 1;
        for (int i = 1; i < ArgumentCount; i++)
        {
            _addsSection |= ArgumentIs(i, "dpr"u8) || ArgumentIs(i, "all"u8) || ArgumentIs(i, "default"u8) || ArgumentIs(i, "everything"u8);
        }
        return Forward(needsDedicated: false, ReplyKind.Info, barrier: true);
    }

    // The reply is a bulk string, or under RESP3 a verbatim string.
    private byte[] WithOwnSection(ReadOnlySpan<byte> reply)
    {
        int at = reply.IndexOf((byte)'\n') + 1;
        string text = Encoding.UTF8.GetString(reply[at..^2]);
        text = WithoutMarkers(text);
        if (_addsSection)
        {
            string section = $"# Dpr\r\n{_loop.Shard.InfoText(_loop)}";
            text = text.Length is 0 or 4 ? text + section : $"{text}\r\n{section}";
        }
        byte[] content = Encoding.UTF8.GetBytes(text);
        return [reply[0], .. Encoding.ASCII.GetBytes(content.Length.ToString(CultureInfo.InvariantCulture)), (byte)'\r', (byte)'\n', .. content, (byte)'\r', (byte)'\n'];
    }

    // Markers are SPUBLISH commands: they are taken off that command's count.
    private string WithoutMarkers(string text)
    {
        const string Name = "cmdstat_spublish:calls=";
        int at = text.IndexOf(Name, StringComparison.Ordinal);
        if (at >= 0)
        {
            int end = text.IndexOf("\r\n", at, StringComparison.Ordinal) + 2;
            int comma = text.IndexOf(',', at);
            long calls = long.Parse(text.AsSpan(at + Name.Length, comma - at - Name.Length), CultureInfo.InvariantCulture) - _loop.MarkersSent;
            text = calls <= 0
                ? text.Remove(at, end - at)
                : string.Concat(text.AsSpan(0, at + Name.Length), calls.ToString(CultureInfo.InvariantCulture), text.AsSpan(comma));
        }
        const string Latency = "latency_percentiles_usec_spublish:";
        int line = text.IndexOf(Latency, StringComparison.Ordinal);
        if (line >= 0 && text.IndexOf(Name, StringComparison.Ordinal) < 0)
        {
            text = text.Remove(line, text.IndexOf("\r\n", line, StringComparison.Ordinal) + 2 - line);
        }
        return text;
    }
}

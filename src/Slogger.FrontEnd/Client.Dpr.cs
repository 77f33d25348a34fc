// DPR.* and WAITAOF: what a client can ask of versions and commits. See docs/PROTOCOL.md.
using System.Globalization;
using System.Text;
using Slogger.Core.Cuts;
using Slogger.Core.Ownership;
using Slogger.Core.WorldLines;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private enum Question : byte { Info, Cut, WorldLine, Wait, Committed, WaitAof, Hello, Partitions, Resume, Reach }

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
            "DPR.HELLO" => (Question.Hello, 3),
            "DPR.PARTITIONS" => (Question.Partitions, 1),
            "DPR.RESUME" => (Question.Resume, 2),
            "DPR.REACH" => (Question.Reach, 3),
            _ => (Question.Committed, 1),
        };
        if ((_pins & Pins.Multi) != 0) { return RefuseCommand($"ERR SLOGGER {name} cannot be queued in a transaction"); }
        if (Dedicated is { IsSubscribed: true } && Protocol == 2)
        {
            return RefuseCommand($"ERR Can't execute '{name.ToLowerInvariant()}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context");
        }
        _ofShards = _question == Question.Cut && ArgumentCount == 2 && ArgumentIs(1, "SHARDS"u8);
        _ofBackup = _question == Question.Wait && ArgumentCount == 4 && ArgumentIs(3, "BACKUP"u8);
        if (ArgumentCount != arguments && !_ofShards && !_ofBackup)
        {
            return RefuseCommand($"ERR wrong number of arguments for '{name.ToLowerInvariant()}' command");
        }
        if (_question == Question.Reach)
        {
            if (!_loop.Shard.IsFollowing) { return RefuseCommand("ERR SLOGGER this site is no backup: what is read here is the newest, and a session's DPR.BATCH says at least which"); }
            if (!ArgumentNumber(1, out _waitVersion) || _waitVersion < 0) { return RefuseCommand("ERR SLOGGER the version must be a number of 0 or more"); }
            if (!ArgumentNumber(2, out _waitMilliseconds) || _waitMilliseconds < 0) { return RefuseCommand("ERR timeout is not an integer or out of range"); }
        }
        if (_question == Question.Hello && HelloRefusal() is { } refusal) { return RefuseCommand(refusal); }
        if (_question == Question.Resume && ResumeRefusal() is { } wrong) { return RefuseCommand(wrong); }
        if (_question == Question.Wait)
        {
            if (!_loop.Gate.IsVersioned) { return RefuseCommand("ERR SLOGGER nothing is committed with --commit none"); }
            if (_ofBackup && _loop.Shard.Watermark is null) { return RefuseCommand("ERR SLOGGER there is no backup to wait for: the proxy was started without --backup"); }
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
        if ((!_loop.Shard.IsOpen || _loop.Shard.Hold == Hold.All) && !_loop.NeedsPassword && _question is not (Question.Wait or Question.Reach) && IsDrained)
        {
            // While the store is being recovered, or nothing may be under way there, people want to know how it goes; nobody's rights can be asked for then.
            _input.Consume((nint)_requestBytes);
            AnswerDpr(failed: false, default);
            return true;
        }
        return ForwardProbe(ReplyKind.Probe);
    }

    private bool _ofShards;

    // It waits for the backup, not for the cut.
    private bool _ofBackup;

    // Where all shards have the same, that one for each.
    private void AnswerCutOfShards()
    {
        if (_loop.Shard.Batches is { } port && !port.Finder.HasGridCuts && MayTell && port.CommittedByShard is { Length: > 0 } text)
        {
            Tells();
            AnswerIntegers([.. text.Split(' ').Select(n => long.Parse(n, CultureInfo.InvariantCulture))]);
            return;
        }
        WorldPoint cut = SessionCut;
        AnswerIntegers([cut.WorldLine.Number, .. Enumerable.Repeat(cut.Version.Number, _loop.Shard.Batches?.ShardCount ?? 1)]);
    }

    private void AnswerCut(WorldPoint cut) => AnswerIntegers(cut.WorldLine.Number, cut.Version.Number);

    private void AnswerPartitions(Partitioning partitions)
    {
        var bytes = new List<byte>();
        AppendHeader(bytes, '*', 2);
        AppendBulk(bytes, Encoding.ASCII.GetBytes(NameOf(partitions.Kind)));
        AppendHeader(bytes, '*', partitions.SplitKeys.Length);
        foreach (ReadOnlyMemory<byte> split in partitions.SplitKeys) { AppendBulk(bytes, split.Span); }
        Answer(bytes.ToArray());
    }

    private static string NameOf(PartitionKind kind) => kind == PartitionKind.Hash ? "hash" : "range";

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
        _ofBackup = false;
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
                AnswerBulk(InfoText());
                break;
            case Question.Cut:
                if (_ofShards) { AnswerCutOfShards(); }
                else { AnswerCut(SessionCut); }
                break;
            case Question.Hello:
                AnswerHello();
                break;
            case Question.Resume:
                AnswerResume();
                break;
            case Question.Partitions:
                AnswerPartitions(shard.Batches?.Partitions ?? Partitioning.Hash);
                break;
            case Question.WorldLine:
                Answer(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $":{shard.WorldLine}\r\n")));
                break;
            case Question.Committed:
                AnswerIntegers(shard.WorldLine, TellSequence(), Sequence, Told(Cut).Version.Number);
                break;
            case Question.Reach:
                if (HasCome(_waitVersion)) { AnswerWait(reached: true); }
                else { BeginWait(); }
                break;
            default:
                _waitVersion = VersionOf(_waitSequence);
                // Of what is committed the versions are not known any more: none is above the cut.
                if (_ofBackup && _question == Question.Wait) { _waitVersion = Math.Max(_waitVersion, Cut.Version.Number); }
                if (HasCome(_waitVersion))
                {
                    AnswerWait(reached: true);
                    break;
                }
                BeginWait();
                break;
        }
    }

    private void BeginWait()
    {
        WaitDeadline = _waitMilliseconds == 0 ? 0 : _loop.Now + (_waitMilliseconds * 1000);
        _waiting = Waiting.Commit;
        UpdateWatch();
        // At a backup nobody can be hurried.
        _loop.WaitForCommit(this, _question == Question.Reach ? 0 : _waitVersion);
    }

    private void AnswerWait(bool reached)
    {
        // What the backup holds it holds whoever serves.
        if (reached && !_ofBackup && _waitSequence > 0 && _question != Question.Reach) { Tells(); }
        if (_question == Question.Reach)
        {
            WorldPoint stands = Told(Cut);
            AnswerIntegers(stands.WorldLine.Number, stands.Version.Number, reached ? 1 : 0);
        }
        else if (_question == Question.WaitAof)
        {
            AnswerIntegers(reached ? 1 : 0, 0);
        }
        else
        {
            AnswerIntegers(_loop.Shard.WorldLine, TellSequence(), reached ? 1 : 0);
        }
    }

    /// <summary>Looks whether the commit waited for has come, or the time is over. True when the wait has ended.</summary>
    public bool CheckCommit(long now)
    {
        if (IsClosed || _waiting != Waiting.Commit) { return true; }
        bool reached = HasCome(_waitVersion);
        if (!reached && (WaitDeadline == 0 || now < WaitDeadline)) { return false; }
        AnswerWait(reached);
        return true;
    }

    private bool HasCome(long version) => _question == Question.Reach ? version <= Cut.Version.Number
        : _ofBackup && _question == Question.Wait
        ? _loop.Shard.Watermark is { } at && at.WorldLine == _progress!.WorldLine && version <= at.Version.Number
        : _waitSequence == 0 || IsCommitted(version);

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
}

// One client that writes: keeps its connection full up to its depth, checks each reply against the model, and records
// what was acknowledged and what was reported committed. A round ends for it when it is told to stop, when its
// connection ends, when it learns of a rollback, or when a command is refused; then it sends nothing more.
using System.Buffers;
using System.Diagnostics;
using System.Net;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Model;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Workload;

internal sealed class Writer(int id, WriterProfile profile, CommandGenerator generator, int seed, bool speaksDpr) : IDisposable
{
    private const int MaxCommandsPerRound = 150_000;
    private static readonly TimeSpan DrainLimit = TimeSpan.FromSeconds(20);

    private readonly Random _random = new(seed);
    private readonly Queue<Pending> _pending = new();
    private readonly ArrayBufferWriter<byte> _out = new();
    private RespClient? _client;
    private WriterHistory _history = new(id, profile, new KeyspaceModel(), 0);
    private KeyspaceModel _model = new();
    private long _sequence;
    private bool _stopping;
    private int _round;

    // The notice after which the connection has not been told to go on.
    private RollbackNotice? _held;

    private enum AskedFor
    {
        Command,
        Committed,
        Wait,
        WorldLine,
    }

    private readonly record struct Pending(AskedFor Kind, int Index);

    public int Id => id;

    public WriterProfile Profile => profile;

    public WriterHistory History => _history;

    /// <summary>Set once something was killed: commands may then be refused, and the round ends for whoever is.</summary>
    public bool FaultInjected { get; set; }

    /// <summary>The latest acknowledged command with an effect, "round:writer:k", for references by other writers.</summary>
    public string? LastAcknowledged { get; private set; }

    /// <summary>How many commands the writer has had answered since it was made.</summary>
    public long Answered { get; private set; }

    /// <summary>Begins a round in the given state; the old connection is kept if it still stands.</summary>
    public void BeginRound(KeyspaceModel state, int round)
    {
        _round = round;
        FaultInjected = false;
        _model = state;
        _history = new WriterHistory(id, profile, state, _sequence);
        _stopping = false;
        LastAcknowledged = null;
    }

    /// <summary>Writes until told to stop or until the round has ended for this writer.</summary>
    public async Task RunAsync(EndPoint endpoint, CancellationToken stop)
    {
        try
        {
            if (_client is null)
            {
                await ConnectAsync(endpoint);
            }

            while (!_stopping)
            {
                if (stop.IsCancellationRequested || _history.Commands.Count >= MaxCommandsPerRound)
                {
                    break;
                }

                await FillAsync();
                await TakeReplyAsync();
            }

            await DrainAsync();
        }
        catch (ConnectionLostException)
        {
            _history.Ended = true;
            if (_history.Rollback is not null)
            {
                // What came behind the notice is not done, whether anybody says so or not.
                foreach (Issued behind in _history.Commands.Skip(_history.NoticeAt).Where(c => c.Fate == Fate.Unanswered))
                {
                    behind.Fate = Fate.Refused;
                }
            }

            Disconnect();
        }
        catch (Exception e) when (e is InvalidDataException or TimeoutException or FormatException)
        {
            _history.Complaints.Add($"{_history.Name}: {e.Message}");
            Disconnect();
        }
    }

    /// <summary>After a round: a connection that still stands is asked once more, so that it is told of every rollback, and
    /// given up or put in order for the next round; its sequence numbers must have gone on, over a rollback too.</summary>
    /// <param name="fault">What was done in the round.</param>
    /// <param name="faultAt">When, in Stopwatch ticks.</param>
    public async Task SettleAsync(Fault fault, long faultAt)
    {
        if (_client is null)
        {
            return;
        }

        if (fault.EndsProxy)
        {
            _history.Ended = true;
            Disconnect();
            return;
        }

        bool isKept = profile.UsesDpr && speaksDpr;
        if (!isKept && _held is not null)
        {
            // It was told, and ends.
            _history.Ended = true;
            Disconnect();
            return;
        }

        try
        {
            if (_held is not null) { await ResumeAsync(); }
            if (isKept && !_model.InTransaction)
            {
                var reply = await AskAsync("DPR.COMMITTED");
                if (reply.IsError || reply.Items[2].AsInteger() != _sequence)
                {
                    _history.Complaints.Add($"{_history.Name}: the connection's last sequence is {reply}, {_sequence} expected");
                }
            }

            foreach (string[] command in (string[][])[["DISCARD"], ["SELECT", "0"]])
            {
                await AskAsync(command);
                if (!isKept && _held is not null)
                {
                    _history.Ended = true;
                    Disconnect();
                    return;
                }

                _sequence++;
            }

            if (fault.NewWorldLine && _history.Rollback is null)
            {
                _history.RanAfterRollback = true;
                _history.Complaints.AddRange(_history.Commands.Exists(c => c.RepliedAt < faultAt)
                    ? [$"{_history.Name}: was answered before the store was lost, and is not told of the rollback"] : []);
            }
        }
        catch (Exception e) when (e is ConnectionLostException or TimeoutException)
        {
            _history.Complaints.Add($"{_history.Name}: its connection stood, but is not usable: {e.Message}");
            Disconnect();
            return;
        }

        if (_random.Next(2) == 0)
        {
            Disconnect();
        }
    }

    // The store may have been killed again since this client was told: then the first answer is that.
    private async Task<RespValue> AskAsync(params string[] command)
    {
        var reply = await _client!.CallAsync(command);
        if (!reply.IsError || !reply.Text.StartsWith("ROLLBACK", StringComparison.Ordinal))
        {
            return reply;
        }

        OnNotice(RollbackNotice.Parse(reply.Text), _history.Commands.Count);
        if (!profile.UsesDpr || !speaksDpr) { return reply; }
        _sequence += command[0].StartsWith("DPR.", StringComparison.Ordinal) ? 0 : 1;
        await ResumeAsync();
        return await _client.CallAsync(command);
    }

    private async Task ResumeAsync()
    {
        while (_held is { } notice)
        {
            var reply = await _client!.CallAsync("DPR.RESUME",
                notice.WorldLine.ToString(System.Globalization.CultureInfo.InvariantCulture));
            if (reply.IsError && reply.Text.StartsWith("ROLLBACK", StringComparison.Ordinal))
            {
                OnNotice(RollbackNotice.Parse(reply.Text), _history.Commands.Count);
                continue;
            }

            _held = null;
            if (reply.IsError) { _history.Complaints.Add($"{_history.Name}: DPR.RESUME after {notice} answered {reply}"); }
        }
    }

    public void Disconnect()
    {
        _client?.Dispose();
        _client = null;
        _pending.Clear();
        _held = null;
        _out.ResetWrittenCount(); // What could not be sent is not sent on the next connection.
        _sequence = 0;
    }

    public void Dispose() => Disconnect();

    private async Task ConnectAsync(EndPoint endpoint)
    {
        _client = await RespClient.ConnectAsync(endpoint);
        // To log in was its first operation.
        _sequence = RespClient.Password is null ? 0 : 1;
        _history.SequenceBefore = _sequence;
        _model.ResetConnection();
        if (profile.Resp3)
        {
            Issue(new Issued(["HELLO", "3"]));
        }

        if (profile.UsesDpr && speaksDpr)
        {
            // From now on a rollback is reported instead of closing the connection.
            Ask(AskedFor.WorldLine, "DPR.WORLDLINE");
        }
    }

    private async Task FillAsync()
    {
        int want = _random.Next(1, profile.Depth + 1);
        while (_pending.Count < want)
        {
            int dice = _random.Next(1000);
            if (dice < 20 && speaksDpr && profile.UsesDpr && !_model.InTransaction)
            {
                Ask(AskedFor.Committed, "DPR.COMMITTED");
            }
            else if (dice < 24 && speaksDpr && profile.UsesDpr && !_model.InTransaction)
            {
                Ask(AskedFor.Wait, "DPR.WAIT", "*", "2000");
            }
            else if (dice < 30 && speaksDpr && profile.UsesWaitAof && !_model.InTransaction)
            {
                Issue(new Issued(["WAITAOF", "1", "0", "2000"]));
            }
            else
            {
                Issue(generator.Next(_model));
            }
        }

        if (_out.WrittenCount > 0)
        {
            await _client!.WriteAsync(_out.WrittenMemory);
            _out.ResetWrittenCount();
        }
    }

    private void Issue(Issued command)
    {
        RespClient.Append(_out, command.Arguments);
        command.ExpectedReply = _model.Apply(command.Arguments, command.Expired);
        command.HasEffect = _model.Fingerprint != _history.Fingerprints[^1];
        command.SentAt = Stopwatch.GetTimestamp();
        _history.Commands.Add(command);
        _history.Fingerprints.Add(_model.Fingerprint);
        _sequence++;
        _pending.Enqueue(new(AskedFor.Command, _history.Commands.Count));
    }

    private void Ask(AskedFor kind, params string[] command)
    {
        RespClient.Append(_out, command);
        _pending.Enqueue(new(kind, _history.Commands.Count));
    }

    private async Task TakeReplyAsync()
    {
        var reply = await _client!.ReadAsync();
        OnReply(_pending.Dequeue(), reply);
        while (_pending.Count > 0 && _client.TryTake(out var more))
        {
            OnReply(_pending.Dequeue(), more);
        }
    }

    private async Task DrainAsync()
    {
        if (_out.WrittenCount > 0)
        {
            await _client!.WriteAsync(_out.WrittenMemory);
            _out.ResetWrittenCount();
        }

        while (_pending.Count > 0)
        {
            OnReply(_pending.Peek(), await _client!.ReadAsync(DrainLimit));
            _pending.Dequeue();
        }
    }

    private void OnReply(Pending pending, RespValue reply)
    {
        if (reply.IsError && reply.Text.StartsWith("ROLLBACK", StringComparison.Ordinal))
        {
            OnNotice(RollbackNotice.Parse(reply.Text), pending.Index);
            _stopping = true;
            if (pending.Kind == AskedFor.Command)
            {
                Answer(_history.Commands[pending.Index - 1], Fate.Refused);
            }

            return;
        }

        if (pending.Kind == AskedFor.Command)
        {
            OnCommandReply(_history.Commands[pending.Index - 1], pending.Index, reply);
        }
        else
        {
            OnDprReply(pending, reply);
        }
    }

    // The first tells what survived of the round. A second, when the store was killed twice, can only be about what was
    // sent before the first was read and ran after it.
    private void OnNotice(RollbackNotice notice, int sent)
    {
        if (_held is { } unread && (unread.Survived != notice.Survived || !unread.Uncertain.SequenceEqual(notice.Uncertain)))
        {
            _history.Complaints.Add($"{_history.Name}: told of {notice} after {unread}, between which nothing can have been done");
        }

        _held = notice;
        if (_history.Rollback is not { } first)
        {
            _history.OnNotice(notice, sent);
            return;
        }

        if (notice.WorldLine <= first.WorldLine)
        {
            _history.Complaints.Add($"{_history.Name}: told of {notice} after {first}");
        }

        for (int i = 0; i < _history.Commands.Count; i++)
        {
            long sequence = _history.SequenceOf(i + 1);
            if (_history.Commands[i].Fate == Fate.AnsweredAfterRollback && sequence > notice.Survived)
            {
                _history.Commands[i].Fate = notice.IsUncertain(sequence) ? Fate.Unanswered : Fate.Refused;
            }
        }
    }

    private void OnCommandReply(Issued command, int index, RespValue reply)
    {
        if (_history.Rollback is not null)
        {
            bool isRefusal = IsRefusal(command, reply);
            Answer(command, isRefusal ? Fate.Refused : Fate.AnsweredAfterRollback);
            _history.Complaints.AddRange(
                isRefusal ? [] : [$"{_history.Name}: command {index} ({command}) was done behind {_history.Rollback}: {reply}"]);
            return;
        }

        string compact = reply.Compact;
        if (IsRefusal(command, reply))
        {
            Answer(command, Fate.Refused);
            _history.Complaints.AddRange(FaultInjected ? [] : [$"{_history.Name}: command {index} ({command}) was refused: {reply}"]);
            _stopping = true;
            return;
        }

        Answer(command, Fate.Answered);
        if (command.ExpectedReply is { } expected && expected != compact && !(expected[0] == '-' && compact[0] == '-'))
        {
            _history.Complaints.Add($"{_history.Name}: command {index} ({command}) answered {reply}, {expected} expected");
            _stopping = true;
        }

        if (index == _history.Acknowledged + 1)
        {
            _history.Acknowledged = index;
            LastAcknowledged = command.HasEffect ? $"{_round}:{id}:{index}" : LastAcknowledged;
        }

        if (command.IsBlockingPop && !reply.IsNull)
        {
            command.Popped = reply.Items[1].Text;
        }
        else if (command.Arguments[0] == "WAITAOF" && reply.Items.Count == 2 && reply.Items[0].AsInteger() == 1)
        {
            // Everything before it on this connection; itself changes nothing.
            Commit(index);
        }
    }

    private void OnDprReply(Pending pending, RespValue reply)
    {
        if (reply.IsError)
        {
            _history.Complaints.AddRange(_history.Rollback is not null || FaultInjected
                ? [] : [$"{_history.Name}: {pending.Kind} answered {reply}"]);
            _stopping = true;
            return;
        }

        if (pending.Kind == AskedFor.WorldLine)
        {
            return;
        }

        long committed = reply.Items[1].AsInteger();
        if (_history.Rollback is not null)
        {
            _history.CommittedLater = Math.Max(_history.CommittedLater, _history.IndexOf(committed));
            return;
        }

        if (committed > _history.SequenceOf(_history.Commands.Count))
        {
            _history.Complaints.Add($"{_history.Name}: {pending.Kind} says {committed} is committed, only "
                + $"{_history.SequenceOf(_history.Commands.Count)} were sent");
        }

        Commit(_history.IndexOf(committed));
        if (pending.Kind == AskedFor.Wait && reply.Items[2].AsInteger() == 1 && _history.IndexOf(committed) < pending.Index)
        {
            _history.Complaints.Add($"{_history.Name}: DPR.WAIT * says reached at {committed}, but {_history.SequenceOf(pending.Index)} "
                + "came before it");
        }
    }

    /// <summary>An error that is not the command's own: some commands are made to fail, and yet have an effect.</summary>
    // What fails on purpose has been done: also where it was to be queued, in a transaction that a rollback took away.
    private static bool IsRefusal(Issued command, RespValue reply) => reply.IsError
        && !reply.Text.Contains(KeyspaceModel.FailedOnPurpose, StringComparison.Ordinal)
        && (command.ExpectedReply?.StartsWith('-') != true || reply.Text.StartsWith("ERR SLOGGER", StringComparison.Ordinal));

    private void Commit(int index)
    {
        if (index < _history.Committed)
        {
            _history.Complaints.Add($"{_history.Name}: committed went back from {_history.Committed} to {index}");
        }

        _history.Committed = Math.Max(_history.Committed, index);
    }

    private void Answer(Issued command, Fate fate)
    {
        command.Fate = fate;
        command.RepliedAt = Stopwatch.GetTimestamp();
        Answered++;
    }
}

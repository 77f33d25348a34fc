// One client's connection, and what its operations are in Redis's commands.
using System.Buffers;
using System.Globalization;
using Slogger.Integration.Tests.Wire;
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Rounds;

/// <param name="number">0 for the first client.</param>
/// <param name="finder">Where it connects to.</param>
/// <param name="keys">What its keys begin with.</param>
/// <param name="confirmation">What is asked behind an operation; null: nothing.</param>
/// <param name="usesVersions">Whether a compare-and-set goes by the version of its key, not by <c>WATCH</c>.</param>
internal sealed class WorkloadClient(int number, IMasterFinder finder, string keys, Confirmation? confirmation, bool usesVersions)
    : IDisposable
{
    // Said instead of doing it, so that nothing has happened.
    private static readonly HashSet<string> s_refusals =
        ["READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "MISCONF", "EXECABORT", "MOVED"];

    private RespClient? _connection;

    public int Number => number;

    /// <summary>What its keys begin with.</summary>
    public string Keys => keys;

    public bool IsConnected => _connection is not null;

    public async Task<bool> TryConnectAsync()
    {
        try
        {
            _connection ??= await finder.ConnectAsync();
            return true;
        }
        catch (Exception e) when (MasterFinder.IsNoAnswer(e))
        {
            return false;
        }
    }

    /// <summary>Does an operation on the connection, which must be there. Without a good answer it is given up.</summary>
    /// <param name="steps">One, or several in a transaction; without results.</param>
    /// <returns>What is known of it, and the steps with their results if it is done.</returns>
    public async Task<(Outcome Outcome, Step[] Steps)> DoAsync(Step[] steps)
    {
        try
        {
            return steps switch
            {
                [{ Kind: StepKind.CompareAndSet } step] => usesVersions ? await PutIfAsync(step) : await CompareAndSetAsync(step),
                [var step] => await SingleAsync(step),
                _ => await TransactionAsync(steps),
            };
        }
        catch (RefusedException)
        {
            GiveUp();
            return (Outcome.Failed, steps);
        }
        catch (Exception e) when (MasterFinder.IsNoAnswer(e))
        {
            GiveUp();
            return (Outcome.Unknown, steps);
        }
    }

    public void Dispose() => GiveUp();

    private void GiveUp()
    {
        _connection?.Dispose();
        _connection = null;
    }

    private async Task<(Outcome, Step[])> SingleAsync(Step step)
    {
        var (replies, outcome) = await AskAsync(IsToConfirm(step), Command(step));
        var reply = Answered(replies[0]);
        return (outcome, outcome == Outcome.Done ? [WithResult(step, reply)] : [step]);
    }

    private async Task<(Outcome, Step[])> TransactionAsync(Step[] steps)
    {
        var (replies, outcome) = await AskAsync(steps.Any(IsToConfirm), [["MULTI"], .. steps.Select(Command), ["EXEC"]]);
        var results = Answered(replies[^1]).Items;
        // One of them may have been refused where others were done.
        if (results.Count != steps.Length || results.Any(r => r.IsError)) { throw new InvalidDataException($"EXEC: {replies[^1]}"); }
        return (outcome, outcome == Outcome.Done ? [.. steps.Select((s, i) => WithResult(s, results[i]))] : steps);
    }

    private async Task<(Outcome, Step[])> CompareAndSetAsync(Step step)
    {
        var held = await LookAsync(["WATCH", step.Key], ["GET", step.Key]);
        var seen = WithResult(Step.Read(step.Key, null), held);
        // Without a good answer the next command finds that out.
        if (seen.Value != step.Expected) { return await SeenAsync(seen, "UNWATCH"); }
        var (replies, outcome) = await AskAsync(IsToConfirm(step), ["MULTI"], Command(step), ["EXEC"]);
        var executed = Answered(replies[^1]);
        // Nothing: somebody wrote the key behind the WATCH.
        if (executed.IsNull) { return Refused(step, outcome); }
        if (executed.Items is not [{ IsError: false }]) { throw new InvalidDataException($"EXEC: {executed}"); }
        return Succeeded(step, outcome);
    }

    // The same by the key's version: also whoever writes without one counts.
    private async Task<(Outcome, Step[])> PutIfAsync(Step step)
    {
        var held = (await LookAsync(["DPR.GETV", step.Key])).Items[0].Items;
        var seen = WithResult(Step.Read(step.Key, null), held[0]);
        if (seen.Value != step.Expected) { return await SeenAsync(seen, "PING"); }
        var (replies, outcome) = await AskAsync(IsToConfirm(step), ["DPR.CPUT", step.Key, held[1].Text, Said(step.Value!.Value)]);
        return Answered(replies[0]).Items[0].AsInteger() == 0 ? Refused(step, outcome) : Succeeded(step, outcome);
    }

    // What is there before anything is written.
    private async Task<RespValue> LookAsync(params string[][] commands)
    {
        try
        {
            return Answered((await AskAsync(false, commands)).Replies[^1]);
        }
        catch (Exception e) when (MasterFinder.IsNoAnswer(e))
        {
            throw new RefusedException("nothing was written yet");
        }
    }

    // A refusal is noted as a read where it is known what was there, since that says more.
    private async Task<(Outcome, Step[])> SeenAsync(Step seen, string command)
    {
        var (_, outcome) = await AskAsync(IsToConfirm(seen), [command]);
        return (outcome, [outcome == Outcome.Done ? seen : seen with { Value = null }]);
    }

    private static (Outcome, Step[]) Refused(Step step, Outcome outcome) =>
        outcome == Outcome.Done ? (outcome, [step with { Succeeded = false }]) : (Outcome.Failed, [step]);

    private static (Outcome, Step[]) Succeeded(Step step, Outcome outcome) =>
        (outcome, [outcome == Outcome.Done ? step with { Succeeded = true } : step]);

    // All at once, with what confirms it. What is not confirmed was done, and may yet be lost: so it is unknown.
    private async Task<(RespValue[] Replies, Outcome Outcome)> AskAsync(bool isToConfirm, params string[][] commands)
    {
        var bytes = new ArrayBufferWriter<byte>(256);
        foreach (string[] command in commands) { RespClient.Append(bytes, command); }
        if (isToConfirm) { RespClient.Append(bytes, confirmation!.Command); }
        await _connection!.WriteAsync(bytes.WrittenMemory);
        var replies = new RespValue[commands.Length];
        for (int i = 0; i < replies.Length; i++) { replies[i] = await _connection.ReadAsync(MasterFinder.Patience); }
        bool isUnknown = isToConfirm && !confirmation!.IsGiven(await _connection.ReadAsync(MasterFinder.Patience));
        return (replies, isUnknown ? Outcome.Unknown : Outcome.Done);
    }

    private bool IsToConfirm(Step step) => confirmation is not null && (IsWrite(step) || confirmation.OfReads);

    private static RespValue Answered(RespValue reply) => !reply.IsError ? reply
        : s_refusals.Contains(reply.Text.Split(' ')[0]) ? throw new RefusedException(reply.Text)
        : throw new InvalidDataException(reply.Text);

    private static bool IsWrite(Step step) => step.Kind is StepKind.Write or StepKind.CompareAndSet or StepKind.Append;

    private static string[] Command(Step step) => step.Kind switch
    {
        StepKind.Read => ["GET", step.Key],
        StepKind.Write or StepKind.CompareAndSet => ["SET", step.Key, Said(step.Value!.Value)],
        StepKind.Append => ["RPUSH", step.Key, Said(step.Value!.Value)],
        _ => ["LRANGE", step.Key, "0", "-1"],
    };

    private static Step WithResult(Step step, RespValue reply) => step.Kind switch
    {
        StepKind.Read => step with { Value = reply.IsNull ? null : reply.AsInteger() },
        StepKind.ReadList => step with { List = [.. reply.Items.Select(i => i.AsInteger())] },
        _ => step,
    };

    private static string Said(long number) => number.ToString(CultureInfo.InvariantCulture);

    /// <summary>It was not done, and will not be.</summary>
    private sealed class RefusedException(string message) : Exception(message);
}

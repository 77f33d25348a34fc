// One session of Slogger.Client that appends 1, 2, 3... to lists in several ranges in turn, each number after the one before was answered.
// So what is in the lists together must at any time be 1 to some number, in order, without gaps: whatever was moved or rolled back. What
// the session was told of its operations must be what is there.
using Slogger.Client;
using Slogger.Core.Sessions;
using RespValue = Slogger.Client.RespValue;

namespace Slogger.Integration.Tests.Ranges;

internal sealed class ChainWriter(string name, SloggerSession session, string[] keys)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);
    private readonly List<Result<long>> _answered = [];   // of number i + 1, since the last look
    private long _before;                                 // numbers that an earlier look has found

    /// <summary>The last number that is there.</summary>
    public long Last => _before + _answered.Count;

    public int Rollbacks { get; private set; }

    /// <summary>How many numbers were said to be lost, and were.</summary>
    public long Lost { get; private set; }

    /// <summary>Works until told to stop.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            try
            {
                long next = Last + 1;
                Result<long> result = await session.ListAppendAsync(keys[next % keys.Length], next).AsTask().WaitAsync(Generous, CancellationToken.None);
                _answered.Add(result);
            }
            catch (RollbackException rollback)
            {
                Rollbacks++;
                int survived = _answered.TakeWhile(r => rollback.FateOf(r.Sequence) == OperationFate.Survived).Count();
                if (_answered.Skip(survived).Any(r => rollback.FateOf(r.Sequence) != OperationFate.Lost)) { throw Violation($"I1: what was answered in order did not survive as a prefix: {rollback.Message}"); }
                session.Resume(rollback);
                Lost += _answered.Count - survived;
                await LookAsync(_before + survived, mayBeMore: rollback.FateOf(rollback.Operation) != OperationFate.Lost);
            }
            catch (Exception e) when (e is UncertainException or ReplyLostException)
            {
                try
                {
                    await LookAsync(Last, mayBeMore: true);
                }
                catch (RollbackException)
                {
                    // The next append is told the same.
                }
            }
        }
    }

    /// <summary>Waits until all is committed.</summary>
    public async Task CommitAsync()
    {
        await session.WaitForCommitAsync().WaitAsync(Generous);
        if (session.CommittedUpTo != session.LastSent) { throw Violation($"I8: {session.CommittedUpTo} of {session.LastSent} operations are committed"); }
    }

    /// <summary>Compares the lists with what has to be there.</summary>
    public Task CheckAsync() => LookAsync(Last, mayBeMore: false);

    private async Task LookAsync(long least, bool mayBeMore)
    {
        var found = new List<long>();
        foreach (string key in keys)
        {
            Result<RespValue> list = await session.ExecuteAsync("LRANGE", key, 0, -1).AsTask().WaitAsync(Generous);
            long[] numbers = [.. list.Value.Items.Select(i => i.AsInteger())];
            if (!numbers.SequenceEqual(numbers.Order())) { throw Violation($"I1: {key} is out of order: {string.Join(' ', numbers)}"); }
            found.AddRange(numbers);
        }

        found.Sort();
        if (!found.SequenceEqual(Enumerable.Range(1, found.Count).Select(i => (long)i))) { throw Violation($"I1: there are {found.Count} numbers up to {found[^1]}: some are missing, or twice"); }
        if (found.Count < least || found.Count > least + (mayBeMore ? 1 : 0)) { throw Violation($"I2: {found.Count} numbers are there, and {least} were said to be"); }
        _before = found.Count;
        _answered.Clear();
    }

    private InvalidDataException Violation(string text) => new($"writer {name}: {text}");
}

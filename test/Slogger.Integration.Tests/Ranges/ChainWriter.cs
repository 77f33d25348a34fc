// One session of Slogger.Client that appends 1, 2, 3... to lists in several ranges in turn, each number after the one before was answered.
// So what is in the lists together must at any time be 1 to some number, in order, without gaps: whatever was moved or rolled back. What
// the session was told of its operations must be what is there.
using Slogger.Client;
using Slogger.Core.Sessions;
using Slogger.Resp;
using RespValue = Slogger.Resp.RespValue;

namespace Slogger.Integration.Tests.Ranges;

internal sealed class ChainWriter(string name, SloggerSession session, string[] keys)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);
    private readonly List<Result<long>> _answered = [];   // of the numbers behind those
    private long _committed;                              // numbers that were found, and are committed
    private bool _mustLook, _mayBeMore;                   // it is not known what is there; one more than was answered

    /// <summary>The last number that is there, as far as it is known.</summary>
    public long Last => _committed + _answered.Count;

    public int Rollbacks { get; private set; }

    /// <summary>How many numbers were answered and then said to be lost.</summary>
    public long Lost { get; private set; }

    /// <summary>Works until told to stop.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested || _mustLook)
        {
            try
            {
                if (_mustLook) { await LookAsync(); }
                long next = Last + 1;
                _answered.Add(await session.ListAppendAsync(keys[next % keys.Length], next).AsTask()
                    .WaitAsync(Generous, CancellationToken.None));
            }
            catch (RollbackException rollback)
            {
                Rollbacks++;
                int survived = _answered.TakeWhile(r => rollback.FateOf(r.Sequence) == OperationFate.Survived).Count();
                if (_answered.Skip(survived).Any(r => rollback.FateOf(r.Sequence) != OperationFate.Lost))
                {
                    throw Violation($"I1: what was answered in order did not survive as a prefix: {rollback.Message}");
                }
                Lost += _answered.Count - survived;
                _answered.RemoveRange(survived, _answered.Count - survived);
                _mustLook = _mayBeMore = true;
                session.Resume(rollback);
            }
            catch (Exception e) when (e is UncertainException or ReplyLostException)
            {
                _mustLook = _mayBeMore = true;
            }
        }
    }

    /// <summary>Waits until all is committed, and compares the lists with what has to be there.</summary>
    public async Task CheckAsync()
    {
        await LookAsync();
        if (session.CommittedUpTo != session.LastSent)
        {
            throw Violation($"I8: {session.CommittedUpTo} of {session.LastSent} operations are committed");
        }
    }

    private async Task LookAsync()
    {
        var found = new List<long>();
        foreach (string key in keys)
        {
            Result<RespValue> list = await session.ExecuteAsync(OperationFlags.Idempotent, CancellationToken.None, "LRANGE", key, 0, -1)
                .AsTask().WaitAsync(Generous);
            long[] numbers = [.. list.Value.Items.Select(i => i.AsInteger())];
            if (!numbers.SequenceEqual(numbers.Order())) { throw Violation($"I1: {key} is out of order: {string.Join(' ', numbers)}"); }
            found.AddRange(numbers);
        }

        found.Sort();
        if (!found.SequenceEqual(Enumerable.Range(1, found.Count).Select(i => (long)i)))
        {
            throw Violation($"I1: there are {found.Count} numbers up to {found[^1]}: some are missing, or twice");
        }
        if (found.Count < Last || found.Count > Last + (_mayBeMore ? 1 : 0))
        {
            throw Violation($"I2: {found.Count} numbers are there, and {Last} were said to be, {_committed} of them committed");
        }
        // From here on no rollback may take any of them.
        await session.WaitForCommitAsync().WaitAsync(Generous);
        _committed = found.Count;
        _answered.Clear();
        _mustLook = _mayBeMore = false;
    }

    private InvalidDataException Violation(string text) => new($"writer {name}: {text}");
}

// Executes a command with the locks that it needs. What is atomic in Redis is so here: whoever changes keys, or reads several, holds their
// locks.
namespace Slogger.Faster.Commands;

/// <summary>Executes the commands of one connection.</summary>
internal sealed class CommandRunner
{
    private readonly CommandEngine _engine;
    private readonly FasterWorker _worker;
    private readonly Request _request;
    private readonly Replies _replies;
    private readonly Keyspace _keys;
    private readonly Action _runAlone;
    private int[] _stripes = new int[16];
    private Action<CommandHandlers>? _alone;     // what is executed with all locks
    private CommandHandlers? _aloneHandlers;
    private bool _hasRunAlone;

    public CommandRunner(CommandEngine engine, FasterWorker worker, Request request, Replies replies, Keyspace keys)
    {
        (_engine, _worker, _request, _replies, _keys) = (engine, worker, request, replies, keys);
        _runAlone = RunAlone;
    }

    /// <summary>Executes the present request.</summary>
    public void Run(Command command, CommandHandlers handlers)
    {
        switch (command.Locks)
        {
            case CommandLocks.None:
                command.Execute!(handlers);
                break;
            case CommandLocks.One:
                int entered = _worker.Enter(_request.Hash != 0 ? _request.Hash : FasterWorker.HashOf(_request[command.FirstKey]));
                _keys.IsLocked = true;
                try
                {
                    command.Execute!(handlers);
                }
                finally
                {
                    _keys.IsLocked = false;
                    _worker.Exit(entered);
                }

                break;
            case CommandLocks.Several:
                RunLocked(command.Execute!, handlers, AddStripes(command, 0));
                break;
            case CommandLocks.Whole:
                RunWhole(command.Execute!, handlers);
                break;
            default:
                RunAlone(command.Execute!, handlers);
                break;
        }
    }

    /// <summary>Collects the locks of the present request's keys.</summary>
    /// <param name="command">Its command.</param>
    /// <param name="stripes">How many were collected before.</param>
    /// <returns>How many there are then.</returns>
    public int AddStripes(Command command, int stripes)
    {
        int last = command.LastKeyOf(_request.Count);
        for (int i = command.FirstKey; i <= last && i > 0; i += command.KeyStep)
        {
            // Once all are among them, of further keys nothing more is to be learned.
            if (stripes == _stripes.Length && (stripes = MakeRoom(stripes)) == _engine.Store.Stripes.Count) break;
            stripes = AddStripe(_worker.StripeOf(_request[i]), stripes);
        }

        return stripes;
    }

    /// <summary>Collects one more lock.</summary>
    /// <inheritdoc cref="AddStripes" />
    public int AddStripe(int stripe, int stripes)
    {
        if (stripes == _stripes.Length) stripes = MakeRoom(stripes);
        _stripes[stripes] = stripe;
        return stripes + 1;
    }

    /// <summary>Executes something with the locks that were collected.</summary>
    public void RunLocked(Action<CommandHandlers> body, CommandHandlers handlers, int stripes)
    {
        Span<int> distinct = _stripes.AsSpan(0, Distinct(stripes));
        _engine.Store.Stripes.EnterAll(distinct);
        _keys.IsLocked = true;
        try
        {
            body(handlers);
        }
        finally
        {
            _keys.IsLocked = false;
            _engine.Store.Stripes.ExitAll(distinct);
        }
    }

    /// <summary>Executes something with all locks. Waits for the purge behind a rollback: what flushes all keys must find room for each
    /// that it puts back.</summary>
    public void RunAlone(Action<CommandHandlers> body, CommandHandlers handlers)
    {
        (_alone, _aloneHandlers) = (body, handlers);
        for (_hasRunAlone = false; !_hasRunAlone && WaitUntilPurged();) _engine.Store.Stripes.Alone(_runAlone);
    }

    // Half of them or more may be the same: they are sorted and counted once before there is more room.
    private int MakeRoom(int stripes)
    {
        int distinct = Distinct(stripes);
        if (distinct > _stripes.Length / 2) Array.Resize(ref _stripes, _stripes.Length * 4);
        return distinct;
    }

    private int Distinct(int stripes)
    {
        Span<int> sorted = _stripes.AsSpan(0, stripes);
        sorted.Sort();
        int kept = 0;
        for (int i = 0; i < stripes; i++) if (kept == 0 || sorted[i] != sorted[kept - 1]) sorted[kept++] = sorted[i];
        return kept;
    }

    // What looks at all keys needs those in the list that a rollback has brought back; those that it has taken back are found to be none.
    private void RunWhole(Action<CommandHandlers> body, CommandHandlers handlers)
    {
        nint mark = _replies.Mark;
        while (true)
        {
            long undone = _engine.Store.Rollback.UndoneCount;
            _engine.Store.Rollback.ListAgain(_worker);
            body(handlers);
            if (_engine.Store.Rollback.UndoneCount == undone) return;
            _replies.Return(mark);
        }
    }

    private bool WaitUntilPurged()
    {
        if (_engine.Store.Rollback.BeingUndone is null || _engine.Store.Rollback.WaitUntilPurged()) return true;
        _replies.Error("ERR SLOGGER the store is going back to an earlier version: try again");
        return false;
    }

    private void RunAlone()
    {
        if (_engine.Store.Rollback.BeingUndone is not null) return;
        (_hasRunAlone, _keys.IsLocked) = (true, true);
        try
        {
            _alone!(_aloneHandlers!);
        }
        finally
        {
            _keys.IsLocked = false;
        }
    }
}

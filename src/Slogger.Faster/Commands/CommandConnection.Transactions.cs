// MULTI, EXEC and WATCH. A transaction is executed with the locks of all its keys, and of those that are watched: nobody sees half of it, and
// whether a watched key has changed is known for the moment in which it is executed.
using System.Runtime.InteropServices;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    private const long QueuedBytesMax = 256 << 20;
    private const long QueuedBytesKept = 1 << 20;
    private readonly List<int> _watchedStripes = [];
    private Transaction? _transaction;
    private byte* _queued;
    private long _queuedCapacity;
    private long _queuedBytes;
    private volatile bool _watchedChanged;
    private long _undoneBefore;

    /// <summary>A key that is watched has been changed. Called by whoever has changed it.</summary>
    internal void OnWatchedKeyChanged() => _watchedChanged = true;

    internal void Multi()
    {
        if (_transaction is not null)
        {
            Error("ERR MULTI calls can not be nested");
            return;
        }

        _transaction = new();
        Ok();
    }

    internal void Discard()
    {
        if (_transaction is null)
        {
            Error("ERR DISCARD without MULTI");
            return;
        }

        EndTransaction();
        EndWatch();
        Ok();
    }

    internal void Exec()
    {
        if (_transaction is not { } transaction)
        {
            Error("ERR EXEC without MULTI");
            return;
        }

        if (transaction.IsSpoilt)
        {
            EndTransaction();
            EndWatch();
            Error("EXECABORT Transaction discarded because of previous errors.");
            return;
        }

        if ((transaction.NeedsMemory && _engine.IsOutOfMemory) || (transaction.IsWrite && _engine.Store.IsFull))
        {
            Abort(OutOfMemory);
            return;
        }

        _transaction = null;
        try
        {
            RunTransaction(transaction);
        }
        finally
        {
            EndTransaction();
            EndWatch();
        }
    }

    internal void Watch()
    {
        if (_transaction is not null)
        {
            Error("ERR WATCH inside MULTI is not allowed");
            return;
        }

        // Their locks are held.
        if (_watchedStripes.Count == 0) _undoneBefore = _engine.Store.UndoneCount;
        for (int i = 1; i < _count; i++)
        {
            int stripe = _worker.StripeOf(ArgumentAt(i));
            if (_engine.Watched.Add(stripe, new(ArgumentAt(i).ToArray(), this, HasExpired(ArgumentAt(i))))) _watchedStripes.Add(stripe);
        }

        Ok();
    }

    internal void Unwatch()
    {
        EndWatch();
        Ok();
    }

    // EXEC is not executed.
    private void Abort(string why)
    {
        EndTransaction();
        EndWatch();
        Error($"EXECABORT Transaction discarded because of: {why}");
    }

    private void Queue(Command command)
    {
        Transaction transaction = _transaction!;
        long bytes = 0;
        for (int i = 0; i < _count; i++) bytes += LengthOf(i);
        long places = (24L * transaction.Commands.Count) + (16L * (transaction.Arguments.Count + _count));
        if (_queuedBytes + bytes + places > QueuedBytesMax)
        {
            Reject($"ERR SLOGGER a transaction has at most {QueuedBytesMax} bytes");
            return;
        }

        transaction.Names += command.NamesOf(_count);
        if (transaction.Names > CommandEngine.KeysMax && !_isFeed)
        {
            RejectForNames(transaction.Names);
            return;
        }

        if (!transaction.IsSpoilt)
        {
            transaction.Commands.Add((command, transaction.Arguments.Count, _count));
            transaction.NeedsMemory |= command.NeedsMemory;
            transaction.IsWrite |= command.IsWrite;
            if (_queuedBytes + bytes > _queuedCapacity)
            {
                _queuedCapacity = Math.Max(_queuedBytes + bytes, _queuedCapacity * 2);
                _queued = (byte*)NativeMemory.Realloc(_queued, (nuint)_queuedCapacity);
            }

            for (int i = 0; i < _count; i++)
            {
                ArgumentAt(i).CopyTo(new(_queued + _queuedBytes, LengthOf(i)));
                transaction.Arguments.Add((_queuedBytes, LengthOf(i)));
                _queuedBytes += LengthOf(i);
            }
        }

        _replies.Raw("+QUEUED\r\n"u8);
    }

    private void RunTransaction(Transaction transaction)
    {
        bool alone = false;
        int stripes = 0;
        for (int i = 0; i < transaction.Commands.Count; i++)
        {
            Command command = Take(transaction, i);
            alone |= (command.Traits & (CommandTraits.Whole | CommandTraits.Alone)) != 0;
            stripes = AddStripes(command, stripes);
        }

        foreach (int stripe in _watchedStripes) stripes = AddStripe(stripe, stripes);
        var all = new Command("exec", 1, "", 0, 0, 0, "", c => c.RunQueued(transaction));
        if (alone) RunAlone(all);
        else RunLocked(all, stripes);
    }

    private void RunQueued(Transaction transaction)
    {
        if (_watchedStripes.Count > 0 && (_watchedChanged || _undoneBefore != _engine.Store.UndoneCount || HasWatchedExpired()))
        {
            NullArray();
            return;
        }

        _isInExec = true;
        try
        {
            if (!IsQuiet) BeginArray(transaction.Commands.Count);
            for (int i = 0; i < transaction.Commands.Count; i++)
            {
                nint mark = _replies.Mark;
                _command = Take(transaction, i);
                _command.Execute!(this);
                // CLIENT REPLY was among them.
                if (IsQuiet) _replies.Return(mark);
            }
        }
        finally
        {
            _isInExec = false;
        }
    }

    private bool HasWatchedExpired()
    {
        foreach (int stripe in _watchedStripes)
        {
            foreach (WatchedKey watched in _engine.Watched.Of(stripe, this)) if (!watched.HadExpired && HasExpired(watched.Key)) return true;
        }

        return false;
    }

    // Makes a queued command's arguments the present ones.
    private Command Take(Transaction transaction, int index)
    {
        (Command command, int first, int count) = transaction.Commands[index];
        Argument[] arguments = Own(count);
        for (int i = 0; i < count; i++)
        {
            (long from, int length) = transaction.Arguments[first + i];
            arguments[i] = new() { At = _queued + from, Length = length };
        }

        _count = count;
        return command;
    }

    private void EndTransaction()
    {
        _transaction = null;
        _queuedBytes = 0;
        if (_queuedCapacity <= QueuedBytesKept) return;
        NativeMemory.Free(_queued);
        _queued = null;
        _queuedCapacity = 0;
    }

    private void EndWatch()
    {
        foreach (int stripe in _watchedStripes)
        {
            // In a transaction it is held.
            int entered = _engine.Store.Stripes.Enter(stripe);
            _engine.Watched.Remove(stripe, this);
            _engine.Store.Stripes.Exit(entered);
        }

        _watchedStripes.Clear();
        _watchedChanged = false;
    }

    private sealed class Transaction
    {
        public List<(Command Command, int FirstArgument, int Count)> Commands { get; } = [];

        public List<(long From, int Length)> Arguments { get; } = [];

        /// <summary>A request of it was not understood, or refused.</summary>
        public bool IsSpoilt { get; set; }

        /// <summary>How many keys its commands name.</summary>
        public int Names { get; set; }

        public bool NeedsMemory { get; set; }

        public bool IsWrite { get; set; }
    }
}

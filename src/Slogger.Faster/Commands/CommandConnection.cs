// One connection to the store, as Redis would see one: requests come in as bytes, replies go out as bytes, in order. Here: taking requests
// apart, finding what executes them, and with which locks. On the hot path nothing is allocated and nothing is copied but values.
using System.Runtime.InteropServices;
using Slogger.Faster.Records;

namespace Slogger.Faster.Commands;

/// <summary>Executes requests. For one thread at a time.</summary>
public sealed unsafe partial class CommandConnection : IDisposable
{
    // Of a long stretch of requests each so many see the time anew.
    private const int RequestsPerLook = 64;

    private readonly CommandEngine _engine;
    private readonly FasterWorker _worker;
    private readonly bool _isOwner;
    private readonly bool _isFeed;
    private readonly ValueBuffer _value = new();
    private readonly BulkReply _bulk;
    private readonly Action _runAlone;
    private Argument[] _own = new Argument[16];
    private int[] _stripes = new int[16];
    private Argument[] _arguments;       // the present request's: from here
    private int _first;
    private int _count;
    private long _hash;                  // of its first key, if that is known
    private ReplyBuffer _replies = null!;
    private Command _command = null!;
    private CommandCounts _counts;
    private bool _isLocked;
    private bool _hasRun;
    private bool _isDisposed;
    private bool _mayPause;
    private long _now;

    internal CommandConnection(CommandEngine engine, long id, bool isOwner, bool isFeed)
    {
        (_engine, _isOwner, _isFeed, Id, _arguments) = (engine, isOwner, isFeed, id, _own);
        _worker = engine.Store.NewWorker();
        _bulk = new(this);
        _runAlone = () => RunAlone();
        ConnectedMs = engine.Options.NowMs();
    }

    /// <summary>Its number, as CLIENT ID tells it.</summary>
    public long Id { get; }

    /// <summary>Whether it is to be closed when its replies are sent: after QUIT, or something that is no request.</summary>
    public bool WantsClose
    {
        get => field || _isOverrun;
        private set;
    }

    /// <summary>Of a feed: what its last command was answered with, if that was an error. Then it was not done, or a part of it was, and nothing after it.</summary>
    public string? FeedError { get; private set; }

    internal CommandCounts Counts => _counts;

    internal long ConnectedMs { get; }

    /// <summary>Executes all whole requests in order, and appends their replies. Ends early when the buffer of replies is full.</summary>
    /// <param name="requests">Arrays of bulk strings, or lines of words.</param>
    /// <param name="bytes">How many there are.</param>
    /// <param name="replies">Where replies go.</param>
    /// <returns>How many bytes were consumed. The rest is to be given again: an incomplete request with more behind it, or what had no room for
    /// its reply.</returns>
    public nint Execute(byte* requests, nint bytes, ReplyBuffer replies)
    {
        ArgumentNullException.ThrowIfNull(replies);
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        byte* p = requests, end = requests + bytes;
        _replies = replies;
        TakePushes(replies);
        int untilLook = 0;
        _mayPause = true;
        while (p < end && !WantsClose && !replies.IsFull)
        {
            int ahead = LookAhead(p, end);
            for (int i = 0; i < ahead && !WantsClose && !replies.IsFull; i++)
            {
                p = _ahead[i].End;
                (_arguments, _first, _count) = (_aheadArguments, _ahead[i].First, _ahead[i].Count);
                _hash = _ahead[i].Hash;
                Execute(_ahead[i].Command, ref untilLook);
            }

            if (ahead > 0) continue;
            byte* next = Read(p, end);
            if (next == null) break;
            p = next;
            _hash = 0;
            if (_count > 0) Execute(CommandTable.Find(ArgumentAt(0)), ref untilLook);
        }

        _counts.InputBytes += p - requests;
        // Nobody reads on.
        return WantsClose ? bytes : (nint)(p - requests);
    }

    /// <inheritdoc />
    public void Dispose()
    {
        if (_isDisposed) return;
        _isDisposed = true;
        EndTransaction();
        EndWatch();
        EndSubscriptions();
        DisposePushes();
        _engine.Forget(this);
        _worker.Dispose();
        NativeMemory.Free(_queued);
        NativeMemory.Free(_line);
        _queued = _line = null;
    }

    private void Execute(Command? command, ref int untilLook)
    {
        if (untilLook-- == 0) (_now, untilLook) = (_isFeed ? 0 : _engine.Options.NowMs(), RequestsPerLook);
        if (_replyMode == ReplyMode.On) Execute(command);
        else ExecuteQuietly(command);
    }

    private ReadOnlySpan<byte> ArgumentAt(int index)
    {
        ref Argument argument = ref _arguments[_first + index];
        return new(argument.At, argument.Length);
    }

    private int LengthOf(int index) => _arguments[_first + index].Length;

    // Where arguments go that were not taken apart ahead.
    private Argument[] Own(int count)
    {
        if (count > _own.Length) Array.Resize(ref _own, Math.Max(count, _own.Length * 2));
        (_arguments, _first) = (_own, 0);
        return _own;
    }

    private bool IsArgument(int index, ReadOnlySpan<byte> word) => System.Text.Ascii.EqualsIgnoreCase(ArgumentAt(index), word);

    private void Execute(Command? command)
    {
        _counts.Commands++;
        if (command is null || ((command.Traits & CommandTraits.Owner) != 0 && !(_isOwner && _engine.OnCommit is not null)))
        {
            Reject(UnknownCommand());
            return;
        }

        if (command.Subcommands.Length > 0 && _count > 1) (command, _hash) = (CommandTable.Find(command, ArgumentAt(1)), 0);
        if (command is null)
        {
            Reject(MissingCommands.ErrorFor(Text(ArgumentAt(0)), ArgumentAt(1)) ?? $"ERR unknown subcommand '{Text(ArgumentAt(1), 128)}'. Try {Text(ArgumentAt(0)).ToUpperInvariant()} HELP.");
            return;
        }

        _command = command;
        if (command.IsWrite && _mayPause && _engine.Store.IsPressed) Pause();
        if (!command.Takes(_count)) RejectArguments(command);
        else if (_count > CommandEngine.KeysMax && !_isFeed && command.NamesOf(_count) is > CommandEngine.KeysMax and int names) RejectForNames(names);
        else if (command.IsWrite && _engine.IsFollowing && !_isFeed) Reject(ReadOnly);
        else if ((command.IsWrite || _transaction is not null) && LacksMemory(command)) RejectForMemory();
        else if (_protocol == 2 && (command.Traits & CommandTraits.Subscriber) == 0 && IsSubscribed) RejectForSubscription(command);
        else if (_transaction is null || command.IsImmediate) RunOrFail(command);
        else Queue(command);
    }

    // While the log grows faster than it is compacted, whoever writes waits a little: once for each piece that is given to it, and nobody else does.
    private void Pause()
    {
        _mayPause = false;
        _engine.Options.Pause();
    }

    // What needs much memory may find it full in the middle.
    private void RunOrFail(Command command)
    {
        nint mark = _replies.Mark;
        try
        {
            Run(command);
        }
        catch (StoreFullException)
        {
            _replies.Return(mark);
            Error("ERR SLOGGER the memory for records became full while this was executed: a part of it was done");
        }
    }

    private void Run(Command command)
    {
        switch (command.Locks)
        {
            case CommandLocks.None:
                command.Execute!(this);
                break;
            case CommandLocks.One:
                int entered = _worker.Enter(_hash != 0 ? _hash : FasterWorker.HashOf(ArgumentAt(command.FirstKey)));
                _isLocked = true;
                try
                {
                    command.Execute!(this);
                }
                finally
                {
                    _isLocked = false;
                    _worker.Exit(entered);
                }

                break;
            case CommandLocks.Several:
                RunLocked(command, AddStripes(command, 0));
                break;
            case CommandLocks.Whole:
                RunWhole(command);
                break;
            default:
                RunAlone(command);
                break;
        }
    }

    // Appends the locks of the present arguments' keys.
    private int AddStripes(Command command, int stripes)
    {
        int last = command.LastKeyOf(_count);
        for (int i = command.FirstKey; i <= last && i > 0; i += command.KeyStep)
        {
            // Once all are among them, of further keys nothing more is to be learned.
            if (stripes == _stripes.Length && (stripes = MakeRoom(stripes)) == _engine.Store.Stripes.Count) break;
            stripes = AddStripe(_worker.StripeOf(ArgumentAt(i)), stripes);
        }

        return stripes;
    }

    private int AddStripe(int stripe, int stripes)
    {
        if (stripes == _stripes.Length) stripes = MakeRoom(stripes);
        _stripes[stripes] = stripe;
        return stripes + 1;
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

    private void RunLocked(Command command, int stripes)
    {
        Span<int> distinct = _stripes.AsSpan(0, Distinct(stripes));
        _engine.Store.Stripes.EnterAll(distinct);
        _isLocked = true;
        try
        {
            command.Execute!(this);
        }
        finally
        {
            _isLocked = false;
            _engine.Store.Stripes.ExitAll(distinct);
        }
    }

    // What looks at all keys needs those in the list that a rollback has brought back; those that it has taken back are found to be none.
    private void RunWhole(Command command)
    {
        nint mark = _replies.Mark;
        while (true)
        {
            long undone = _engine.Store.UndoneCount;
            _engine.Store.ListAgain(_worker);
            command.Execute!(this);
            if (_engine.Store.UndoneCount == undone) return;
            _replies.Return(mark);
        }
    }

    // Waits for the purge behind a rollback: what flushes all keys must find room for each that it puts back.
    private void RunAlone(Command command)
    {
        _command = command;
        for (_hasRun = false; !_hasRun && WaitUntilPurged();) _engine.Store.Stripes.Alone(_runAlone);
    }

    private bool WaitUntilPurged()
    {
        if (_engine.Store.BeingUndone is null || _engine.Store.WaitUntilPurged()) return true;
        Error("ERR SLOGGER the store is going back to an earlier version: try again");
        return false;
    }

    private void RunAlone()
    {
        if (_engine.Store.BeingUndone is not null) return;
        (_hasRun, _isLocked) = (true, true);
        try
        {
            _command.Execute!(this);
        }
        finally
        {
            _isLocked = false;
        }
    }

    // As Redis: within a transaction nothing more is taken.
    private bool LacksMemory(Command command)
    {
        if (command.NeedsMemory || (_transaction is not null && !command.IsImmediate)) return _engine.IsOutOfMemory;
        return command.IsWrite && _engine.Store.IsFull;
    }

    private void RejectForSubscription(Command command)
    {
        string why = $"Can't execute '{command.Name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
        if (command.Name == "exec") Abort(why);
        else Reject($"ERR {why}");
    }

    // On the thread that executes it everybody waits for it, and what is atomic cannot be cut into slices.
    private void RejectForNames(int names) =>
        Reject($"ERR SLOGGER one command or transaction of the embedded store names at most {CommandEngine.KeysMax} keys, channels and the like, not {names}: give them in several");

    private void RejectForMemory() => Reject(OutOfMemory);

    /// <summary>An argument in the request's bytes, or a copy of them.</summary>
    private struct Argument
    {
        public byte* At;
        public int Length;
    }

    // What is read becomes a reply where it is.
    private sealed class BulkReply(CommandConnection connection) : ValueSink
    {
        public nint Mark { get; set; }

        internal override void Set(ReadOnlySpan<byte> bytes)
        {
            connection._replies.Return(Mark);
            connection._replies.Bulk(bytes);
        }
    }
}

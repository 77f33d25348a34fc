// One connection to the store, as Redis would see one: requests come in as bytes, replies go out as bytes, in order. On the hot path
// nothing is allocated and nothing is copied but values.
//
// The way of a request: RequestsAhead or RequestReader take it apart (Request), CommandTable finds its command, this type asks whether it
// may be executed now, CommandRunner takes its locks, and a handler of CommandHandlers executes it on a Keyspace and writes Replies.
namespace Slogger.Faster.Commands;

/// <summary>Executes requests. For one thread at a time.</summary>
public sealed unsafe class CommandConnection : IDisposable
{
    /// <summary>So much may wait for a reader. One who is slower loses his connection, as at Redis. Unit: bytes.</summary>
    public const long PushBytesMax = 32 << 20;

    // Of a long stretch of requests each so many see the time anew.
    private const int RequestsPerLook = 64;

    private readonly CommandEngine _engine;
    private readonly FasterWorker _worker;
    private readonly bool _isOwner;
    private readonly bool _isFeed;
    private readonly Request _request = new();
    private readonly RequestReader _reader;
    private readonly RequestsAhead _ahead;
    private readonly Replies _replies;
    private readonly Keyspace _keys;
    private readonly CommandRunner _runner;
    private readonly TransactionQueue _queue;
    private readonly Watches _watches;
    private readonly Subscriptions _subscriptions;
    private readonly CommandHandlers _handlers;
    private long _commands;
    private long _inputBytes;
    private bool _isDisposed;
    private bool _mayPause;

    internal CommandConnection(CommandEngine engine, long id, bool isOwner, bool isFeed)
    {
        (_engine, _isOwner, _isFeed) = (engine, isOwner, isFeed);
        _worker = engine.Store.NewWorker();
        _reader = new(_request);
        _ahead = new(_worker);
        _replies = new(isFeed);
        _keys = new(engine, _worker, _request, _replies);
        _runner = new(engine, _worker, _request, _replies, _keys);
        _queue = new(isFeed);
        _watches = new(engine, _worker, _keys);
        _subscriptions = new(engine, _replies);
        Client = new(id, engine.Options.NowMs(), _request, _replies, _queue, _subscriptions);
        _handlers = new()
        {
            Strings = new(_request, _replies, _keys),
            Numbers = new(_request, _replies, _keys),
            Bits = new(_request, _replies, _keys),
            Keys = new(_request, _replies, _keys, engine),
            Expiries = new(_request, _replies, _keys),
            Transactions = new(_request, _replies, engine, _runner, _queue, _watches),
            Messages = new(_request, _replies, engine, _subscriptions, _queue),
            Connection = new(_request, _replies, engine, Client, _queue, _watches, _subscriptions),
            Clients = new(_request, _replies, engine, Client),
            Catalog = new(_request, _replies),
            Server = new(_request, _replies, engine, _keys),
            Users = new(_request, _replies),
        };
    }

    /// <summary>Its number, as CLIENT ID tells it.</summary>
    public long Id => Client.Id;

    /// <summary>Whether it is to be closed when its replies are sent: after QUIT, or something that is no request.</summary>
    public bool WantsClose => _replies.WantsClose || _subscriptions.IsOverrun;

    /// <summary>Of a feed: what its last command was answered with, if that was an error. Then it was not done, or a part of it was, and
    /// nothing after it.</summary>
    public string? FeedError => _replies.FeedError;

    /// <summary>Called when messages wait and none did before, or when so many wait that the connection is to be closed; on the thread that
    /// published.</summary>
    public Action? OnPush
    {
        get => _subscriptions.OnPush;
        set => _subscriptions.OnPush = value;
    }

    /// <summary>Whether messages wait.</summary>
    public bool HasPushes => _subscriptions.HasPushes;

    internal ClientState Client { get; }

    internal CommandCounts Counts => new()
    {
        Commands = _commands, Errors = _replies.Errors, Hits = _keys.Hits, Misses = _keys.Misses, InputBytes = _inputBytes,
    };

    /// <summary>Arguments that were taken apart, those of usual requests aside.</summary>
    internal long ArgumentsRead => _reader.ArgumentsRead;

    /// <summary>Whether there is a command of that name.</summary>
    public static bool IsKnown(ReadOnlySpan<byte> name) => CommandTable.Find(name) is not null;

    /// <summary>Executes all whole requests in order, and appends their replies. Ends early when the buffer of replies is full.</summary>
    /// <param name="requests">Arrays of bulk strings, or lines of words.</param>
    /// <param name="bytes">How many there are.</param>
    /// <param name="replies">Where replies go.</param>
    /// <returns>How many bytes were consumed. The rest is to be given again: an incomplete request with more behind it, or what had no room
    /// for its reply.</returns>
    public nint Execute(byte* requests, nint bytes, ReplyBuffer replies)
    {
        ArgumentNullException.ThrowIfNull(replies);
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        byte* p = requests, end = requests + bytes;
        _replies.Buffer = replies;
        _subscriptions.TakePushes(replies);
        int untilLook = 0;
        _mayPause = true;
        while (p < end && !WantsClose && !replies.IsFull)
        {
            int ahead = _reader.IsInMiddle ? 0 : _ahead.Look(p, end);
            for (int i = 0; i < ahead && !WantsClose && !replies.IsFull; i++)
            {
                ref RequestAhead request = ref _ahead[i];
                p = request.End;
                _request.Set(_ahead.Arguments, request);
                Execute(request.Command, ref untilLook);
            }

            if (ahead > 0) continue;
            byte* next = _reader.Read(p, end);
            if (next == null) break;
            p = next;
            _request.Hash = 0;
            if (_request.Count > 0) Execute(CommandTable.Find(_request[0]), ref untilLook);
            else if (_reader.Refusal is { } why) Reject(why);
            if (_reader.IsMalformed) _replies.WantsClose = true;
        }

        _inputBytes += p - requests;
        // Nobody reads on.
        return WantsClose ? bytes : (nint)(p - requests);
    }

    /// <summary>Takes the messages that wait. On the connection's thread.</summary>
    public void TakePushes(ReplyBuffer replies)
    {
        ArgumentNullException.ThrowIfNull(replies);
        _subscriptions.TakePushes(replies);
    }

    /// <inheritdoc />
    public void Dispose()
    {
        if (_isDisposed) return;
        _isDisposed = true;
        _queue.Clear();
        _watches.Clear();
        _subscriptions.Dispose();
        _engine.Forget(this);
        _worker.Dispose();
        _queue.Dispose();
        _reader.Dispose();
    }

    private void Execute(Command? command, ref int untilLook)
    {
        if (untilLook-- == 0) (_request.NowMs, untilLook) = (_isFeed ? 0 : _engine.Options.NowMs(), RequestsPerLook);
        if (_replies.Mode == ReplyMode.On) Execute(command);
        else ExecuteQuietly(command);
    }

    // After CLIENT REPLY: what is not to be answered is executed all the same.
    private void ExecuteQuietly(Command? command)
    {
        nint mark = _replies.Mark;
        bool skips = _replies.Mode == ReplyMode.SkipNext;
        if (skips) _replies.Mode = ReplyMode.Skip;
        Execute(command);
        if (_replies.Mode != ReplyMode.On) _replies.Return(mark);
        _subscriptions.TakePushes(_replies.Buffer);
        if (skips && _replies.Mode == ReplyMode.Skip) _replies.Mode = ReplyMode.On;
    }

    private void Execute(Command? command)
    {
        _commands++;
        if (command is null || ((command.Traits & CommandTraits.Owner) != 0 && !(_isOwner && _engine.OnCommit is not null)))
        {
            Reject(ErrorText.UnknownCommand(_request));
            return;
        }

        if (command.Subcommands.Length > 0 && _request.Count > 1) (command, _request.Hash) = (CommandTable.Find(command, _request[1]), 0);
        if (command is null)
        {
            Reject(ErrorText.UnknownSubcommand(_request));
            return;
        }

        int count = _request.Count;
        _request.Command = command;
        if (command.IsWrite && _mayPause && _engine.Store.IsPressed) Pause();
        if (!command.Takes(count)) RejectOrAbort(command, $"wrong number of arguments for '{command.Name}' command");
        else if (count > CommandEngine.KeysMax && !_isFeed && command.NamesOf(count) > CommandEngine.KeysMax) RejectForNames(command);
        else if (command.IsWrite && _engine.IsFollowing && !_isFeed) Reject(ErrorText.ReadOnly);
        else if ((command.IsWrite || _queue.IsOpen) && LacksMemory(command)) Reject(ErrorText.OutOfMemory);
        else if (_replies.Protocol == 2 && !command.IsForSubscribers && _subscriptions.Any) RejectForSubscription(command);
        else if (!_queue.IsOpen || command.IsImmediate) RunOrFail(command);
        else Queue(command);
    }

    // While the log grows faster than it is compacted, whoever writes waits a little: once for each piece that is given to it. Nobody else
    // does.
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
            _runner.Run(command, _handlers);
        }
        catch (StoreFullException)
        {
            _replies.Return(mark);
            _replies.Error("ERR SLOGGER the memory for records became full while this was executed: a part of it was done");
        }
    }

    private void Queue(Command command)
    {
        if (_queue.Add(command, _request) is { } why) Reject(why);
        else _replies.Raw("+QUEUED\r\n"u8);
    }

    // As Redis: within a transaction nothing more is taken.
    private bool LacksMemory(Command command)
    {
        if (command.NeedsMemory || (_queue.IsOpen && !command.IsImmediate)) return _engine.IsOutOfMemory;
        return command.IsWrite && _engine.Store.IsFull;
    }

    // A request that is not executed: a transaction that it was to be part of is not either.
    private void Reject(string text)
    {
        _queue.Spoil();
        _replies.Error(text);
    }

    private void RejectForNames(Command command) => Reject(ErrorText.TooManyNames(command.NamesOf(_request.Count)));

    private void RejectForSubscription(Command command) => RejectOrAbort(
        command,
        $"Can't execute '{command.Name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context");

    private void RejectOrAbort(Command command, string why)
    {
        if (command.Name == "exec") _handlers.Transactions.Abort(why);
        else Reject($"ERR {why}");
    }
}

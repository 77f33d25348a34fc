// What a session can do: the commands of keys and of plain values with results of their own types, and any command as it is. Those of
// hashes, lists, sets, sorted sets, streams and scripts are in files of their own (HashCommands and so on), made of OnKey and OnKeys.
using Slogger.Client.Wire;
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.Client;

public sealed partial class SloggerSession
{
    /// <summary>The value of a key as text (UTF-8); null: there is none. Redis's GET.</summary>
    /// <param name="key">The key.</param>
    /// <param name="flags">What is asked for besides. A read is idempotent by itself.</param>
    /// <param name="cancellation">Ends the wait for the answer; the operation may be executed all the same.</param>
    /// <exception cref="RedisErrorException">It was answered with an error.</exception>
    /// <exception cref="UncertainException">The connection broke before the answer.</exception>
    /// <exception cref="ReplyLostException">It was executed, and the connection broke before the answer.</exception>
    /// <exception cref="RollbackException">The session was rolled back.</exception>
    /// <exception cref="ShardUnreachableException">It could not be sent.</exception>
    public ValueTask<Result<string?>> GetAsync(
        Argument key, OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        OnKey(Replies.Text, flags, cancellation, "GET"u8, key);

    /// <summary>The value of a key as bytes; null: there is none. Redis's GET. Parameters and exceptions as for
    /// <see cref="GetAsync"/>.</summary>
    public ValueTask<Result<byte[]?>> GetBytesAsync(
        Argument key, OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        OnKey(Replies.Bytes, flags, cancellation, "GET"u8, key);

    /// <summary>Sets a key's value. Redis's SET. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    /// <returns>True.</returns>
    public ValueTask<Result<bool>> SetAsync(
        Argument key, Argument value, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        OnKey(Replies.IsDone, flags, cancellation, "SET"u8, key, value);

    /// <summary>Sets a key's value for a time. Redis's SET PX. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    /// <returns>True.</returns>
    public ValueTask<Result<bool>> SetAsync(
        Argument key, Argument value, TimeSpan expiry, OperationFlags flags = OperationFlags.None,
        CancellationToken cancellation = default) =>
        OnKey(Replies.IsDone, flags, cancellation, "SET"u8, key, value, "PX", Milliseconds(expiry));

    /// <summary>Sets a key's value if it has none. Redis's SET NX. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    /// <returns>Whether it was set.</returns>
    public ValueTask<Result<bool>> SetIfAbsentAsync(
        Argument key, Argument value, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        OnKey(Replies.IsDone, flags, cancellation, "SET"u8, key, value, "NX");

    /// <summary>Deletes a key. Redis's DEL. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    /// <returns>Whether it was there.</returns>
    public ValueTask<Result<bool>> DeleteAsync(
        Argument key, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        OnKey(Replies.IsOne, flags, cancellation, "DEL"u8, key);

    /// <summary>Whether a key is there. Redis's EXISTS. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<Result<bool>> ExistsAsync(
        Argument key, OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        OnKey(Replies.IsOne, flags, cancellation, "EXISTS"u8, key);

    /// <summary>Adds to a number, which is 0 if there is none. Redis's INCRBY. Parameters and exceptions as for
    /// <see cref="GetAsync"/>.</summary>
    /// <returns>The sum.</returns>
    public ValueTask<Result<long>> IncrementAsync(
        Argument key, long by = 1, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        OnKey(Replies.Integer, flags, cancellation, "INCRBY"u8, key, by);

    /// <summary>Has a key expire after a time. Redis's PEXPIRE. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    /// <returns>Whether the key is there.</returns>
    public ValueTask<Result<bool>> ExpireAsync(
        Argument key, TimeSpan after, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        OnKey(Replies.IsOne, flags, cancellation, "PEXPIRE"u8, key, Milliseconds(after));

    /// <summary>Any command. It goes to the shard that owns its first key; one without keys to any shard. Commands that
    /// block, subscribe or end the connection are refused by the proxy; for transactions there is <see cref="TransactionAsync"/>.</summary>
    /// <param name="command">Its name, one word.</param>
    /// <param name="arguments">What follows.</param>
    /// <returns>Its reply. An error is a <see cref="RedisErrorException"/>.</returns>
    public ValueTask<Result<RespValue>> ExecuteAsync(string command, params ReadOnlySpan<Argument> arguments) =>
        ExecuteAsync(OperationFlags.None, CancellationToken.None, command, arguments);

    /// <summary>Any command, as <see cref="ExecuteAsync(string, ReadOnlySpan{Argument})"/>.</summary>
    /// <param name="flags">What is asked for besides.</param>
    /// <param name="cancellation">Ends the wait for the answer; the operation may be executed all the same.</param>
    /// <param name="command">Its name, one word.</param>
    /// <param name="arguments">What follows.</param>
    public ValueTask<Result<RespValue>> ExecuteAsync(
        OperationFlags flags, CancellationToken cancellation, string command, params ReadOnlySpan<Argument> arguments)
    {
        ArgumentException.ThrowIfNullOrEmpty(command);
        if (_client.Options.ReadsBackup && BackupWire.RefusalOf(command) is { } refusal)
        {
            throw new ArgumentException(refusal, nameof(command));
        }
        return OnKeys(Replies.Value, flags, cancellation, command, arguments);
    }

    /// <summary>Several commands as one transaction of Redis (MULTI, EXEC): executed together, in one version, or not at all. All keys must
    /// be in one partition: with hash slots give them one {tag}, see <see cref="SloggerClient.Partitions"/>.</summary>
    /// <param name="commands">Each a name and its arguments.</param>
    /// <param name="cancellation">Ends the wait for the answer; the transaction may be executed all the same.</param>
    /// <returns>The replies, as an array. The number is that of the EXEC.</returns>
    /// <exception cref="RedisErrorException">None of it was done.</exception>
    public ValueTask<Result<RespValue>> TransactionAsync(IReadOnlyList<Argument[]> commands, CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(commands);
        if (commands.Count == 0 || commands.Any(c => c.Length == 0))
        {
            throw new ArgumentException("A transaction has at least one command, and each a name.", nameof(commands));
        }
        if (_client.Options.ReadsBackup && commands.Select(c => BackupWire.RefusalOf(c[0].ToString() ?? ""))
            .FirstOrDefault(r => r is not null) is { } refusal)
        {
            throw new ArgumentException(refusal, nameof(commands));
        }
        if (commands.Count + 2 > _options.Window)
        {
            throw new ArgumentException($"A transaction of {commands.Count} commands does not fit into a window of {_options.Window} "
                + "operations.", nameof(commands));
        }
        if (cancellation.IsCancellationRequested) { return ValueTask.FromCanceled<Result<RespValue>>(cancellation); }
        ValueTask<Result<RespValue>> task;
        PendingFlush flush;
        lock (_gate)
        {
            if (WhyNot() is { } why) { return ValueTask.FromException<Result<RespValue>>(why); }
            HashSlot? slot = null;
            _scratch.Clear();
            _scratch.Begin(1).Add("MULTI"u8);
            foreach (Argument[] command in commands)
            {
                _scratch.Begin(command.Length);
                foreach (Argument argument in command) { argument.WriteTo(_scratch); }
                if (slot is null && _client.Discovery.Keys.FindSlot(
                    _scratch.Written, _scratch.Arguments, _client.Discovery.Partitions, out HashSlot found) is SlotScope.OneSlot
                        or SlotScope.SeveralSlots)
                {
                    slot = found;
                }
            }

            _scratch.Begin(1).Add("EXEC"u8);
            Operation<RespValue> operation = Operation<RespValue>.Rent(Replies.Value, OperationFlags.None);
            operation.Requests = commands.Count + 2;
            task = Start(operation, slot?.Number ?? Operation.NoSlot, cancellation);
            flush = _lanes.TakeFlush();
        }

        flush.Run();
        return task;
    }

    /// <summary>A PING at every shard that owns slots.</summary>
    internal async Task PingAllAsync(CancellationToken cancellation)
    {
        var pings = new List<Task>();
        PendingFlush flush;
        lock (_gate)
        {
            if (WhyNot() is { } why) { throw why; }
            foreach (Link link in _client.Routes.Owners())
            {
                _scratch.Clear();
                _scratch.Begin(1).Add("PING"u8);
                pings.Add(StartAt(Operation<bool>.Rent(Replies.IsDone, OperationFlags.Idempotent), link, cancellation).AsTask());
            }

            flush = _lanes.TakeFlush();
        }

        flush.Run();
        await Task.WhenAll(pings).ConfigureAwait(false);
    }

    /// <summary>Starts a command of one key, which stands right behind its name.</summary>
    internal ValueTask<Result<T>> OnKey<T>(
        ReplyConverter<T> convert, OperationFlags flags, CancellationToken cancellation, ReadOnlySpan<byte> command, Argument key,
        params ReadOnlySpan<Argument> rest)
    {
        if (cancellation.IsCancellationRequested) { return ValueTask.FromCanceled<Result<T>>(cancellation); }
        ValueTask<Result<T>> task;
        PendingFlush flush;
        lock (_gate)
        {
            if (WhyNot() is { } why) { return ValueTask.FromException<Result<T>>(why); }
            _scratch.Clear();
            _scratch.Begin(2 + rest.Length).Add(command);
            key.WriteTo(_scratch);
            HashSlot slot = _client.Discovery.Partitions.Of(_scratch.Argument(1));
            foreach (Argument argument in rest) { argument.WriteTo(_scratch); }
            task = Start(Operation<T>.Rent(convert, flags), slot.Number, cancellation);
            flush = _lanes.TakeFlush();
        }

        flush.Run();
        return task;
    }

    /// <summary>Starts a command whose keys stand wherever the store says that they do.</summary>
    internal ValueTask<Result<T>> OnKeys<T>(
        ReplyConverter<T> convert, OperationFlags flags, CancellationToken cancellation, string command,
        params ReadOnlySpan<Argument> arguments)
    {
        if (cancellation.IsCancellationRequested) { return ValueTask.FromCanceled<Result<T>>(cancellation); }
        ValueTask<Result<T>> task;
        PendingFlush flush;
        lock (_gate)
        {
            if (WhyNot() is { } why) { return ValueTask.FromException<Result<T>>(why); }
            _scratch.Clear();
            _scratch.Begin(1 + arguments.Length).Add(command);
            foreach (Argument argument in arguments) { argument.WriteTo(_scratch); }
            SlotScope scope = _client.Discovery.Keys.FindSlot(
                _scratch.Written, _scratch.Arguments, _client.Discovery.Partitions, out HashSlot slot);
            bool hasKey = scope is SlotScope.OneSlot or SlotScope.SeveralSlots;
            task = Start(Operation<T>.Rent(convert, flags), hasKey ? slot.Number : Operation.NoSlot, cancellation);
            flush = _lanes.TakeFlush();
        }

        flush.Run();
        return task;
    }

    internal static long Milliseconds(TimeSpan time)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.FromMilliseconds(1));
        return (long)time.TotalMilliseconds;
    }
}

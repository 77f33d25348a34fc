// One operation on its way: what its caller awaits. Its value comes with its reply, its version with the trailer of its batch;
// only then is it answered. Objects of operations that were answered in order are used again.
using System.Threading.Tasks.Sources;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>Makes a value of a reply that is no error.</summary>
internal delegate T ReplyConverter<out T>(in WireReply reply);

/// <summary>Where a reply sends its operation instead of answering it.</summary>
internal enum Redirection : byte { None, Moved, Ask, TryAgain }

internal abstract class Operation
{
    /// <summary>In <see cref="Slot"/>: it has no key.</summary>
    public const int NoSlot = -1;

    /// <summary>What it counts with; set by the session.</summary>
    public Generation Generation = null!;

    public OperationFlags Flags;

    /// <summary>How many requests it is: the last one's reply is its answer.</summary>
    public int Requests = 1;

    /// <summary>An ASKING goes before it.</summary>
    public bool IsAsking;

    /// <summary>How many requests it is with that.</summary>
    public int RequestsOnWire => IsAsking ? Requests + 1 : Requests;

    /// <summary>How often it was sent elsewhere.</summary>
    public int Redirections;

    /// <summary>The slot of its first key, or <see cref="NoSlot"/>.</summary>
    public int Slot = NoSlot;

    /// <summary>It was redirected, or is not on its way to its slot's owner, or to one that may not know that it is the owner: later ones
    /// of its slot wait. See <see cref="SlotTurns"/>.</summary>
    public bool IsElsewhere;

    /// <summary>Where its reply sends it. The text is the error's.</summary>
    public Redirection Redirection;

    /// <summary>The error that its reply was; null: none.</summary>
    public string? Error;

    /// <summary>Takes the reply in; it is answered when its version is known.</summary>
    public abstract void Accept(in WireReply reply);

    /// <summary>Its version is known: its caller goes on.</summary>
    public abstract void Complete(SequenceNumber sequence, ShardId shard, VersionNumber version, WorldLine line);

    /// <summary>It has no answer, and will have none.</summary>
    public abstract void Fail(Exception why);

    protected void AcceptError(in WireReply reply)
    {
        ReadOnlySpan<byte> text = reply.Payload;
        Error = System.Text.Encoding.UTF8.GetString(text);
        Redirection = text.StartsWith("MOVED "u8) ? Redirection.Moved
            : text.StartsWith("ASK "u8) ? Redirection.Ask
            : text.StartsWith("TRYAGAIN"u8) || text.StartsWith("CLUSTERDOWN"u8) ? Redirection.TryAgain : Redirection.None;
    }
}

/// <summary>Keeps the place of an operation that was taken out of its batch.</summary>
internal sealed class DetachedOperation : Operation
{
    public override void Accept(in WireReply reply)
    {
    }

    public override void Complete(SequenceNumber sequence, ShardId shard, VersionNumber version, WorldLine line)
    {
    }

    public override void Fail(Exception why)
    {
    }
}

internal sealed class Operation<T> : Operation, IValueTaskSource<Result<T>>
{
    private const int KeptPerThread = 8192;
    [ThreadStatic] private static Stack<Operation<T>>? t_free;

    private ManualResetValueTaskSourceCore<Result<T>> _core = new() { RunContinuationsAsynchronously = true };
    private ReplyConverter<T> _convert = null!;
    private CancellationTokenRegistration _cancellation;
    private int _settled;
    private bool _isReusable;
    private T _value = default!;

    public static Operation<T> Rent(ReplyConverter<T> convert, OperationFlags flags)
    {
        if (t_free is null || !t_free.TryPop(out Operation<T>? operation)) { operation = new(); }
        operation._convert = convert;
        operation.Flags = flags;
        return operation;
    }

    public ValueTask<Result<T>> Task => new(this, _core.Version);

    /// <summary>Ends the caller's wait when the token says so. The operation goes on.</summary>
    public void CancelBy(CancellationToken cancellation)
    {
        if (cancellation.CanBeCanceled)
        {
            _cancellation = cancellation.UnsafeRegister(static (self, token) =>
                ((Operation<T>)self!).Fail(new OperationCanceledException(token)), this);
        }
    }

    public override void Accept(in WireReply reply)
    {
        if (reply.IsError) { AcceptError(reply); }
        else { _value = _convert(reply); }
    }

    public override void Complete(SequenceNumber sequence, ShardId shard, VersionNumber version, WorldLine line)
    {
        if (Error is not null)
        {
            Fail(new RedisErrorException(Error, sequence));
        }
        else if (Interlocked.Exchange(ref _settled, 1) == 0)
        {
            // Nobody else has a reference any more. With a cancellation somebody might.
            _isReusable = _cancellation == default;
            _cancellation.Unregister();
            _core.SetResult(new(_value, sequence, shard, version, line));
        }
    }

    public override void Fail(Exception why)
    {
        if (Interlocked.Exchange(ref _settled, 1) != 0) { return; }
        _cancellation.Unregister();
        _core.SetException(why);
    }

    public Result<T> GetResult(short token)
    {
        Result<T> result = _core.GetResult(token);
        if (_isReusable) { Return(); }
        return result;
    }

    public ValueTaskSourceStatus GetStatus(short token) => _core.GetStatus(token);

    public void OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _core.OnCompleted(continuation, state, token, flags);

    private void Return()
    {
        Stack<Operation<T>> free = t_free ??= new(KeptPerThread);
        if (free.Count == KeptPerThread) { return; }
        _core.Reset();
        (_value, _settled, _isReusable, Generation, Requests, Redirections, IsAsking, Slot) =
            (default!, 0, false, null!, 1, 0, false, NoSlot);
        free.Push(this);
    }
}

// Commands that change data in a way that Redis does not tell its replicas, and so not the version log: nothing is committed
// until a checkpoint holds the change. The reply comes after that checkpoint: who sends the next such command, or a
// BGREWRITEAOF, on the reply would find Redis's one child process busy with it, as it never is on a Redis of one's own.
namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private bool _changesUnlogged;

    // (RELOAD alone saves first: the data stays.)
    private bool IsUnlogged => ArgumentIs(1, "POPULATE"u8) || ArgumentIs(1, "LOADAOF"u8) || (ArgumentIs(1, "RELOAD"u8) && ArgumentCount > 2);

    private bool ForwardUnlogged()
    {
        if (Route(needsDedicated: true) is null) { return false; }
        _loop.Shard.BeforeUnloggedChange();
        _changesUnlogged = true;
        return Forward(needsDedicated: true, ReplyKind.Unlogged, barrier: true);
    }

    private void OnUnloggedAnswered(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        _changesUnlogged = false;
        if (IsClosed)
        {
            // It was kept open for this reply.
            upstream.Close("the client has gone");
            _loop.Shard.AfterUnloggedChange(() => { });
            return;
        }
        byte[]? answer = _replyMode == ReplyMode.On ? reply.ToArray() : null;
        Wait(Waiting.Checkpoint);
        _loop.Shard.AfterUnloggedChange(() =>
        {
            if (IsClosed || _waiting != Waiting.Checkpoint) { return; }
            if (answer is not null) { Deliver(answer); }
            if (!IsClosed) { EndWait(); }
        });
    }

    /// <summary>The connection died that was to answer: the change was made, or not.</summary>
    public void OnUnloggedLost()
    {
        _changesUnlogged = false;
        _loop.Shard.AfterUnloggedChange(() => { });
    }
}

// Large requests go on as they come, on an upstream of the client's own. See LargeRequest.
using Slogger.FrontEnd.Transports;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    // The large request that is under way; null: none.
    private LargeRequest? _large;

    private bool StartStream()
    {
        if (LeavesTransactionOpen) { return Refuse("ERR SLOGGER a transaction must end in the batch that it begins in", thenClose: true); }
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        upstream.ExpectStreaming(this);
        BeginStream(upstream);
        return true;
    }

    private void BeginStream(Upstream? upstream)
    {
        _large = new LargeRequest(_input.Head, isDropped: upstream is null, out nint header);
        upstream?.Write(_input.Head, header);
        _input.Consume(header);
    }

    private bool Stream(LargeRequest large)
    {
        Upstream? upstream = large.IsDropped ? null : Dedicated!;
        if (upstream is { OutBytes: > DedicatedOutLimitBytes })
        {
            Wait(Waiting.Room);
            return false;
        }
        // Its end may be among what has come: if its version is over, that is held back.
        if (upstream is not null) { _ = _loop.Boundary.MayForward(); }
        if (upstream is not null && _loop.Gate.IsShut)
        {
            Wait(Waiting.Room);
            return false;
        }
        if (!large.TryAdvance(_input.Head, _input.Tail, out nint count)) { return BreakStream(upstream, _input.Tail); }
        if (count > 0)
        {
            upstream?.Write(_input.Head, count);
            _input.Consume(count);
        }
        if (!large.IsComplete) { return count > 0; }
        _large = null;
        if (upstream is null) { Rollback.AnswerInstead(CommandKind.Ordinary); } else { upstream.FinishStreaming(); }
        return true;
    }

    // Redis says what is wrong with it, and closes.
    private bool BreakStream(Upstream? upstream, byte* end)
    {
        if (upstream is null) { return Refuse("ERR Protocol error: expected '$' and a length", thenClose: true); }
        upstream.Write(_input.Head, (nint)(end - _input.Head));
        _input.Free();
        _end.IsInputOver = true;
        _large = null;
        upstream.FinishStreaming();
        UpdateWatch();
        return false;
    }
}

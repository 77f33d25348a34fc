// What a client's transaction means for requests that are not of it: what must wait, and when it is discarded instead.
namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private Transaction _transaction;

    /// <summary>The transaction that is open, or was last.</summary>
    public ref Transaction Transaction => ref _transaction;

    // What would be done otherwise if Redis refuses MULTI waits for its answer.
    private bool MayHaveNoTransaction(CommandKind kind) => (_pins & Pins.Multi) != 0 && _transaction.MayBeRefused
        && kind is not (CommandKind.Exec or CommandKind.Discard or CommandKind.Dedicated) && !(kind == CommandKind.Quit && BatchLeft == 0);

    // The next request is the last of its batch, and does not end the transaction under way unless it is EXEC or DISCARD.
    private bool LeavesTransactionOpen => BatchLeft == 1 && (_pins & Pins.Multi) != 0;

    private bool EndsTransaction(CommandKind kind) => kind == CommandKind.Exec || (kind == CommandKind.Discard && ArgumentCount == 1);

    // What is queued would be executed after its batch, in a version that the session would not hear of.
    private bool DiscardTransaction() =>
        DiscardInstead("ERR SLOGGER a transaction must end in the batch that it begins in: it was discarded");

    // In the place of the request: the transaction must not run.
    private bool DiscardInstead(string why)
    {
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        upstream.Write("*1\r\n$7\r\nDISCARD\r\n"u8);
        ForwardWritten(upstream, OnRefusedInstead(why), barrier: true);
        _pins &= ~(Pins.Multi | Pins.Watch);
        _transaction.End(runs: false);
        return false;
    }
}

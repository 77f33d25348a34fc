// MULTI, EXEC and WATCH. A transaction is executed with the locks of all its keys, and of those that are watched: nobody sees half of it,
// and whether a watched key has changed is known for the moment in which it is executed.
namespace Slogger.Faster.Commands;

/// <summary>Commands on transactions.</summary>
internal sealed class TransactionCommands(
    Request request, Replies replies, CommandEngine engine, CommandRunner runner, TransactionQueue queue, Watches watches)
{
    private static readonly Action<CommandHandlers> s_run = static c => c.Transactions.Run(c);

    public void Multi()
    {
        if (queue.IsOpen)
        {
            replies.Error("ERR MULTI calls can not be nested");
            return;
        }

        queue.Open();
        replies.Ok();
    }

    public void Discard()
    {
        if (!queue.IsOpen)
        {
            replies.Error("ERR DISCARD without MULTI");
            return;
        }

        End();
        replies.Ok();
    }

    public void Exec(CommandHandlers handlers)
    {
        if (!queue.IsOpen)
        {
            replies.Error("ERR EXEC without MULTI");
            return;
        }

        if (queue.IsSpoilt)
        {
            End();
            replies.Error("EXECABORT Transaction discarded because of previous errors.");
            return;
        }

        if ((queue.NeedsMemory && engine.IsOutOfMemory) || (queue.IsWrite && engine.Store.IsFull))
        {
            Abort(ErrorText.OutOfMemory);
            return;
        }

        queue.Close();
        try
        {
            RunLocked(handlers);
        }
        finally
        {
            End();
        }
    }

    public void Watch()
    {
        if (queue.IsOpen)
        {
            replies.Error("ERR WATCH inside MULTI is not allowed");
            return;
        }

        for (int i = 1; i < request.Count; i++) watches.Add(request[i]);
        replies.Ok();
    }

    public void Unwatch()
    {
        watches.Clear();
        replies.Ok();
    }

    /// <summary>EXEC is not executed.</summary>
    /// <param name="why">Why not.</param>
    public void Abort(string why)
    {
        End();
        replies.Error($"EXECABORT Transaction discarded because of: {why}");
    }

    private void RunLocked(CommandHandlers handlers)
    {
        bool alone = false;
        int stripes = 0;
        for (int i = 0; i < queue.Count; i++)
        {
            Command command = queue.Take(i, request);
            alone |= (command.Traits & (CommandTraits.Whole | CommandTraits.Alone)) != 0;
            stripes = runner.AddStripes(command, stripes);
        }

        for (int i = 0; i < watches.Stripes.Count; i++) stripes = runner.AddStripe(watches.Stripes[i], stripes);
        if (alone) runner.RunAlone(s_run, handlers);
        else runner.RunLocked(s_run, handlers, stripes);
    }

    private void Run(CommandHandlers handlers)
    {
        if (watches.HaveChanged)
        {
            replies.NullArray();
            return;
        }

        queue.IsRunning = true;
        try
        {
            if (!replies.IsQuiet) replies.BeginArray(queue.Count);
            for (int i = 0; i < queue.Count; i++)
            {
                nint mark = replies.Mark;
                request.Command = queue.Take(i, request);
                request.Command.Execute!(handlers);
                // CLIENT REPLY was among them.
                if (replies.IsQuiet) replies.Return(mark);
            }
        }
        finally
        {
            queue.IsRunning = false;
        }
    }

    private void End()
    {
        queue.Clear();
        watches.Clear();
    }
}

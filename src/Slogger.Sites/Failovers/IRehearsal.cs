namespace Slogger.Sites.Failovers;

/// <summary>A rehearsal of a failover, as those see it who have something else to do. Any thread.</summary>
internal interface IRehearsal
{
    /// <summary>How it is, for people.</summary>
    string State { get; }

    /// <summary>Begins when the process has little else to do, unless it has been done.</summary>
    void Begin();

    /// <summary>Ends it at once, since there is something else to be done. What is there of it is taken away beside that: nobody has to
    /// wait.</summary>
    /// <param name="forGood">Whether it is not to begin again: it is no use any more.</param>
    void End(bool forGood);
}

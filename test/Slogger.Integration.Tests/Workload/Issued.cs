// What the harness knows of one command of a writer: when it was sent and answered, and with what.
using Slogger.Integration.Tests.Model;

namespace Slogger.Integration.Tests.Workload;

internal enum Fate
{
    /// <summary>No reply came: it may have been executed or not.</summary>
    Unanswered,

    /// <summary>A reply came that was no refusal.</summary>
    Answered,

    /// <summary>An error that the command itself does not explain: it was not executed.</summary>
    Refused,

    /// <summary>Answered after this connection had been told of a rollback: it ran in the new world-line.</summary>
    AnsweredAfterRollback,
}

/// <summary>One command. Times are Stopwatch ticks: taken before the send and after the reply, so that "replied before
/// sent" on two connections proves an order.</summary>
internal sealed class Issued(IReadOnlyList<string> arguments)
{
    public IReadOnlyList<string> Arguments { get; } = arguments;

    /// <summary>A short-lived key: every expiry it was ever given is over when the command runs.</summary>
    public string? Expired { get; init; }

    public string? ExpectedReply { get; set; }

    /// <summary>Whether it changes fingerprinted or other keys, by the model.</summary>
    public bool HasEffect { get; set; }

    public long SentAt { get; set; }

    public long RepliedAt { get; set; } = long.MaxValue;

    public Fate Fate { get; set; }

    /// <summary>For a blocking pop: the element it got, or null.</summary>
    public string? Popped { get; set; }

    public bool IsBlockingPop => Arguments[0] == "BLPOP";

    public override string ToString() => string.Join(' ', Arguments.Select(a => a.Length <= 40 ? a : a[..40] + "..."));
}

// What a client asks behind an operation whose reply alone does not say that it stays done.
using System.Globalization;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Linearizability.Rounds;

/// <param name="Command">What is asked, on the same connection.</param>
/// <param name="IsGiven">Whether its reply says so. If not, nothing is known of the operation.</param>
/// <param name="OfReads">Whether a read needs it, too: it may have shown what is lost later.</param>
internal sealed record Confirmation(string[] Command, Func<RespValue, bool> IsGiven, bool OfReads)
{
    private static readonly string s_limit = ((long)MasterFinder.Patience.TotalMilliseconds / 2).ToString(CultureInfo.InvariantCulture);

    /// <summary>One replica of Redis has it.</summary>
    public static Confirmation Replica { get; } = new(["WAIT", "1", s_limit], reply => reply.AsInteger() >= 1, OfReads: false);

    /// <summary>It is committed, with all that it has seen.</summary>
    public static Confirmation Commit { get; } = new(["DPR.WAIT", "*", s_limit],
        reply => reply is { IsError: false, Items: [_, _, var committed] } && committed.AsInteger() == 1, OfReads: true);
}

// How a writer behaves on the wire; the mix of commands is the same for all.
namespace Slogger.Integration.Tests.Workload;

/// <param name="Name">For messages.</param>
/// <param name="Depth">How many commands may be in flight.</param>
/// <param name="UsesDpr">Asks DPR.COMMITTED and DPR.WAIT, so it is told about rollbacks; else a plain client.</param>
/// <param name="UsesWaitAof">Asks WAITAOF 1 0 t instead.</param>
/// <param name="Transactions">Issues WATCH and MULTI, which force a connection of its own upstream.</param>
/// <param name="Resp3">Says HELLO 3 first.</param>
/// <param name="PopsFrom">Blocks on the hand-off list of its own ("q" family); pushed by the writer before it.</param>
internal sealed record WriterProfile(string Name, int Depth, bool UsesDpr, bool UsesWaitAof = false,
    bool Transactions = false, bool Resp3 = false, bool PopsFrom = false)
{
    /// <summary>The writers of a chaos run: every way to be connected, and a pair that hands elements over.</summary>
    public static IReadOnlyList<WriterProfile> Mixed { get; } =
    [
        new("shared", 32, UsesDpr: true),
        new("plain", 16, UsesDpr: false, UsesWaitAof: true),
        new("serial", 1, UsesDpr: true, Resp3: true),
        new("dedicated", 8, UsesDpr: true, Transactions: true),
        new("popper", 1, UsesDpr: true, PopsFrom: true),
        new("plain-dedicated", 4, UsesDpr: false, Transactions: true),
    ];
}

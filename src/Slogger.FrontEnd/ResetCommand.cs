// DPR.RESET: a shard's part in a reset of the cluster (slogger reset). See docs/reference/dpr-commands.md.
//
//   DPR.RESET PREPARE version [PREFIX prefix] [SHIFT milliseconds]
//   DPR.RESET STATE name
//   DPR.RESET HOLD name
//   DPR.RESET WRITE name
//   DPR.RESET CLOSE name version
//   DPR.RESET END name
//
// Who prepares one is asked for the right to empty the store. Its name is known to nobody else.
namespace Slogger.FrontEnd;

/// <summary>The handler of DPR.RESET.</summary>
internal static class ResetCommand
{
    public const string Name = "DPR.RESET";

    private const string Form = $"{Name} PREPARE version [PREFIX prefix] [SHIFT milliseconds], or {Name} STATE name, {Name} HOLD name, "
        + $"{Name} WRITE name, {Name} CLOSE name version, {Name} END name";

    public static bool Handle(Client client, IPastReset reset)
    {
        string name = client.ArgumentCount > 2 ? client.TextOf(2) : "";
        if (client.ArgumentCount >= 3 && client.ArgumentIs(1, "PREPARE"u8)) { return Prepare(client, reset); }
        if (client.ArgumentCount == 4 && client.ArgumentIs(1, "CLOSE"u8) && client.ArgumentNumber(3, out long above) && above >= 0)
        {
            return PastCommand.AskAlways(client, () => reset.CloseAsync(name, above));
        }
        Func<string, Task<byte[]>>? step = client.ArgumentCount != 3 ? null
            : client.ArgumentIs(1, "STATE"u8) ? reset.StateAsync
            : client.ArgumentIs(1, "HOLD"u8) ? reset.HoldAsync
            : client.ArgumentIs(1, "WRITE"u8) ? reset.WriteAsync
            : client.ArgumentIs(1, "END"u8) ? reset.EndAsync : null;
        return step is null ? client.RefuseCommand($"ERR SLOGGER it is {Form}") : PastCommand.AskAlways(client, () => step(name));
    }

    private static bool Prepare(Client client, IPastReset reset)
    {
        byte[]? prefix = null;
        long? shift = null;
        bool isGood = client.ArgumentNumber(2, out long version) && version >= 0 && client.ArgumentCount % 2 == 1;
        for (int i = 3; isGood && i < client.ArgumentCount; i += 2)
        {
            if (prefix is null && client.ArgumentIs(i, "PREFIX"u8)) { prefix = client.Argument(i + 1).ToArray(); }
            else if (shift is null && client.ArgumentIs(i, "SHIFT"u8) && client.ArgumentNumber(i + 1, out long by) && by >= 0) { shift = by; }
            else { isGood = false; }
        }
        if (!isGood) { return client.RefuseCommand($"ERR SLOGGER it is {Form}"); }
        string user = client.UserName;
        return PastCommand.Ask(client, () => reset.PrepareAsync(version, prefix ?? [], shift ?? 0, user));
    }
}

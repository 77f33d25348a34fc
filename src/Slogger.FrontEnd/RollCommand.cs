// DPR.ROLL: a shard's whole data at the end of one version after the other, for scripts that read. See docs/reference/dpr-commands.md.
//
//   DPR.ROLL BEGIN FROM version TO version
//   DPR.ROLL TO name version
//   DPR.ROLL EVAL name script [argument ...]
//   DPR.ROLL COMMANDS name
//   DPR.ROLL OPEN name
//   DPR.ROLL END name
//
// Who begins is asked for the right to all data. The name is known to nobody else.
namespace Slogger.FrontEnd;

/// <summary>The handler of DPR.ROLL.</summary>
internal static class RollCommand
{
    public const string Name = "DPR.ROLL";

    private const string Form = $"{Name} BEGIN FROM version TO version, or {Name} TO name version, {Name} EVAL name script [argument ...], "
        + $"{Name} COMMANDS name, {Name} OPEN name, {Name} END name";
    private const int FirstArgument = 4;

    public static bool Handle(Client client, IPastRoll roll)
    {
        string name = client.ArgumentCount > 2 ? client.TextOf(2) : "";
        if (client.ArgumentCount == 6 && client.ArgumentIs(1, "BEGIN"u8) && client.ArgumentIs(2, "FROM"u8)
            && client.ArgumentNumber(3, out long from) && client.ArgumentIs(4, "TO"u8) && client.ArgumentNumber(5, out long to)
            && from >= 0 && to >= 0)
        {
            string user = client.UserName;
            return PastCommand.Ask(client, () => roll.BeginAsync(from, to, user));
        }
        if (client.ArgumentCount == 4 && client.ArgumentIs(1, "TO"u8) && client.ArgumentNumber(3, out long version) && version >= 0)
        {
            return PastCommand.Ask(client, () => roll.ToAsync(name, version));
        }
        if (client.ArgumentCount >= FirstArgument && client.ArgumentIs(1, "EVAL"u8))
        {
            (int database, int protocol, byte[] script) = (client.Db, client.Protocol, client.Argument(3).ToArray());
            byte[][] arguments = [.. Enumerable.Range(FirstArgument, client.ArgumentCount - FirstArgument)
                .Select(i => client.Argument(i).ToArray())];
            return PastCommand.Ask(client, () => roll.EvalAsync(name, database, protocol, script, arguments));
        }
        if (client.ArgumentCount == 3 && client.ArgumentIs(1, "COMMANDS"u8))
        {
            return PastCommand.Ask(client, () => roll.CommandsAsync(name));
        }
        if (client.ArgumentCount == 3 && client.ArgumentIs(1, "OPEN"u8)) { return PastCommand.Ask(client, () => roll.OpenAsync(name)); }
        if (client.ArgumentCount == 3 && client.ArgumentIs(1, "END"u8)) { return PastCommand.Ask(client, () => roll.EndAsync(name)); }
        return client.RefuseCommand($"ERR SLOGGER it is {Form}");
    }
}

// DPR.SNAPSHOT: a shard's data of any instant, as an RDB file that is read in parts. See docs/reference/dpr-commands.md.
//
//   DPR.SNAPSHOT BEGIN VERSION version | TIME milliseconds | AGO milliseconds [SINCE version [BEHIND version TO version]]
//   DPR.SNAPSHOT STATE name
//   DPR.SNAPSHOT READ name offset bytes
//   DPR.SNAPSHOT REMOVED name offset bytes
//   DPR.SNAPSHOT END name
//
// Who begins one is asked for the right to all data. Its name is known to nobody else.
namespace Slogger.FrontEnd;

/// <summary>The handler of DPR.SNAPSHOT.</summary>
internal static class SnapshotCommand
{
    public const string Name = "DPR.SNAPSHOT";

    /// <summary>Most bytes that are read at once.</summary>
    public const int ReadBytesMax = 1 << 20;

    private const string Form = $"{Name} BEGIN VERSION version | TIME milliseconds | AGO milliseconds [SINCE version [BEHIND version TO "
        + $"version]], or {Name} STATE name, {Name} READ name offset bytes, {Name} REMOVED name offset bytes, {Name} END name";

    public static bool Handle(Client client, IPastSnapshots snapshots)
    {
        string name = client.ArgumentCount > 2 ? client.TextOf(2) : "";
        long since = 0, behind = 0, to = 0;
        bool rests = client.ArgumentCount is 6 or 10 && client.ArgumentIs(4, "SINCE"u8) && client.ArgumentNumber(5, out since);
        if (client.ArgumentCount == 10)
        {
            rests = rests && client.ArgumentIs(6, "BEHIND"u8) && client.ArgumentNumber(7, out behind) && client.ArgumentIs(8, "TO"u8)
                && client.ArgumentNumber(9, out to);
        }
        else { behind = to = since; }
        bool isForm = client.ArgumentCount == 4 || (rests && since >= 0 && behind >= 0 && behind <= since && since <= to);
        if (isForm && client.ArgumentIs(1, "BEGIN"u8) && PastCommand.InstantOf(client, 2) is { } at)
        {
            string user = client.UserName;
            return PastCommand.Ask(client, () => snapshots.BeginAsync(at, rests ? new(since, behind, to) : null, user));
        }
        if (client.ArgumentCount == 3 && client.ArgumentIs(1, "STATE"u8))
        {
            return PastCommand.Ask(client, () => snapshots.StateAsync(name));
        }
        if (client.ArgumentCount == 3 && client.ArgumentIs(1, "END"u8)) { return PastCommand.Ask(client, () => snapshots.EndAsync(name)); }
        bool ofRemovals = client.ArgumentIs(1, "REMOVED"u8);
        if (client.ArgumentCount == 5 && (ofRemovals || client.ArgumentIs(1, "READ"u8)) && client.ArgumentNumber(3, out long offset)
            && offset >= 0 && client.ArgumentNumber(4, out long bytes) && bytes is > 0 and <= ReadBytesMax)
        {
            return PastCommand.Ask(client, () => snapshots.ReadAsync(name, ofRemovals, offset, (int)bytes));
        }
        return client.RefuseCommand($"ERR SLOGGER it is {Form}");
    }
}

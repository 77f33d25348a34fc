// Subcommands of CLIENT, ACL, CONFIG and MEMORY that have one answer here: nobody tracks, is blocked, or may be anything but the
// default user.
using System.Security.Cryptography;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    private const string PasswordBits = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";
    private static readonly string[] s_categories =
    [
        "keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo", "stream", "pubsub", "admin", "fast", "slow", "blocking",
        "dangerous", "connection", "transaction", "scripting",
    ];

    internal void GetRedirection() => Integer(-1);

    internal void DescribeTracking()
    {
        BeginMap(3);
        Bulk("flags");
        BeginSet(1);
        Bulk("off");
        Bulk("redirect");
        Integer(-1);
        Bulk("prefixes");
        BeginArray(0);
    }

    internal void SetCaching() => Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled");

    internal void UnblockClient()
    {
        if (_count > 4) Error(BadSubcommandUse());
        else if (_count == 4 && !IsArgument(3, "timeout"u8) && !IsArgument(3, "error"u8)) Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
        else if (TryInteger(2, out _)) Integer(0);
    }

    internal void Unpause() => Ok();

    internal void RewriteSettings() => Error("ERR The server is running without a config file");

    internal void PurgeMemory() => Ok();

    internal void ListUsers()
    {
        BeginArray(1);
        Bulk(DefaultUser);
    }

    internal void DescribeUsers()
    {
        BeginArray(1);
        Bulk($"user {DefaultUser} on nopass ~* &* +@all");
    }

    internal void DescribeUser()
    {
        if (!ArgumentAt(2).SequenceEqual("default"u8))
        {
            Null();
            return;
        }

        BeginMap(6);
        Bulk("flags");
        BeginSet(2);
        Bulk("on");
        Bulk("nopass");
        Bulk("passwords");
        BeginArray(0);
        Field("commands", "+@all");
        Field("keys", "~*");
        Field("channels", "&*");
        Bulk("selectors");
        BeginArray(0);
    }

    internal void ListCategories()
    {
        if (_count > 3)
        {
            Error(BadSubcommandUse());
            return;
        }

        string[] names = s_categories;
        if (_count == 3)
        {
            string category = Text(ArgumentAt(2)).ToLowerInvariant();
            if (!s_categories.Contains(category))
            {
                Error($"ERR Unknown category '{Text(ArgumentAt(2))}'");
                return;
            }

            names = [.. CommandTable.Entries.SelectMany(c => (Command[])[c, .. c.Subcommands]).Where(c => c.Categories.Split(' ').Contains(category)).Select(c => c.Name)];
        }

        BeginArray(names.Length);
        foreach (string name in names) Bulk(name);
    }

    internal void MakePassword()
    {
        long bits = 256;
        if (_count > 3) Error(BadSubcommandUse());
        else if (_count == 3 && !TryInteger(2, out bits)) return;
        else if (bits is < 1 or > 4096) Error(PasswordBits);
        else Bulk(Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(512))[..(int)((bits + 3) / 4)]);
    }

    // Logins that fail are not kept.
    internal void ShowAclLog()
    {
        if (_count > 3) Error(BadSubcommandUse());
        else if (_count == 3 && IsArgument(2, "reset"u8)) Ok();
        else if (_count < 3 || TryInteger(2, out _)) BeginArray(0);
    }
}

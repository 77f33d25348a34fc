// ACL. Nobody is anything but the default user, who may do everything.
using System.Security.Cryptography;

namespace Slogger.Faster.Commands;

/// <summary>Commands on users and their rights.</summary>
internal sealed class UserCommands(Request request, Replies replies)
{
    private const string PasswordBits =
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";
    private static readonly string[] s_categories =
    [
        "keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo", "stream", "pubsub",
        "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
    ];

    public void WhoAmI() => replies.Bulk(ClientState.DefaultUser);

    public void ListUsers()
    {
        replies.BeginArray(1);
        replies.Bulk(ClientState.DefaultUser);
    }

    public void DescribeUsers()
    {
        replies.BeginArray(1);
        replies.Bulk($"user {ClientState.DefaultUser} on nopass ~* &* +@all");
    }

    public void DescribeUser()
    {
        if (!request[2].SequenceEqual("default"u8))
        {
            replies.Null();
            return;
        }

        replies.BeginMap(6);
        replies.Bulk("flags");
        replies.BeginSet(2);
        replies.Bulk("on");
        replies.Bulk("nopass");
        replies.Bulk("passwords");
        replies.BeginArray(0);
        replies.Field("commands", "+@all");
        replies.Field("keys", "~*");
        replies.Field("channels", "&*");
        replies.Bulk("selectors");
        replies.BeginArray(0);
    }

    public void ListCategories()
    {
        if (request.Count > 3)
        {
            replies.Error(ErrorText.BadSubcommandUse(request));
            return;
        }

        string[] names = s_categories;
        if (request.Count == 3)
        {
            string category = Latin1.Text(request[2]).ToLowerInvariant();
            if (!s_categories.Contains(category))
            {
                replies.Error($"ERR Unknown category '{Latin1.Text(request[2])}'");
                return;
            }

            IEnumerable<Command> all = CommandTable.Entries.SelectMany(c => (Command[])[c, .. c.Subcommands]);
            names = [.. all.Where(c => c.Categories.Split(' ').Contains(category)).Select(c => c.Name)];
        }

        replies.BeginArray(names.Length);
        foreach (string name in names) replies.Bulk(name);
    }

    public void MakePassword()
    {
        long bits = 256;
        if (request.Count > 3) replies.Error(ErrorText.BadSubcommandUse(request));
        else if (request.Count == 3 && !request.TryInteger(2, replies, out bits)) return;
        else if (bits is < 1 or > 4096) replies.Error(PasswordBits);
        else replies.Bulk(Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(512))[..(int)((bits + 3) / 4)]);
    }

    // Logins that fail are not kept.
    public void ShowAclLog()
    {
        if (request.Count > 3) replies.Error(ErrorText.BadSubcommandUse(request));
        else if (request.Count == 3 && request.Is(2, "reset"u8)) replies.Ok();
        else if (request.Count < 3 || request.TryInteger(2, replies, out _)) replies.BeginArray(0);
    }
}

// COMMAND and what belongs to it.
namespace Slogger.Faster.Commands;

/// <summary>Commands on the commands that there are.</summary>
internal sealed class CatalogCommands(Request request, Replies replies)
{
    public void CountCommands() => replies.Integer(CommandTable.Entries.Length);

    public void ListCommands()
    {
        replies.BeginArray(CommandTable.Entries.Length);
        foreach (Command command in CommandTable.Entries) Describe(command);
    }

    public void DescribeCommands()
    {
        if (request.Count == 2)
        {
            ListCommands();
            return;
        }

        replies.BeginArray(request.Count - 2);
        for (int i = 2; i < request.Count; i++)
        {
            if (CommandTable.FindFull(request[i]) is { } command && (command.Traits & CommandTraits.Owner) == 0) Describe(command);
            else replies.Null();
        }
    }

    public void ListCommandNames()
    {
        Func<Command, bool> wanted = static _ => true;
        if (request.Count == 5 && request.Is(2, "filterby"u8))
        {
            byte[] filter = request[4].ToArray();
            string category = Latin1.Text(filter).ToLowerInvariant();
            if (request.Is(3, "module"u8)) wanted = static _ => false;
            else if (request.Is(3, "aclcat"u8)) wanted = c => c.Categories.Split(' ').Contains(category);
            else if (request.Is(3, "pattern"u8)) wanted = c => Glob.IsMatch(Latin1.Lower(filter), Latin1.Lower(c.Name));
            else
            {
                replies.Error(ErrorText.Syntax);
                return;
            }
        }
        else if (request.Count != 2)
        {
            replies.Error(ErrorText.Syntax);
            return;
        }

        bool withSubcommands = request.Count > 2;
        Command[] commands = [.. CommandTable.Entries.SelectMany(c => withSubcommands ? [c, .. c.Subcommands] : new[] { c }).Where(wanted)];
        replies.BeginArray(commands.Length);
        foreach (Command command in commands) replies.Bulk(command.Name);
    }

    /// <summary>HELP of a command that has subcommands: those that there are here.</summary>
    public void Help()
    {
        string full = request.Command.Name, name = full[..full.IndexOf('|', StringComparison.Ordinal)];
        Command[] subcommands = CommandTable.Entries.Single(c => c.Name == name).Subcommands;
        replies.BeginArray(subcommands.Length + 1);
        replies.Status($"{name.ToUpperInvariant()} <subcommand> [<arg> [value] [opt] ...]. Subcommands of the embedded store are:");
        foreach (Command subcommand in subcommands) replies.Status(subcommand.Name[(name.Length + 1)..].ToUpperInvariant());
    }

    // Redis's documents are Redis's.
    public void DocumentCommands() => replies.BeginMap(0);

    public void FindKeysOfCommand()
    {
        Command? command = CommandTable.Find(request[2]);
        int arguments = request.Count - 2;
        if (command is { Subcommands.Length: > 0 } && arguments > 1) command = CommandTable.Find(command, request[3]);
        if (command is null || (command.Traits & CommandTraits.Owner) != 0)
        {
            replies.Error("ERR Invalid command specified");
        }
        else if (command.FirstKey == 0 || (command.Traits & CommandTraits.Channels) != 0)
        {
            replies.Error("ERR The command has no key arguments");
        }
        else if (!command.Takes(arguments))
        {
            replies.Error("ERR Invalid number of arguments specified for command");
        }
        else
        {
            int last = command.LastKeyOf(arguments);
            replies.BeginArray(((last - command.FirstKey) / command.KeyStep) + 1);
            for (int i = command.FirstKey; i <= last; i += command.KeyStep) replies.Bulk(request[i + 2]);
        }
    }

    // Without tips and the newer form of key positions: those of all these commands are said by three numbers.
    private void Describe(Command command)
    {
        replies.BeginArray(10);
        replies.Bulk(command.Name);
        replies.Integer(command.Arity);
        StatusSet(command.Flags, "");
        replies.Integer(command.FirstKey);
        replies.Integer(command.LastKey);
        replies.Integer(command.KeyStep);
        StatusSet(command.Categories, "@");
        replies.BeginSet(0);
        replies.BeginSet(0);
        replies.BeginArray(command.Subcommands.Length);
        foreach (Command subcommand in command.Subcommands) Describe(subcommand);
    }

    private void StatusSet(string words, string prefix)
    {
        string[] items = words.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        replies.BeginSet(items.Length);
        foreach (string item in items) replies.Status(prefix + item);
    }
}

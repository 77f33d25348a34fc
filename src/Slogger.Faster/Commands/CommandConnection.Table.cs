// COMMAND and what belongs to it.
using System.Text;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    /// <summary>Whether there is a command of that name.</summary>
    public static bool IsKnown(ReadOnlySpan<byte> name) => CommandTable.Find(name) is not null;

    internal void CountCommands() => Integer(CommandTable.Entries.Length);

    internal void ListCommands()
    {
        BeginArray(CommandTable.Entries.Length);
        foreach (Command command in CommandTable.Entries) Describe(command);
    }

    internal void DescribeCommands()
    {
        if (_count == 2)
        {
            ListCommands();
            return;
        }

        BeginArray(_count - 2);
        for (int i = 2; i < _count; i++)
        {
            if (CommandTable.FindFull(ArgumentAt(i)) is { } command && (command.Traits & CommandTraits.Owner) == 0) Describe(command);
            else Null();
        }
    }

    internal void ListCommandNames()
    {
        Func<Command, bool> wanted = static _ => true;
        if (_count == 5 && IsArgument(2, "filterby"u8))
        {
            byte[] filter = ArgumentAt(4).ToArray();
            string category = Text(filter).ToLowerInvariant();
            if (IsArgument(3, "module"u8)) wanted = static _ => false;
            else if (IsArgument(3, "aclcat"u8)) wanted = c => c.Categories.Split(' ').Contains(category);
            else if (IsArgument(3, "pattern"u8)) wanted = c => Glob.IsMatch(Lower(filter), Lower(c.Name));
            else
            {
                Error(SyntaxError);
                return;
            }
        }
        else if (_count != 2)
        {
            Error(SyntaxError);
            return;
        }

        Command[] commands = [.. CommandTable.Entries.SelectMany(c => c.Subcommands.Length > 0 && _count > 2 ? [c, .. c.Subcommands] : new[] { c }).Where(wanted)];
        BeginArray(commands.Length);
        foreach (Command command in commands) Bulk(command.Name);
    }

    /// <summary>HELP of a command that has subcommands: those that there are here.</summary>
    internal void Help()
    {
        string name = _command.Name[.._command.Name.IndexOf('|', StringComparison.Ordinal)];
        Command[] subcommands = CommandTable.Entries.Single(c => c.Name == name).Subcommands;
        BeginArray(subcommands.Length + 1);
        Status($"{name.ToUpperInvariant()} <subcommand> [<arg> [value] [opt] ...]. Subcommands of the embedded store are:");
        foreach (Command subcommand in subcommands) Status(subcommand.Name[(name.Length + 1)..].ToUpperInvariant());
    }

    // Redis's documents are Redis's.
    internal void DocumentCommands() => BeginMap(0);

    internal void FindKeysOfCommand()
    {
        Command? command = CommandTable.Find(ArgumentAt(2));
        int arguments = _count - 2;
        if (command is { Subcommands.Length: > 0 } && arguments > 1) command = CommandTable.Find(command, ArgumentAt(3));
        if (command is null || (command.Traits & CommandTraits.Owner) != 0)
        {
            Error("ERR Invalid command specified");
        }
        else if (command.FirstKey == 0 || (command.Traits & CommandTraits.Channels) != 0)
        {
            Error("ERR The command has no key arguments");
        }
        else if (!command.Takes(arguments))
        {
            Error("ERR Invalid number of arguments specified for command");
        }
        else
        {
            int last = command.LastKeyOf(arguments);
            BeginArray(((last - command.FirstKey) / command.KeyStep) + 1);
            for (int i = command.FirstKey; i <= last; i += command.KeyStep) Bulk(ArgumentAt(i + 2));
        }
    }

    // Without tips and the newer form of key positions: those of all these commands are said by three numbers.
    private void Describe(Command command)
    {
        BeginArray(10);
        Bulk(command.Name);
        Integer(command.Arity);
        StatusSet(command.Flags, "");
        Integer(command.FirstKey);
        Integer(command.LastKey);
        Integer(command.KeyStep);
        StatusSet(command.Categories, "@");
        BeginSet(0);
        BeginSet(0);
        BeginArray(command.Subcommands.Length);
        foreach (Command subcommand in command.Subcommands) Describe(subcommand);
    }

    private void StatusSet(string words, string prefix)
    {
        string[] items = words.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        BeginSet(items.Length);
        foreach (string item in items) Status(prefix + item);
    }
}

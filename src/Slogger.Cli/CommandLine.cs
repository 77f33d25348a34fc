// The commands and their options, made from OptionCatalog: System.CommandLine splits the arguments, and the texts go on as
// the highest option layer. Meaning and errors are the readers' business.
using System.CommandLine;
using System.CommandLine.Completions;
using System.CommandLine.Help;
using System.CommandLine.Parsing;
using Slogger.Cli.Cohorts;
using Slogger.Cli.Past;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using CommandResult = Slogger.Cli.Terminal.CommandResult;

namespace Slogger.Cli;

/// <summary>Parses and dispatches.</summary>
internal static class CommandLine
{
    private const string Origin = "the command line";

    public static async Task<CommandResult> RunAsync(IReadOnlyList<string> args, AppHost host)
    {
        // The line that a shell completes.
        string? line = args.Count > 1 && args[0].StartsWith("[suggest", StringComparison.Ordinal) ? args[^1] : null;
        Command Build(string name, string description, IEnumerable<OptionDefinition> options) =>
            CommandLine.Build(name, description, options, line);
        Command serve = Build("serve", "Run a proxy, in front of a Redis or with a store of its own",
            OptionCatalog.For(OptionCommands.Serve));
        Command backup = Build("backup", "Run a process of a backup site: follow a primary's shard, and take over",
            OptionCatalog.For(OptionCommands.Backup));
        Command restore = Build("restore", "Put a Redis into the state of one version, while no proxy runs",
            OptionCatalog.For(OptionCommands.Restore));
        Command recover = Build("recover", "Have a cluster leave what a dead shard had not committed",
            OptionCatalog.For(OptionCommands.Recover));
        Command status = Build(StatusCommand.Name, "Show the state of a running proxy", StatusOptions.All);
        Command move = Build(MoveCommand.Name, "Move hash slots from one shard to another", MoveOptions.All);
        Command leave = Build(LeaveCommand.Name, "Have a shard that owns nothing leave its cluster",
            OptionCatalog.For(OptionCommands.Recover));
        Command init = Build(InitCommand.Name, "Write the files of a cluster, and of its second site", InitCommand.Options);
        Command interval = Build(IntervalCommand.Name, "Change the length of versions of a running cluster", IntervalCommand.Options);
        Argument<string[]> address = new("ADDRESS") { Arity = ArgumentArity.ZeroOrMore };
        status.Arguments.Add(address);
        Argument<string> shell = CompletionCommand.Shell;
        Command completion = new(CompletionCommand.Name, "Print a script with which a shell completes commands and options") { shell };
        RootCommand root = new("Slogger") { serve, backup, status, restore, move, recover, leave, interval, init, completion };
        Dictionary<string, Argument<string[]>> words = [];
        Command Listed(ListedCommand command)
        {
            Command built = Build(command.Name, command.Description, command.Options);
            if (command.Words is { } name)
            {
                built.Arguments.Add(words[command.Name] = new(name) { Arity = ArgumentArity.ZeroOrMore });
            }
            return built;
        }
        foreach (ListedCommand ofRoot in SiteCommands.All.Concat(PastCommands.All)) { root.Subcommands.Add(Listed(ofRoot)); }
        Command cohort = new(CohortCommands.Name, "Show a shard's cohort, have another node lead, or plan one");
        foreach (ListedCommand ofCohorts in CohortCommands.All) { cohort.Subcommands.Add(Listed(ofCohorts)); }
        root.Subcommands.Add(cohort);

        // A path begins with / here, and shells would offer it.
        HelpOption help = root.Options.OfType<HelpOption>().Single();
        foreach (string windows in (string[])["/h", "/?"]) { help.Aliases.Remove(windows); }

        // No @file arguments: '@' may begin a value. No built-in signal handling: StopSignals does it.
        ParseResult parsed = root.Parse(args, new ParserConfiguration { ResponseFileTokenReplacer = null, EnablePosixBundling = false });
        if (root.Directives.OfType<SuggestDirective>().Any(suggest => parsed.GetResult(suggest) is not null))
        {
            // A script of slogger completion asks what may come next.
            await parsed.InvokeAsync(new InvocationConfiguration { Output = host.Output, Error = host.Error }).ConfigureAwait(false);
            return CommandResult.Done;
        }

        Command command = parsed.CommandResult.Command;
        if (args.Count == 0 || IsGiven(parsed, "--help"))
        {
            HelpText.Write(host.Output, command == root ? null : NameOf(parsed.CommandResult), host.Width);
            return args.Count == 0 ? new CommandResult(ExitCodes.BadOptions, []) : CommandResult.Done;
        }

        if (command == root && IsGiven(parsed, "--version"))
        {
            host.Output.WriteLine("slogger " + ProductVersion.Text);
            return CommandResult.Done;
        }

        if (SyntaxErrors(parsed) is { Count: > 0 } errors)
        {
            return CommandResult.BadOptions(errors);
        }

        OptionLayer texts = LayerOf(parsed, command);
        return ListedCommands.Find(NameOf(parsed.CommandResult)) is { } listed ? await listed.RunAsync(texts,
                words.TryGetValue(listed.Name, out Argument<string[]>? behind) ? parsed.GetValue(behind) ?? [] : [], host)
                .ConfigureAwait(false)
            : command == serve ? await ServeCommand.RunAsync(texts, host).ConfigureAwait(false)
            : command == backup ? await ServeCommand.RunBackupAsync(texts, host).ConfigureAwait(false)
            : command == move ? await MoveCommand.RunAsync(texts, host).ConfigureAwait(false)
            : command == leave ? await LeaveCommand.RunAsync(texts, host).ConfigureAwait(false)
            : command == interval ? await IntervalCommand.RunAsync(texts, host).ConfigureAwait(false)
            : command == restore ? await RestoreCommand.RunAsync(texts, host).ConfigureAwait(false)
            : command == init ? InitCommand.Run(texts, host)
            : command == completion ? CompletionCommand.Run(parsed.GetRequiredValue(shell), host)
            : command == recover ? await RecoverCommand.RunAsync(texts, host).ConfigureAwait(false)
            : await StatusCommand.RunAsync(texts, parsed.GetValue(address) ?? [], host).ConfigureAwait(false);
    }

    // As it is typed, behind "slogger".
    private static string NameOf(System.CommandLine.Parsing.CommandResult command) =>
        command.Parent is System.CommandLine.Parsing.CommandResult parent ? $"{NameOf(parent)} {command.Command.Name}".TrimStart() : "";

    private static Command Build(string name, string description, IEnumerable<OptionDefinition> options, string? line)
    {
        Command command = new(name.Split(' ')[^1], description);
        foreach (OptionDefinition definition in options)
        {
            Option<string[]> option = new(definition.Switch)
            {
                Description = definition.Help,

                // A flag can be denied (--redis-tls false) to override the file, but not where a plain word may follow.
                Arity = line is not null ? ArityIn(line, definition) : definition.Shape != OptionShape.Flag ? ArgumentArity.OneOrMore
                    : name is StatusCommand.Name or MoveCommand.Name || ListedCommands.Find(name) is not null ? ArgumentArity.Zero
                    : ArgumentArity.ZeroOrMore,
                AllowMultipleArgumentsPerToken = false,
            };
            string[] words = [.. definition.ValueName.Split('|').Where(word => word.All(c => char.IsAsciiLetterLower(c) || c == '-'))];
            if (words.Length > 0) { option.CompletionSources.Add(words); }
            command.Options.Add(option);
        }

        return command;
    }

    // As many values as the line has, so that another option may come after the last of them.
    private static ArgumentArity ArityIn(string line, OptionDefinition definition) => definition.Shape == OptionShape.Flag
        ? ArgumentArity.Zero : new(1, Math.Max(1, line.Split(' ').Count(word => word == definition.Switch)));

    private static bool IsGiven(ParseResult parsed, string option)
        => EnclosingOptions(parsed.CommandResult).Any(known => known.Name == option && parsed.GetResult(known) is { Implicit: false });

    private static IEnumerable<Option> EnclosingOptions(System.CommandLine.Parsing.CommandResult command)
        => command.Parent is System.CommandLine.Parsing.CommandResult parent ? command.Command.Options.Concat(EnclosingOptions(parent))
            : command.Command.Options;

    private static OptionLayer LayerOf(ParseResult parsed, Command command)
    {
        OptionLayer layer = new();
        foreach (Option option in command.Options)
        {
            if (parsed.GetResult(option) is { Implicit: false } result)
            {
                string[] texts = [.. result.Tokens.Select(token => token.Value)];
                layer.Values[option.Name[2..]] = new OptionTexts(texts.Length == 0 ? ["true"] : texts, Origin);
            }
        }

        return layer;
    }

    private static List<OptionError> SyntaxErrors(ParseResult parsed)
    {
        Command command = parsed.CommandResult.Command;
        string called = $"slogger {NameOf(parsed.CommandResult)}".TrimEnd();
        string help = command.Subcommands.Count > 0 ? $"{called} --help lists the commands" : $"{called} --help lists the options";
        if (command.Subcommands.Count > 0)
        {
            string typed = parsed.UnmatchedTokens.FirstOrDefault() ?? "";
            string? nearest = NearestName.Find(typed, command.Subcommands.Select(known => known.Name));
            return [new OptionError(typed.Length > 0 ? $"\"{typed}\" is not a command{(command is RootCommand ? "" : $" of {called}")}"
                : "no command is given", "", nearest is null ? help : $"did you mean {called} {nearest}? {help}")];
        }

        List<OptionError> errors = [];
        bool afterUnknown = false;
        // Behind -- all are words.
        IEnumerable<string> switchesTakenForWords = parsed.Tokens.Any(token => token.Type == TokenType.DoubleDash) ? []
            : command.Arguments.SelectMany(argument => parsed.GetResult(argument)?.Tokens ?? [])
            .Select(token => token.Value).Where(text => text.StartsWith('-'));
        foreach (string token in parsed.UnmatchedTokens.Concat(switchesTakenForWords))
        {
            bool isSwitch = token.StartsWith('-');
            if (!isSwitch && afterUnknown)
            {
                // The value of the unknown option, most likely.
                afterUnknown = false;
                continue;
            }

            afterUnknown = isSwitch;
            string name = token.Split('=', 2)[0];
            string? nearest = isSwitch ? NearestName.Find(name, command.Options.Select(known => known.Name)) : null;
            errors.Add(new OptionError(isSwitch ? $"{name} is not an option of {called}"
                : $"\"{token}\" is one word too many", Origin, nearest is null ? help : $"did you mean {nearest}? {help}"));
        }

        // Unmatched tokens are reported there too; what is left is an option without its value.
        return errors.Count > 0 ? errors : [.. parsed.Errors.Select(error => new OptionError(error.Message.TrimEnd('.'), Origin, help))];
    }
}

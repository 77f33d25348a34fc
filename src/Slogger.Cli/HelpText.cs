// --help, from OptionCatalog: grouped, wrapped to the terminal, with each option's default.
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Cohorts;
using Slogger.Cli.Past;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Writes help.</summary>
internal static class HelpText
{
    private const int Indent = 6;

    private const string BackupText =
        "A site has metadata of its own. By default it has as many shards as its primary; for another number give --shards and "
        + "--primary-shards when the backup is made. This process receives the log that the primary's proxy of the same shard ships (its "
        + "--backup names the --site-listen of this process). It keeps the log, and applies it to its store, up to the newest version "
        + "that all shards of the site have. Clients may read there: each command sees the end of one version. Writes are refused. When "
        + "the site takes over (slogger failover, slogger switchover) this process goes on as a primary's, without a restart. With "
        + "--backup it then ships its log to the other site. If its Redis holds data already, the start is refused unless --seed from-log "
        + "is given. Without --redis and --redis-server the store is embedded (--commit faster): it knows strings with their expiries, in "
        + "database 0. It refuses anything else of the primary's, names it, and stays where it was; use a Redis then. After it has taken "
        + "over such a process cannot have a backup (--backup is refused).";

    private const string RestoreText =
        "Without --redis and --redis-server the command restores the store that the data directory records. With --redis a Redis that "
        + "runs is restored in place. It must be empty or this shard's own, unless --seed from-log is given. With --redis-server the "
        + "command starts a redis-server if none runs: the supervised shard's own, or one in DATA/restored. It restores that Redis, and "
        + "leaves it running: the last lines say how to reach it, and how to end it. Log and checkpoints are not changed. After a restore "
        + "to an older version slogger serve refuses to start with that Redis until you have chosen: --version V --keep goes on from V; "
        + "--latest returns to the newest version. In both cases writes to that Redis in between are lost.";

    private const string RecoverText =
        "Give it for a shard whose machine will be away for longer than the others can wait. The command watches the shard's lease for "
        + "some seconds, and refuses if the shard lives. Then it takes the shard, so that its old proxy can commit nothing any more. It "
        + "begins a new world-line at the newest version that is sure. The other shards go back to that version, and go on. Sessions and "
        + "plain clients are told as after any recovery. Operations that were not committed are lost, at all shards. Nothing further is "
        + "committed until the shard is back: start its proxy again with its data directory, on the old machine or another. If the "
        + "directory is lost, so is the shard's data: start with an empty one and --seed from-redis.";

    private const string LeaveText =
        "A shard can leave when it owns no hash slots and its moves are finished: move its slots first. Its proxy then closes its last "
        + "version, and ends. Cuts and recoveries go on without it. Its number is not given out again. No committed write is lost. If the "
        + "proxy is dead (the command watches its lease for some seconds) the cluster begins a new world-line without it, and goes back "
        + "to the newest version that is sure, as with slogger recover. A shard that has not joined yet is removed at once. To add a "
        + "shard: slogger serve --join.";

    private const string IntervalText =
        "The command proposes a time some seconds ahead. If all shards agree before it, all of them change at the same version, while "
        + "they run. If one does not (it is down, or cannot reach the metadata), nothing changes.";

    private const string InitText =
        "At a terminal it asks for the machines, the database and the Redis, if no option names them. Each site gets a file, from which "
        + "all its processes start: slogger serve --config FILE --shard N. Two sites also get the secret that they share. The command "
        + "prints the commands that start the processes. Ports are 6380 for clients and 7400 between sites, and count up if a machine has "
        + "more than one shard. No file is overwritten.";

    private const string MoveText =
        "The proxies of both shards move the keys while clients go on: they copy the keys, then the changes since. During the last "
        + "changes requests for these keys wait some milliseconds. Then clients are redirected by MOVED. After a failure of a proxy, a "
        + "Redis, the database or this command nothing is lost: the move goes on, or begins again, by itself. The old owner deletes its "
        + "copy when the move is committed.";

    // What --json writes, and when.
    private static readonly Dictionary<string, (string When, JsonTypeInfo Report)[]> s_reports = new()
    {
        [StatusCommand.Name] = [(", while the proxy starts", ReportJson.Default.StartingReport),
            (", with --site", SiteReportJson.Default.SiteReport)],
        ["restore"] = [(", with --list", ReportJson.Default.VersionsReport)],
        [MoveCommand.Name] = [(", with --list", ReportJson.Default.OwnersReport), (", with --cancel", ReportJson.Default.CancelledReport),
            (", else", ReportJson.Default.MoveReport)],
        [IntervalCommand.Name] = [("", ReportJson.Default.IntervalReport)],
        [DrillCommand.Name] = [("", SiteReportJson.Default.DrillReport)],
        [FailoverCommand.Name] = [("", SiteReportJson.Default.FailoverReport)],
        [SwitchOverCommand.Name] = [("", SiteReportJson.Default.SwitchOverReport)],
        [SeedCommand.Name] = [("", SiteReportJson.Default.SeedReport)],
        [GetCommand.Name] = [("", PastReportJson.Default.GetReport)],
        [RunCommand.Name] = [("", PastReportJson.Default.RunReport)],
        [HistoryCommand.Name] = [("", PastReportJson.Default.HistoryReport)],
        [FindCommand.Name] = [("", PastReportJson.Default.FindReport)],
        [RollCommand.Name] = [("", PastReportJson.Default.RollReport)],
        [DiffCommand.Name] = [("", PastReportJson.Default.DiffReport)],
        [RetentionCommand.Name] = [("", PastReportJson.Default.RetentionReport)],
        [SnapshotCommand.Name] = [("", PastReportJson.Default.SnapshotManifest)],
        [LoadCommand.Name] = [("", PastReportJson.Default.LoadReport)],
        [CohortStatusCommand.Name] = [("", CohortReportJson.Default.CohortReport)],
        [LeadCommand.Name] = [("", CohortReportJson.Default.LeadReport)],
        [PlanCommand.Name] = [("", CohortReportJson.Default.PlanReport)],
    };

    /// <summary>Writes the help of a command, or the list of commands.</summary>
    public static void Write(TextWriter output, string? command, int width)
    {
        if (ListedCommands.Find(command) is { } listed)
        {
            WriteListed(output, listed, width);
            return;
        }
        switch (command)
        {
            case "serve":
                output.WriteLine("slogger serve: run a proxy in front of a Redis, or with a store of its own.");
                output.WriteLine();
                output.WriteLine("  slogger serve --data /var/lib/slogger");
                output.WriteLine("  slogger serve --redis 127.0.0.1:6379 --data /var/lib/slogger");
                output.WriteLine("  slogger serve --redis-server redis-server --data /var/lib/slogger --listen 127.0.0.1:6380");
                WriteOptions(output, OptionCatalog.For(OptionCommands.Serve), width, isProxy: true);
                WriteSources(output, width, isProxy: true);
                break;
            case "backup":
                output.WriteLine("slogger backup: run a process of a backup site, for one shard: follow the primary, and take over.");
                output.WriteLine();
                output.WriteLine("  slogger backup --redis 127.0.0.1:6379 --data /var/lib/slogger --site-listen 10.0.1.7:7400 "
                    + "--site-secret-file /etc/slogger/site-secret");
                output.WriteLine("  slogger backup --commit faster --data /var/lib/slogger --site-listen 10.0.1.7:7400 --site-secret-file "
                    + "/etc/slogger/site-secret");
                output.WriteLine("  slogger backup --redis-server redis-server --data /var/lib/slogger --shards 4 --shard 2 --metadata "
                    + "postgres:... --site-listen 10.0.1.7:7400 --site-secret-file FILE");
                output.WriteLine();
                WriteText(output, BackupText, width);
                WriteOptions(output, OptionCatalog.For(OptionCommands.Backup), width, isProxy: true);
                WriteSources(output, width, isProxy: true);
                break;
            case "restore":
                output.WriteLine("slogger restore: put a Redis into the state of one version, while no proxy runs.");
                output.WriteLine();
                output.WriteLine("  slogger restore --data /var/lib/slogger --latest");
                output.WriteLine("  slogger restore --data /var/lib/slogger --list");
                output.WriteLine("  slogger restore --data /var/lib/slogger --version 123456 --redis 127.0.0.1:6379");
                output.WriteLine("  slogger restore --data /var/lib/slogger --version 123456 --keep");
                output.WriteLine();
                WriteText(output, RestoreText, width);
                WriteOptions(output, OptionCatalog.For(OptionCommands.Restore), width);
                WriteJson(output, command, width);
                WriteSources(output, width);
                break;
            case "recover":
                output.WriteLine("slogger recover: let a cluster go on without the uncommitted work of a dead shard.");
                output.WriteLine();
                output.WriteLine("  slogger recover --shard 2 --metadata \"postgres:Host=db1;Database=slogger\"");
                output.WriteLine();
                WriteText(output, RecoverText, width);
                WriteOptions(output, OptionCatalog.For(OptionCommands.Recover), width);
                WriteSources(output, width);
                break;
            case LeaveCommand.Name:
                output.WriteLine("slogger leave: remove a shard that owns no slots from its cluster.");
                output.WriteLine();
                output.WriteLine("  slogger leave --shard 3 --metadata \"postgres:Host=db1;Database=slogger\"");
                output.WriteLine();
                WriteText(output, LeaveText, width);
                WriteOptions(output, OptionCatalog.For(OptionCommands.Recover), width);
                WriteSources(output, width);
                break;
            case IntervalCommand.Name:
                output.WriteLine("slogger interval: change the length of versions of a running cluster of several shards.");
                output.WriteLine();
                output.WriteLine("  slogger interval --to 1ms --metadata postgres:Host=db1;Database=slogger");
                output.WriteLine();
                WriteText(output, IntervalText, width);
                WriteOptions(output, IntervalCommand.Options, width);
                WriteJson(output, command, width);
                output.WriteLine();
                output.WriteLine("Exit codes: 0 done, 1 failed, 2 wrong options.");
                break;
            case MoveCommand.Name:
                output.WriteLine("slogger move: move hash slots, or ranges of keys, from one shard of a running cluster to another.");
                output.WriteLine();
                output.WriteLine("  slogger move --slots 0-99,200 --to 2 --metadata postgres:Host=db1;Database=slogger");
                output.WriteLine("  slogger move --partitions 3 --to 2 --metadata ...");
                output.WriteLine("  slogger move --slots 0-99,200 --cancel --metadata ...");
                output.WriteLine("  slogger move --list --metadata ...");
                output.WriteLine();
                WriteText(output, MoveText, width);
                WriteOptions(output, MoveOptions.All, width);
                WriteJson(output, command, width);
                output.WriteLine();
                output.WriteLine("Exit codes: 0 done, 1 failed or called off, 2 wrong options.");
                break;
            case "status":
                output.WriteLine("slogger status: show the state of a running proxy.");
                output.WriteLine();
                output.WriteLine("  slogger status --data /var/lib/slogger");
                output.WriteLine("  slogger status 127.0.0.1:6380 --json");
                output.WriteLine("  slogger status --site --metadata \"postgres:Host=db2;Database=slogger\" --site-secret-file "
                    + "/etc/slogger/site-secret");
                WriteOptions(output, StatusOptions.All, width);
                WriteJson(output, command, width);
                output.WriteLine();
                output.WriteLine("Exit codes: 0 it serves, or the site is ready; 1 it starts, or does not answer; 2 wrong options.");
                break;
            case InitCommand.Name:
                output.WriteLine("slogger init: write the files of a cluster, and of its second site.");
                output.WriteLine();
                output.WriteLine("  slogger init");
                output.WriteLine("  slogger init --hosts cache0,cache1 --metadata \"postgres:Host=db1;Database=slogger\" --directory "
                    + "/etc/slogger");
                output.WriteLine("  slogger init --hosts a0,a1 --metadata \"postgres:Host=db-a;Database=slogger\" --backup-hosts b0,b1");
                output.WriteLine("      --backup-metadata \"postgres:Host=db-b;Database=slogger\" --directory /etc/slogger");
                output.WriteLine();
                WriteText(output, InitText, width);
                WriteOptions(output, InitCommand.Options, width);
                output.WriteLine();
                output.WriteLine("Exit codes: 0 done, 1 failed, 2 wrong options.");
                break;
            case CompletionCommand.Name:
                output.WriteLine("slogger completion: print a script with which a shell completes commands and options.");
                output.WriteLine();
                output.WriteLine("  source <(slogger completion bash)     in ~/.bashrc");
                output.WriteLine("  source <(slogger completion zsh)      in ~/.zshrc, after compinit");
                output.WriteLine("  slogger completion fish | source      in ~/.config/fish/config.fish");
                break;
            case CohortCommands.Name:
                output.WriteLine("slogger cohort: a shard that is replicated on several nodes.");
                output.WriteLine();
                WriteCohorts(output);
                output.WriteLine();
                output.WriteLine("slogger cohort COMMAND --help lists a command's options.");
                break;
            default:
                output.WriteLine("slogger: makes an unmodified Redis recoverable.");
                output.WriteLine();
                output.WriteLine("  slogger serve     run a proxy, in front of a Redis or with a store of its own");
                output.WriteLine("  slogger status    show the state of a running proxy");
                output.WriteLine("  slogger move      move hash slots or key ranges from one shard to another");
                output.WriteLine("  slogger leave     remove a shard that owns no slots from its cluster");
                output.WriteLine("  slogger interval  change the length of versions of a running cluster");
                foreach (ListedCommand past in PastCommands.All)
                {
                    output.WriteLine($"  slogger {past.Name,-10}{past.Description}");
                }
                output.WriteLine("  slogger restore   put a Redis into the state of one version, while no proxy runs");
                output.WriteLine("  slogger recover   let a cluster go on without the uncommitted work of a dead shard");
                output.WriteLine("  slogger init      write the files of a cluster, and of its second site");
                output.WriteLine("  slogger completion SHELL  print a script with which bash, zsh or fish completes all of this");
                output.WriteLine();
                output.WriteLine("With a second site:");
                output.WriteLine("  slogger backup     run a process of a backup site: follow a primary's shard, serve reads, take over");
                foreach (ListedCommand ofSites in SiteCommands.All)
                {
                    output.WriteLine($"  slogger {ofSites.Name,-11}{ofSites.Description}");
                }
                output.WriteLine();
                output.WriteLine("With a cohort of nodes for each shard:");
                WriteCohorts(output);
                output.WriteLine();
                output.WriteLine("slogger COMMAND --help lists a command's options; slogger --version shows the version.");
                break;
        }
    }

    private static void WriteCohorts(TextWriter output)
    {
        foreach (ListedCommand ofCohorts in CohortCommands.All)
        {
            output.WriteLine($"  slogger {ofCohorts.Name,-14} {ofCohorts.Description}");
        }
    }

    private static void WriteListed(TextWriter output, ListedCommand command, int width)
    {
        output.WriteLine($"slogger {command.Name}: {command.Description}.");
        output.WriteLine();
        foreach (string example in command.Examples) { output.WriteLine("  slogger " + example); }
        output.WriteLine();
        foreach (string line in Wrap(command.Text, width)) { output.WriteLine(line); }
        WriteOptions(output, command.Options, width);
        WriteJson(output, command.Name, width);
        output.WriteLine();
        output.WriteLine("Exit codes: 0 done, 1 failed or refused, 2 wrong options.");
    }

    // The names are the reports' own.
    private static void WriteJson(TextWriter output, string command, int width)
    {
        if (!s_reports.TryGetValue(command, out (string When, JsonTypeInfo Report)[]? reports)) { return; }
        output.WriteLine();
        output.WriteLine("With --json (milliseconds where a name ends with _ms; null is not known):");
        if (command == StatusCommand.Name) { output.WriteLine("  the fields of DPR.INFO, of a proxy that serves"); }
        foreach ((string when, JsonTypeInfo report) in reports)
        {
            string indent = "  ";
            foreach (string line in Wrap($"{{{Report.NamesOf(report)}}}{when}", width - Indent))
            {
                output.WriteLine(indent + line);
                indent = new string(' ', Indent);
            }
        }
    }

    private static void WriteSources(TextWriter output, int width, bool isProxy = false)
    {
        output.WriteLine();
        foreach (string line in Wrap("Each option can also be an environment variable (SLOGGER_VERSION_INTERVAL=5ms; commas separate "
            + "addresses) or stand in the file of --config. The command line overrides the environment, and the environment overrides the "
            + "file.", width))
        {
            output.WriteLine(line);
        }

        if (isProxy)
        {
            foreach (string line in Wrap("On SIGHUP the process reads the file of --config again, and the files of certificates and "
                + "authorities. Options that are marked change at once, all others at the next start. SIGHUP never ends the "
                + "process.", width))
            {
                output.WriteLine(line);
            }
        }

        output.WriteLine("Sizes: 64mb, 1gb. Durations: 5ms, 2s, 10m.");
        output.WriteLine("Exit codes: 0 stopped in order, 1 failed while running, 2 wrong options.");
    }

    private static void WriteText(TextWriter output, string text, int width)
    {
        foreach (string line in Wrap(text, width)) { output.WriteLine(line); }
    }

    private static void WriteOptions(TextWriter output, IEnumerable<OptionDefinition> options, int width,
        bool isProxy = false)
    {
        foreach (IGrouping<string, OptionDefinition> group in options.GroupBy(option => option.Group))
        {
            output.WriteLine();
            output.WriteLine(group.Key + ":");
            foreach (OptionDefinition option in group)
            {
                output.WriteLine($"  {option.Switch} {option.ValueName}".TrimEnd());
                string text = option.Default is "none" or "false" or "" ? option.Help : $"{option.Help} Default: {option.Default}.";
                if (isProxy && option.IsLive) { text += " Changes at SIGHUP."; }
                foreach (string line in Wrap(text, width - Indent))
                {
                    output.WriteLine(new string(' ', Indent) + line);
                }
            }
        }
    }

    private static IEnumerable<string> Wrap(string text, int width)
    {
        string line = "";
        foreach (string word in text.Split(' '))
        {
            if (line.Length > 0 && line.Length + 1 + word.Length > width)
            {
                yield return line;
                line = "";
            }

            line = line.Length == 0 ? word : line + " " + word;
        }

        yield return line;
    }
}

// --help, from OptionCatalog: grouped, wrapped to the terminal, with each option's default.
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Writes help.</summary>
internal static class HelpText
{
    private const int Indent = 6;

    private const string BackupText = "A site has metadata of its own, and as many shards as its primary, or another number: --shards "
        + "where it is made, with --primary-shards. This process receives the log that the primary's proxy of the same shard ships (its "
        + "--backup names --site-listen), or the logs of those whose slots its shard has, keeps it, and has its store follow: up to the "
        + "newest version that all shards of the site have. Clients may read there: each command sees the end of one version; writes are "
        + "refused. When the site takes over (slogger failover, slogger switchover) this process goes on as the shard of a primary, "
        + "without a restart; with --backup it then ships in its turn. What is in the Redis before is not overwritten unasked. Without "
        + "--redis and --redis-server the store is embedded (--commit faster): it follows strings with their expiries, in database 0; "
        + "anything else of the primary's is refused by name, the store stays where it was, and a backup with a Redis has to be made. "
        + "Once it has taken over it ships to no backup (--backup is refused).";

    private const string RestoreText = "Without --redis and --redis-server the store that the data directory remembers is restored. "
        + "A Redis that runs is restored in place; it must be empty or this shard's own, unless --seed from-log is given. "
        + "A redis-server is started if it does not run (a supervised shard's own, else one in DATA/restored), restored and left running: "
        + "the last lines say how to reach and how to end it. What is kept is not changed. A Redis that was brought to an older version "
        + "is noted: slogger serve refuses to start on it until you have chosen. --version V --keep goes on from V; --latest returns to "
        + "the newest version. What was written to the Redis meanwhile is lost in both cases.";

    private const string RecoverText =
        "For a shard whose machine is gone for longer than the others are to wait. The command watches the shard's lease for some "
        + "seconds, and refuses if the shard lives. It then takes the shard, so that its old proxy can commit nothing any more, "
        + "and begins a new world-line at the newest version that is sure: the other shards go back to it, sessions and plain clients are "
        + "told as after any recovery, and go on. What was not committed is lost, on all shards. Nothing further is committed until the "
        + "shard is back: start its proxy again with its data directory, on the old machine or another. Without the directory what the "
        + "shard had is lost: start it with an empty one and --seed from-redis.";

    private const string LeaveText =
        "The shard may own no hash slots and take part in no move: move them to others first. Its proxy then closes its last version, and "
        + "ends; cuts and recoveries go on without it. Its number is not given out again. Nothing that was committed is lost. If the "
        + "proxy is dead (its lease is watched for some seconds) the cluster begins a new world-line without it, and goes back to the "
        + "newest version that is sure, as by slogger recover. A shard that has not joined yet has left at once. A shard joins by slogger "
        + "serve --join.";

    private const string IntervalText = "It is proposed for a time some seconds ahead. If every shard agrees before, all go over at the "
        + "same version, while they run; if one does not (it is down, or cannot reach the metadata), nothing changes. Versions "
        + "never go back.";

    private const string InitText = "It asks for the machines, the database and the Redis, if a person can answer; what an option says "
        + "is not "
        + "asked. Each site gets a file, from which every process of it starts: slogger serve --config FILE --shard N. Two sites also get "
        + "the secret that they share. It prints the commands that start them. Ports are 6380 for clients and 7400 between sites, "
        + "and count "
        + "up where a machine has more than one shard. No file is overwritten.";

    private const string MoveText =
        "The proxies of both shards do it while clients go on: the keys are copied, then what has changed meanwhile; for the "
        + "last changes requests for these keys wait some milliseconds, and then clients are sent on by MOVED. Nothing is lost "
        + "if a proxy, a Redis, the database or this command fails in between: the move goes on, or begins again, when they are back. "
        + "The old owner deletes its copy when the move is committed.";

    // What --json writes, and when.
    private static readonly Dictionary<string, (string When, JsonTypeInfo Report)[]> s_reports = new()
    {
        [StatusCommand.Name] = [(", of one that starts", ReportJson.Default.StartingReport),
            (", with --site", SiteReportJson.Default.SiteReport)],
        ["restore"] = [(", with --list", ReportJson.Default.VersionsReport)],
        [MoveCommand.Name] = [(", with --list", ReportJson.Default.OwnersReport), (", with --cancel", ReportJson.Default.CancelledReport),
            (", else", ReportJson.Default.MoveReport)],
        [IntervalCommand.Name] = [("", ReportJson.Default.IntervalReport)],
        [DrillCommand.Name] = [("", SiteReportJson.Default.DrillReport)],
        [FailoverCommand.Name] = [("", SiteReportJson.Default.FailoverReport)],
        [SwitchOverCommand.Name] = [("", SiteReportJson.Default.SwitchOverReport)],
        [SeedCommand.Name] = [("", SiteReportJson.Default.SeedReport)],
    };

    /// <summary>Writes the help of a command, or the list of commands.</summary>
    public static void Write(TextWriter output, string? command, int width)
    {
        if (SiteCommands.Find(command) is { } site)
        {
            WriteSite(output, site, width);
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
                output.WriteLine("slogger backup: run a process of a backup site, for one shard: follow the primary's, and take "
                    + "over from it.");
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
                output.WriteLine("slogger recover: have a cluster leave what a dead shard had not committed.");
                output.WriteLine();
                output.WriteLine("  slogger recover --shard 2 --metadata \"postgres:Host=db1;Database=slogger\"");
                output.WriteLine();
                WriteText(output, RecoverText, width);
                WriteOptions(output, OptionCatalog.For(OptionCommands.Recover), width);
                WriteSources(output, width);
                break;
            case LeaveCommand.Name:
                output.WriteLine("slogger leave: have a shard that owns nothing leave its cluster.");
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
            default:
                output.WriteLine("slogger: makes an unmodified Redis recoverable.");
                output.WriteLine();
                output.WriteLine("  slogger serve     run a proxy, in front of a Redis or with a store of its own");
                output.WriteLine("  slogger status    show the state of a running proxy");
                output.WriteLine("  slogger move      move hash slots or key ranges from one shard to another");
                output.WriteLine("  slogger leave     have a shard that owns nothing leave its cluster");
                output.WriteLine("  slogger interval  change the length of versions of a running cluster");
                output.WriteLine("  slogger restore   put a Redis into the state of one version, while no proxy runs");
                output.WriteLine("  slogger recover   have a cluster leave what a dead shard had not committed");
                output.WriteLine("  slogger init      write the files of a cluster, and of its second site");
                output.WriteLine("  slogger completion SHELL  print a script with which bash, zsh or fish completes all of this");
                output.WriteLine();
                output.WriteLine("With a second site:");
                output.WriteLine("  slogger backup     run a process of a backup site: follow a primary's shard, serve reads, take over");
                foreach (SiteCommand ofSites in SiteCommands.All)
                {
                    output.WriteLine($"  slogger {ofSites.Name,-11}{ofSites.Description}");
                }
                output.WriteLine();
                output.WriteLine("slogger COMMAND --help lists a command's options; slogger --version shows the version.");
                break;
        }
    }

    private static void WriteSite(TextWriter output, SiteCommand command, int width)
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
        foreach (string line in Wrap("Each option can also be an environment variable (SLOGGER_VERSION_INTERVAL=5ms; addresses in one "
            + "variable are separated by commas) or stand in the file of --config. The command line goes over the environment, the "
            + "environment over the file.", width))
        {
            output.WriteLine(line);
        }

        if (isProxy)
        {
            foreach (string line in Wrap("SIGHUP has the file of --config read again, and certificates and authorities from their files: "
                + "options that are marked are taken up, others count from the next start on. It never ends the process.", width))
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
                if (isProxy && option.IsLive) { text += " Taken up at SIGHUP."; }
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

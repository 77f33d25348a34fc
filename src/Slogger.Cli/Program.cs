// The slogger executable: see CommandLine for the commands, SloggerApp for the exit codes.
using Slogger.Cli;

return await SloggerApp.RunAsync(args, AppHost.Process);

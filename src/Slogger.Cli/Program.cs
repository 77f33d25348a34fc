// The slogger executable: see CommandLine for the commands, SloggerApp for the exit codes.
using Slogger.Cli;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

FileModes.MakePrivate();
return await SloggerApp.RunAsync(args, AppHost.Process);

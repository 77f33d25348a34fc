// Runs the executable's code in this process, with an environment and entry points of the test.
using System.Collections;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests;

internal sealed record AppRun(int ExitCode, string Output, string Error, ServeOptions? Served, RestoreOptions? Restored)
{
    public static async Task<AppRun> Of(string[] args, Dictionary<string, string>? environment = null, ProxyExit? exit = null,
        Action<ServeOptions>? whileServing = null, string? answers = null)
    {
        StringWriter output = new();
        StringWriter error = new();
        ServeOptions? served = null;
        RestoreOptions? restored = null;
        AppHost host = new()
        {
            Output = output,
            Input = answers is null ? null : new StringReader(answers),
            Error = TextWriter.Synchronized(error),
            Environment = (IDictionary?)environment ?? new Dictionary<string, string>(),
            Serve = (options, _, _, _) =>
            {
                served = options;
                whileServing?.Invoke(options);
                return Task.FromResult(exit ?? ProxyExit.Done);
            },
            Restore = (options, _, _) =>
            {
                restored = options;
                return Task.FromResult(exit ?? ProxyExit.Done);
            },
        };
        int code = await SloggerApp.RunAsync(args, host);
        return new AppRun(code, output.ToString(), error.ToString(), served, restored);
    }
}

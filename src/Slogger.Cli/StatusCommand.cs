// slogger status: finds the proxy by its data directory or its address, asks DPR.INFO, prints the answer.
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Cli;

/// <summary>Shows a proxy's state.</summary>
internal static class StatusCommand
{
    public const string Name = "status";

    /// <summary>How to reach a proxy.</summary>
    internal sealed record Target(ListenAddress Address, bool Tls, string Found);

    public static async Task<CommandResult> RunAsync(OptionLayer texts, IReadOnlyList<string> addresses, AppHost host)
    {
        if (texts.Values.ContainsKey("site")) { return await SiteStatus.RunAsync(texts, addresses, host).ConfigureAwait(false); }
        List<OptionError> errors = [];
        if (SiteStatus.Options.FirstOrDefault(o => texts.Values.ContainsKey(o.Name)) is { } stray)
        {
            errors.Add(new OptionError($"{stray.Switch} is given without --site", "the command line", "add --site, or remove it"));
        }
        string? data = texts.One("data", errors);
        string? passwordFile = texts.One("password-file", errors);
        string? caFile = texts.One("tls-ca", errors);
        foreach ((string name, string? file) in new[] { ("password-file", passwordFile), ("tls-ca", caFile) })
        {
            if (file is not null && !OptionText.ExistingFile(file, out _, out string problem))
            {
                errors.Add(new OptionError($"--{name} \"{file}\" {problem}", "the command line", "correct the path"));
            }
        }

        ListenAddress? address = null;
        if (addresses.Count > 1 || (addresses.Count == 1 && data is not null))
        {
            errors.Add(new OptionError("more than one proxy is named", "the command line", "give one ADDRESS, or --data DIR"));
        }
        else if (addresses.Count == 1 && !OptionText.ServerAddress(addresses[0], out address, out string problem))
        {
            string hint = Directory.Exists(addresses[0]) ? $"it is a directory: use --data {addresses[0]}"
                : "write HOST:PORT or unix:PATH, or use --data DIR";
            errors.Add(new OptionError($"the address \"{addresses[0]}\" {problem}", "the command line", hint));
        }

        string? user = texts.One("user", errors);
        if (errors.Count > 0)
        {
            return CommandResult.BadOptions(errors);
        }

        StatusCredentials credentials = new(user, passwordFile is null ? null : File.ReadLines(passwordFile).FirstOrDefault()
            ?? "", caFile, texts.Values.ContainsKey("tls-insecure"));
        Target target;
        if (address is not null)
        {
            target = new Target(address, texts.Values.ContainsKey("tls") || caFile is not null || credentials.TakesAnyCertificate, "");
        }
        else if (!TryFind(data, host, texts.Values.ContainsKey(Report.Option), out Target? found, out CommandResult? failure))
        {
            return failure!;
        }
        else
        {
            target = found!;
        }

        StatusAnswer answer = await StatusClient.AskAsync(target.Address, target.Tls, credentials).ConfigureAwait(false);
        if (answer.Fields is not { } fields)
        {
            return CommandResult.Failed(answer.Problem + target.Found, answer.Remedy);
        }

        if (texts.Values.ContainsKey(Report.Option))
        {
            host.Output.WriteLine(StatusReport.ToJson(fields));
        }
        else
        {
            StatusReport.Print(fields, target.Address, host, DateTimeOffset.UtcNow);
        }

        return CommandResult.Done;
    }

    private static bool TryFind(string? data, AppHost host, bool asJson, out Target? target, out CommandResult? failure)
    {
        (target, failure) = (null, null);
        string path = Path.GetFullPath(data ?? host.Environment["SLOGGER_DATA"] as string ?? ServeOptionsReader.DefaultDataDirectory);
        const string other = "give the data directory of a running proxy with --data DIR, or its ADDRESS";
        if (!Directory.Exists(path))
        {
            failure = CommandResult.Failed($"the data directory {path} does not exist", other);
            return false;
        }

        if (ProxyRecord.Read(path) is not { } record)
        {
            bool used = File.Exists(Path.Combine(path, StoreRecord.FileName));
            DirectoryOwner? owner = DataDirectory.OwnerOf(path) is { } known && IsAlive(known.Pid) ? known : null;
            if (owner is { IsProxy: true })
            {
                StartingOf(path, owner).Write(host, asJson);
                failure = CommandResult.Failed("the proxy starts, and serves nobody yet",
                    "wait; its log says what it does, and when it is ready");
                return false;
            }

            failure = owner is not null
                ? CommandResult.Failed($"no proxy runs on the data directory {path}: slogger restore (process {owner.Pid}) uses it",
                    "wait until that has ended, and start a proxy with slogger serve")
                : used
                ? CommandResult.Failed($"no proxy runs on the data directory {path}", "start one with slogger serve")
                : CommandResult.Failed($"{path} is not a data directory of Slogger: it has no {StoreRecord.FileName}", other);
            return false;
        }

        bool tls = record.Listen.IsDefaultOrEmpty;
        string? text = tls ? record.TlsListen.FirstOrDefault() : record.Listen[0];
        if (text is null || !ListenAddress.TryParse(text, out ListenAddress? address, out _))
        {
            failure = CommandResult.Failed($"the proxy (process {record.Pid}) of {path} names no address to connect to",
                "give its ADDRESS");
            return false;
        }

        target = new Target(Reachable(address), tls,
            $" (address from {Path.Combine(path, ProxyRecord.FileName)}, written by process "
                + $"{record.Pid}{(IsAlive(record.Pid) ? "" : ", which no longer runs")})");
        return true;
    }

    private static StartingReport StartingOf(string path, DirectoryOwner owner)
    {
        StoreRecord? store = null;
        try
        {
            store = StoreRecord.Read(path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or InvalidDataException)
        {
            // It is being written, or not ours to read.
        }

        return new(store?.Cluster, store?.Shard, StartingReport.Starting, owner.Pid,
            Math.Max(0, (long)(DateTimeOffset.UtcNow - owner.Since).TotalSeconds));
    }

    // A proxy that listens on every interface is reached at the loopback one.
    private static ListenAddress Reachable(ListenAddress address) => address switch
    {
        { IsUnix: true } => address,
        { Host: "0.0.0.0" } => ListenAddress.Tcp("127.0.0.1", address.Port),
        { Host: "::" } => ListenAddress.Tcp("::1", address.Port),
        _ => address,
    };

    private static bool IsAlive(int pid)
    {
        try
        {
            using System.Diagnostics.Process process = System.Diagnostics.Process.GetProcessById(pid);
            return !process.HasExited;
        }
        catch (Exception e) when (e is ArgumentException or InvalidOperationException)
        {
            return false;
        }
    }
}

// slogger status: finds the proxy by its data directory or its address, asks DPR.INFO, prints the answer.
using Slogger.Cli.Access;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Shows a proxy's state.</summary>
internal static class StatusCommand
{
    public const string Name = "status";

    public static async Task<CommandResult> RunAsync(OptionLayer texts, IReadOnlyList<string> addresses, AppHost host)
    {
        if (texts.Values.ContainsKey("site")) { return await SiteStatus.RunAsync(texts, addresses, host).ConfigureAwait(false); }
        List<OptionError> errors = [];
        if (SiteStatus.Options.FirstOrDefault(o => texts.Values.ContainsKey(o.Name)) is { } stray)
        {
            errors.Add(new OptionError($"{stray.Switch} is given without --site", "the command line", "add --site, or remove it"));
        }
        if (addresses.Count > 1)
        {
            errors.Add(new OptionError("more than one proxy is named", "the command line", "give one ADDRESS, or --data DIR"));
        }
        ProxyAccess? access = ProxyAccess.Read(texts, addresses.FirstOrDefault(), errors);
        if (errors.Count > 0) { return CommandResult.BadOptions(errors); }
        bool asJson = texts.Values.ContainsKey(Report.Option);
        if (access!.Find(host, (path, owner) => StartingOf(path, owner).Write(host, asJson)) is { } failure) { return failure; }
        IReadOnlyList<KeyValuePair<string, string>> fields;
        try
        {
            fields = await StatusClient.AskAsync(access).ConfigureAwait(false);
        }
        catch (ProxyUnreachableException e)
        {
            return CommandResult.Failed(e.Message + access.Found, e.Remedy);
        }
        if (asJson) { host.Output.WriteLine(StatusReport.ToJson(fields)); }
        else { StatusReport.Print(fields, access.Address!, host, DateTimeOffset.UtcNow); }
        return CommandResult.Done;
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
}

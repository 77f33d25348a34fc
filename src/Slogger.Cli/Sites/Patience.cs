// How long a command of two sites asks again: databases start and machines are busy just then when a site is lost.
using System.Diagnostics;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

/// <summary>Asks again, for a while from now on.</summary>
/// <param name="limit">For so long.</param>
/// <param name="log">Is told why, whenever that changes.</param>
internal sealed class Patience(TimeSpan limit, ILogger log)
{
    private const string Name = "timeout";
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(200), LimitDefault = TimeSpan.FromSeconds(30);
    private readonly long _began = Stopwatch.GetTimestamp();
    private string _told = "";

    /// <summary>The option that sets it.</summary>
    public static OptionDefinition Option(string group) =>
        new(Name, group, "DURATION", "So long a database that starts, and processes that are busy or start, are asked again, 1s to 10m.", "30s", "");

    /// <summary>As the option says.</summary>
    public static TimeSpan LimitIn(SiteArguments arguments) => arguments.Value(Name, OptionText.Duration(TimeSpan.FromSeconds(1), TimeSpan.FromMinutes(10)), LimitDefault);

    /// <summary>Does something with databases, again from its beginning while they cannot be used: only what changes nothing, or may be done twice.</summary>
    public async Task<T> WithDatabasesAsync<T>(Func<Task<T>> run, CancellationToken stop)
    {
        while (true)
        {
            try
            {
                return await run().ConfigureAwait(false);
            }
            catch (MetadataUnavailableException e) when (!IsOver)
            {
                await PauseAsync(e.Message, stop).ConfigureAwait(false);
            }
        }
    }

    /// <summary>Asks a site's processes how they are, again while something stands in the way that may pass.</summary>
    /// <param name="site">The site.</param>
    /// <param name="obstacle">What stands in the way; null: nothing.</param>
    /// <param name="stop">Gives up.</param>
    public async Task<(IReadOnlyList<Answered<V1.StatusReply>> Answers, CommandResult? Obstacle)> AskAsync(
        SiteAccess site, Func<IReadOnlyList<Answered<V1.StatusReply>>, CommandResult?> obstacle, CancellationToken stop)
    {
        while (true)
        {
            IReadOnlyList<Answered<V1.StatusReply>> answers = await site.StatusesAsync(stop).ConfigureAwait(false);
            CommandResult? found = obstacle(answers);
            if (found is null || IsOver || !answers.Any(a => a.MayPass)) { return (answers, found); }
            await PauseAsync(found.Errors[0].What, stop).ConfigureAwait(false);
        }
    }

    private bool IsOver => Stopwatch.GetElapsedTime(_began) >= limit;

    private async Task PauseAsync(string why, CancellationToken stop)
    {
        if (why != _told) { log.Warn($"{why.TrimEnd('.')}. Asking again for {limit.TotalSeconds:0} s"); }
        _told = why;
        await Task.Delay(Pause, stop).ConfigureAwait(false);
    }
}

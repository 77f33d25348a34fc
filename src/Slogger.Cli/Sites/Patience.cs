// How long a command of two sites asks again: databases start and machines are busy just then when a site is lost.
using System.Diagnostics;
using Slogger.Cli.Terminal;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

/// <summary>Asks again, for a while from now on.</summary>
/// <param name="limit">For so long.</param>
/// <param name="log">Is told why, whenever that changes.</param>
/// <param name="awaitsSite">Also while the site is not there yet: its processes make it when they start.</param>
internal sealed class Patience(TimeSpan limit, ILogger log, bool awaitsSite = false)
{
    private const string Name = "timeout";
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(200), LimitDefault = TimeSpan.FromSeconds(30);

    // Where nothing listens a process may just be starting: it is asked again, but not for as long as one that is there.
    private static readonly TimeSpan NotRunningLimit = TimeSpan.FromSeconds(5);

    private readonly long _began = Stopwatch.GetTimestamp();
    private string _told = "";

    /// <summary>The option that sets it.</summary>
    public static OptionDefinition Option(string group,
        string help = "How long a database or process that is starting or busy is asked again: 1s to 10m.") =>
        new(Name, group, "DURATION", help, "30s", "");

    /// <summary>As the option says.</summary>
    public static TimeSpan LimitIn(SiteArguments arguments) =>
        arguments.Value(Name, OptionText.Duration(TimeSpan.FromSeconds(1), TimeSpan.FromMinutes(10)), LimitDefault);

    /// <summary>Does something with databases, again from its beginning while they cannot be used: only what changes nothing, or may be
    /// done twice.</summary>
    public async Task<T> WithDatabasesAsync<T>(Func<Task<T>> run, CancellationToken stop)
    {
        while (true)
        {
            try
            {
                return await run().ConfigureAwait(false);
            }
            catch (MetadataException e) when (!IsOver && (e is MetadataUnavailableException || (awaitsSite && e is NoSiteException)))
            {
                await PauseAsync(e.Message, stop).ConfigureAwait(false);
            }
        }
    }

    /// <summary>Asks a site's processes how they are, again while something stands in the way that may pass.</summary>
    /// <param name="site">The site.</param>
    /// <param name="obstacle">What stands in the way; null: nothing.</param>
    /// <param name="stop">Gives up.</param>
    /// <param name="doubt">What is still to be asked to the end of the time, though nothing stands in the way; null: nothing.</param>
    public async Task<(IReadOnlyList<Answered<V1.StatusReply>> Answers, CommandResult? Obstacle)> AskAsync(
        SiteAccess site, Func<IReadOnlyList<Answered<V1.StatusReply>>, CommandResult?> obstacle, CancellationToken stop,
        Func<IReadOnlyList<Answered<V1.StatusReply>>, string?>? doubt = null)
    {
        long askedSince = 0;
        while (true)
        {
            IReadOnlyList<Answered<V1.StatusReply>> answers = await site.StatusesAsync(stop).ConfigureAwait(false);
            CommandResult? found = obstacle(answers);
            if (askedSince == 0) { askedSince = Stopwatch.GetTimestamp(); }
            bool mayStart = Stopwatch.GetElapsedTime(askedSince) < NotRunningLimit;
            bool mayPass = answers.Any(a => a.MayPass || (a.Silence == Silence.NotRunning && mayStart));
            string? why = found is null ? doubt?.Invoke(answers) : mayPass ? found.Errors[0].What : null;
            if (why is null || IsOver) { return (answers, found); }
            await PauseAsync(why, stop).ConfigureAwait(false);
        }
    }

    private bool IsOver => Stopwatch.GetElapsedTime(_began) >= limit;

    private async Task PauseAsync(string why, CancellationToken stop)
    {
        TimeSpan remains = limit - Stopwatch.GetElapsedTime(_began);
        if (why != _told) { log.Warn($"{why.TrimEnd('.')}. Asking again, for {Math.Max(1, Math.Ceiling(remains.TotalSeconds)):0} s more"); }
        _told = why;
        await Task.Delay(Pause, stop).ConfigureAwait(false);
    }
}

// What the client tells of itself: an ActivitySource and a Meter, both named "Slogger.Client". Counted by the batch, never by
// the operation. The names are part of the API; they are listed in the package's README.
using System.Diagnostics;
using System.Diagnostics.Metrics;

namespace Slogger.Client;

internal static class Telemetry
{
    public const string Name = "Slogger.Client";

    public static readonly ActivitySource Activities = new(Name);
    private static readonly Meter s_meter = new(Name);

    public static readonly Counter<long> Operations =
        s_meter.CreateCounter<long>("slogger.client.operations", "{operation}", "Operations answered.");
    public static readonly Counter<long> Batches = s_meter.CreateCounter<long>("slogger.client.batches", "{batch}", "Batches answered.");
    public static readonly Counter<long> Connections =
        s_meter.CreateCounter<long>("slogger.client.connections", "{connection}", "Connections made to shards.");
    public static readonly Counter<long> Redirections =
        s_meter.CreateCounter<long>("slogger.client.redirections", "{operation}", "Operations sent to another shard, or again.");
    public static readonly Counter<long> Rollbacks = s_meter.CreateCounter<long>(
        "slogger.client.rollbacks", "{rollback}", "Sessions that lost something by a rollback.");
    public static readonly Counter<long> Uncertain = s_meter.CreateCounter<long>("slogger.client.uncertain", "{operation}", "Operations "
        + "whose connection broke before the answer, and of which it is not known whether they were executed.");
    public static readonly Counter<long> RepliesLost =
        s_meter.CreateCounter<long>("slogger.client.replies_lost", "{operation}",
            "Operations that were executed, and whose connection broke before the answer.");
    public static readonly Histogram<double> BatchDuration =
        s_meter.CreateHistogram<double>("slogger.client.batch.duration", "ms", "From sending a batch to its trailer.");
    public static readonly Histogram<double> CommitWait =
        s_meter.CreateHistogram<double>("slogger.client.commit.wait", "ms", "Length of waits for commit.");

    /// <summary>An activity that is not made the current one: batches belong to many callers.</summary>
    public static Activity? StartBatch(string shard, int operations)
    {
        if (!Activities.HasListeners()) { return null; }
        Activity? current = Activity.Current;
        Activity? started = Activities.StartActivity("slogger.batch", ActivityKind.Client);
        Activity.Current = current;
        started?.SetTag("server.address", shard);
        started?.SetTag("db.operation.batch.size", operations);
        return started;
    }
}

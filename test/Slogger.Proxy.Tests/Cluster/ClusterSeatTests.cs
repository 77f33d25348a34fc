// What a seat learns from the metadata while another process writes to them.
using System.Reflection;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Tests.Cluster;

public sealed class ClusterSeatTests : IDisposable
{
    private static readonly ShardId Shard = new(0);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-seat-").FullName;

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    /// <summary>A metadata store in which the shard's owner records a version before each call, and after it.</summary>
    internal class Busy : DispatchProxy
    {
        public IMetadataStore Inner { get; set; } = null!;

        /// <summary>Records a version; null: nobody does.</summary>
        public Func<Task>? Records { get; set; }

        protected override object? Invoke(MethodInfo? method, object?[]? arguments)
        {
            object? Call() => method!.Invoke(Inner, arguments);
            return Records is null ? Call() : method!.Name switch
            {
                nameof(IMetadataStore.ShardsAsync) => BetweenAsync((Func<object?>)Call, t => (Task<IReadOnlyList<ShardRecord>>)t),
                nameof(IMetadataStore.AdvanceCutAsync) => BetweenAsync((Func<object?>)Call, t => (Task<ClusterCut>)t),
                _ => Call(),
            };
        }

        private async Task<T> BetweenAsync<T>(Func<object?> call, Func<object, Task<T>> typed)
        {
            await Records!();
            T result = await typed(call()!);
            await Records();
            return result;
        }
    }

    // A node that began to lead with a cut above what its shard had recorded could not go on from there, and ended.
    [Fact]
    public async Task Look_WhileTheLeaderRecordsVersions_FindsNoCutAboveThem()
    {
        CancellationToken stop = TestContext.Current.CancellationToken;
        ServeOptions options = new()
        {
            DataDirectory = _directory,
            Metadata = MetadataSpec.SqliteFile(Path.Combine(_directory, "m")),
            VersionInterval = TimeSpan.FromMilliseconds(5),
        };
        IMetadataStore metadata = DispatchProxy.Create<IMetadataStore, Busy>();
        var busy = (Busy)metadata;
        busy.Inner = MetadataStoreFactory.Create(options.Metadata.Text);
        await using ClusterSeat seat = await ClusterSeat.TakeAsync(metadata, options, NullLogger.Instance, follows: false, stop);
        VersionNumber version = VersionNumber.Zero;
        busy.Records = async () =>
        {
            version = version.Next;
            DurableResult recorded = await busy.Inner.RecordDurableAsync(seat.Cluster, Shard,
                new DurableClaim(new(WorldLine.First, version), 1, VersionNumber.Zero), seat.Epoch, stop);
            Assert.Equal(DurableOutcome.Recorded, recorded.Outcome);
        };

        ClusterView view = await seat.LookAsync(stop);

        Assert.True(view.Cut.Cut.Version > VersionNumber.Zero);
        Assert.True(view.Cut.Of(Shard) <= view.Record.Durable, $"cut {view.Cut.Of(Shard)}, durable {view.Record.Durable}");
    }
}

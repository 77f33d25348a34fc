// A version is asked for while what lies before it is deleted: it is refused, or it stays.
using System.Text;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Identities;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Past;
using Slogger.Proxy.Shards;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Replication;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Tests.Past;

public sealed class PastHoldTests : IDisposable
{
    private const int Versions = 40;
    private static readonly string s_history = new('a', 40);
    private static readonly TimeSpan s_headStart = TimeSpan.FromMilliseconds(300), s_limit = TimeSpan.FromMinutes(1);

    private readonly string _directory = Directory.CreateTempSubdirectory("past-hold").FullName;
    private readonly Lock _keeping = new();
    private readonly VersionLog _log;
    private readonly CheckpointStore _checkpoints;
    private readonly PastInstants _instants;
    private readonly ServeOptions _options;

    public PastHoldTests()
    {
        _options = new()
        {
            DataDirectory = _directory, Metadata = MetadataSpec.SqliteFile(Path.Combine(_directory, "m")),
            CheckpointEveryBytes = 1, LogBudgetBytes = 1 << 20,
        };
        _log = VersionLog.Open(new VersionLogOptions
        {
            Directory = Path.Combine(_directory, "log"), Shard = new ShardId(0), PrepareInBackground = false, ZeroFill = false,
            SegmentBytes = 16 << 10, BlockBytes = 1 << 10, BufferBytes = 8 << 10,
        });
        _log.Begin(new StreamOrigin(s_history, 0, 0), WorldLine.First, new VersionNumber(1));
        _checkpoints = CheckpointStore.Open(Path.Combine(_directory, "checkpoints"));
        for (int version = 1; version <= Versions; version++)
        {
            if (version % 10 == 1) { AddCheckpoint(); }
            _log.Append(Encoding.ASCII.GetBytes($"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000\r\n{new string('v', 5000)}\r\n"));
            _log.AppendBoundary(new(WorldLine.First, new VersionNumber(version), _log.EndOffset, 0, HybridTimestamp.Of(version, 0)));
        }
        _log.Sync();
        _instants = new(_log, _checkpoints, _options)
        {
            Committed = () => new(WorldLine.First, new VersionNumber(Versions)),
            Grid = () => new(new VersionNumber(1), 0, 100_000),
            Follows = () => false,
            NowUs = () => Versions * 100_000,
            Await = _ => { },
            Owners = new(new ShardId(0), () => null, () => null!),
            Keeping = _keeping,
        };
    }

    public void Dispose()
    {
        _log.Dispose();
        Directory.Delete(_directory, recursive: true);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task AskedForBehindTheLookAtTheHolds_WhatIsFoundStays(bool detail)
    {
        Task<PastPoint>? asking = null;
        Checkpointer checkpointer = Deleting(() =>
        {
            asking = Task.Run(() => Ask(5, detail));
            // What it says before the log is deleted has to hold after.
            asking.ContinueWith(_ => { }, TaskScheduler.Default).Wait(s_headStart);
        });
        await checkpointer.TakeAsync(TestContext.Current.CancellationToken);
        Assert.True(_log.StartOffset > 0, "nothing was deleted");
        PastPoint found;
        try
        {
            found = await asking!.WaitAsync(s_limit, TestContext.Current.CancellationToken);
        }
        catch (PastException)
        {
            // In time.
            return;
        }
        Assert.True(_log.StartOffset <= found.Base.Offset, $"{found.Base.Offset} was held, and the log begins at {_log.StartOffset}");
    }

    [Fact]
    public async Task AskedForBefore_ItStays_AndItsHoldIsRenewedWhileSomethingIsDeleted()
    {
        PastPoint held = Ask(5, detail: false);
        Checkpointer checkpointer = Deleting(() => Assert.Equal(held, Task.Run(() => Ask(5, detail: true)).WaitAsync(s_limit).Result));
        await checkpointer.TakeAsync(TestContext.Current.CancellationToken);
        Assert.Equal(held, Ask(5, detail: false));
        Assert.True(_log.StartOffset <= held.Base.Offset);
    }

    private PastPoint Ask(int version, bool detail)
    {
        if (detail) { _instants.HoldDetail(new VersionNumber(version)); }
        return _instants.Hold(new VersionNumber(version));
    }

    // One that deletes all that nobody holds below the cut.
    private Checkpointer Deleting(Action looked) => new(_options, NullLogger.Instance, _log, new Lock(), _checkpoints, new NoDumps())
    {
        RecordedCut = () => new(WorldLine.First, new VersionNumber(Versions)),
        Keeping = _keeping,
        Served = () => WorldLine.First,
        NeededFrom = () => long.MaxValue,
        Promised = () => new VersionNumber(Versions),
        PromisedDetail = () => null,
        HeldFrom = () =>
        {
            long held = _instants.HeldFrom;
            looked();
            return held;
        },
    };

    private void AddCheckpoint()
    {
        string file = _checkpoints.NewTemporaryPath();
        File.WriteAllText(file, "content");
        _checkpoints.Add(file, new Checkpoint
        {
            Origin = _log.Origin, ReplicationId = s_history, Offset = _log.EndOffset, Database = 0, WorldLine = 1,
            Reign = _log.Reign.Number, CreatedAt = DateTimeOffset.UnixEpoch,
        });
    }

    private sealed class NoDumps : ICheckpointSource
    {
        public Task TurnAsync(CancellationToken stop) => Task.CompletedTask;

        public void EndTurn()
        {
        }

        public string NewFile() => Path.GetTempFileName();

        public Task<CheckpointResult> FetchAsync(string file, CancellationToken stop, Action? taken = null) =>
            Task.FromResult<CheckpointResult>(new CheckpointResult.Failed(RedisProblem.HistoryGone, "none is needed"));
    }
}

using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;
using static Slogger.Log.Tests.LogFixture;

namespace Slogger.Log.Tests;

public class CheckpointStoreTests
{
    private const string Directory = "/checkpoints";

    [Fact]
    public void CarryForward_ManyWorldLines_TheOnlyCheckpointStaysUsable()
    {
        SimulatedDisk disk = NewDisk();
        VersionLog log = Begun(disk);
        CheckpointStore store = CheckpointStore.Open(Directory, disk);
        string temporary = store.NewTemporaryPath();
        using (ILogFile file = disk.Create(temporary))
        {
            file.Write("data"u8, 0);
        }

        store.Add(temporary, new Checkpoint
        {
            Origin = log.Origin,
            ReplicationId = log.ReplicationId,
            Offset = log.Origin.Offset,
            Database = 0,
            WorldLine = 1,
            CreatedAt = DateTimeOffset.UnixEpoch,
        });
        for (int line = 2; line < 200; line++)
        {
            Boundary kept = Write(log, 20, 10 + line);
            Write(log, 20, 11 + line);
            log.BeginWorldLine(new WorldLine(line), kept, OtherReplicationId);
            store.CarryForward(log);
            Assert.NotNull(store.Latest(log, log.EndOffset));
        }

        disk.Crash();
        Assert.NotNull(CheckpointStore.Open(Directory, disk).Latest(Reopened(disk), long.MaxValue));
    }

    [Fact]
    public void Add_ThenCrash_KeepsTheCheckpoint()
    {
        SimulatedDisk disk = NewDisk();
        CheckpointStore store = CheckpointStore.Open(Directory, disk);
        Checkpoint added = Add(store, disk, 1234);
        disk.Crash();
        CheckpointStore again = CheckpointStore.Open(Directory, disk);
        Assert.Equal([added], again.All);
        again.Verify(added);
        disk.Flip(again.PathOf(added), 3, 1);
        Assert.Throws<LogCorruptException>(() => again.Verify(added));
    }

    [Fact]
    public void Add_InterruptedAnywhere_LeavesAllOrNothing()
    {
        for (int seed = 1; seed <= 300; seed++)
        {
            var disk = new SimulatedDisk(seed);
            CheckpointStore store = CheckpointStore.Open(Directory, disk);
            Checkpoint first = Add(store, disk, 1000);
            disk.OperationsUntilCrash = seed % 15;
            try
            {
                Add(store, disk, 2000);
            }
            catch (SimulatedCrashException)
            {
            }
            disk.Crash();
            CheckpointStore again = CheckpointStore.Open(Directory, disk);
            Assert.Contains(first, again.All);
            foreach (Checkpoint checkpoint in again.All)
            {
                again.Verify(checkpoint);
            }
            Assert.Equal(again.All.Count * 2, disk.List(Directory).Count);
        }
    }

    // Whoever opens goes by what it finds, and trims the log by it: so it must not go with a later crash.
    [Fact]
    public void Open_AnAddWasCutShort_WhatIsFoundIsDurable()
    {
        int found = 0;
        for (int seed = 1; seed <= 300; seed++)
        {
            var disk = new SimulatedDisk(seed);
            CheckpointStore store = CheckpointStore.Open(Directory, disk);
            disk.OperationsUntilCrash = seed % 15;
            Assert.True(Record.Exception(() => Add(store, disk, 1000)) is null or SimulatedCrashException);
            disk.Kill();
            IReadOnlyList<Checkpoint> kept = CheckpointStore.Open(Directory, disk).All;
            found += kept.Count;
            disk.Crash();
            Assert.Equal(kept, CheckpointStore.Open(Directory, disk).All);
        }
        Assert.True(found > 0);
    }

    [Fact]
    public void CarryForward_ACheckpointOfAnAbandonedWorldLine_IsNotCarried()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        CheckpointStore store = CheckpointStore.Open(Directory, disk);
        Boundary kept = Write(log, 100, 10);
        Add(store, disk, 1050);
        Write(log, 100, 11);
        Add(store, disk, 1150);
        for (int line = 2; line < 200; line++)
        {
            log.BeginWorldLine(new WorldLine(line), kept, OtherReplicationId);
            store.CarryForward(log);
            kept = Write(log, 20, 10 + line);
            Assert.Equal(1050, store.Latest(log, log.EndOffset)!.Offset);
        }
    }

    [Fact]
    public void Latest_TheLogBeginsAboveACheckpoint_IsAnotherOrNone()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        CheckpointStore store = CheckpointStore.Open(Directory, disk);
        Add(store, disk, 1050);
        for (int version = 10; version < 30; version++) { Write(log, 4000, version); }
        log.Sync();
        log.TrimBefore(log.EndOffset);
        Assert.True(log.StartOffset > 1050);
        Assert.Null(store.Latest(log, log.EndOffset));
        Checkpoint there = Add(store, disk, log.StartOffset);
        Assert.Equal(there, store.Latest(log, log.EndOffset));
    }

    [Fact]
    public void Latest_SkipsCheckpointsOfAbandonedWorldLines_AndAboveTheOffset()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        CheckpointStore store = CheckpointStore.Open(Directory, disk);
        Assert.Null(store.Latest(log, 5000));
        Boundary kept = Write(log, 100, 10);
        Checkpoint good = Add(store, disk, 1050);
        Write(log, 100, 11);
        Checkpoint voided = Add(store, disk, 1150);
        Assert.Equal(voided, store.Latest(log, 5000));
        Assert.Equal(good, store.Latest(log, 1149));
        log.BeginWorldLine(new WorldLine(2), kept, OtherReplicationId);
        Assert.Equal(good, store.Latest(log, 5000));
        Checkpoint newer = Add(store, disk, 1150, worldLine: 2);
        Assert.Equal(newer, store.Latest(log, 5000));

        Assert.Equal(1050, store.Prune(log, keep: 1, offset: 1100, apart: 0));
        Assert.Equal([good, newer], store.All);
        Assert.Equal(1150, store.Prune(log, keep: 1, offset: 1150, apart: 0));
        Assert.Equal([newer], CheckpointStore.Open(Directory, disk).All);
        log.Begin(new StreamOrigin(OtherReplicationId, 1, 0), new WorldLine(3), new VersionNumber(40));
        Assert.Null(store.Latest(log, 5000));
    }

    [Fact]
    public void Prune_AboveTheOffset_KeepsTheNewest_AndOthersThatLieApart()
    {
        SimulatedDisk disk = NewDisk();
        using VersionLog log = Begun(disk);
        CheckpointStore store = CheckpointStore.Open(Directory, disk);
        Write(log, 1000, 10);
        var all = new List<Checkpoint>();
        // One after the other, as they come: what was thinned out does not change what is kept next.
        foreach (int offset in new[] { 1010, 1100, 1150, 1250, 1300, 1490, 1500, 1510 })
        {
            all.Add(Add(store, disk, offset));
            Assert.Equal(1010, store.Prune(log, keep: 2, offset: 1050, apart: 200));
        }
        Assert.Equal([1010, 1250, 1490, 1500, 1510], store.All.Select(c => c.Offset));
        Assert.Equal(store.All, CheckpointStore.Open(Directory, disk).All);
        // Whatever the cut, something at or below it is left.
        Assert.Equal(1010, store.Latest(log, 1249)!.Offset);
        Assert.Equal(1490, store.Prune(log, keep: 2, offset: 1505, apart: 200));
        Assert.Equal([1490, 1500, 1510], store.All.Select(c => c.Offset));
    }

    private static Checkpoint Add(CheckpointStore store, SimulatedDisk disk, long offset, long worldLine = 1)
    {
        string path = store.NewTemporaryPath();
        using (ILogFile file = disk.Create(path))
        {
            file.Write(Stream(offset, 3000), 0);
        }
        return store.Add(path, new Checkpoint
        {
            Origin = Origin, ReplicationId = ReplicationId, Offset = offset, Database = 0, WorldLine = worldLine,
            CreatedAt = DateTimeOffset.UnixEpoch,
        });
    }
}

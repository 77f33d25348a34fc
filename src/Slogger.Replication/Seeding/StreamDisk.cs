// What a process of the backup has of a stream on its disk: the log, the checkpoints on which it rests, and of which life of the stream
// they are. While the stream is being seeded, a part of a copy of the primary's store (`stream/copy.part`), and how much of it is durable
// (`stream/seed.json`).
//
// A new life begins in this order, each step durable before the next: the whole copy; the checkpoints of before are deleted, and the copy
// becomes one; the log begins at the copy's offset; the note that the log is of this life. A crash in between leaves the copy: all of that
// is done again. Until the note nothing of the log counts.
using System.Buffers;
using System.Text.Json.Serialization;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Redis.Rdb;
using Slogger.Replication.Following;

namespace Slogger.Replication.Seeding;

/// <summary>A stream's disk. Not thread-safe, but for <see cref="Sync"/> beside <see cref="Write"/>. Log and checkpoints are their owner's
/// to close.</summary>
internal sealed class StreamDisk : IDisposable
{
    private const string DirectoryName = "stream", RecordName = "seed.json", PartName = "copy.part";

    private readonly string _directory;
    private readonly Lock _lock = new();
    private SeedRecord? _record;
    private ILogFile? _part;
    private long _hasBytes;

    private readonly Func<string, int>? _databaseOf;

    private StreamDisk(string directory, VersionLog log, CheckpointStore checkpoints, StreamGuard? guard, Func<string, int>? databaseOf) =>
        (_directory, Log, Checkpoints, Guard, _databaseOf) = (directory, log, checkpoints, guard, databaseOf);

    /// <summary>The stream's log.</summary>
    public VersionLog Log { get; }

    /// <summary>What the log rests on: the copy first of all.</summary>
    public CheckpointStore Checkpoints { get; }

    /// <summary>Looks at what goes into the log; null: anything may.</summary>
    public StreamGuard? Guard { get; }

    /// <summary>Of which life of the stream the log is; null: there is none.</summary>
    public long? Life => _record is { HasBegun: true } record && !Log.IsEmpty ? record.Generation : null;

    /// <summary>The file of a copy that is on its way, or has just come.</summary>
    public string CopyPath => PartPath;

    /// <summary>The copy that there is a part of, or that the log began with.</summary>
    public Seed? Seed => _record?.ToSeed();

    /// <summary>How much of it survives a crash; none once the log has begun.</summary>
    public long DurableBytes => _record is { HasBegun: false } record ? record.DurableBytes : 0;

    /// <summary>What there is of a copy, durably.</summary>
    public SeedPart Part => _record is { HasBegun: false } record ? new(record.ToSeed(), record.DurableBytes) : default;

    /// <summary>What a process goes on with that receives the stream.</summary>
    /// <param name="badCopy">A copy that came whole, and was not what it should be; null: none.</param>
    /// <exception cref="LogException">The disk refused.</exception>
    public StreamOnDisk Find(string? badCopy)
    {
        if (Life is not { } life || Seed is not { } seed) { return new() { Copy = Part, BadCopy = badCopy }; }
        // Who received before may have appended what was not synced any more.
        Log.Sync();
        // What there is of a window is no part of anything.
        if (Log.Windows.IsOpen) { Log.Rewind(); }
        return new()
        {
            Life = life, History = seed.History, Log = Log.DurableEnd, Held = Log.HeldCut, Base = seed.Base.Offset, Floor = seed.Floor,
            // A guard passes over the log as it is.
            Windows = Log.Windows, TakesWindows = Guard is null,
        };
    }

    /// <summary>Finds what there is.</summary>
    /// <param name="dataDirectory">The process's data directory.</param>
    /// <param name="log">The stream's log.</param>
    /// <param name="checkpoints">Its checkpoints.</param>
    /// <param name="guard">Looks at what goes into the log.</param>
    /// <param name="databaseOf">Which database was selected in the stream when a copy was made, by its file; null: nobody needs to
    /// know.</param>
    /// <exception cref="IOException">The disk refused.</exception>
    /// <exception cref="InvalidDataException">The record cannot be read.</exception>
    public static StreamDisk Open(string dataDirectory, VersionLog log, CheckpointStore checkpoints, StreamGuard? guard = null,
        Func<string, int>? databaseOf = null)
    {
        var disk = new StreamDisk(Path.Combine(dataDirectory, DirectoryName), log, checkpoints, guard, databaseOf);
        disk.Files.CreateDirectory(disk._directory);
        disk._record = DurableFile.ReadJson(disk.Files, disk.RecordPath, SeedRecordJson.Default.SeedRecord);
        if (disk._record is { HasBegun: false, DurableBytes: > 0 and var durable } && disk.PartBytes() < durable) { disk._record = null; }
        if (disk._record is not { HasBegun: false }) { disk.Files.Delete(disk.PartPath); }
        disk.Rewind();
        return disk;
    }

    /// <summary>Which database was selected in the stream when a copy was made, as Redis notes it in an RDB file.</summary>
    public static int DatabaseOf(string file) => RdbFile.Inspect(file).StreamDatabase is > 0 and var database ? database : 0;

    /// <summary>Whether the log is of this life of the stream.</summary>
    public bool Holds(long generation) => Life == generation;

    /// <summary>Whether all of a copy for this life is there.</summary>
    public bool HasCopy(long generation) => _record is { HasBegun: false } record && record.Generation == generation
        && record.DurableBytes == record.Bytes;

    /// <summary>What was written and not synced is forgotten.</summary>
    public void Rewind() => _hasBytes = DurableBytes;

    /// <summary>Writes a piece of a copy; at the beginning, whatever there was is deleted first.</summary>
    /// <exception cref="IOException">The disk refused: <see cref="Rewind"/>, and begin again with what is durable.</exception>
    public void Write(in SeedChunk chunk, in ReadOnlySequence<byte> bytes)
    {
        lock (_lock)
        {
            if (chunk.At == 0) { Restart(chunk.Seed); }
            if (chunk.At != _hasBytes)
            {
                throw new InvalidOperationException($"The copy has {_hasBytes} bytes, and a piece at {chunk.At} is to be written.");
            }
            _part ??= OpenPart();
            long at = chunk.At;
            foreach (ReadOnlyMemory<byte> piece in bytes)
            {
                _part.Write(piece.Span, at);
                at += piece.Length;
            }
            _hasBytes = at;
        }
    }

    /// <summary>Makes what was written durable, and notes that. May run beside <see cref="Write"/>.</summary>
    /// <exception cref="IOException">The disk refused.</exception>
    public void Sync()
    {
        ILogFile part;
        SeedRecord record;
        long hasBytes;
        lock (_lock)
        {
            if (_record is not { HasBegun: false } now || now.DurableBytes == _hasBytes) { return; }
            (part, record, hasBytes) = (_part ??= OpenPart(), now, _hasBytes);
        }
        try
        {
            part.SyncData();
        }
        catch (ObjectDisposedException)
        {
            // Another copy has begun meanwhile.
            return;
        }
        lock (_lock)
        {
            if (_record == record) { WriteRecord(record with { DurableBytes = hasBytes }); }
        }
    }

    /// <summary>The copy is whole: the life of the stream that it was made for begins.</summary>
    /// <returns>False: the copy is not what it should be, and was deleted.</returns>
    /// <exception cref="UnfollowableException">The store could not begin from it. What there was stays.</exception>
    /// <exception cref="LogException">The disk refused: to be done again.</exception>
    /// <exception cref="IOException">The same.</exception>
    public bool Begin()
    {
        SeedRecord record = _record is { HasBegun: false } r && r.DurableBytes == r.Bytes ? r
            : throw new InvalidOperationException("There is no whole copy.");
        Seed seed = record.ToSeed();
        ClosePart();
        int database = LookAtCopy(seed);
        var origin = new StreamOrigin(seed.History.ReplicationId, seed.Base.Offset, database);
        // An attempt whose last sync failed may have left the note that the log has begun.
        WriteRecord(record);
        // One of before may have the same origin, and another content.
        Checkpoints.Clear();
        string file = Checkpoints.NewTemporaryPath();
        Files.LinkOrCopy(PartPath, file);
        Checkpoint copy = Checkpoints.Add(file, new Checkpoint
        {
            Origin = origin, ReplicationId = origin.ReplicationId, Offset = origin.Offset, Database = origin.Database,
                WorldLine = seed.Base.WorldLine.Number, Reign = seed.Base.Reign.Number, CreatedAt = DateTimeOffset.UtcNow,
        });
        if (copy.Bytes != seed.Bytes || copy.Checksum != seed.Checksum)
        {
            Checkpoints.Clear();
            Forget();
            return false;
        }
        Log.Begin(origin, seed.Base.WorldLine, seed.Base.Closed.Next, seed.Base.Reign);
        WriteRecord(record with { HasBegun = true });
        Files.Delete(PartPath);
        return true;
    }

    public void Dispose() => ClosePart();

    // Which database was selected in the stream at the copy. What is damaged is found out when it has become a checkpoint.
    private int LookAtCopy(Seed seed)
    {
        if ((Guard is null && _databaseOf is null) || CheckpointStore.ChecksumOf(PartPath, Files) != seed.Checksum) { return 0; }
        Guard?.LookAtCopy(PartPath);
        return _databaseOf?.Invoke(PartPath) ?? 0;
    }

    private string PartPath => Path.Combine(_directory, PartName);

    private string RecordPath => Path.Combine(_directory, RecordName);

    private void Restart(Seed seed)
    {
        Forget();
        // What there is of the life before is void, and its place may be needed. A store that shows it goes on with what it has.
        Checkpoints.Clear();
        if (!Log.IsEmpty) { Log.TrimBefore(Log.DurableOffset); }
        WriteRecord(SeedRecord.Of(seed));
    }

    private void Forget()
    {
        ClosePart();
        (_record, _hasBytes) = (null, 0);
        // Durable before what it speaks of is deleted.
        DurableFile.Delete(Files, RecordPath);
        Files.Delete(PartPath);
    }

    private ILogFile OpenPart()
    {
        if (_hasBytes == 0) { return Files.Create(PartPath); }
        ILogFile part = Files.Open(PartPath, writable: true);
        // Behind what is durable may be anything.
        part.SetLength(_hasBytes);
        return part;
    }

    private long PartBytes()
    {
        try
        {
            using ILogFile part = Files.Open(PartPath, writable: false);
            return part.Length;
        }
        catch (FileNotFoundException)
        {
            return 0;
        }
    }

    private IFileLayer Files => Log.Files;

    private void ClosePart()
    {
        lock (_lock)
        {
            _part?.Dispose();
            _part = null;
        }
    }

    private void WriteRecord(SeedRecord record)
    {
        DurableFile.WriteJson(Files, RecordPath, record, SeedRecordJson.Default.SeedRecord);
        _record = record;
    }
}

/// <summary>What <c>seed.json</c> says.</summary>
internal sealed record SeedRecord(
    string Id, long Generation, long Bytes, uint Checksum, string ReplicationId, long HistoryOffset, long BaseWorldLine, long BaseOffset,
        long BaseClosed, long FloorVersion, long DurableBytes, bool HasBegun)
{
    /// <summary>The reign in which the copy was made; 0: none, as in a record that does not say.</summary>
    public long BaseReign { get; init; }

    public static SeedRecord Of(Seed seed) => new(
        seed.Id, seed.Generation, seed.Bytes, seed.Checksum, seed.History.ReplicationId, seed.History.Offset, seed.Base.WorldLine.Number,
            seed.Base.Offset, seed.Base.Closed.Number,
        seed.Floor.Version.Number, 0, false) { BaseReign = seed.Base.Reign.Number };

    public Seed ToSeed()
    {
        var line = new WorldLine(BaseWorldLine);
        return new(Id, Generation, Bytes, new(ReplicationId, HistoryOffset),
            new(line, BaseOffset, new VersionNumber(BaseClosed)) { Reign = new(BaseReign) },
            new(line, new(FloorVersion))) { Checksum = Checksum };
    }
}

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(SeedRecord))]
internal sealed partial class SeedRecordJson : JsonSerializerContext;

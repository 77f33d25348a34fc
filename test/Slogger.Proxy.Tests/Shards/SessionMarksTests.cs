// What is known of sessions after a start: the log's end is looked through when one asks, and what has come since counts as well.
using System.Globalization;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Proxy.Shards;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Tests.Shards;

public sealed class SessionMarksTests : IDisposable
{
    private const string Identity = "0123456789012345678901234567890123456789";
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-marks-").FullName;
    private readonly MarkerCodec _codec = new("fedcba9876543210fedcba9876543210");
    private readonly VersionLog _log;
    private long _version;

    public SessionMarksTests()
    {
        _log = VersionLog.Open(new() { Directory = _directory, Shard = new ShardId(1), Epoch = 1, SegmentBytes = 1 << 20,
            BlockBytes = 1 << 16 });
        _log.Begin(new StreamOrigin(Identity, 1000, 0), new WorldLine(1), new VersionNumber(1));
    }

    public void Dispose()
    {
        _log.Dispose();
        Directory.Delete(_directory, recursive: true);
    }

    [Fact]
    public void Reset_TheLogHoldsMarks_AreFound()
    {
        var marks = new SessionMarks(_codec);
        Publish(Mark(7, 10));
        Close();
        Publish(Mark(7, 20), Mark(8, 5));
        _log.Sync();
        marks.Reset(_log);
        Assert.Equal((new SequenceNumber(20), 0L), marks.Find(new(7)));
        Assert.Equal((new SequenceNumber(5), 0L), marks.Find(new(8)));
        Assert.Null(marks.Find(new(9)));
        // What was open at the reset ends with the first version that ends after it, and not with a later one.
        marks.OnBoundary(2);
        marks.OnBoundary(3);
        Assert.Equal((new SequenceNumber(20), 2L), marks.Find(new(7)));
    }

    [Fact]
    public void Reset_TheLogGoesOnBeforeASessionAsks_NothingIsMistaken()
    {
        var marks = new SessionMarks(_codec);
        Publish(Mark(7, 10), Mark(8, 5), Mark(9, 3));
        Close();
        _log.Sync();
        marks.Reset(_log);
        // Of a version that is read by the marks themselves, as the stream goes on.
        Publish(Mark(7, 11));
        _log.Sync();
        marks.OnMark(Mark(7, 11));
        marks.OnMark(Mark(8, 4)); // over another connection, late
        Assert.Equal((new SequenceNumber(11), 0L), marks.Find(new(7)));
        Assert.Equal((new SequenceNumber(5), 1L), marks.Find(new(8)));
        marks.OnBoundary(2);
        Assert.Equal((new SequenceNumber(11), 2L), marks.Find(new(7)));
        Assert.Equal((new SequenceNumber(5), 1L), marks.Find(new(8)));
        Assert.Equal((new SequenceNumber(3), 1L), marks.Find(new(9)));
    }

    [Fact]
    public void Reset_AnotherWorldLineBeginsBeforeASessionAsks_ItIsNotKnown()
    {
        var marks = new SessionMarks(_codec);
        Close();
        _log.Sync();
        Boundary kept = _log.DurableBoundary!.Value;
        Publish(Mark(7, 10));
        Close();
        _log.Sync();
        marks.Reset(_log);
        _log.BeginWorldLine(new WorldLine(2), kept, Identity);
        Assert.Null(marks.Find(new(7)));
        marks.OnMark(Mark(7, 12));
        Assert.Equal((new SequenceNumber(12), 0L), marks.Find(new(7)));
        marks.Reset(null);
        Assert.Null(marks.Find(new(7)));
    }

    private static byte[] Mark(UInt128 session, long last)
    {
        var payload = new byte[1 + SessionMark.EntryBytesMax];
        return payload[..SessionMark.Append(payload, 0, session, last)];
    }

    private void Publish(params ReadOnlySpan<byte[]> payloads)
    {
        foreach (byte[] payload in payloads) { Publish(Encoding.ASCII.GetString(payload)); }
    }

    private void Publish(string payload) => _log.Append(Encoding.ASCII.GetBytes(string.Create(
        CultureInfo.InvariantCulture,
            $"*3\r\n$8\r\nSPUBLISH\r\n${_codec.Channel.Length}\r\n{_codec.Channel}\r\n${payload.Length}\r\n{payload}\r\n")));

    // As the proxy does: the marker is the version's last command.
    private void Close()
    {
        _version++;
        Publish(MarkerCodec.Format(new(new WorldLine(1), new VersionNumber(_version), new VersionNumber(_version + 1), default)));
        _log.AppendBoundary(new Boundary(_log.WorldLine, new VersionNumber(_version), _log.EndOffset, 0, default));
    }
}

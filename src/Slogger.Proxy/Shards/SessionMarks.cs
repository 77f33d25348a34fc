// How far each session got at this shard. Behind the requests of a session's batch the front end writes a mark into the
// stream: an SPUBLISH on the secret channel that names the session and the batch's last operation. Whoever reads it in
// the stream knows that all of the batch was executed, whether or not its replies ever reached the client. So a session
// that lost its connection with a whole proxy learns which of its unanswered operations were done (design, section 5).
//
// Kept in memory, for a bounded number of sessions; what was marked before a start or a restore is gathered from the end of
// the log when a session asks for the first time: nobody waits for that before it serves. A session that is not found knows
// no more than without marks.
using System.Buffers.Text;
using System.Text;
using Slogger.Core.Sessions;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

/// <summary>The marks read in a shard's stream. Any thread.</summary>
internal sealed class SessionMarks(MarkerCodec codec)
{
    /// <summary>How many sessions are remembered: those heard of last.</summary>
    public const int SessionsMax = 65_536;

    /// <summary>Bytes of the log, from its end, that are looked through after a start.</summary>
    public const int ScanBytes = 8 << 20;

    private readonly Lock _lock = new();
    private readonly Dictionary<UInt128, Entry> _sessions = [];

    // Marked since the last boundary: their version is the next that ends.
    private readonly List<UInt128> _open = [];
    private long _serial;

    // What the log held when they were reset, and the first version that has ended since: of what was open then.
    private Lazy<SessionMarks>? _past;
    private long _firstClosed;

    private struct Entry
    {
        public long Last;
        public long Version;
        public long Serial;
    }

    /// <summary>The last operation that is known to have been executed here, and a version in which it surely had been;
    /// version 0 if that one is still open. Null if the session is not known.</summary>
    public (SequenceNumber Last, long Version)? Find(SessionId session)
    {
        while (true)
        {
            Lazy<SessionMarks>? past;
            lock (_lock) { past = _past; }
            (SequenceNumber Last, long Version)? before = past?.Value.Find(session);
            lock (_lock)
            {
                if (_past != past) { continue; }
                if (_sessions.TryGetValue(session.Bits, out Entry found) && !(before?.Last.Number > found.Last))
                {
                    return (new SequenceNumber(found.Last), found.Version);
                }
                return before is { Version: 0 } open ? open with { Version = _firstClosed } : before;
            }
        }
    }

    /// <summary>A mark was read. What is none is passed over.</summary>
    public void OnMark(ReadOnlySpan<byte> payload)
    {
        lock (_lock)
        {
            while (SessionMark.TryReadNext(ref payload, out UInt128 session, out long last)) { Note(session, last); }
        }
    }

    /// <summary>A version has ended in the stream.</summary>
    public void OnBoundary(long closed)
    {
        lock (_lock)
        {
            foreach (UInt128 session in _open)
            {
                ref Entry entry = ref System.Runtime.InteropServices.CollectionsMarshal.GetValueRefOrNullRef(_sessions, session);
                if (!System.Runtime.CompilerServices.Unsafe.IsNullRef(ref entry) && entry.Version == 0) { entry.Version = closed; }
            }
            _open.Clear();
            if (_firstClosed == 0) { _firstClosed = closed; }
        }
    }

    /// <summary>Begins anew, with what a log holds at its end now, that nothing is appended to meanwhile; null for no log.</summary>
    public void Reset(VersionLog? log)
    {
        Lazy<SessionMarks>? past = null;
        if (log is { IsEmpty: false })
        {
            long to = log.DurableOffset, from = log.ContiguousFrom(Math.Max(log.StartOffset, to - ScanBytes));
            LogReader reader = log.OpenReader(from, to);
            past = new(() => Gathered(reader, (int)(to - from)));
        }
        lock (_lock)
        {
            _sessions.Clear();
            _open.Clear();
            (_past, _firstClosed) = (past, 0);
        }
    }

    // What is trimmed by now, or cannot be read, is not known.
    private SessionMarks Gathered(LogReader reader, int bytes)
    {
        var marks = new SessionMarks(codec);
        try
        {
            using (reader)
            {
                var tail = new byte[bytes];
                int length = 0, count;
                while (length < tail.Length && (count = reader.Read(tail.AsSpan(length))) > 0) { length += count; }
                marks.Gather(tail.AsSpan(0, length));
            }
        }
        catch (Exception e) when (e is LogException or ObjectDisposedException)
        {
            // As without marks.
        }
        return marks;
    }

    // The channel's name is a secret, so wherever it stands a command of ours does: whole commands need not be looked for.
    private void Gather(ReadOnlySpan<byte> tail)
    {
        byte[] channel = Encoding.ASCII.GetBytes(codec.Channel + "\r\n$");
        int at;
        while ((at = tail.IndexOf(channel)) >= 0)
        {
            tail = tail[(at + channel.Length)..];
            if (!Utf8Parser.TryParse(tail, out int length, out int digits) || tail.Length < digits + 2 + length) { continue; }
            ReadOnlySpan<byte> payload = tail.Slice(digits + 2, length);
            if (SessionMark.IsMark(payload)) { OnMark(payload); }
            else if (codec.TryRead(Encoding.ASCII.GetBytes(codec.Channel), payload, out MarkerPayload marker))
            {
                OnBoundary(marker.Closed.Number);
            }
        }
    }

    private void Note(UInt128 session, long last)
    {
        ref Entry entry = ref System.Runtime.InteropServices.CollectionsMarshal.GetValueRefOrAddDefault(
            _sessions, session, out bool exists);
        // Over two connections at once a session's marks may come in either order.
        if (exists && last <= entry.Last) { return; }
        bool isOpen = exists && entry.Version == 0;
        entry = new() { Last = last, Version = 0, Serial = ++_serial };
        if (!isOpen) { _open.Add(session); }
        if (_sessions.Count > SessionsMax) { ForgetHalf(); }
    }

    private void ForgetHalf()
    {
        long[] serials = [.. _sessions.Values.Select(e => e.Serial).Order()];
        long keepFrom = serials[serials.Length / 2];
        foreach ((UInt128 session, Entry entry) in _sessions)
        {
            if (entry.Serial < keepFrom) { _sessions.Remove(session); }
        }
    }
}

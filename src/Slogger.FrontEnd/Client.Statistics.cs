// INFO and SLOWLOG: what Redis tells there of its clients and their commands is told of the proxy's clients, and what the
// proxy does of its own accord is left out as far as it can be told apart.
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Runtime.Intrinsics;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    // Beyond so many connections a list of them all costs Redis more than an exact count is worth.
    private const int CensusConnectionsMax = 256;
    private const string NewLine = "\r\n";

    private long _connectedAt;
    private long _lastActive;
    private long _quietDeadline;
    private Vector256<byte> _lastRequest;

    // ---- INFO ----

    private bool _addsSection;
    private byte[]? _info;

    private bool HandleInfo()
    {
        bool all = ArgumentCount == 1, clients = all;
        for (int i = 1; i < ArgumentCount; i++)
        {
            all |= ArgumentIs(i, "all"u8) || ArgumentIs(i, "default"u8) || ArgumentIs(i, "everything"u8);
            clients |= ArgumentIs(i, "clients"u8);
        }
        Upstream? upstream = Route(needsDedicated: false);
        if (upstream is null) { return false; }
        _addsSection = _loop.Gate.IsVersioned && (all || HasArgument("dpr"u8));
        upstream.Write(_input.Head, (nint)_requestBytes);
        ForwardWritten(upstream, ReplyKind.Info, barrier: true);
        _infoAwaitsCensus = false;
        if ((all || clients) && _loop.UpstreamCount <= CensusConnectionsMax)
        {
            _infoAwaitsCensus = true;
            upstream.Write(InternalRequest.ClientList);
            upstream.Expect(this, 1, ReplyKind.Census);
            _loop.CountInternal("client|list");
        }
        return false;
    }

    private bool _infoAwaitsCensus;

    private void OnInfo(bool failed, ReadOnlySpan<byte> reply)
    {
        if (!_infoAwaitsCensus)
        {
            Answer(failed ? reply : WithOwnSection(reply, connectedClients: -1));
            return;
        }
        // The count comes next.
        _info = IsSkipping ? null : reply.ToArray();
    }

    private void OnCensus(ReadOnlySpan<byte> reply)
    {
        _infoAwaitsCensus = false;
        if (_info is { } info)
        {
            _info = null;
            long count = -1;
            if (reply[0] != (byte)'-')
            {
                count = _loop.Clients.Count;
                foreach (ClientLine line in ClientLine.Parse(reply))
                {
                    if (line.Type != ClientType.Replica && !_loop.Directory.IsOwn(line, out _)) { count++; }
                }
            }
            Pass(info[0] == (byte)'-' ? info : WithOwnSection(info, count));
            if (IsClosed) { return; }
        }
        EndWait();
    }

    // The reply is a bulk string, or under RESP3 a verbatim string.
    private byte[] WithOwnSection(ReadOnlySpan<byte> reply, long connectedClients)
    {
        int at = reply.IndexOf((byte)'\n') + 1;
        string text = Encoding.Latin1.GetString(reply[at..^2]);
        text = WithClientCount(text, connectedClients);
        text = WithoutInternalCalls(text);
        if (_loop.Slots is not null) { text = WithClusterFields(text); }
        if (HasReplicaLink) { text = WithoutOwnReplica(text); }
        if (_addsSection)
        {
            string section = $"# Dpr\r\n{InfoText()}";
            text = text.Length is 0 or 4 ? text + section : $"{text}\r\n{section}";
        }
        byte[] content = Encoding.Latin1.GetBytes(text);
        return [reply[0], .. Encoding.ASCII.GetBytes(content.Length.ToString(CultureInfo.InvariantCulture)), (byte)'\r', (byte)'\n', .. content, (byte)'\r', (byte)'\n'];
    }

    private string WithClientCount(string text, long connectedClients)
    {
        const string Name = "\nconnected_clients:";
        int at = text.IndexOf(Name, StringComparison.Ordinal);
        if (at < 0) { return text; }
        int from = at + Name.Length, to = text.IndexOf(NewLine, from, StringComparison.Ordinal);
        if (connectedClients < 0)
        {
            long known = long.Parse(text.AsSpan(from, to - from), CultureInfo.InvariantCulture);
            connectedClients = Math.Max(_loop.Clients.Count, known - _loop.UpstreamCount + _loop.Clients.Count);
        }
        return string.Concat(text.AsSpan(0, from), connectedClients.ToString(CultureInfo.InvariantCulture), text.AsSpan(to));
    }

    // What the proxy did of its own accord is taken off the counts of commands.
    private string WithoutInternalCalls(string text)
    {
        if (!text.Contains("cmdstat_", StringComparison.Ordinal) && !text.Contains("latency_percentiles_usec_", StringComparison.Ordinal)) { return text; }
        foreach ((string name, long calls) in _loop.Shard.OwnCommands.All) { text = WithoutCalls(text, name, calls); }
        // Clients' are refused where there is a link: what is left is the link's acknowledging, and that of other replicas.
        if (HasReplicaLink) { text = WithoutCalls(text, "replconf", long.MaxValue); }
        return _loop.MarkersSent > 0 ? WithoutCalls(text, "spublish", _loop.MarkersSent) : text;
    }

    private static string WithoutCalls(string text, string command, long own)
    {
        string start = $"cmdstat_{command}:calls=";
        int at = text.IndexOf(start, StringComparison.Ordinal);
        if (at >= 0)
        {
            int from = at + start.Length, comma = text.IndexOf(',', from);
            long calls = long.Parse(text.AsSpan(from, comma - from), CultureInfo.InvariantCulture) - own;
            if (calls > 0) { return string.Concat(text.AsSpan(0, from), calls.ToString(CultureInfo.InvariantCulture), text.AsSpan(comma)); }
            text = text.Remove(at, text.IndexOf(NewLine, at, StringComparison.Ordinal) + 2 - at);
            int latency = text.IndexOf($"latency_percentiles_usec_{command}:", StringComparison.Ordinal);
            if (latency >= 0) { text = text.Remove(latency, text.IndexOf(NewLine, latency, StringComparison.Ordinal) + 2 - latency); }
        }
        return text;
    }

    // ---- LATENCY HISTOGRAM ----

    // An array (RESP3: a map) of names and [calls, number, histogram_usec, [...]]. What only the proxy has called is left out.
    private byte[] WithoutInternalHistograms(ReadOnlySpan<byte> reply)
    {
        var shown = new List<byte>(reply.Length);
        long count = 0;
        fixed (byte* start = reply)
        {
            byte* end = start + reply.Length, p = start + reply.IndexOf((byte)'\n') + 1;
            while (p < end)
            {
                byte* values = Skip(p, end), next = Skip(values, end);
                var name = new ReadOnlySpan<byte>(p, (int)(values - p));
                string command = Encoding.Latin1.GetString(name[(name.IndexOf((byte)'\n') + 1)..^2]);
                byte* calls = values + new ReadOnlySpan<byte>(values, (int)(next - values)).IndexOf((byte)'\n') + 1;
                calls = Skip(calls, end);
                long number = long.Parse(new ReadOnlySpan<byte>(calls + 1, (int)(Skip(calls, end) - calls) - 3), CultureInfo.InvariantCulture);
                long own = _loop.Shard.OwnCommands.Of(command) + (command == "spublish" ? _loop.MarkersSent : 0);
                if (number > own)
                {
                    shown.AddRange(new ReadOnlySpan<byte>(p, (int)(next - p)));
                    count++;
                }
                p = next;
            }
        }
        var header = new List<byte>();
        AppendHeader(header, (char)reply[0], reply[0] == (byte)'*' ? 2 * count : count);
        return [.. header, .. shown];
    }

    // ---- SLOWLOG ----

    private const long SlowLogDefaultEntries = 10;

    private bool HandleSlowLog()
    {
        bool length = ArgumentIs(1, "LEN"u8) && ArgumentCount == 2 && _loop.Gate.IsVersioned;
        bool get = ArgumentIs(1, "GET"u8) && ArgumentCount is 2 or 3;
        _argumentNumber = SlowLogDefaultEntries;
        if (get && ArgumentCount == 3 && !ArgumentNumber(2, out _argumentNumber)) { get = false; }
        if (!length && !get) { return Forward(needsDedicated: false, ReplyKind.Plain); }
        if (length) { _argumentNumber = long.MinValue; }
        return Forward(needsDedicated: false, ReplyKind.SlowLog, barrier: true);
    }

    private void OnSlowLog(Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (failed)
        {
            Answer(reply);
            return;
        }
        if (_argumentNumber == long.MinValue)
        {
            // A log that is full would be full without the proxy's doing, too.
            bool isFull = long.TryParse(reply[1..^2], CultureInfo.InvariantCulture, out long entries) && entries >= _loop.Settings.SlowLogMaxEntries;
            _slowLogLength = reply.ToArray();
            if (entries == 0 || isFull)
            {
                Answer(reply);
                return;
            }
        }
        else
        {
            byte[] shown = WithoutInternalEntries(reply, _argumentNumber, out long hidden, out long entries);
            if (hidden == 0 || _argumentNumber < 0 || entries < _argumentNumber)
            {
                Answer(shown);
                return;
            }
        }
        upstream.Write(InternalRequest.SlowLog);
        upstream.Expect(this, 1, ReplyKind.SlowLogAll);
        _loop.CountInternal("slowlog|get");
    }

    private byte[]? _slowLogLength;

    private void AnswerSlowLog(bool failed, ReadOnlySpan<byte> reply)
    {
        if (_argumentNumber != long.MinValue)
        {
            Answer(failed ? reply : WithoutInternalEntries(reply, _argumentNumber, out _, out _));
            return;
        }
        if (failed)
        {
            Answer(_slowLogLength);
            return;
        }
        _ = WithoutInternalEntries(reply, -1, out long hidden, out long entries);
        Answer(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $":{entries - hidden}\r\n")));
    }

    // An array of entries: [id, time, duration, [arguments], address, name].
    private byte[] WithoutInternalEntries(ReadOnlySpan<byte> reply, long limit, out long hidden, out long entries)
    {
        hidden = 0;
        var shown = new List<byte>(reply.Length);
        long count = 0;
        fixed (byte* start = reply)
        {
            byte* end = start + reply.Length;
            byte* p = start + reply.IndexOf((byte)'\n') + 1;
            entries = long.Parse(new ReadOnlySpan<byte>(start + 1, (int)(p - start) - 3), CultureInfo.InvariantCulture);
            for (long i = 0; i < entries; i++)
            {
                byte* next = Skip(p, end);
                var entry = new ReadOnlySpan<byte>(p, (int)(next - p));
                if (IsInternalEntry(entry)) { hidden++; }
                else if (limit < 0 || count < limit)
                {
                    AppendEntry(shown, p, next);
                    count++;
                }
                p = next;
            }
        }
        var header = new List<byte>();
        AppendHeader(header, '*', count);
        return [.. header, .. shown];
    }

    private bool IsInternalEntry(ReadOnlySpan<byte> entry)
    {
        int name = entry.IndexOf("\r\n$"u8) + 2;
        name += entry[name..].IndexOf((byte)'\n') + 1;
        int length = entry[name..].IndexOf((byte)'\r');
        return OwnSpelling.Is(entry.Slice(name, Math.Max(0, length))) || MonitorLines.NameMarkers(_loop, entry);
    }

    private void AppendEntry(List<byte> shown, byte* p, byte* end)
    {
        byte* address = p + new ReadOnlySpan<byte>(p, (int)(end - p)).IndexOf((byte)'\n') + 1;
        for (int i = 0; i < 4; i++) { address = Skip(address, end); }
        byte* after = Skip(address, end);
        var bulk = new ReadOnlySpan<byte>(address, (int)(after - address));
        int content = bulk.IndexOf((byte)'\n') + 1;
        string from = Encoding.Latin1.GetString(bulk[content..^2]);
        Client? client = _loop.Directory.ClientAt(from);
        shown.AddRange(new ReadOnlySpan<byte>(p, (int)(address - p)));
        if (client is null) { shown.AddRange(bulk); } else { AppendBulk(shown, Encoding.Latin1.GetBytes(client.PeerAddress)); }
        // The name that a shared connection has is of whoever set one last.
        if (_loop.Shared?.Address == from) { AppendBulk(shown, default); }
        else { shown.AddRange(new ReadOnlySpan<byte>(after, (int)(end - after))); }
    }

    private static byte* Skip(byte* p, byte* end)
    {
        ReplyState state = default;
        int one = 1;
        return ReplyScanner.Consume(p, end, ref state, ref one);
    }

    // ---- CONFIG ----

    private readonly List<(string Name, string Value)> _settings = [];

    // A command of the proxy's that is on its way for long need not keep a client waiting for longer. Where many processes share a core,
    // a reply may lie for milliseconds before its thread has its turn.
    private const long ResetMicrosecondsMax = 500_000;
    private CommandCounts.Mark? _ownBefore;   // of a client's CONFIG RESETSTAT that is not answered
    private long _resetDeadline;

    private bool HandleResetStatistics()
    {
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        _resetDeadline = _loop.Now + ResetMicrosecondsMax;
        BeginReset();
        upstream.Write(_input.Head, (nint)_requestBytes);
        ForwardWritten(upstream, ReplyKind.StatisticsReset, barrier: true);
        return false;
    }

    private void BeginReset()
    {
        _ownBefore = _loop.Shard.OwnCommands.TakeMark();
        _loop.MarkersSent = 0;
    }

    private void OnStatisticsReset(Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (!failed && !_loop.Shard.OwnCommands.Clear(_ownBefore!) && _loop.Now < _resetDeadline)
        {
            BeginReset();
            upstream.Write(InternalRequest.ResetStatistics);
            upstream.Expect(this, 1, ReplyKind.StatisticsResetAgain);
            return;
        }
        _ownBefore = null;
        Answer(reply);
    }

    // No reply will come to a reset that is under way: it is taken for done.
    private void GiveUpReset()
    {
        if (_ownBefore is not { } before) { return; }
        _ownBefore = null;
        _loop.Shard.OwnCommands.Clear(before);
    }

    // Of a CONFIG SET that goes on to Redis: what the front end must know when it has succeeded.
    private bool KeepSettings()
    {
        _settings.Clear();
        if (!ArgumentIs(1, "SET"u8)) { return false; }
        for (int i = 2; i + 1 < ArgumentCount; i += 2)
        {
            if (ArgumentIs(i, "timeout"u8) || ArgumentIs(i, "slowlog-max-len"u8))
            {
                _settings.Add((Encoding.Latin1.GetString(Argument(i)), Encoding.Latin1.GetString(Argument(i + 1))));
            }
        }
        return _settings.Count > 0;
    }

    private void LearnSettings()
    {
        foreach ((string name, string value) in _settings) { _loop.Settings.OnSetting(name, value); }
        _settings.Clear();
    }

    // ---- Being idle, and pausing ----

    // As Redis does it: not while it is blocked, subscribed, or watches others.
    private bool IsIdleTooLong(long now) =>
        _loop.Settings.IdleTimeoutSeconds > 0 && now - _lastActive > (_loop.Settings.IdleTimeoutSeconds + 1) * 1_000_000 && IsDrained
        && (_pins & (Pins.PubSub | Pins.Monitor | Pins.Raw)) == 0 && _waiting is Waiting.Nothing && !_streaming;

    // Before clients are paused: what others have in flight on the shared connection must not be caught in it, or it would
    // hold up what is not to be paused behind it. From here on nobody uses it.
    private bool IsQuiet()
    {
        const long LongestMicroseconds = 100_000;
        _loop.Pause.Expect();
        if (_loop.Sharing.IsBusy)
        {
            if (_quietDeadline == 0) { _quietDeadline = _loop.Now + LongestMicroseconds; }
            if (_loop.Now < _quietDeadline)
            {
                Wait(Waiting.Quiet);
                return false;
            }
        }
        _quietDeadline = 0;
        return true;
    }

    // ---- The last command, for CLIENT LIST ----

    // Keeps the beginning of a request; the buffer must hold 32 bytes from there, whatever they are.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private void KeepLast(byte* request) => _lastRequest = Unsafe.ReadUnaligned<Vector256<byte>>(request);

    private void KeepLast(byte* request, long bytes)
    {
        byte* copy = stackalloc byte[Vector256<byte>.Count];
        Unsafe.InitBlock(copy, 0, (uint)Vector256<byte>.Count);
        Unsafe.CopyBlock(copy, request, (uint)Math.Min(bytes, Vector256<byte>.Count));
        KeepLast(copy);
    }

    // Its name as Redis would write it.
    private string LastCommand
    {
        get
        {
            Span<byte> bytes = stackalloc byte[Vector256<byte>.Count];
            _lastRequest.CopyTo(bytes);
            string[] parts = Encoding.Latin1.GetString(bytes).ToLowerInvariant().Split(NewLine);
            if (parts.Length < 3 || !parts[0].StartsWith('*') || !parts[1].StartsWith('$')) { return "NULL"; }
            if (!int.TryParse(parts[1].AsSpan(1), NumberStyles.None, CultureInfo.InvariantCulture, out int length) || length != parts[2].Length) { return "NULL"; }
            bool isContainer = parts[2] is "client" or "object" or "xgroup" or "xinfo" or "pubsub" or "command" or "memory" or "slowlog";
            bool hasSub = isContainer && parts.Length > 4 && parts[3] == $"${parts[4].Length}";
            return hasSub ? $"{parts[2]}|{parts[4]}" : parts[2];
        }
    }
}

// What Redis tells of its clients and their commands is told of the proxy's clients, and what the
// proxy does of its own accord is left out as far as it can be told apart.
using System.Globalization;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>Handlers of INFO, LATENCY and CONFIG RESETSTAT.</summary>
internal static class StatisticsCommands
{
    // Beyond so many connections a list of them all costs Redis more than an exact count is worth.
    private const int CensusConnectionsMax = 256;

    // ---- INFO ----

    public static bool Info(Client client)
    {
        bool all = client.ArgumentCount == 1, clients = all;
        for (int i = 1; i < client.ArgumentCount; i++)
        {
            all |= client.ArgumentIs(i, "all"u8) || client.ArgumentIs(i, "default"u8) || client.ArgumentIs(i, "everything"u8);
            clients |= client.ArgumentIs(i, "clients"u8);
        }
        Upstream? upstream = client.Route(needsDedicated: false);
        if (upstream is null) { return false; }
        bool addsSection = client.Loop.Gate.IsVersioned && (all || client.HasArgument("dpr"u8));
        client.SendRequest(upstream);
        if (!(all || clients) || client.Loop.Upstreams.Count > CensusConnectionsMax)
        {
            client.ForwardWritten(upstream, addsSection ? OnInfoWithSection : OnInfo, barrier: true);
            return false;
        }
        var census = new InfoWithCensus(addsSection);
        client.ForwardWritten(upstream, census.OnInfo, barrier: true);
        upstream.Write(InternalRequest.ClientList);
        upstream.Expect(client, census.OnCensus, ReplyKind.Uncounted);
        client.Loop.CountInternal("client|list");
        return false;
    }

    private static void OnInfo(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply) =>
        client.Answer(failed ? reply : WithOwnSection(client, reply, connectedClients: -1, addsSection: false));

    private static void OnInfoWithSection(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply) =>
        client.Answer(failed ? reply : WithOwnSection(client, reply, connectedClients: -1, addsSection: true));

    // An INFO behind which a list of clients comes, to count them.
    private sealed class InfoWithCensus(bool addsSection)
    {
        private byte[]? _info;

        public void OnInfo(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply) =>
            _info = client.IsSkipping ? null : reply.ToArray();

        public void OnCensus(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
        {
            if (!ClientListCommands.IsPutOff(client, reply, later => Answer(client, later))) { Answer(client, reply); }
        }

        private void Answer(Client client, ReadOnlySpan<byte> list)
        {
            if (_info is { } info)
            {
                _info = null;
                client.Pass(info[0] == (byte)'-' ? info : WithOwnSection(client, info, Count(client.Loop, list), addsSection));
                if (client.IsClosed) { return; }
            }
            client.EndWait();
        }

        private static long Count(FrontEndLoop loop, ReadOnlySpan<byte> list)
        {
            if (list[0] == (byte)'-') { return -1; }
            long count = loop.Clients.Count;
            foreach (ClientLine line in ClientLine.Parse(list))
            {
                if (line.Type != ClientType.Replica && !loop.Directory.IsOwn(line, out _)) { count++; }
            }
            return count;
        }
    }

    // The reply is a bulk string, or under RESP3 a verbatim string.
    private static byte[] WithOwnSection(Client client, ReadOnlySpan<byte> reply, long connectedClients, bool addsSection)
    {
        int at = reply.IndexOf((byte)'\n') + 1;
        string text = Encoding.Latin1.GetString(reply[at..^2]);
        text = WithClientCount(client.Loop, text, connectedClients);
        text = WithoutInternalCalls(client, text);
        if (client.Loop.Slots is not null || client.Loop.Cohort is not null) { text = ClusterCommands.WithFields(text); }
        if (client.HasReplicaLink) { text = ReplicaCommands.WithoutOwnReplica(text); }
        if (client.Loop.Cohort is not null) { text = CohortCommands.WithReplication(client.Loop, text); }
        if (addsSection)
        {
            string section = $"# Dpr\r\n{client.Commits.InfoText()}";
            text = text.Length is 0 or 4 ? text + section : $"{text}\r\n{section}";
        }
        byte[] content = Encoding.Latin1.GetBytes(text);
        return [reply[0], .. Encoding.ASCII.GetBytes(content.Length.ToString(CultureInfo.InvariantCulture)), (byte)'\r', (byte)'\n',
            .. content, (byte)'\r', (byte)'\n'];
    }

    private static string WithClientCount(FrontEndLoop loop, string text, long connectedClients)
    {
        const string Name = "\nconnected_clients:";
        int at = text.IndexOf(Name, StringComparison.Ordinal);
        if (at < 0) { return text; }
        int from = at + Name.Length, to = text.IndexOf(RespText.NewLine, from, StringComparison.Ordinal);
        if (connectedClients < 0)
        {
            long known = long.Parse(text.AsSpan(from, to - from), CultureInfo.InvariantCulture);
            connectedClients = Math.Max(loop.Clients.Count, known - loop.Upstreams.Count + loop.Clients.Count);
        }
        return string.Concat(text.AsSpan(0, from), connectedClients.ToString(CultureInfo.InvariantCulture), text.AsSpan(to));
    }

    // What the proxy did of its own accord is taken off the counts of commands.
    private static string WithoutInternalCalls(Client client, string text)
    {
        if (!text.Contains("cmdstat_", StringComparison.Ordinal) && !text.Contains("latency_percentiles_usec_", StringComparison.Ordinal))
        {
            return text;
        }
        foreach ((string name, long calls) in client.Loop.Shard.OwnCommands.All) { text = WithoutCalls(text, name, calls); }
        // Clients' are refused where there is a link: what is left is the link's acknowledging, and that of other replicas.
        if (client.HasReplicaLink) { text = WithoutCalls(text, "replconf", long.MaxValue); }
        return client.Loop.MarkersSent > 0 ? WithoutCalls(text, "spublish", client.Loop.MarkersSent) : text;
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
            text = text.Remove(at, text.IndexOf(RespText.NewLine, at, StringComparison.Ordinal) + 2 - at);
            int latency = text.IndexOf($"latency_percentiles_usec_{command}:", StringComparison.Ordinal);
            if (latency >= 0)
            {
                text = text.Remove(latency, text.IndexOf(RespText.NewLine, latency, StringComparison.Ordinal) + 2 - latency);
            }
        }
        return text;
    }

    // ---- LATENCY HISTOGRAM ----

    public static bool Latency(Client client) =>
        client.Forward(needsDedicated: true, client.ArgumentIs(1, "HISTOGRAM"u8) ? OnHistogram : null);

    private static void OnHistogram(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply) =>
        client.Pass(failed ? reply : WithoutInternalHistograms(client, reply));

    // An array (RESP3: a map) of names and [calls, number, histogram_usec, [...]]. What only the proxy has called is left out.
    private static unsafe byte[] WithoutInternalHistograms(Client client, ReadOnlySpan<byte> reply)
    {
        var shown = new List<byte>(reply.Length);
        long count = 0;
        fixed (byte* start = reply)
        {
            byte* end = start + reply.Length, p = start + reply.IndexOf((byte)'\n') + 1;
            while (p < end)
            {
                byte* values = RespText.Skip(p, end), next = RespText.Skip(values, end);
                var name = new ReadOnlySpan<byte>(p, (int)(values - p));
                string command = Encoding.Latin1.GetString(name[(name.IndexOf((byte)'\n') + 1)..^2]);
                byte* calls = values + new ReadOnlySpan<byte>(values, (int)(next - values)).IndexOf((byte)'\n') + 1;
                calls = RespText.Skip(calls, end);
                long number = long.Parse(new ReadOnlySpan<byte>(calls + 1, (int)(RespText.Skip(calls, end) - calls) - 3),
                    CultureInfo.InvariantCulture);
                long own = client.Loop.Shard.OwnCommands.Of(command) + (command == "spublish" ? client.Loop.MarkersSent : 0);
                if (number > own)
                {
                    shown.AddRange(new ReadOnlySpan<byte>(p, (int)(next - p)));
                    count++;
                }
                p = next;
            }
        }
        var header = new List<byte>();
        RespText.AppendHeader(header, (char)reply[0], reply[0] == (byte)'*' ? 2 * count : count);
        return [.. header, .. shown];
    }

    // ---- CONFIG RESETSTAT ----

    public static bool Reset(Client client)
    {
        Upstream? upstream = client.Route(needsDedicated: true);
        if (upstream is null) { return false; }
        var reset = new StatisticsReset(client.Loop);
        client.ResetUnderWay = reset;
        client.SendRequest(upstream);
        client.ForwardWritten(upstream, reset.OnReply, barrier: true);
        return false;
    }
}

/// <summary>A client's CONFIG RESETSTAT that is not answered.</summary>
internal sealed class StatisticsReset
{
    // A command of the proxy's that is on its way for long need not keep a client waiting for longer. Where many processes share a core,
    // a reply may lie for milliseconds before its thread has its turn.
    private const long MicrosecondsMax = 500_000;
    private readonly FrontEndLoop _loop;
    private readonly long _deadline;
    private CommandCounts.Mark _ownBefore;

    public StatisticsReset(FrontEndLoop loop)
    {
        _loop = loop;
        _deadline = loop.Now + MicrosecondsMax;
        _ownBefore = Begin();
    }

    private CommandCounts.Mark Begin()
    {
        _loop.MarkersSent = 0;
        return _loop.Shard.OwnCommands.TakeMark();
    }

    /// <summary>Redis has answered. Where a command of the proxy's own was on its way beside the reset, it is done again.</summary>
    public void OnReply(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (!failed && !_loop.Shard.OwnCommands.Clear(_ownBefore) && _loop.Now < _deadline)
        {
            _ownBefore = Begin();
            upstream.Write(InternalRequest.ResetStatistics);
            upstream.Expect(client, OnReply, ReplyKind.Uncounted);
            return;
        }
        client.ResetUnderWay = null;
        client.Answer(reply);
    }

    /// <summary>No reply will come: it is taken for done.</summary>
    public void GiveUp() => _loop.Shard.OwnCommands.Clear(_ownBefore);
}

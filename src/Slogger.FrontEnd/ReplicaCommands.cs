// WAIT, ROLE and INFO about replicas. The proxy's own replication link is none that could serve or that anybody counts on, so
// clients are told what Redis would tell without it.
using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>Handlers of WAIT, ROLE and of what makes a connection a replica's.</summary>
internal static unsafe class ReplicaCommands
{
    // Redis waits for what was written up to the last command of the connection that WAIT comes on, and what this client has
    // written may have gone over another: so another command goes first.
    public static bool Wait(Client client)
    {
        Upstream? upstream = client.Route(needsDedicated: true);
        if (upstream is null) { return false; }
        upstream.Write(InternalRequest.Nothing, inexact: true);
        upstream.Expect(null, 1, ReplyKind.Dropped, inexact: true);
        client.Loop.CountInternal("hello");
        if (!client.HasReplicaLink || client.ArgumentCount != 3 || !client.ArgumentNumber(1, out long replicas)
            || replicas is <= 0 or long.MaxValue)
        {
            bool counted = client.HasReplicaLink && client.ArgumentCount == 3;
            return client.Forward(needsDedicated: true, counted ? OnWaitCount : null, blocking: true);
        }
        var bytes = new List<byte>();
        RespText.AppendHeader(bytes, '*', 3);
        RespText.AppendBulk(bytes, client.Argument(0));
        RespText.AppendBulk(bytes, Encoding.ASCII.GetBytes((replicas + 1).ToString(CultureInfo.InvariantCulture)));
        RespText.AppendBulk(bytes, client.Argument(2));
        upstream.Write(CollectionsMarshal.AsSpan(bytes), inexact: true);
        client.ForwardWritten(upstream, OnWaitCount, blocking: true);
        return true;
    }

    private static void OnWaitCount(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply) =>
        client.Pass(failed ? reply : WithoutOwnAcknowledgement(reply));

    public static bool Role(Client client) => client.Loop.Cohort is not null && client.ArgumentCount == 1
        ? CohortCommands.Ask(client, CohortCommands.Role)
        : client.Forward(needsDedicated: true, client.HasReplicaLink ? OnRole : null);

    private static void OnRole(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply) =>
        client.Pass(failed ? reply : WithoutOwnReplica(reply));

    public static bool BecomeReplica(Client client) => client.StartRaw();

    public static string RefuseReplica(Client client) =>
        "ERR SLOGGER the replication stream of this Redis belongs to the proxy: attach replicas to Redis itself, or start the proxy with "
            + "--commit none";

    // Which replicas have acknowledged is not told: should the link be the one that has not, a replica is counted too few.
    private static byte[] WithoutOwnAcknowledgement(ReadOnlySpan<byte> reply)
    {
        long count = long.Parse(reply[1..^2], CultureInfo.InvariantCulture);
        return Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $":{Math.Max(0, count - 1)}\r\n"));
    }

    // ["master", offset, [[address, port, offset]...]]
    private static byte[] WithoutOwnReplica(ReadOnlySpan<byte> reply)
    {
        var shown = new List<byte>();
        long count = 0;
        fixed (byte* start = reply)
        {
            byte* end = start + reply.Length, p = start + reply.IndexOf((byte)'\n') + 1;
            byte* list = RespText.Skip(RespText.Skip(p, end), end);
            if (list == end || *list != (byte)'*' || !reply.StartsWith("*3\r\n$6\r\nmaster\r\n"u8)) { return reply.ToArray(); }
            p = list + new ReadOnlySpan<byte>(list, (int)(end - list)).IndexOf((byte)'\n') + 1;
            while (p < end)
            {
                byte* next = RespText.Skip(p, end);
                var replica = new ReadOnlySpan<byte>(p, (int)(next - p));
                if (!replica.StartsWith(s_ownRole))
                {
                    shown.AddRange(replica);
                    count++;
                }
                p = next;
            }
            var head = new List<byte>();
            head.AddRange(new ReadOnlySpan<byte>(start, (int)(list - start)));
            RespText.AppendHeader(head, '*', count);
            return [.. head, .. shown];
        }
    }

    private static readonly byte[] s_ownRole =
        Encoding.ASCII.GetBytes($"*3\r\n${ReplicaAddress.Text.Length}\r\n{ReplicaAddress.Text}\r\n");

    // "connected_slaves:2", "slave0:ip=...,port=...", "slave1:...": the others move up.
    public static string WithoutOwnReplica(string text)
    {
        const string Count = "connected_slaves:", Own = $":ip={ReplicaAddress.Text},";
        if (!text.Contains(Own, StringComparison.Ordinal)) { return text; }
        string[] lines = text.Split(RespText.NewLine);
        var shown = new List<string>(lines.Length);
        int counted = -1, hidden = 0, next = 0;
        foreach (string line in lines)
        {
            bool replica = line.StartsWith("slave", StringComparison.Ordinal) && line.Length > 5 && char.IsAsciiDigit(line[5]);
            int colon = line.IndexOf(':', StringComparison.Ordinal);
            if (line.StartsWith(Count, StringComparison.Ordinal)) { counted = shown.Count; }
            if (!replica) { shown.Add(line); }
            else if (string.CompareOrdinal(line, colon, Own, 0, Own.Length) == 0) { hidden++; }
            else { shown.Add(string.Create(CultureInfo.InvariantCulture, $"slave{next++}{line.AsSpan(colon)}")); }
        }
        if (counted >= 0)
        {
            long count = long.Parse(shown[counted].AsSpan(Count.Length), CultureInfo.InvariantCulture);
            shown[counted] = string.Create(CultureInfo.InvariantCulture, $"{Count}{count - hidden}");
        }
        return string.Join(RespText.NewLine, shown);
    }
}

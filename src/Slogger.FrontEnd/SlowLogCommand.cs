// SLOWLOG, without what the proxy does of its own accord. Where entries of its own are hidden, all are asked for, to show as many as were
// wanted.
using System.Globalization;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>Handler of SLOWLOG.</summary>
internal static unsafe class SlowLogCommand
{
    private const long DefaultEntries = 10;

    public static bool Handle(Client client)
    {
        if (client.ArgumentIs(1, "LEN"u8) && client.ArgumentCount == 2 && client.Loop.Gate.IsVersioned)
        {
            return client.Forward(needsDedicated: false, OnLength, barrier: true);
        }
        long limit = DefaultEntries;
        bool get = client.ArgumentIs(1, "GET"u8) && client.ArgumentCount is 2 or 3 && (client.ArgumentCount == 2
            || client.ArgumentNumber(2, out limit));
        return get ? Get(client, limit) : client.Forward(needsDedicated: false);
    }

    // ---- SLOWLOG LEN ----

    private static void OnLength(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        // A log that is full would be full without the proxy's doing, too.
        if (failed || (long.TryParse(reply[1..^2], CultureInfo.InvariantCulture, out long entries)
            && entries >= client.Loop.Settings.SlowLogMaxEntries) || entries == 0)
        {
            client.Answer(reply);
            return;
        }
        byte[] length = reply.ToArray();
        AskForAll(client, upstream, (c, again, itFailed, all) =>
        {
            if (itFailed)
            {
                c.Answer(length);
                return;
            }
            _ = WithoutInternalEntries(c.Loop, all, -1, out long hidden, out long found);
            c.Answer(RespText.Integer(found - hidden));
        });
    }

    // ---- SLOWLOG GET ----

    private static bool Get(Client client, long limit) =>
        client.Forward(needsDedicated: false, barrier: true, then: (c, upstream, failed, reply) =>
        {
            if (failed)
            {
                c.Answer(reply);
                return;
            }
            byte[] shown = WithoutInternalEntries(c.Loop, reply, limit, out long hidden, out long entries);
            if (hidden == 0 || limit < 0 || entries < limit)
            {
                c.Answer(shown);
                return;
            }
            AskForAll(c, upstream, (itself, again, itFailed, all) => itself.Answer(itFailed ? all
                : WithoutInternalEntries(itself.Loop, all, limit, out long _, out long _)));
        });

    private static void AskForAll(Client client, Upstream upstream, ReplyHandler then)
    {
        upstream.Write(InternalRequest.SlowLog);
        upstream.Expect(client, then, ReplyKind.Uncounted);
        client.Loop.CountInternal("slowlog|get");
    }

    // An array of entries: [id, time, duration, [arguments], address, name].
    private static byte[] WithoutInternalEntries(FrontEndLoop loop, ReadOnlySpan<byte> reply, long limit, out long hidden, out long entries)
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
                byte* next = RespText.Skip(p, end);
                var entry = new ReadOnlySpan<byte>(p, (int)(next - p));
                if (IsInternalEntry(loop, entry)) { hidden++; }
                else if (limit < 0 || count < limit)
                {
                    AppendEntry(loop, shown, p, next);
                    count++;
                }
                p = next;
            }
        }
        var header = new List<byte>();
        RespText.AppendHeader(header, '*', count);
        return [.. header, .. shown];
    }

    private static bool IsInternalEntry(FrontEndLoop loop, ReadOnlySpan<byte> entry)
    {
        int name = entry.IndexOf("\r\n$"u8) + 2;
        name += entry[name..].IndexOf((byte)'\n') + 1;
        int length = entry[name..].IndexOf((byte)'\r');
        return OwnSpelling.Is(entry.Slice(name, Math.Max(0, length))) || MonitorLines.NameMarkers(loop, entry);
    }

    private static void AppendEntry(FrontEndLoop loop, List<byte> shown, byte* p, byte* end)
    {
        byte* address = p + new ReadOnlySpan<byte>(p, (int)(end - p)).IndexOf((byte)'\n') + 1;
        for (int i = 0; i < 4; i++) { address = RespText.Skip(address, end); }
        byte* after = RespText.Skip(address, end);
        var bulk = new ReadOnlySpan<byte>(address, (int)(after - address));
        int content = bulk.IndexOf((byte)'\n') + 1;
        string from = Encoding.Latin1.GetString(bulk[content..^2]);
        Client? client = loop.Directory.ClientAt(from);
        shown.AddRange(new ReadOnlySpan<byte>(p, (int)(address - p)));
        if (client is null) { shown.AddRange(bulk); }
        else { RespText.AppendBulk(shown, Encoding.Latin1.GetBytes(client.Identity.PeerAddress)); }
        // The name that a shared connection has is of whoever set one last.
        if (loop.Shared?.Address == from) { RespText.AppendBulk(shown, default); }
        else { shown.AddRange(new ReadOnlySpan<byte>(after, (int)(end - after))); }
    }
}

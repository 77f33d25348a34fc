// DPR.GETV, DPR.CPUT and their like: keys are read with their versions, and written if their versions are still those. See
// docs/reference/dpr-commands.md.
//
// What is read, or written without a condition, is one transaction. ROLE within it tells where the stream stood before: what is read is as
// of there, and what is written has the place right behind. The version of a key that was read is the place of its last write, from the
// stream; when that was read up to there.
//
// A conditional write watches its keys, asks where the stream stands, and waits until it was read up to there: then the table says "not
// written up to the WATCH", and at EXEC Redis says "nor since". So it does not matter who else writes, and how. The request stays at the
// head of the input until it is done: between the two steps it is looked at as any request is, with the slots and the holds of then.
using System.Buffers.Text;
using System.Text;
using Slogger.Core.Keys;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>Handlers of commands with versions of keys.</summary>
internal static class KeyCommands
{
    private static readonly KeyForm[] s_forms =
    [
        new("DPR.GETV", IsHash: false, HasVersion: false, HasValue: false, Deletes: false),
        new("DPR.CPUT", IsHash: false, HasVersion: true, HasValue: true, Deletes: false),
        new("DPR.CDEL", IsHash: false, HasVersion: true, HasValue: false, Deletes: true),
        new("DPR.PUTV", IsHash: false, HasVersion: false, HasValue: true, Deletes: false),
        new("DPR.DELV", IsHash: false, HasVersion: false, HasValue: false, Deletes: true),
        new("DPR.HGETV", IsHash: true, HasVersion: false, HasValue: false, Deletes: false),
        new("DPR.HCPUT", IsHash: true, HasVersion: true, HasValue: true, Deletes: false),
        new("DPR.HCDEL", IsHash: true, HasVersion: true, HasValue: false, Deletes: true),
    ];

    /// <summary>Their names, with spaces between.</summary>
    public static readonly string Names = string.Join(' ', s_forms.Select(static f => f.Name));

    /// <summary>Whether a command is one of them.</summary>
    public static bool Has(ReadOnlySpan<byte> name) => FormOf(name) is not null;

    /// <summary>Whether a command is one of them that may write.</summary>
    public static bool MayWrite(ReadOnlySpan<byte> name) => FormOf(name) is { Writes: true };

    private static KeyForm? FormOf(ReadOnlySpan<byte> name)
    {
        foreach (KeyForm form in s_forms)
        {
            if (Ascii.EqualsIgnoreCase(name, form.Name)) { return form; }
        }
        return null;
    }

    public static bool Handle(Client client)
    {
        KeyForm form = FormOf(client.Argument(0))!;
        if (WhyNot(client, form) is { } refusal) { return client.RefuseCommand(refusal); }
        KeyWrite? write = client.KeyWrite;
        string? wrong = null;
        KeyRequest? request = write?.Request ?? KeyRequest.Read(client, form, out wrong);
        if (request is null) { return client.RefuseCommand(wrong!); }
        client.UsesDpr = true;
        if (client.Loop.Slots is not null && client.Slots.IsServed(request.Keys) is { } done) { return done; }
        if (!form.HasVersion) { return Run(client, request); }
        // Its dedicated upstream, and so what it watches, may be another.
        return write is { IsJudged: true, Upstream.IsClosed: false } && write.Upstream == client.Dedicated
            ? write.Finish(client) : (write ?? new KeyWrite(request)).Watch(client);
    }

    private static string? WhyNot(Client client, KeyForm form)
    {
        if (client.Loop.Shard.Keys is null) { return $"ERR SLOGGER {form.Name} needs --commit log, and a Redis as the store"; }
        if ((client.Pins & Pins.Multi) != 0) { return $"ERR SLOGGER {form.Name} cannot be queued in a transaction"; }
        if ((client.Pins & Pins.Watch) != 0)
        {
            return $"ERR SLOGGER {form.Name} would end what this connection watches: send UNWATCH before, or use another connection";
        }
        if (!client.IsReplying || client.IsSkipping)
        {
            return $"ERR SLOGGER {form.Name} needs the reply that CLIENT REPLY has switched off";
        }
        return CommitCommands.WhileSubscribed(client, form.Name);
    }

    // ---- Without a condition ----

    // What is read may be large, and is looked at as a whole: on a connection of the client's own that harms nobody else.
    private static bool Run(Client client, KeyRequest request)
    {
        Upstream? upstream = client.Route(needsDedicated: !request.Form.Writes);
        if (upstream is null) { return false; }
        if (!request.Form.Writes) { client.Loop.Shard.Keys!.Prepare(); }
        var run = new KeyRun(request);
        WriteTransaction(client, upstream, request, run.OnQueued);
        client.ForwardWritten(upstream, run.OnDone, barrier: true);
        return false;
    }

    /// <summary>Writes the transaction; the reply to its EXEC is yet to be expected.</summary>
    public static void WriteTransaction(Client client, Upstream upstream, KeyRequest request, ReplyHandler onQueued)
    {
        RequestWriter writer = client.Loop.Writer;
        request.WriteTransaction(writer);
        upstream.Write(writer.Written);
        for (int i = 2 + request.TransactionCount; i > 0; i--) { upstream.Expect(client, onQueued, ReplyKind.Inner, inexact: true); }
        foreach (string name in (ReadOnlySpan<string>)["multi", "role", "exec"]) { client.Loop.CountInternal(name); }
    }

    // ---- Replies ----

    /// <summary>Where a master's stream stands, as ROLE tells: the first elements of an array.</summary>
    public static bool TryReadRole(ReadOnlySpan<byte> reply, out long offset)
    {
        ReadOnlySpan<byte> head = "*3\r\n$6\r\nmaster\r\n:"u8;
        offset = 0;
        return reply.StartsWith(head) && Utf8Parser.TryParse(reply[head.Length..], out offset, out _);
    }

    /// <summary>Reads the reply to the transaction.</summary>
    /// <param name="reply">The reply.</param>
    /// <param name="offset">Where the stream stood before it.</param>
    /// <param name="items">Where the replies to its requests begin and end; they are none behind the first that is an error.</param>
    /// <returns>The error that it has; empty if it has none.</returns>
    public static unsafe ReadOnlySpan<byte> ReadDone(ReadOnlySpan<byte> reply, out long offset, List<Range> items)
    {
        offset = 0;
        if (reply[0] == (byte)'-') { return reply; }
        int at = reply.IndexOf((byte)'\n') + 1;
        if (!TryReadRole(reply[at..], out offset)) { return "-ERR SLOGGER Redis is no master\r\n"u8; }
        fixed (byte* start = reply)
        {
            byte* end = start + reply.Length, p = RespText.Skip(start + at, end);
            while (p < end)
            {
                byte* next = RespText.Skip(p, end);
                var item = new Range((int)(p - start), (int)(next - start));
                if (*p == (byte)'-') { return reply[item]; }
                items.Add(item);
                p = next;
            }
        }
        return default;
    }

    /// <summary>Where what was written stands in the stream.</summary>
    /// <param name="form">The command.</param>
    /// <param name="offset">Where the stream stood before.</param>
    /// <param name="first">The reply to the first request.</param>
    public static long PlaceOf(KeyForm form, long offset, ReadOnlySpan<byte> first) =>
        form.Deletes && first.SequenceEqual(":0\r\n"u8) ? offset : offset + 1;
}

/// <summary>A read, or a write without a condition, under way.</summary>
internal sealed unsafe class KeyRun(KeyRequest request)
{
    private byte[]? _error;

    /// <summary>MULTI, or what is queued, was answered.</summary>
    public void OnQueued(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (failed) { _error ??= reply.ToArray(); }
    }

    /// <summary>EXEC was answered.</summary>
    public void OnDone(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        var items = new List<Range>(1 + request.TransactionCount);
        ReadOnlySpan<byte> error = KeyCommands.ReadDone(reply, out long offset, items);
        if (_error is not null) { error = _error; }
        if (!error.IsEmpty)
        {
            client.Answer(error);
            return;
        }
        IKeyVersions keys = client.Loop.Shard.Keys!;
        KeyLines lines = keys.Lines;
        if (request.Form.Writes)
        {
            client.Answer(RespText.Bulk(Encoding.ASCII.GetBytes(
                lines.At(KeyCommands.PlaceOf(request.Form, offset, reply[items[0]])).ToString())));
            return;
        }
        byte[] kept = [];
        bool isRead = keys.WhenReadTo(offset, _ =>
        {
            // Also if the stream has ended before: what was read is as of the offset.
            if (!client.IsClosed) { AnswerRead(client, lines, offset, kept, items); }
        });
        if (isRead)
        {
            AnswerRead(client, lines, offset, reply, items);
            return;
        }
        kept = reply.ToArray();
        client.Wait(Waiting.Stream);
    }

    // What was read is as of the offset: if a key was written since, that is what is known of it.
    private void AnswerRead(Client client, KeyLines lines, long offset, ReadOnlySpan<byte> reply, List<Range> items)
    {
        RequestWriter writer = client.Loop.Writer;
        writer.Clear();
        writer.Begin(request.Count);
        fixed (byte* start = reply)
        {
            // Of a hash all values are in one array.
            byte* end = start + reply.Length, p = start + items[0].Start.Value;
            if (request.Form.IsHash) { p += reply[items[0]].IndexOf((byte)'\n') + 1; }
            for (int i = 0; i < request.Count; i++)
            {
                byte* next = RespText.Skip(p, end);
                long written = client.Loop.Shard.Keys!.Find(client.Db, request.KeyOf(i), request.FieldOf(i));
                writer.Begin(2);
                writer.AddRaw(new ReadOnlySpan<byte>(p, (int)(next - p)));
                writer.Add(lines.At(Math.Min(written, offset)).ToString());
                p = next;
            }
        }
        client.Answer(writer.Written);
    }
}

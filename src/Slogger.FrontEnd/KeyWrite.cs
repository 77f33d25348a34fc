// A conditional write under way, from the WATCH of its keys to the reply to its EXEC. How it works says KeyCommands.
using System.Text;
using Slogger.Core.Keys;
using Slogger.Core.Versions;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>A conditional write. The loop's thread.</summary>
internal sealed class KeyWrite(KeyRequest request)
{
    private const int AttemptsMax = 16;
    private static readonly ReplyHandler s_onWatched = static (client, _, failed, reply) => client.KeyWrite?.OnWatched(failed, reply);
    private static readonly ReplyHandler s_onExists = static (client, _, failed, reply) => client.KeyWrite?.OnExists(failed, reply);
    private static readonly ReplyHandler s_onRole = static (client, upstream, _, reply) => client.KeyWrite?.OnRole(client, upstream, reply);
    private static readonly ReplyHandler s_onExec = static (client, _, _, reply) => client.KeyWrite?.OnExec(client, reply);
    private readonly List<bool> _exists = [];
    private int _attempts;
    private byte[]? _error;
    private byte[]? _refusal;

    /// <summary>What it does.</summary>
    public KeyRequest Request => request;

    /// <summary>Where its keys are watched.</summary>
    public Upstream? Upstream { get; private set; }

    /// <summary>Its keys are watched, and it is known whether they have the versions that are expected.</summary>
    public bool IsJudged { get; private set; }

    /// <summary>The version that had certainly been opened when the transaction was sent.</summary>
    public VersionNumber SentAt { get; private set; }

    /// <summary>Whether a reply to EXEC says that nothing was done, since somebody has touched a key.</summary>
    public static bool IsUndone(ReadOnlySpan<byte> reply) => reply.SequenceEqual("*-1\r\n"u8) || reply.SequenceEqual("_\r\n"u8);

    /// <summary>Watches the keys, and waits until their versions are known.</summary>
    public bool Watch(Client client)
    {
        Upstream? upstream = client.Route(needsDedicated: true);
        if (upstream is null) { return false; }
        client.KeyWrite = this;
        (Upstream, IsJudged, _error, _refusal) = (upstream, false, null, null);
        _exists.Clear();
        client.Loop.Shard.Keys!.Prepare();
        RequestWriter writer = client.Loop.Writer;
        request.WriteWatch(writer);
        // No effect on data but that of time: no version boundary waits for it.
        upstream.Write(writer.Written, inexact: true);
        upstream.Expect(client, s_onWatched, ReplyKind.Inner, inexact: true);
        for (int i = 0; i < request.Count; i++) { upstream.Expect(client, s_onExists, ReplyKind.Inner, inexact: true); }
        upstream.Expect(client, s_onRole, ReplyKind.Inner, inexact: true);
        string exists = request.Form.IsHash ? "hexists" : "exists";
        foreach (string name in (ReadOnlySpan<string>)["watch", exists, "role"]) { client.Loop.CountInternal(name); }
        client.Wait(Waiting.Reply);
        return false;
    }

    private void OnWatched(bool failed, ReadOnlySpan<byte> reply)
    {
        if (failed) { _error ??= reply.ToArray(); }
    }

    private void OnExists(bool failed, ReadOnlySpan<byte> reply)
    {
        OnWatched(failed, reply);
        _exists.Add(reply.SequenceEqual(":1\r\n"u8));
    }

    private void OnRole(Client client, Upstream upstream, ReadOnlySpan<byte> reply)
    {
        if (reply[0] == (byte)'-') { _error ??= reply.ToArray(); }
        long offset = 0;
        if (_error is null && !KeyCommands.TryReadRole(reply, out offset)) { _error = "-ERR SLOGGER Redis is no master\r\n"u8.ToArray(); }
        bool isRead = _error is not null || client.Loop.Shard.Keys!.WhenReadTo(offset, isRead =>
        {
            if (client.KeyWrite != this || client.Dedicated != upstream || upstream.IsClosed || !client.AwaitsReply) { return; }
            Judge(client, offset, isRead);
        });
        if (isRead) { Judge(client, offset, isRead: true); }
    }

    // Not read: the stream has ended, so the store is looked at anew, and then this is, too.
    private void Judge(Client client, long offset, bool isRead)
    {
        IsJudged = isRead;
        for (int i = 0; isRead && i < request.Count && _error is null && _refusal is null; i++)
        {
            IKeyVersions keys = client.Loop.Shard.Keys!;
            KeyVersion expected = request.Expected[i];
            long written = keys.Find(client.Db, request.KeyOf(i), request.FieldOf(i));
            bool isAccepted = expected.IsMissing ? !_exists[i] : keys.Lines.Accepts(expected, written, offset);
            if (!isAccepted) { _refusal = Reply(client, "*2\r\n:0\r\n"u8, keys.Lines.At(Math.Min(written, offset))); }
        }
        client.EndWait();
    }

    /// <summary>The request is looked at again: does it, or says why not.</summary>
    public bool Finish(Client client)
    {
        Upstream? upstream = client.Route(needsDedicated: true);
        if (upstream is null) { return false; }
        if (upstream != Upstream) { return Watch(client); }
        if ((_error ?? _refusal) is { } answer)
        {
            client.KeyWrite = null;
            upstream.Write(InternalRequest.Unwatch);
            client.Loop.CountInternal("unwatch");
            client.ForwardWritten(upstream, (c, _, _, _) => c.Answer(answer), barrier: true);
            return false;
        }
        SentAt = client.Loop.Gate.Answered;
        KeyCommands.WriteTransaction(client, upstream, request, s_onWatched);
        upstream.Expect(client, s_onExec, ReplyKind.Conditional);
        client.Wait(Waiting.Reply);
        return false;
    }

    private void OnExec(Client client, ReadOnlySpan<byte> reply)
    {
        IsJudged = false;
        if (_error is null && IsUndone(reply))
        {
            // It watches nothing any more.
            Upstream = null;
            if (++_attempts == AttemptsMax)
            {
                client.KeyWrite = null;
                client.RefuseCommand($"ERR SLOGGER busy: others have written these keys {AttemptsMax} times while "
                    + $"{request.Form.Name} was about to: nothing was written; try again");
            }
            client.EndWait();
            return;
        }
        client.KeyWrite = null;
        client.ConsumeRequest();
        var items = new List<Range>(1 + request.TransactionCount);
        ReadOnlySpan<byte> error = KeyCommands.ReadDone(reply, out long offset, items);
        if (_error is not null) { error = _error; }
        client.Answer(!error.IsEmpty ? error : Reply(client, "*2\r\n:1\r\n"u8,
            client.Loop.Shard.Keys!.Lines.At(KeyCommands.PlaceOf(request.Form, offset, reply[items[0]]))));
    }

    private static byte[] Reply(Client client, ReadOnlySpan<byte> head, KeyVersion version)
    {
        RequestWriter writer = client.Loop.Writer;
        writer.Clear();
        writer.AddRaw(head);
        return writer.Add(version.ToString()).Written.ToArray();
    }
}

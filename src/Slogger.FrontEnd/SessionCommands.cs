// DPR.HELLO and DPR.BATCH: sessions over many shards, whose operations come in batches with a header. See docs/reference/sessions.md.
using System.Text;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;

namespace Slogger.FrontEnd;

/// <summary>Handlers of what sessions send.</summary>
internal static class SessionCommands
{
    private const int Protocol = 1;

    public static bool Batch(Client client) => client.Batches.Handle();

    public static bool Hello(Client client) => HelloRefusal(client, out UInt128 session) is { } why
        ? client.RefuseCommand(why)
        : CommitCommands.Question(client, c => AnswerHello(c, session));

    private static string? HelloRefusal(Client client, out UInt128 session)
    {
        session = default;
        if (client.Loop.Shard.Batches is null) { return ClientBatches.NoVersions; }
        if (!client.ArgumentIs(1, "1"u8)) { return $"ERR SLOGGER this proxy speaks version {Protocol} of the session protocol, no other"; }
        return ClientBatches.ReadSession(client, 2, out session) ? null : ClientBatches.BadSession;
    }

    private static void AnswerHello(Client client, UInt128 session)
    {
        IBatchPort port = client.Loop.Shard.Batches!;
        WorldPoint cut = client.Commits.SessionCut;
        var bytes = new List<byte>();
        void Number(string name, long value)
        {
            RespText.AppendBulk(bytes, Encoding.ASCII.GetBytes(name));
            RespText.AppendHeader(bytes, ':', value);
        }
        void Word(string name, string value)
        {
            RespText.AppendBulk(bytes, Encoding.ASCII.GetBytes(name));
            RespText.AppendBulk(bytes, Encoding.UTF8.GetBytes(value));
        }
        (SequenceNumber Last, long Version)? done = port.LastDone(new SessionId(session));
        RespText.AppendHeader(bytes, '*', done is null ? 22 : 26);
        Number("protocol", Protocol);
        Word("session", new SessionId(session).ToString());
        Word("cluster", port.Cluster);
        Number("shard", port.Shard.Number);
        Number("worldline", cut.WorldLine.Number);
        Number("open", client.Loop.Gate.Open.Number);
        Number("cut", cut.Version.Number);
        Number("interval_us", port.VersionIntervalUs);
        Number("shards", port.ShardCount);
        Word("finder", port.Finder.Name);
        Word("partitions", CommitCommands.NameOf(port.Partitions.Kind));
        if (done is { } known)
        {
            Number("last", known.Last.Number);
            // Of a version that has not ended yet only the open one is known to be no lower.
            Number("last_version", known.Version > 0 ? known.Version : client.Loop.Gate.Open.Number);
        }
        // What it did last may not be settled.
        client.Loop.Replies.BeginAny();
        client.Answer(bytes.ToArray());
        client.Loop.Replies.End();
    }
}

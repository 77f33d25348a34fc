// DPR.* and WAITAOF: what a client can ask of versions and commits. See docs/reference/dpr-commands.md.
using System.Globalization;
using System.Text;
using Slogger.Core.Cuts;
using Slogger.Core.Ownership;
using Slogger.Core.WorldLines;

namespace Slogger.FrontEnd;

/// <summary>Handlers of the proxy's questions and of WAITAOF. Where the proxy answers by itself Redis is sent a PING, behind all that the
/// client has sent before: without the right to do anything its error is the answer.</summary>
internal static class CommitCommands
{
    private const string BadTimeout = "ERR timeout is not an integer or out of range";

    // ---- Questions that are answered at once ----

    public static bool Ask(Client client)
    {
        string name = Encoding.ASCII.GetString(client.Argument(0)).ToUpperInvariant();
        if ((client.Pins & Pins.Multi) != 0) { return client.RefuseCommand($"ERR SLOGGER {name} cannot be queued in a transaction"); }
        if (WhileSubscribed(client, name) is { } refusal) { return client.RefuseCommand(refusal); }
        bool ofShards = name == "DPR.CUT" && client.ArgumentCount == 2 && client.ArgumentIs(1, "SHARDS"u8);
        bool ofBackup = name == "DPR.WAIT" && client.ArgumentCount == 4 && client.ArgumentIs(3, "BACKUP"u8);
        int arguments = name switch
        {
            "DPR.WAIT" or "DPR.HELLO" or "DPR.REACH" => 3,
            "DPR.RESUME" => 2,
            _ => 1,
        };
        if (client.ArgumentCount != arguments && !ofShards && !ofBackup)
        {
            return client.RefuseCommand($"ERR wrong number of arguments for '{name.ToLowerInvariant()}' command");
        }
        return name switch
        {
            "DPR.INFO" => Question(client, static c => c.Answer(RespText.Bulk(Encoding.UTF8.GetBytes(c.Commits.InfoText())))),
            "DPR.CUT" when ofShards => Question(client, AnswerCutOfShards),
            "DPR.CUT" => Question(client, static c => AnswerCut(c, c.Commits.SessionCut)),
            "DPR.WORLDLINE" => Question(client, static c => c.Answer(RespText.Integer(c.Loop.Shard.WorldLine))),
            "DPR.PARTITIONS" => Question(client, static c => AnswerPartitions(c, c.Loop.Shard.Batches?.Partitions ?? Partitioning.Hash)),
            "DPR.HELLO" => SessionCommands.Hello(client),
            "DPR.RESUME" => Resume(client),
            "DPR.WAIT" => Wait(client, ofBackup),
            "DPR.REACH" => Reach(client),
            _ => Question(client, AnswerCommitted),
        };
    }

    /// <summary>Why a connection that is subscribed, in RESP2, may not send a command; null: it is not.</summary>
    public static string? WhileSubscribed(Client client, string name) => client.Dedicated is { IsSubscribed: true } && client.Protocol == 2
        ? $"ERR Can't execute '{name.ToLowerInvariant()}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
            + "context" : null;

    /// <summary>Asks Redis whether the client may ask, and then answers.</summary>
    public static bool Question(Client client, Action<Client> answer)
    {
        bool isAway = !client.Loop.Shard.IsOpen || client.Loop.Shard.Hold == Hold.All;
        if (isAway && !client.Loop.Probe.NeedsPassword && client.IsDrained)
        {
            // While the store is being recovered, or nothing may be under way there, people want to know how it goes; nobody's rights can
            // be asked for then.
            client.ConsumeRequest();
            client.UsesDpr = true;
            answer(client);
            return true;
        }
        return Probe(client, answer);
    }

    /// <summary>As <see cref="Question"/>, but what is answered waits until the store is there.</summary>
    public static bool Probe(Client client, Action<Client> answer) => client.ForwardProbe((c, _, failed, reply) =>
    {
        if (failed)
        {
            c.Answer(reply);
            return;
        }
        c.UsesDpr = true;
        AnswerOwn(c, answer);
    });

    // What the proxy says by itself waits for no lease: Redis has said nothing but that the client may ask.
    private static void AnswerOwn(Client client, Action<Client> answer)
    {
        client.Loop.Replies.End();
        answer(client);
    }

    private static void AnswerCut(Client client, WorldPoint cut) =>
        client.Answer(RespText.Integers(cut.WorldLine.Number, cut.Version.Number));

    // Where all shards have the same, that one for each.
    private static void AnswerCutOfShards(Client client)
    {
        IShardPort shard = client.Loop.Shard;
        if (shard.Batches is { } port && !port.Finder.HasGridCuts && shard.MayTell
            && port.CommittedByShard is { Length: > 0 } text)
        {
            client.Tells();
            client.Answer(RespText.Integers([.. text.Split(' ').Select(n => long.Parse(n, CultureInfo.InvariantCulture))]));
            return;
        }
        WorldPoint cut = client.Commits.SessionCut;
        client.Answer(RespText.Integers([cut.WorldLine.Number, .. Enumerable.Repeat(cut.Version.Number, shard.Batches?.ShardCount ?? 1)]));
    }

    private static void AnswerCommitted(Client client) =>
        client.Answer(RespText.Integers(client.Loop.Shard.WorldLine, client.Commits.TellSequence(), client.Commits.Sequence,
            client.Commits.Told(client.Commits.Cut).Version.Number));

    private static void AnswerPartitions(Client client, Partitioning partitions)
    {
        var bytes = new List<byte>();
        RespText.AppendHeader(bytes, '*', 2);
        RespText.AppendBulk(bytes, Encoding.ASCII.GetBytes(NameOf(partitions.Kind)));
        RespText.AppendHeader(bytes, '*', partitions.SplitKeys.Length);
        foreach (ReadOnlyMemory<byte> split in partitions.SplitKeys) { RespText.AppendBulk(bytes, split.Span); }
        client.Answer(bytes.ToArray());
    }

    /// <summary>How clients are told how keys fall into partitions.</summary>
    public static string NameOf(PartitionKind kind) => kind == PartitionKind.Hash ? "hash" : "range";

    private static bool Resume(Client client)
    {
        if (!client.Loop.Gate.IsVersioned) { return client.RefuseCommand("ERR SLOGGER nothing is rolled back with --commit none"); }
        if (!client.ArgumentNumber(1, out long line) || line < 1)
        {
            return client.RefuseCommand("ERR SLOGGER the world-line must be a number of 1 or more");
        }
        return ResumeIn(client, line);
    }

    private static bool ResumeIn(Client client, long line) => Question(client, c => c.AnswerResume(line));

    // ---- Waits ----

    private static bool Wait(Client client, bool ofBackup)
    {
        if (!client.Loop.Gate.IsVersioned) { return client.RefuseCommand("ERR SLOGGER nothing is committed with --commit none"); }
        if (ofBackup && client.Loop.Shard.Watermark is null)
        {
            return client.RefuseCommand("ERR SLOGGER there is no backup to wait for: the proxy was started without --backup");
        }
        long sequence = client.Commits.Sequence;
        if (!client.ArgumentIs(1, "*"u8) && (!client.ArgumentNumber(1, out sequence) || sequence < 0))
        {
            return client.RefuseCommand("ERR SLOGGER the sequence number must be '*' or a number of 0 or more");
        }
        if (sequence > client.Commits.Sequence)
        {
            return client.RefuseCommand(
                $"ERR SLOGGER this connection has done {client.Commits.Sequence} operations: {sequence} is not among them");
        }
        if (!client.ArgumentNumber(2, out long milliseconds) || milliseconds < 0) { return client.RefuseCommand(BadTimeout); }
        return Probe(client, (ofBackup ? new BackupWait(sequence, milliseconds) : new CommitWait(sequence, milliseconds)).Begin);
    }

    private static bool Reach(Client client)
    {
        if (!client.Loop.Shard.IsFollowing)
        {
            return client.RefuseCommand(
                "ERR SLOGGER this site is no backup: what is read here is the newest, and a session's DPR.BATCH says at least which");
        }
        if (!client.ArgumentNumber(1, out long version) || version < 0)
        {
            return client.RefuseCommand("ERR SLOGGER the version must be a number of 0 or more");
        }
        if (!client.ArgumentNumber(2, out long milliseconds) || milliseconds < 0) { return client.RefuseCommand(BadTimeout); }
        return Probe(client, new ReachWait(version, milliseconds).Begin);
    }

    public static bool WaitAof(Client client)
    {
        if (!client.Loop.Gate.IsVersioned) { return client.Forward(needsDedicated: false); }
        if ((client.Pins & Pins.Multi) != 0) { return client.RefuseCommand("ERR SLOGGER WAITAOF cannot be queued in a transaction"); }
        if (client.ArgumentCount != 4) { return client.RefuseCommand("ERR wrong number of arguments for 'waitaof' command"); }
        if (!client.ArgumentNumber(1, out long local) || local is < 0 or > 1 || !client.ArgumentNumber(2, out long replicas)
            || replicas < 0)
        {
            return client.RefuseCommand("ERR value is out of range, must be positive");
        }
        if (!client.ArgumentNumber(3, out long milliseconds) || milliseconds < 0)
        {
            return client.RefuseCommand("ERR timeout is negative");
        }
        if (replicas > 0) { return client.RefuseCommand("ERR SLOGGER replicas are not known to the proxy: use WAITAOF 1 0 <timeout>"); }
        return WaitAof(client, new AofWait(local == 0 ? 0 : client.Commits.Sequence, milliseconds));
    }

    private static bool WaitAof(Client client, AofWait wait) => client.ForwardProbe(counts: true, then: (c, _, failed, reply) =>
    {
        if (failed) { c.Answer(reply); } else { AnswerOwn(c, wait.Begin); }
    });

    // ---- At a backup ----

    public static string? AskAtBackup(Client client) =>
        client.ArgumentIs(0, "DPR.WAIT"u8) || client.ArgumentIs(0, "DPR.COMMITTED"u8) || client.ArgumentIs(0, "DPR.HELLO"u8)
        ? NothingCommitted(client) : null;

    public static string NothingCommitted(Client client) =>
        "ERR SLOGGER this site is a backup, where nothing is committed: ask the primary";

    // ---- Behind a rollback ----

    // What speaks of sequence numbers must not speak of those after the rollback to one who has not heard of it.
    public static bool IgnoresNotice(Client client) =>
        !client.ArgumentIs(0, "DPR.COMMITTED"u8) && !client.ArgumentIs(0, "DPR.WAIT"u8) && !client.ArgumentIs(0, "DPR.RESUME"u8);
}

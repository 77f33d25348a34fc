// A session's connection to one shard: Core's ClientSession decides, this puts it on the wire. It hides nothing: refusals and
// replies are given as they came.
using System.Buffers;
using System.Globalization;
using System.Net;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sessions;

/// <summary>What came of a batch.</summary>
/// <param name="Refusal">The error that was the only reply; null if it was let through.</param>
/// <param name="Replies">The replies of Redis.</param>
/// <param name="Reply">The trailer.</param>
internal sealed record BatchOutcome(string? Refusal, IReadOnlyList<RespValue> Replies, BatchReply Reply);

internal sealed class SessionClient : IDisposable
{
    private readonly RespClient _wire;

    private SessionClient(RespClient wire) => _wire = wire;

    public RespClient Wire => _wire;

    public static async Task<SessionClient> ConnectAsync(EndPoint endpoint) => new(await RespClient.ConnectAsync(endpoint));

    public static SessionId NewId() => new((UInt128)Random.Shared.NextInt64() << 64 | (UInt128)Random.Shared.NextInt64());

    /// <summary>DPR.HELLO's names and values.</summary>
    public async Task<Dictionary<string, RespValue>> HelloAsync(SessionId session)
    {
        var reply = await _wire.DoAsync("DPR.HELLO", "1", session.ToString());
        return reply.Items.Chunk(2).ToDictionary(p => p[0].Text, p => p[1]);
    }

    public static string[] Header(in BatchHeader header) =>
    [
        "DPR.BATCH", header.Session.ToString(), header.WorldLine.ToString(), header.AtLeast.ToString(), header.First.ToString(),
        header.Count.ToString(CultureInfo.InvariantCulture),
        .. header.Dependencies.ToArray().SelectMany(d => (string[])["DEP", d.Shard.ToString(), d.Version.ToString()]),
    ];

    /// <summary>The bytes of a batch.</summary>
    public static byte[] Bytes(in BatchHeader header, params string[][] requests)
    {
        var bytes = new ArrayBufferWriter<byte>();
        RespClient.Append(bytes, Header(header));
        foreach (string[] request in requests) { RespClient.Append(bytes, request); }
        return bytes.WrittenSpan.ToArray();
    }

    /// <summary>A header by hand, for what no session would send.</summary>
    public static BatchHeader HeaderOf(SessionId session, long worldLine, long atLeast, long first, int count) =>
        new(session, new WorldLine(worldLine), new VersionNumber(atLeast), new SequenceNumber(first), count, default);

    public Task SendAsync(in BatchHeader header, params string[][] requests) => _wire.WriteAsync(Bytes(header, requests));

    /// <summary>Reads what comes of a batch of so many requests.</summary>
    public async Task<BatchOutcome> ReadAsync(int count)
    {
        var verdict = await _wire.ReadAsync();
        if (verdict.IsError) { return new(verdict.Text, [], default); }
        Assert.Equal("+OK", verdict.Compact);
        var replies = new RespValue[count];
        for (int i = 0; i < count; i++) { replies[i] = await _wire.ReadAsync(); }
        return new(null, replies, TrailerOf(await _wire.ReadAsync()));
    }

    public static BatchReply TrailerOf(RespValue trailer)
    {
        long[] numbers = [.. trailer.Items.Select(i => i.AsInteger())];
        var runs = new VersionRun[(numbers.Length - 2) / 2];
        for (int i = 0; i < runs.Length; i++) { runs[i] = new((int)numbers[2 + (2 * i)], new VersionNumber(numbers[3 + (2 * i)])); }
        WorldLine line = new(numbers[0]);
        return new(line, runs, new WorldPoint(line, new VersionNumber(numbers[1])));
    }

    /// <summary>The fields of a -ROLLBACK error.</summary>
    public static (WorldLine Abandoned, WorldPoint Branch) RollbackOf(string error)
    {
        Assert.StartsWith("ROLLBACK ", error, StringComparison.Ordinal);
        var fields = error.Split(' ').Skip(1).Select(f => f.Split('=')).ToDictionary(f => f[0], f => f[1]);
        long Number(string name) => long.Parse(fields[name], CultureInfo.InvariantCulture);
        return (new WorldLine(Number("abandoned")), new WorldPoint(
            new WorldLine(Number("worldline")), new VersionNumber(Number("branch"))));
    }

    /// <summary>The fields of a -ROLLBACK error that names the branch of each shard.</summary>
    public static (WorldLine Abandoned, WorldLine Next, VersionNumber[] Branches) RollbackByShard(string error)
    {
        Assert.StartsWith("ROLLBACK ", error, StringComparison.Ordinal);
        var fields = error.Split(' ').Skip(1).Select(f => f.Split('=')).ToDictionary(f => f[0], f => f[1]);
        long Number(string text) => long.Parse(text, CultureInfo.InvariantCulture);
        return (new WorldLine(Number(fields["abandoned"])), new WorldLine(Number(fields["worldline"])),
            [.. fields["branches"].Split(',').Select(v => new VersionNumber(Number(v)))]);
    }

    public void Dispose() => _wire.Dispose();
}

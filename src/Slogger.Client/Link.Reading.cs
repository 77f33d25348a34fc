// What comes back over a link: verdict, replies and trailer of each batch, in order.
using System.Diagnostics;
using Slogger.Client.Wire;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Resp;

namespace Slogger.Client;

internal sealed partial class Link
{
    private VersionRun[] _runs = new VersionRun[16];

    /// <summary>Reads until the connection ends.</summary>
    /// <returns>Why it did.</returns>
    private async Task<Exception> ReadAsync(RespChannel channel)
    {
        Exception why;
        try
        {
            Batch? current = null;
            while (true)
            {
                // What came behind the probe's answer is nothing of ours; and before each wait all is handled that is there.
                while (TryHandle(channel.Received, ref current)) { }
                int got = await channel.Stream.ReadAsync(channel.Received.Room(), _stop.Token).ConfigureAwait(false);
                if (got == 0) { throw new IOException("closed by the proxy"); }
                channel.Received.Received(got);
            }
        }
        catch (RefusedException refused)
        {
            why = refused;
            if (refused.Branch is { } branch) { _client.OnRollback(branch); }
        }
        catch (Exception e) when (IsBroken(e))
        {
            why = e;
        }

        _brokenSince = Stopwatch.GetTimestamp();
        lock (_gate)
        {
            if (_channel == channel) { _channel = null; }
        }

        channel.Dispose();
        return why;
    }

    private bool TryHandle(ReplyBuffer received, ref Batch? current)
    {
        if (!received.TryRead(out WireReply reply)) { return false; }
        if (current is null)
        {
            lock (_gate) { _sent.TryPeek(out current); }
            if (current is null) { throw new InvalidDataException($"nothing was asked, and the proxy says {Preview(reply)}"); }
        }

        if (!current.IsAccepted)
        {
            if (reply.IsError) { throw RefusedException.Of(System.Text.Encoding.UTF8.GetString(reply.Payload)); }
            if (_readsBackup) { _ = BackupWire.ReadPoint(reply); }
            else if (!reply.Bytes.SequenceEqual("+OK\r\n"u8)) { throw new InvalidDataException($"a batch's verdict is {Preview(reply)}"); }
            current.IsAccepted = true;
        }
        else if (!current.IsAnswered)
        {
            current.Accept(reply);
        }
        else
        {
            Finish(current, reply);
            current = null;
        }

        return true;
    }

    private void Finish(Batch batch, in WireReply trailer)
    {
        BatchReply reply = _readsBackup ? ReadPlace(batch, trailer) : ReadTrailer(trailer.Bytes);
        // A batch leaves only when it is answered: what does not fit is of a connection that is given up, with all that is on it.
        if (!batch.Session.OnAnswered(batch, reply))
        {
            throw new InvalidDataException($"the trailer does not fit its batch: {Preview(trailer)}");
        }
        lock (_gate)
        {
            if (_sent.TryPeek(out Batch? head) && head == batch) { _sent.Dequeue(); }
        }

        _client.OnCommitted(reply.Cut);
    }

    /// <summary>What a backup's shard stands at behind a batch. All of it is committed, in whichever world-line: nothing that was read
    /// there is ever undone.</summary>
    private BatchReply ReadPlace(Batch batch, in WireReply reply)
    {
        WorldPoint stands = BackupWire.ReadPoint(reply);
        _runs[0] = new(batch.Requests, stands.Version);
        return new(stands.WorldLine, _runs.AsMemory(0, 1), new(batch.WorldLine, stands.Version));
    }

    /// <summary>A flat array of integers: world-line, committed version, then how many and version for each run.</summary>
    private BatchReply ReadTrailer(ReadOnlySpan<byte> bytes)
    {
        int at = 0;
        long count = Next(bytes, ref at, (byte)'*');
        if (count < 4 || count % 2 != 0) { throw new InvalidDataException($"a trailer of {count} numbers"); }
        WorldLine line = new(Next(bytes, ref at, (byte)':'));
        VersionNumber cut = new(Next(bytes, ref at, (byte)':'));
        int runs = (int)(count / 2) - 1;
        if (runs > _runs.Length) { _runs = new VersionRun[runs]; }
        for (int i = 0; i < runs; i++)
        {
            int operations = checked((int)Next(bytes, ref at, (byte)':'));
            _runs[i] = new(operations, new VersionNumber(Next(bytes, ref at, (byte)':')));
        }

        return new(line, _runs.AsMemory(0, runs), new WorldPoint(line, cut));

        static long Next(ReadOnlySpan<byte> bytes, ref int at, byte kind)
        {
            if (at >= bytes.Length || bytes[at] != kind) { throw new InvalidDataException("the trailer is no array of integers"); }
            int length = bytes[(at + 1)..].IndexOf((byte)'\r');
            long number = WireReply.Number(bytes.Slice(at + 1, length));
            at += length + 3;
            return number;
        }
    }

    private static string Preview(in WireReply reply) =>
        System.Text.Encoding.ASCII.GetString(reply.Bytes[..Math.Min(reply.Bytes.Length, 80)]).TrimEnd();
}

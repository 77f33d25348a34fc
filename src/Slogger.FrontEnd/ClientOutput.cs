// What a client is to be sent: when it leaves, and what it tells. All bytes to the client take this way.
//
// Bytes are sent at once when nothing waits before them. They wait while the client does not read, while more follows at once (gathering,
// in the
// same turn; corking, in the same batch), while what they say depends on a commit that is yet to come, and while what they rest on is not
// settled (HeldReplies).
using Slogger.FrontEnd.Transports;

namespace Slogger.FrontEnd;

/// <summary>The output of one client. The loop's thread.</summary>
/// <param name="loop">The loop.</param>
/// <param name="client">Whose it is.</param>
/// <param name="channel">Its connection.</param>
/// <param name="told">Of TLS under a lease: what is given out here waits again before it leaves.</param>
internal sealed unsafe class ClientOutput(FrontEndLoop loop, Client client, Channel channel, ToldCommits? told)
{
    private const long PauseBytes = 64 << 20;
    private const long DedicatedPauseBytes = 1 << 20;

    // Copying more than that would cost more than sending it apart.
    private const int CorkBytesMax = 16 << 10;
    private const int SendBytesMax = 1 << 20;
    private NativeBuffer _bytes;

    // What is about to be given out tells commits, or what has survived.
    private bool _tells;

    // Small answers wait for those that follow in the same turn. Whoever begins it ends it, or a scheduled resume does.
    private bool _gathers;

    // What is given out waits for what comes at once behind it, to be sent with it.
    private bool _corked;

    // What waits for the client is sent when this version is committed; 0 for at once.
    private long _heldFor;

    // Positions count bytes since the connection began: this one is of the first byte that waits.
    private long _left;

    // From this position on nothing leaves yet; for what is to come the marks say why.
    private long _heldFrom = long.MaxValue;
    private ReplyMarks _marks;
    private long _silentFrom = long.MaxValue;

    /// <summary>What waits. Unit: bytes.</summary>
    public nint Count => _bytes.Count;

    /// <summary>Memory that is taken. Unit: bytes.</summary>
    public nint Capacity => _bytes.Capacity;

    /// <summary>So much waits that a dedicated upstream should not be read.</summary>
    public bool IsFull => _bytes.Count > DedicatedPauseBytes;

    /// <summary>So much waits that the client should not be read.</summary>
    public bool IsTooFull => _bytes.Count > PauseBytes;

    /// <summary>Something must not leave yet.</summary>
    public bool IsHeld => _heldFor != 0 || _heldFrom != long.MaxValue;

    /// <summary>Something waits for the client to read.</summary>
    public bool WantsWrite => Sendable > 0 && !_corked && !_gathers;

    private nint Sendable => _heldFor != 0 ? 0 : (nint)Math.Min(_bytes.Count, _heldFrom - _left);

    /// <summary>What is given out next tells a commit, or what has survived a recovery.</summary>
    public void Tells() => _tells = true;

    /// <summary>Passes bytes on, at once when the client takes them, else later.</summary>
    public void Add(byte* p, nint count)
    {
        if (client.IsClosed || count == 0) { return; }
        if (loop.Replies.Holds) { Hold(); }
        else if (_bytes.Count == 0 && !_corked && (!_gathers || count > CorkBytesMax))
        {
            int sent = Send(p, count);
            if (sent == count)
            {
                _tells = false;
                return;
            }
            if (sent == Channel.Broken)
            {
                client.Close();
                return;
            }
            if (sent > 0)
            {
                p += sent;
                count -= sent;
            }
        }
        bool wasFull = IsFull;
        _bytes.Append(p, count);
        loop.OutputBytes += count;
        if (!IsWithinLimits()) { return; }
        client.UpdateWatch();
        if (!wasFull && IsFull) { client.Dedicated?.UpdateReading(); }
    }

    // False: the client was closed, since too much waits.
    private bool IsWithinLimits()
    {
        if (_bytes.Count > loop.Limits.ClientOutputBytes)
        {
            loop.Shard.Warn($"client {client.Id} is closed: {_bytes.Count >> 20} MB of replies wait for it (see --client-output-limit)");
            client.Close();
            return false;
        }
        if (loop.OutputBytes > loop.Limits.TotalOutputBytes)
        {
            loop.Shard.Warn($"{loop.OutputBytes >> 20} MB of replies wait for slow clients: the slowest is closed (see "
                + "--output-memory-limit)");
            loop.Clients.CloseSlowest();
        }
        return !client.IsClosed;
    }

    // The only way to the client. What tells a commit may have lain here for long, or this process may have been stopped: without the
    // right to tell it the
    // connection ends instead. Nothing comes between the question and the system call.
    private int Send(byte* p, nint count)
    {
        if (_tells) { told?.Announce(count); }
        if (loop.IsHalted || (_tells && !loop.Shard.MayTell)) { return Channel.Broken; }
        int sent = channel.Send(p, (int)count);
        if (sent > 0) { told?.Advance(sent); }
        return sent;
    }

    /// <summary>Sends what waits, as far as the client takes it.</summary>
    public void Flush()
    {
        bool wasFull = IsFull;
        while (Sendable > 0)
        {
            int sent = Send(_bytes.Head, Math.Min(Sendable, SendBytesMax));
            if (sent == Channel.WouldBlock) { break; }
            if (sent < 0)
            {
                client.Close();
                return;
            }
            _bytes.Consume(sent);
            _left += sent;
            loop.OutputBytes -= sent;
        }
        if (_bytes.Count == 0)
        {
            _tells = false;
            _bytes.Free();
            if (!client.GoesOnWhenSent()) { return; }
        }
        client.UpdateWatch();
        if (wasFull && !IsFull) { client.Dedicated?.UpdateReading(); }
    }

    /// <summary>The connection has ended: what waits is dropped.</summary>
    public void Free()
    {
        loop.OutputBytes -= _bytes.Count;
        _bytes.Free();
        _heldFrom = long.MaxValue;
    }

    // ---- What is given out at once leaves at once, as one write ----

    /// <summary>More is about to be given out in this turn; <see cref="EndGathering"/> must follow.</summary>
    public void Gather() => _gathers = true;

    /// <summary>Nothing follows at once: what was gathered is sent, unless a resume in this turn may add to it.</summary>
    public void EndGathering()
    {
        if (!_gathers || (client.IsResumeScheduled && !client.IsClosed)) { return; }
        _gathers = false;
        if (!client.IsClosed && !_corked && _bytes.Count > 0) { Flush(); }
    }

    /// <summary>What was gathered need not be waited for: the next bytes leave at once.</summary>
    public void StopGathering() => _gathers = false;

    /// <summary>The end of a batch's replies is about to follow; <see cref="Uncork"/> must.</summary>
    public void Cork() => _corked = true;

    /// <summary>So many bytes are given out next: large ones are not kept for what follows.</summary>
    public void UncorkFor(nint count)
    {
        if (count > CorkBytesMax) { _corked = false; }
    }

    /// <summary>Nothing of the batch follows at once.</summary>
    public void Uncork()
    {
        if (!_corked) { return; }
        _corked = false;
        if (!client.IsClosed && !_gathers && _bytes.Count > 0) { Flush(); }
    }

    // ---- Waiting for a commit ----

    /// <summary>Nothing leaves before this version is committed.</summary>
    public void HoldFor(long version)
    {
        _heldFor = version;
        loop.Waits.HoldOutput(client, version);
    }

    /// <summary>Looks whether what is held can be sent. True when nothing is held any more.</summary>
    public bool IsReleased()
    {
        if (client.IsClosed || _heldFor == 0) { return true; }
        if (!client.Commits.IsCommitted(_heldFor)) { return false; }
        _heldFor = 0;
        if (client.IsReplying) { Tells(); }
        Flush();
        return true;
    }

    // ---- Waiting until what it rests on is settled ----

    // What is added next waits, and so does what follows it.
    private void Hold()
    {
        long at = _left + _bytes.Count;
        if (_heldFrom == long.MaxValue)
        {
            _heldFrom = at;
            loop.Replies.Wait(client);
        }
        if (loop.Replies.IsSilent) { _silentFrom = Math.Min(_silentFrom, at); }
        if (loop.Replies.HoldsFor is > 0 and var version)
        {
            _marks.Add(at, version);
            loop.Replies.Await(version);
        }
    }

    /// <summary>Sends what may leave now. True when nothing is held any more.</summary>
    /// <param name="settled">The last version that is settled.</param>
    /// <param name="isSilent">Whether what was read lately may not be told.</param>
    public bool ReleaseReplies(long settled, bool isSilent)
    {
        if (client.IsClosed || _heldFrom == long.MaxValue) { return true; }
        if (!isSilent) { _silentFrom = long.MaxValue; }
        long from = Math.Min(_marks.Settle(settled), _silentFrom);
        if (from == _heldFrom) { return false; }
        _heldFrom = from;
        if (!_corked && !_gathers) { Flush(); }
        return client.IsClosed || _heldFrom == long.MaxValue;
    }
}

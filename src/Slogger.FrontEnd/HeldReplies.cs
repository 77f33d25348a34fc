// Committed replies, and the gate that the shard holds: when what was read from the store may be told.
//
// The rule (R6 of the replication's invariants): with committed replies no byte that rests on what is not settled leaves. A version is
// settled when it is durable, and will never be lost. So what is read from an upstream waits for the last version that it can rest on,
// and what follows on the same client's connection waits behind it:
// - What may write rests on its own version. On the shared upstream that is exact. On a dedicated one it is the version that is open when
//   the reply comes, unless the boundary waits for the reply.
// - What reads on the shared upstream rests on the last write of its keys that was forwarded before it there, and on whatever went over
//   other connections before its reply came: no order is known among those. So a write on a dedicated upstream makes all keys hot.
// - Where reads are held as well (strong reads by a majority) they rest on their own version as writes do.
// - Pushes, and reads on a dedicated upstream, rest on the last write of all.
// - What blocks is done at once, or with the write of another. At once: until a marker that was sent later has been answered, all keys are
//   hot. With a write: while anything blocks, each write makes all keys hot.
// What the proxy answers of its own rests on nothing. It keeps its place.
//
// The gate: with a lease, of a leader or of a site, the shard is asked after something was read from the store, and before any of it is
// sent, whether the lease still holds. If not, what was read waits until it does again. If the shard is another's by then, it closes the
// store, and nothing that waits ever leaves.
using System.Runtime.InteropServices;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>What replies rest on, as it is known when their requests are forwarded.</summary>
/// <param name="Use">What the requests have to do with the data.</param>
/// <param name="Version">The last version with a write that they can have seen, or made; 0: none, or unknown.</param>
internal readonly record struct ReplyBasis(DataUse Use, long Version)
{
    /// <summary>Nothing is known: they may write whatever they like.</summary>
    public static ReplyBasis Unknown => default;

    /// <summary>They read what nothing unsettled has touched.</summary>
    public static ReplyBasis Cold => new(DataUse.Reads, 0);

    /// <summary>They tell of no data.</summary>
    public static ReplyBasis None => new(DataUse.None, 0);
}

/// <summary>Decides which replies wait, and has them leave. The loop's thread, if nothing else is said.</summary>
internal sealed class HeldReplies(FrontEndLoop loop)
{
    private readonly IShardPort _shard = loop.Shard;
    private readonly HotKeys _keys = new();

    // A read rests on its own version, too: when a majority has that, no other leader had begun before the read.
    private readonly bool _holdsReads = loop.Shard.HoldsReads;
    private readonly List<Client> _waiting = [];
    private KeyFinder? _finder;
    private Action? _onSettled;
    private long _settled, _released;
    private long _awaited;
    private volatile bool _anybodyWaits;

    // The last version with a write; with one that makes all keys hot.
    private long _lastWrite, _allHot;

    // On dedicated upstreams, and not answered.
    private int _writing, _blocking;

    // Something blocks, and no marker that was sent later has been answered. It has been sent, at least.
    private bool _isBlockingNew, _isMarkerLater;

    /// <summary>Whether replies wait until what they rest on is settled. Never changes.</summary>
    public bool IsOn { get; } = loop.Shard.HoldsReplies;

    /// <summary>What was read may not be told at this moment.</summary>
    public bool IsSilent { get; private set; }

    /// <summary>What is given out now is to wait.</summary>
    public bool Holds { get; private set; }

    /// <summary>For the settling of this version; 0: for none.</summary>
    public long HoldsFor { get; private set; }

    /// <summary>Up to here replies have waited for versions to be settled. Any thread.</summary>
    public long AwaitedVersion => Volatile.Read(ref _awaited);

    /// <summary>Whether the loop should be told at once of more that is settled, or of the right to tell. Any thread.</summary>
    public bool AnybodyWaits => _anybodyWaits;

    private long Open => loop.Gate.Open.Number;

    private long AllHot => _writing > 0 || _isBlockingNew ? Open : _allHot;

    private long LastWrite => Math.Max(_lastWrite, AllHot);

    // ---- What is forwarded ----

    /// <summary>The store has other commands now.</summary>
    public void UseCommands(StoreCommands commands)
    {
        if (IsOn) { _finder = commands.Keys; }
    }

    /// <summary>The store can be used: what is in it may not be durable, and may be another's writing.</summary>
    public void OnStoreOpens()
    {
        _settled = _shard.SettledVersion;
        MakeAllHot(Open);
    }

    /// <summary>What has come with slots was not forwarded here, and may not be durable.</summary>
    public void OnSlotsChanged()
    {
        if (IsOn) { MakeAllHot(Open); }
    }

    /// <summary>What replies rest on to ordinary requests that are forwarded on the shared upstream.</summary>
    /// <param name="p">The first of their bytes.</param>
    /// <param name="end">One past the last.</param>
    /// <param name="mayWrite">Whether one of them may write, as far as the scan knows.</param>
    public unsafe ReplyBasis OfShared(byte* p, byte* end, bool mayWrite)
    {
        if (!IsOn) { return ReplyBasis.Unknown; }
        return mayWrite || !IsSettled(_lastWrite) ? Look(p, end) : ReplyBasis.Cold;
    }

    /// <summary>The same on a dedicated upstream, where only the reply will tell the version.</summary>
    /// <param name="p">As the other.</param>
    /// <param name="end">As the other.</param>
    /// <param name="mayWrite">As the other.</param>
    public unsafe ReplyBasis OfDedicated(byte* p, byte* end, bool mayWrite)
    {
        if (!IsOn || _finder is not { } finder) { return ReplyBasis.Unknown; }
        if (!mayWrite) { return ReplyBasis.Cold; }
        var use = DataUse.None;
        while (p < end)
        {
            long length = CommandScanner.ReadArguments(p, end, loop.Arguments);
            finder.TryFind(new(p, (int)length), CollectionsMarshal.AsSpan(loop.Arguments), out _, out DataUse its);
            if (its < use && loop.Arguments.Count > 0) { use = its; }
            p += length;
        }
        return new(use, 0);
    }

    private unsafe ReplyBasis Look(byte* p, byte* end)
    {
        long open = Open, rests = 0;
        var use = DataUse.None;
        while (p < end)
        {
            long length = CommandScanner.ReadArguments(p, end, loop.Arguments);
            var request = new ReadOnlySpan<byte>(p, (int)length);
            p += length;
            ReadOnlySpan<(int Offset, int Length)> arguments = CollectionsMarshal.AsSpan(loop.Arguments);
            if (arguments.IsEmpty) { continue; }
            KeyPlaces keys = default;
            var its = DataUse.Writes;
            bool isKnown = _finder?.TryFind(request, arguments, out keys, out its) == true && keys.Total > 0;
            if (its < use) { use = its; }
            if (its == DataUse.None) { continue; }
            if (!isKnown)
            {
                rests = LastWrite;
                if (its == DataUse.Writes) { MakeAllHot(open); }
                continue;
            }
            for (int i = 0; i < keys.Total; i++)
            {
                (int offset, int count) = arguments[keys[i]];
                ReadOnlySpan<byte> key = request.Slice(offset, count);
                if (its == DataUse.Reads) { rests = Math.Max(rests, _keys.VersionOf(key)); }
                else if (!_keys.Add(key, open, _settled)) { MakeAllHot(open); }
            }
        }
        if (use != DataUse.Writes) { return new(use, rests); }
        _lastWrite = open;
        if (_blocking > 0) { MakeAllHot(open); }
        return new(use, open);
    }

    /// <summary>Requests of a client were given to the shared upstream, and nobody has looked at them.</summary>
    public void OnUnknownShared() => MakeAllHot(Open);

    /// <summary>What may write, and will not block, was given to a dedicated upstream.</summary>
    public void OnWriting() => _writing++;

    /// <summary>It was answered, or its connection has ended.</summary>
    public void OnWritten()
    {
        _writing--;
        MakeAllHot(Open);
    }

    /// <summary>What may block was given to an upstream.</summary>
    public void OnBlocking()
    {
        _blocking++;
        OnBlockingSent();
    }

    /// <summary>Something was sent on a connection where something blocks, or is about to.</summary>
    public void OnBlockingSent() => (_isBlockingNew, _isMarkerLater) = (true, false);

    /// <summary>What blocked was answered, or its connection has ended.</summary>
    public void OnUnblocked()
    {
        _blocking--;
        if (_blocking == 0) { _isBlockingNew = false; }
        MakeAllHot(Open);
    }

    /// <summary>A marker is sent.</summary>
    public void OnMarkerSent() => _isMarkerLater = _isBlockingNew;

    /// <summary>It was answered: what was sent before it, and blocks, has been looked at by the store.</summary>
    public void OnMarkerAnswered()
    {
        if (!_isMarkerLater) { return; }
        _isBlockingNew = _isMarkerLater = false;
        MakeAllHot(Open);
    }

    private void MakeAllHot(long version) => _allHot = _lastWrite = Math.Max(_lastWrite, version);

    // ---- What is read ----

    /// <summary>Something was read from the store: may it be told at this moment?</summary>
    public void OnRead()
    {
        if (_shard.MaySpeak != IsSilent) { return; }
        IsSilent = !IsSilent;
        // What waits leaves at the end of this turn.
        if (!IsSilent) { _released = -1; }
    }

    /// <summary>What is given out next is the reply to such a request.</summary>
    public void Begin(Upstream upstream, in Expected e)
    {
        if (!IsOn)
        {
            Holds = IsSilent;
            return;
        }
        bool isShared = upstream.Exclusive is null;
        long until = e.Inexact ? Open : e.Version;
        Hold(e.Use switch
        {
            DataUse.None => 0,
            DataUse.Writes => until,
            DataUse.Reads when _holdsReads => until,
            _ => Math.Min(until, isShared ? Math.Max(e.RestsOn, AllHot) : LastWrite),
        });
    }

    /// <summary>What is given out next tells of anything that the store holds.</summary>
    public void BeginAny() => Hold(IsOn ? LastWrite : 0);

    /// <summary>What is given out next is of the proxy's own.</summary>
    public void End() => (Holds, HoldsFor) = (false, 0);

    private void Hold(long version)
    {
        HoldsFor = IsSettled(version) ? 0 : version;
        Holds = HoldsFor > 0 || IsSilent;
    }

    private bool IsSettled(long version) => version <= _settled || version <= (_settled = _shard.SettledVersion);

    // ---- What waits ----

    /// <summary>A client's output waits, and did not before.</summary>
    public void Wait(Client client)
    {
        _waiting.Add(client);
        _anybodyWaits = true;
    }

    /// <summary>Somebody waits for this version.</summary>
    public void Await(long version)
    {
        if (version <= _awaited) { return; }
        Volatile.Write(ref _awaited, version);
        _shard.OnReplyAwaited();
    }

    /// <summary>Looks for what may leave. Called at the end of each turn: whoever settles a version after that sees that somebody waits,
    /// and posts.</summary>
    public void Turn()
    {
        if (!_anybodyWaits) { return; }
        Interlocked.MemoryBarrier();
        if (_shard.SettledVersion > _released || (IsSilent && _shard.MaySpeak)) { Release(); }
    }

    /// <summary>Has the loop look for what may leave. Any thread; the caller has made it so before, and has seen that
    /// <see cref="AnybodyWaits"/>.</summary>
    public void Post() => loop.Post(_onSettled ??= loop.OnSettled);

    /// <summary>Has all leave that may.</summary>
    public void Release()
    {
        _settled = _released = _shard.SettledVersion;
        IsSilent = !_shard.MaySpeak;
        int kept = 0;
        for (int i = 0; i < _waiting.Count; i++)
        {
            if (!_waiting[i].ReleaseReplies(_settled, IsSilent)) { _waiting[kept++] = _waiting[i]; }
        }
        _waiting.RemoveRange(kept, _waiting.Count - kept);
        _anybodyWaits = kept > 0;
    }
}

// The windows that a shipper sends to a backup that is far behind, each in place of the stretch of the log that it stands for (LogWindows):
// only of what is in the recorded cut, since a world-line may not begin inside of one. The driver makes them, as they are wanted.
//
// While one is being sent offsets are those of its bytes, as if these were the log's. So each reply says whether its place is one in a
// window, and in which: the receiver may have the log as it is behind where a window begins, since pieces that were sent before arrive after
// all. Then the window is of no use. Nor is a place in a window that is not sent any more: the receiver forgets its part when it is sent
// something else. With each welcome all windows are forgotten: the receiver has no part of one then. Up to which cut they go is not: on a
// link that breaks again and again a stretch would never end, and no cut be noted.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>Which windows there are, up to where they go, and where the log goes on as it is. Not thread-safe.</summary>
internal sealed class OutgoingWindows(ShipperOptions options, ShipMutation mutation)
{
    private readonly List<ShipWindow> _made = [];            // and not yet received
    private readonly List<WorldPoint> _named = [];           // the cut up to which they go, and those that followed
    private int _namedTo;              // so many of them were said
    private bool _isFarBehind;
    private WorldPoint _upTo;          // the cut up to which they go
    private long _logTo;               // none begins before this offset

    /// <summary>Those that may yet be sent, or sent again.</summary>
    public IReadOnlyList<ShipWindow> Made => _made;

    /// <summary>Whether the receiver says that it takes them.</summary>
    public bool AreTaken { get; set; }

    /// <summary>Whether the receiver is so far behind that they are sent.</summary>
    public bool AreSent => _isFarBehind && AreTaken;

    /// <summary>Bytes of the log in whose place they have arrived, less what was left of them.</summary>
    public long BytesSpared { get; private set; }

    /// <summary>Which cut is to be named next, if not the newest. First that up to which they go, and those that followed: a receiver that
    /// has begun anew does not know them, notes only what it knows, and one of them has to be one that all streams hold.</summary>
    public WorldPoint? CutToName => _namedTo < _named.Count ? _named[_namedTo] : null;

    /// <summary>That was named.</summary>
    public void CutNamed()
    {
        if (_namedTo < _named.Count) _namedTo++;
    }

    /// <summary>The cut in SQL has moved on.</summary>
    public void CutRecorded(WorldPoint cut)
    {
        if (_named.Count is > 0 and < HeldCuts.Max - 1) _named.Add(cut);
    }

    /// <summary>So far behind is the receiver, in bytes.</summary>
    public void Look(long behind) =>
        _isFarBehind = behind > (_isFarBehind ? options.WindowsAboveBytes / 8 : options.WindowsAboveBytes);

    /// <summary>They go up to a later cut, if they may: the receiver counts no cut inside of them. So they go up to one that it has heard of,
    /// and on when it counts as a whole: else a backup that never catches up would hold nothing new.</summary>
    public void Extend(WorldPoint sent, WorldPoint watermark, WorldPoint cut)
    {
        if (sent < _upTo || watermark < _upTo || cut <= _upTo) return;
        _upTo = cut;
        _named.Clear();
        _named.Add(cut);
        _namedTo = 0;
    }

    /// <summary>One is wanted that begins at a place, and ends at or below the version; null: none is.</summary>
    /// <param name="at">Up to there the log was sent.</param>
    /// <param name="end">Of the log.</param>
    public (LogIndex From, VersionNumber Below)? WantedAt(LogIndex at, LogIndex end)
    {
        if (!AreSent || at.Offset < _logTo || at.Line != end.Line || At(at) is not null) return null;
        VersionNumber below = mutation == ShipMutation.WindowsBeyondCut ? end.Closed
            : _upTo.WorldLine == at.WorldLine ? _upTo.Version : at.Closed;
        return below > at.Closed ? (at, below) : null;
    }

    /// <summary>One was made.</summary>
    public void Add(in ShipWindow window) => _made.Add(window);

    /// <summary>None begins below an offset: up to there the log is sent as it is.</summary>
    public void NoneBelow(long offset) => _logTo = offset;

    /// <summary>The one that a place is in; null: none.</summary>
    public ShipWindow? At(LogIndex at)
    {
        foreach (ShipWindow w in _made)
            if (IsIn(w, at)) return w;
        return null;
    }

    /// <summary>Where the piece of one ends that begins at a place in it.</summary>
    public LogIndex EndOfPart(in ShipWindow window, LogIndex at)
    {
        long offset = at.Offset + options.PieceBytesMax;
        return offset >= window.From.Offset + window.Bytes ? window.To : at with { Offset = offset };
    }

    /// <summary>How long a piece of the log as it is may be, in bytes: it ends where a window begins, since a place behind that is one of the
    /// window. Also after going back below windows that are still to be sent.</summary>
    public int PieceBytesAt(LogIndex at)
    {
        long until = at.Offset < _logTo ? _logTo : long.MaxValue;
        foreach (ShipWindow w in _made)
        {
            if (w.From.Line == at.Line && w.From.Offset > at.Offset && mutation != ShipMutation.LogRunsIntoWindow)
                until = Math.Min(until, w.From.Offset);
        }

        return (int)Math.Min(options.PieceBytesMax, until - at.Offset);
    }

    /// <summary>The receiver has the log as it is up to a place.</summary>
    /// <returns>Whether that is behind where one began, which is of no use then.</returns>
    public bool DropAround(LogIndex place) => _made.RemoveAll(w => w.From < place && place < w.To) > 0;

    /// <summary>What they stand for has arrived, up to a place.</summary>
    public void Arrived(LogIndex received)
    {
        foreach (ShipWindow w in _made)
            if (w.To <= received) BytesSpared += w.To.Offset - w.From.Offset - w.Bytes;
        _made.RemoveAll(w => w.To <= received);
    }

    /// <summary>What lies behind a place is sent again.</summary>
    public void GoBack(LogIndex to)
    {
        _made.RemoveAll(w => w.To <= to);
        // What it has no part of it may not take any more.
        if (!AreTaken) _made.RemoveAll(w => w.From >= to);
    }

    /// <summary>A connection has begun.</summary>
    /// <param name="watermark">What the backup as a whole has.</param>
    public void Welcomed(WorldPoint watermark)
    {
        Clear();
        _logTo = 0;
        _namedTo = watermark >= _upTo ? _named.Count : 0;
    }

    /// <summary>They are forgotten.</summary>
    public void Clear() => _made.Clear();

    // Inside of a window nothing is closed; each begins behind another version.
    private static bool IsIn(in ShipWindow window, LogIndex at) => window.From <= at && at < window.To && at.Closed == window.From.Closed;
}

// What a shard has recorded next, of what it has durable. Driven by the recorder's task in the product, and by the simulator.
//
// One claim is on its way at a time; of several that wait only the newest is recorded. A shard alone records in SQL. A shard among others
// says its claim to the coordinator of cuts, which answers when a cut is recorded. It records the claim in SQL besides, now and then: for a
// coordinator that starts, and for the branch of a world-line. Without a coordinator it records and looks in SQL. With the exact finder
// each claim goes to SQL first, with what its versions depend on.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Cuts;

/// <summary>What is to be done next.</summary>
public enum RecorderStepKind
{
    /// <summary>Nothing, until a claim comes, somebody begins to wait for a commit, or <see cref="RecorderStep.WaitUs"/> is over.</summary>
    Rest,

    /// <summary>Record <see cref="RecorderStep.Claim"/> in SQL, and tell <see cref="ClaimRecorder.Recorded"/>.</summary>
    Record,

    /// <summary>Say <see cref="RecorderStep.Claim"/> to the coordinator.</summary>
    Say,

    /// <summary>Tell the shard that <see cref="RecorderStep.Claim"/> is on its way: a cut will say that it has come.</summary>
    TellSaid,

    /// <summary>Tell the shard that <see cref="RecorderStep.Claim"/> could not be recorded: it asks again.</summary>
    TellFailed,

    /// <summary>Have the other shards hurry to <see cref="RecorderStep.Until"/>, and tell <see cref="ClaimRecorder.Hurried"/>.</summary>
    Hurry,

    /// <summary>Have SQL find a cut and tell it, and tell <see cref="ClaimRecorder.Looked"/>.</summary>
    Look,
}

/// <summary>A step, and what it is done with.</summary>
/// <param name="Kind">What is done.</param>
public readonly record struct RecorderStep(RecorderStepKind Kind)
{
    /// <summary>The claim that it is about.</summary>
    public DurableClaim Claim { get; init; }

    /// <summary>Record: as much of the claim as goes into one row of the exact finder, unless an ordered end is under way.</summary>
    public bool IsPart { get; init; }

    /// <summary>Record, Say: the row says again what was given out before, since nobody knows whether that has come.</summary>
    public bool StartsOver { get; init; }

    /// <summary>Say: with the row that was just recorded. Otherwise with one of its own.</summary>
    public bool HasRow { get; init; }

    /// <summary>Say: the shard waits to hear whether it was said, as of <see cref="RecorderStepKind.TellSaid"/> and
    /// <see cref="RecorderStepKind.TellFailed"/>.</summary>
    public bool IsOwed { get; init; }

    /// <summary>Hurry: the version to hurry to.</summary>
    public VersionNumber Until { get; init; }

    /// <summary>Hurry: whether the coordinator is told, or SQL.</summary>
    public bool ByCoordinator { get; init; }

    /// <summary>Rest, Record: how long to wait first, in microseconds; negative: for ever.</summary>
    public long WaitUs { get; init; }
}

/// <summary>How the shard is when a step is chosen.</summary>
/// <param name="IsConnected">Whether a coordinator can be spoken with.</param>
/// <param name="IsStopping">Whether an ordered end is under way: what is durable has to be in SQL then.</param>
/// <param name="IsJoining">Whether the shard has yet to join its cluster: then each claim goes to SQL, and nobody hears of it
/// otherwise.</param>
/// <param name="IsCommitAwaited">Whether a client of this shard waits for a commit.</param>
/// <param name="Awaited">Up to which version clients of this shard have waited.</param>
/// <param name="Grid">Which version is open when.</param>
public readonly record struct RecorderView(bool IsConnected, bool IsStopping, bool IsJoining, bool IsCommitAwaited, VersionNumber Awaited,
    VersionGrid Grid)
{
    internal bool IsLinked => IsConnected && !IsStopping && !IsJoining;
}

/// <summary>How the recorder works. Times in microseconds.</summary>
public sealed record RecorderOptions
{
    /// <summary>The cluster's finder.</summary>
    public required FinderKind Finder { get; init; }

    /// <summary>Whether there are other shards.</summary>
    public required bool HasPeers { get; init; }

    /// <summary>How often it may speak.</summary>
    public required CutPace Pace { get; init; }

    /// <summary>What was said to a coordinator is in SQL at the latest after this time.</summary>
    public long SaidUs { get; init; } = 1_000_000;

    /// <summary>How often it looks while nobody waits for a commit.</summary>
    public const long IdleUsDefault = 50_000;

    /// <inheritdoc cref="IdleUsDefault" />
    public long IdleUs { get; init; } = IdleUsDefault;
}

/// <summary>Which fault a test has built in.</summary>
internal enum RecorderMutation
{
    None,

    /// <summary>A claim that waits is recorded although the shard has asked to join with a newer one.</summary>
    OlderThanAdmitted,

    /// <summary>With the exact finder a row that SQL may not have is not given out again.</summary>
    LostRowForgotten,
}

/// <summary>The recorder of one shard's claims. One caller at a time. Call <see cref="Next"/>, do the step, report what it asks for, and
/// call again.</summary>
public sealed class ClaimRecorder
{
    private enum Phase { Begin, Recorded, Hurry, Look, End }

    private readonly RecorderOptions _options;
    private readonly RecorderMutation _mutation;
    private Phase _phase = Phase.End;           // what comes next in the turn
    private DurableClaim? _wanted;              // waits for its turn
    private DurableClaim? _latest;              // the newest of this world-line
    private DurableClaim _recording;            // what the turn records, as the shard claims it
    private WorldPoint _recordedPoint;          // as far as SQL was told of that
    private bool? _isRecorded;
    private bool _isNews, _isLinked, _hasTold;
    private WorldPoint _askedWith;
    private VersionNumber _hurriedUntil;
    private long _hurryUs, _recordedAtUs = long.MinValue / 2, _lookedAtUs = long.MinValue / 2;
    private bool _owesSql, _owesSteps, _owesRow, _isAskedAgain;

    /// <summary>Nothing is recorded yet.</summary>
    public ClaimRecorder(RecorderOptions options) : this(options, RecorderMutation.None)
    {
    }

    internal ClaimRecorder(RecorderOptions options, RecorderMutation mutation) => (_options, _mutation) = (options, mutation);

    private bool IsExact => _options is { Finder: FinderKind.Exact, HasPeers: true };

    /// <summary>The shard has a claim. It takes the place of one that waits.</summary>
    public void Want(in DurableClaim claim) => _wanted = claim;

    /// <summary>The coordinator is another, or has forgotten all: what was said has to be said again.</summary>
    public void AskedAgain() => _isAskedAgain = true;

    /// <summary>The next step.</summary>
    /// <param name="view">The shard.</param>
    /// <param name="nowUs">A clock that never goes back.</param>
    public RecorderStep Next(in RecorderView view, long nowUs)
    {
        while (true)
        {
            switch (_phase)
            {
                case Phase.Begin:
                    if (Begin(view, nowUs) is { } first) { return first; }
                    break;
                case Phase.Recorded:
                    if (AfterRecord() is { } after) { return after; }
                    break;
                case Phase.Hurry:
                    _phase = Phase.Look;
                    if (Hurry(view) is { } hurry) { return hurry; }
                    break;
                case Phase.Look:
                    _phase = Phase.End;
                    if (_options.HasPeers && !_isLinked && !(_options.Pace.IsCrowded && UntilLookUs(nowUs, 0) > 0))
                    {
                        return new(RecorderStepKind.Look);
                    }
                    break;
                default:
                    _phase = Phase.Begin;
                    return new(RecorderStepKind.Rest) { WaitUs = RestUs(view, nowUs) };
            }
        }
    }

    /// <summary>What became of a record in SQL.</summary>
    /// <param name="point">As far as was recorded: the claim's point, or less of a part.</param>
    /// <param name="isRecorded">Null: SQL could not be reached, and nobody knows. False: it was refused, of a world-line that is
    /// over.</param>
    /// <param name="nowUs">The clock.</param>
    public void Recorded(WorldPoint point, bool? isRecorded, long nowUs)
    {
        _recordedAtUs = nowUs;
        (_recordedPoint, _isRecorded) = (point, isRecorded);
        _owesSql = isRecorded is null;
        // Of a world-line that is over it is owed to nobody.
        if (isRecorded == false) { _latest = null; }
    }

    /// <summary>The shard has asked to join. The metadata holds this claim, or may hold it, and refuses an older one from now on.</summary>
    public void AskedToJoin(in DurableClaim with)
    {
        _latest = with;
        _askedWith = with.Point;
    }

    /// <summary>Whether the other shards will hear of the wish to hurry.</summary>
    /// <param name="until">The version of the step.</param>
    /// <param name="isHeard">Whether they will.</param>
    public void Hurried(VersionNumber until, bool isHeard)
    {
        if (isHeard) { _hurriedUntil = until; }
    }

    /// <summary>SQL was asked for a cut, whether it answered or not.</summary>
    public void Looked(long nowUs) => _lookedAtUs = nowUs;

    private RecorderStep? Begin(in RecorderView view, long nowUs)
    {
        DurableClaim? claim = _wanted;
        _wanted = null;
        // The shard has asked to join with a newer claim. The metadata may hold that one, and then refuses an older one.
        if (claim is { } older && older.Point < _askedWith && _mutation != RecorderMutation.OlderThanAdmitted)
        {
            return new(RecorderStepKind.TellSaid) { Claim = older };
        }
        _phase = Phase.Hurry;
        _isLinked = view.IsLinked;
        bool startsOver = _isLinked && _isAskedAgain;
        _isAskedAgain &= !startsOver;
        _isNews = claim is not null;
        _latest = claim ?? _latest;
        if (_latest is not { } latest) { return null; }
        bool isLate = _owesSql && (!_isLinked || nowUs - _recordedAtUs >= _options.SaidUs);
        if (IsExact ? !(_isNews || _owesSteps || isLate) : !(_isNews || startsOver || isLate)) { return null; }
        if (!IsExact && _isLinked && !isLate)
        {
            _owesSql |= _isNews;
            return new(RecorderStepKind.Say) { Claim = latest, StartsOver = startsOver && _options.Finder == FinderKind.Hybrid,
                IsOwed = _isNews };
        }
        _phase = Phase.Recorded;
        (_recording, _hasTold) = (latest, false);
        long restUs = view.IsStopping || view.IsJoining ? 0
            : Math.Max(0, (IsExact ? _options.Pace.RowUs : _options.Pace.ClaimUs) - (nowUs - _recordedAtUs));
        return new(RecorderStepKind.Record)
        {
            Claim = latest,
            IsPart = IsExact && !view.IsStopping,
            // A row that SQL may not have is given out again, with what has come since: rows must follow each other without a hole.
            StartsOver = IsExact ? _owesRow && _mutation != RecorderMutation.LostRowForgotten
                : startsOver && _options.Finder == FinderKind.Hybrid,
            WaitUs = restUs,
        };
    }

    private RecorderStep? AfterRecord()
    {
        bool isRecorded = _isRecorded == true;
        if (IsExact && !_hasTold)
        {
            _hasTold = true;
            bool isWhole = _recordedPoint == _recording.Point;
            _owesRow = !isRecorded;
            _owesSteps = isRecorded && !isWhole;
            // What is left of it follows, or is in the next claim.
            if (_isNews && !isWhole)
            {
                return new(isRecorded ? RecorderStepKind.TellSaid : RecorderStepKind.TellFailed) { Claim = _recording };
            }
        }
        _phase = Phase.Hurry;
        return _isLinked && isRecorded ? new(RecorderStepKind.Say) { Claim = _recording, HasRow = true } : null;
    }

    // The others hurry as far as somebody waits, and no further: versions that nobody waits for cost as much. Who waits for one version
    // after the other has them hurry for longer and longer, and says it again when half of that is over. With the other finders a version
    // may depend on later ones.
    private RecorderStep? Hurry(in RecorderView view)
    {
        VersionGrid grid = view.Grid;
        if (!_options.HasPeers || !view.IsCommitAwaited || Later(grid, view.Awaited, _hurryUs / 2) <= _hurriedUntil) { return null; }
        long versionUs = grid.Stretches[^1].IntervalUs;
        bool isApproximate = _options.Finder == FinderKind.Approximate;
        bool isLasting = !isApproximate || view.Awaited <= Later(grid, _hurriedUntil, Math.Max(_hurryUs, versionUs));
        _hurryUs = !isApproximate ? CutPace.HurryUsMax : isLasting ? CutPace.HurryUs(_hurryUs, versionUs) : 0;
        return new(RecorderStepKind.Hurry) { Until = Later(grid, view.Awaited, _hurryUs), ByCoordinator = _isLinked };
    }

    private long RestUs(in RecorderView view, long nowUs)
    {
        // The next part of a claim.
        if (_owesSteps) { return 1000; }
        if (!_options.HasPeers) { return -1; }
        if (!view.IsLinked) { return UntilLookUs(nowUs, view.IsCommitAwaited ? 0 : _options.IdleUs); }
        // It is told, and is awake when the link is lost. While somebody waits the others are told again.
        if (view.IsCommitAwaited) { return Math.Max(_options.IdleUs, _options.Pace.LookUs); }
        return _owesSql ? Math.Clamp(_options.SaidUs - (nowUs - _recordedAtUs), _options.IdleUs, _options.SaidUs) : _options.SaidUs;
    }

    private long UntilLookUs(long nowUs, long leastUs) => _options.Pace.UntilLookUs(nowUs - _lookedAtUs, leastUs);

    private static VersionNumber Later(VersionGrid grid, VersionNumber version, long us) => grid.VersionAt(grid.StartOf(version) + us);
}

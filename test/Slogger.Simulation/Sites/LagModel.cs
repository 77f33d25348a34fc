// How the backup's lag grows with the number of shards: the machines of shipping, and the watermark service, driven by events whose costs
// were measured. Nothing fails here, no invariant is checked; each shard has a machine to itself, the watermark service one of its own,
// which does one thing at a time (the paper, section 7.3).
using System.Collections.Immutable;
using System.Globalization;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.Watermarks;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Sites;

/// <summary>What steps take, in microseconds. Where there are two, the second is the mean of what comes on top, distributed exponentially:
/// a disk's tail.</summary>
public sealed record LagCosts
{
    /// <summary>From a version's end until it is in the log: its marker's way through Redis.</summary>
    public (double Least, double Tail) Marker { get; init; } = (80, 40);

    /// <summary>A sync of a log.</summary>
    public (double Least, double Tail) Sync { get; init; } = (250, 120);

    /// <summary>A recording in SQL, and its answer with the cut.</summary>
    public (double Least, double Tail) Record { get; init; } = (600, 250);

    /// <summary>Sending a message, and receiving one, each at one of the two ends.</summary>
    public double Message { get; init; } = 25;

    /// <summary>The way between the sites, and between two processes of one.</summary>
    public (double Wide, double Local) Way { get; init; } = (12_500, 40);

    /// <summary>What the watermark service needs for a report, and for telling one process.</summary>
    public (double Report, double Tell) Service { get; init; } = (8, 8);

    /// <summary>How long a version is.</summary>
    public double Interval { get; init; } = 1000;
}

/// <summary>The lag of so many shards.</summary>
public sealed class LagModel
{
    private static readonly WorldLine s_line = WorldLine.First;
    private readonly PriorityQueue<Action, (double At, long Order)> _events = new();
    private readonly LagCosts _costs;
    private readonly Random _random;
    private readonly Stream[] _streams;
    private readonly WatermarkService _service;
    private readonly Dictionary<long, double> _committed = [];
    private readonly List<double> _lags = [];
    private double _now, _serviceFree;
    private long _order, _known;

    private LagModel(int shards, LagCosts costs, int seed)
    {
        (_costs, _random) = (costs, new Random(seed));
        _streams = [.. Enumerable.Range(0, shards).Select(s => new Stream(this, new(s)))];
        _service = new(ImmutableArray.CreateRange(Enumerable.Repeat(1L, shards)));
    }

    /// <summary>Runs so many versions. Returns the lags of shard 0's commits, in microseconds: from the commit until the watermark covers
    /// it, less the way between the sites.</summary>
    public static IReadOnlyList<double> Run(int shards, int versions, LagCosts costs, int seed)
    {
        var model = new LagModel(shards, costs, seed);
        foreach (Stream stream in model._streams) { stream.Begin(); }
        while (model._now < versions * costs.Interval && model._events.TryDequeue(out Action? next, out (double At, long) when))
        {
            model._now = when.At;
            next();
        }
        return model._lags;
    }

    /// <summary>The table that the command prints.</summary>
    public static void Print(TextWriter output, IReadOnlyList<int> counts, LagCosts costs, int versions)
    {
        output.WriteLine("shards  lag less the way: mean us  p50  p99   whole lag against the first");
        double first = 0;
        foreach (int count in counts)
        {
            double[] lags = [.. Run(count, versions, costs, seed: 1).Skip(200).Order()];
            double mean = lags.Average(), whole = mean + costs.Way.Wide;
            first = first == 0 ? whole : first;
            output.WriteLine(string.Create(CultureInfo.InvariantCulture,
                $"{count,6}  {mean,25:0}  {lags[lags.Length / 2]:0}  {lags[lags.Length * 99 / 100]:0}   "
                    + $"{(whole / first) - 1:+0.0%;-0.0%}"));
        }
    }

    private void After(double us, Action action) => _events.Enqueue(action, (_now + us, _order++));

    private double Draw((double Least, double Tail) cost) => cost.Least - (Math.Log(1 - _random.NextDouble()) * cost.Tail);

    // One after the other.
    private void AtService(double us, Action action)
    {
        _serviceFree = Math.Max(_serviceFree, _now) + us;
        After(_serviceFree - _now, action);
    }

    private long Cut => _streams.Min(s => s.Recorded);

    private void Report(WatermarkReport report) => After(_costs.Way.Local, () => AtService(_costs.Service.Report, () =>
    {
        if (!_service.Report(report)) { return; }
        WorldPoint watermark = _service.Current!.Value;
        for (; _known < watermark.Version.Number; _known++)
        {
            if (_committed.Remove(_known + 1, out double at)) { _lags.Add(_now - at - _costs.Way.Wide); }
        }
        foreach (Stream stream in _streams) { AtService(_costs.Service.Tell, () => After(_costs.Way.Local, () => stream.Told(watermark))); }
    }));

    /// <summary>A shard, its shipper, and its receiver.</summary>
    private sealed class Stream : IShippedLog
    {
        private const int VersionBytes = 100;
        private readonly LagModel _model;
        private readonly ShardId _shard;
        private readonly Shipper _shipper;
        private readonly Receiver _receiver;
        private readonly List<ShipperEffect> _sent = [];
        private readonly List<ReceiverEffect> _done = [];
        private long _closed, _durable, _cut;
        private bool _isSyncing, _isRecording;
        private double _hereFree, _thereFree;

        public Stream(LagModel model, ShardId shard)
        {
            (_model, _shard) = (model, shard);
            StreamHistory history = new("r", 0);
            _shipper = new(shard, new(SiteEpoch.First, 1, 1), history, [], 0, default(LogIndex) with { WorldLine = s_line }, default,
                new ShipperOptions());
            _receiver = new(new ReceiverStart { Stream = shard, Generation = 1, Owner = 1, History = history,
                Log = new(s_line, 0, VersionNumber.Zero), Counts = true, Newest = new(SiteEpoch.First, 1, 1), Site = SiteEpoch.First });
        }

        /// <summary>The last version that is recorded as durable.</summary>
        public long Recorded { get; private set; }

        public LogIndex? EndOfPiece(LogIndex from, LogIndex limit, int bytesMax) => limit;

        public void Begin()
        {
            _shipper.Connected(0, _sent);
            PerformHere();
            Next();
        }

        private static LogIndex At(long version) => new(s_line, version * VersionBytes, new(version));

        private void Next() => _model.After(_model._costs.Interval, () =>
        {
            Next();
            long version = (long)Math.Round(_model._now / _model._costs.Interval);
            _model.After(_model.Draw(_model._costs.Marker), () =>
            {
                _closed = Math.Max(_closed, version);
                _shipper.Appended(At(_closed));
                TickHere();
                Sync();
            });
        });

        private void Sync()
        {
            if (_isSyncing || _durable == _closed) { return; }
            _isSyncing = true;
            long to = _closed;
            _model.After(_model.Draw(_model._costs.Sync), () =>
            {
                (_isSyncing, _durable) = (false, to);
                _shipper.Synced(At(to));
                TickHere();
                Sync();
                Record();
            });
        }

        private void Record()
        {
            if (_isRecording || (Recorded == _durable && _cut == _durable)) { return; }
            _isRecording = true;
            long to = _durable;
            _model.After(_model.Draw(_model._costs.Record), () =>
            {
                (_isRecording, Recorded) = (false, to);
                long cut = _model.Cut;
                if (_shard.Number == 0)
                {
                    for (long v = _cut + 1; v <= cut; v++) { _model._committed[v] = _model._now; }
                }
                _cut = cut;
                _shipper.CutRecorded(new(s_line, new(cut)));
                TickHere();
                Record();
            });
        }

        private void TickHere()
        {
            _shipper.Tick((long)_model._now, this, _sent);
            PerformHere();
        }

        private void PerformHere()
        {
            foreach (ShipperEffect.Send send in _sent.OfType<ShipperEffect.Send>())
            {
                _hereFree = Math.Max(_hereFree, _model._now) + _model._costs.Message;
                _model.After(_hereFree - _model._now + _model._costs.Way.Wide, () => There(() => _receiver.Received(send.Request, _done)));
            }
            _sent.Clear();
        }

        public void Told(WorldPoint watermark) => There(() => _receiver.WatermarkTold(watermark, _done));

        private void There(Action input)
        {
            _thereFree = Math.Max(_thereFree, _model._now) + _model._costs.Message;
            _model.After(_thereFree - _model._now, () =>
            {
                input();
                PerformThere();
            });
        }

        private void PerformThere()
        {
            for (int i = 0; i < _done.Count; i++)
            {
                switch (_done[i])
                {
                    case ReceiverEffect.Reply reply:
                        _model.After(_model._costs.Way.Wide, () =>
                        {
                            _shipper.Replied(reply.Message, (long)_model._now, _sent);
                            TickHere();
                        });
                        break;
                    case ReceiverEffect.NoteSender note:
                        _receiver.SenderNoted(note.Sender, note.Sender, _done);
                        break;
                    case ReceiverEffect.Sync sync:
                        _model.After(_model.Draw(_model._costs.Sync), () =>
                        {
                            _receiver.Synced(sync.Ticket, _done);
                            PerformThere();
                        });
                        break;
                    case ReceiverEffect.Report report:
                        _model.Report(report.Message);
                        break;
                }
            }
            _done.Clear();
        }
    }
}

// Somebody who reads the past of the whole cluster, as the tool does (PastCluster): first one version that all shards have, by the real
// CommonVersion; then each shard's state at it. Everything else goes on meanwhile. Checked: R2, and R6 of whoever is in time.
using Slogger.Core.Retention;
using Slogger.Core.Versions;

namespace Slogger.Simulation.Past;

internal sealed class PastSnapshot
{
    private readonly PastWorld _world;
    private readonly CommonVersion _common;
    private readonly bool _isNow;
    private readonly long _timeUs, _begunUs;
    private readonly Dictionary<int, int> _all = [];
    private readonly long[] _lives;
    private VersionNumber _found;
    private int _next;

    public PastSnapshot(PastWorld world)
    {
        _world = world;
        _isNow = world.Dice(3);
        _begunUs = world.NowUs;
        _timeUs = Math.Max(world.BeganUs + world.IntervalUs, world.NowUs - (_isNow ? 0 : world.Random.Next(1, 60) * world.IntervalUs));
        _common = new(world.Shards.Count, _isNow, world.Settings.Common);
        _lives = [.. world.Shards.Select(s => (long)s.Life)];
    }

    public bool IsOver { get; private set; }

    public void Step()
    {
        if (_common.Next is { } question) { Ask(question); } else { Read(); }
    }

    private void Ask(InstantQuestion question)
    {
        PastShard shard = _world.Shards[question.Shard];
        long nowUs = shard.Now().Microseconds;
        VersionNumber wanted = question.Version ?? (_isNow ? _world.Grid.VersionAt(nowUs)
            : PastInstant.ClosedAt(_world.Grid, _timeUs, _world.Settings.Past));
        PastReply reply = shard.Ask(wanted, _isNow && question.Version is null);
        if (reply.Place is { } place)
        {
            _lives[question.Shard] = shard.Life;
            _common.OnAnswer(_found = place.End);
        }
        else { IsOver = !reply.IsEarly; }
    }

    private void Read()
    {
        if (_next == _world.Shards.Count)
        {
            IsOver = true;
            Check();
            return;
        }
        PastShard shard = _world.Shards[_next];
        bool isHeld = shard.IsHeld(_found) && shard.Life == _lives[_next] && !_world.IsMoving;
        PastReply reply = shard.Ask(_found, isNow: false);
        if (reply.IsEarly) { return; }
        if (reply.Place is not { } place)
        {
            if (isHeld) { throw new SimException($"R6: shard {shard.Index} does not have version {_found} any more, which is held"); }
            IsOver = true;
            return;
        }
        if (place.End != _found)
        {
            // Since it was found it may have been reduced to an earlier one: whoever is late is told so.
            if (place.Reduced is not null && !isHeld)
            {
                IsOver = true;
                return;
            }
            throw new SimException($"R2: shard {shard.Index} answers version {place.End}, the others {_found}");
        }
        foreach ((int key, int value) in shard.ReadChecked(place, _found))
        {
            if (_world.Owners[key] == shard.Index) { _all[key] = value; }
        }
        _next++;
    }

    private void Check()
    {
        Dictionary<int, int> was = _world.TruthAt(_found, _all);
        if (!_world.IsSame(_all, was))
        {
            throw new SimException($"R2: all shards have {PastWorld.Text(_all)} at version {_found}, where {PastWorld.Text(was)} was");
        }
        PastDone[] done = [.. _world.Shards.SelectMany(s => s.Oracle.Done).Where(d => d.SentUs >= 0)];
        long lastSent = done.Where(d => d.Label <= _found).Select(d => d.SentUs).DefaultIfEmpty(-1).Max();
        if (done.FirstOrDefault(d => d.Label > _found && d.AnsweredUs < lastSent) is { } missing)
        {
            throw new SimException($"R2: version {_found} lacks what was answered at {missing.AnsweredUs}, in version {missing.Label}, and has "
                + $"what was sent at {lastSent}");
        }
        if (_isNow && done.FirstOrDefault(d => d.Label > _found && d.AnsweredUs < _begunUs) is { } before)
        {
            throw new SimException($"R2: version {_found}, of {_begunUs}, lacks what was answered at {before.AnsweredUs}");
        }
        if (!_isNow && _world.Grid.StartOf(_found.Next) > _timeUs)
        {
            throw new SimException($"R1: version {_found} had not ended at {_timeUs}");
        }
        _world.Count("snapshots");
    }
}

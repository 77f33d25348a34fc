// A session: one command after the other, each after the reply to the one before.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Past;

internal sealed class PastClient(PastWorld world)
{
    private WorldLine _line = WorldLine.First;
    private VersionNumber _seen;
    private bool _waits;
    private long _freeAtUs;

    /// <summary>Sends a command to the shard that has its key, if it may.</summary>
    public void Go()
    {
        if (_waits || world.NowUs < _freeAtUs) { return; }
        int key = world.Random.Next(PastWorld.Keys);
        PastShard shard = world.Shards[world.Owners[key]];
        if (!shard.IsServing || shard.Hold.IsHeld || world.IsWithheld(key) || shard.Line < _line) { return; }
        // It hears that its world-line is over.
        if (shard.Line > _line) { (_line, _seen) = (shard.Line, VersionNumber.Zero); }
        if (shard.Open < _seen)
        {
            shard.FastForward(_seen);
            if (shard.Open < _seen) { return; }
        }
        int what = world.Random.Next(10);
        long expires = what < 3 ? world.NowMs + world.Random.Next(1, 60) : 0;
        shard.Send(what == 9 ? new(key, 0) : new(key, world.NextValue(), expires), this);
        _waits = true;
    }

    public void OnAnswered(PastDone done, WorldLine line)
    {
        (_waits, _freeAtUs) = (false, done.AnsweredUs);
        if (line == _line) { _seen = VersionNumber.Max(_seen, done.Label); }
    }

    public void OnCut() => _waits = false;
}

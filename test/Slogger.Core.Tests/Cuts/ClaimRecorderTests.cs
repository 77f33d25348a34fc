// How long a shard's recorder rests: where a coordinator tells it everything, until something is owed. What it records is tested in the
// simulator.
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cuts;

public class ClaimRecorderTests
{
    private const long Idle = RecorderOptions.IdleUsDefault, Said = 1_000_000;
    private static readonly VersionGrid s_grid = new(new(1), 1_000_000, 5000);
    private readonly ClaimRecorder _recorder = new(new() { Finder = FinderKind.Approximate, HasPeers = true, Pace = new(2) });

    // It begins with a rest.
    public ClaimRecorderTests() => Turn(0);

    [Fact]
    public void Rest_LinkedAndNobodyWaits_IsLong()
    {
        Assert.Equal(("Rest", Said), Turn(1000));
        Assert.Equal(("Hurry Rest", Idle), Turn(2000, isAwaited: true));
    }

    [Fact]
    public void Rest_WhatWasSaidIsOwedToSql_EndsWhenItIsDue()
    {
        _recorder.Recorded(new(WorldLine.First, new(1)), true, nowUs: 0);
        _recorder.Want(new(new(WorldLine.First, new(2)), 1, new(2)));
        Assert.Equal(("Say Rest", Said - 10_000), Turn(10_000));
        Assert.Equal(("Rest", Idle), Turn(Said - 1000));
        Assert.Equal(("Record Say Rest", Said), Turn(Said));
        Assert.Equal(("Rest", Said), Turn(2 * Said));
    }

    [Fact]
    public void Rest_WithoutALink_LooksAsOftenAsWhenSomethingMayHaveComeUnseen()
    {
        Assert.Equal(("Look Rest", Idle), Turn(1000, isLinked: false));
    }

    // The steps of a turn, all of which are done at once, and how long the rest is with which it ends.
    private (string Steps, long RestUs) Turn(long nowUs, bool isLinked = true, bool isAwaited = false)
    {
        var view = new RecorderView(isLinked, IsStopping: false, IsJoining: false, isAwaited, new(isAwaited ? 5 : 0), s_grid);
        string steps = "";
        while (true)
        {
            RecorderStep step = _recorder.Next(view, nowUs);
            steps += steps.Length == 0 ? step.Kind : $" {step.Kind}";
            switch (step.Kind)
            {
                case RecorderStepKind.Rest: return (steps, step.WaitUs);
                case RecorderStepKind.Record: _recorder.Recorded(step.Claim.Point, true, nowUs); break;
                case RecorderStepKind.Look: _recorder.Looked(nowUs); break;
                case RecorderStepKind.Hurry: _recorder.Hurried(step.Until, true); break;
            }
        }
    }
}

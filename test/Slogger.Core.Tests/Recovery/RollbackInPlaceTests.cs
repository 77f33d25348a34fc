// A rollback in place: its steps, and what a start finds when the process has ended at any of them.
using Slogger.Core.Recovery;
using Xunit;
using K = Slogger.Core.Recovery.RollbackStepKind;

namespace Slogger.Core.Tests.Recovery;

public sealed class RollbackInPlaceTests
{
    private static readonly RollbackPlace Branch = new(10, 0), Place = new(30, 3);

    [Fact]
    public void Steps_NobodyElseWrites_AreOnePass()
    {
        var rollback = new RollbackInPlace(Branch);
        List<RollbackStep> steps = Perform(rollback, othersWrite: 0);
        Assert.Equal(
            [K.ShutOut, K.ReadUndone, K.Plan, K.NoteStore, K.BeginWorldLine, K.PutBack, K.FindTransaction, K.GiveExpiriesBack,
                K.AwaitBranch, K.Attach, K.FillLog, K.SetIdentity, K.ForgetNote, K.Follow], steps.Select(s => s.Kind));
        Assert.Equal([K.NoteStore, K.BeginWorldLine], steps.Where(s => s.IsBeside).Select(s => s.Kind));
        Assert.All(steps.Where(s => s.Kind is K.Attach or K.FillLog or K.Follow), s => Assert.Equal(Place, s.At));
        Assert.True(rollback.IsDone);
    }

    // The log is written once, and the next plan reads it.
    [Fact]
    public void Steps_OthersWriteTwice_AreThreePasses()
    {
        K[] kinds = [.. Perform(new RollbackInPlace(Branch), othersWrite: 2).Select(s => s.Kind)];
        Assert.Equal(3, kinds.Count(k => k == K.PutBack));
        Assert.Single(kinds, k => k == K.BeginWorldLine);
        Assert.Equal(
            [K.PutBack, K.FindTransaction, K.AwaitBranch, K.Plan, K.PutBack, K.FindTransaction, K.AwaitBranch, K.Plan, K.PutBack],
            kinds.SkipWhile(k => k != K.PutBack).Take(9));
    }

    [Theory]
    [InlineData((int)RollbackMutation.None, false)]
    [InlineData((int)RollbackMutation.LastPassCounts, true)]
    public void Steps_OthersKeepWriting_ComeToNothing(int mutation, bool isDone)
    {
        var rollback = new RollbackInPlace(Branch, (RollbackMutation)mutation);
        List<RollbackStep> steps = Perform(rollback, othersWrite: int.MaxValue);
        Assert.Equal(RollbackInPlace.PassesMax, steps.Count(s => s.Kind == K.PutBack));
        Assert.Equal(isDone, rollback.IsDone);
        Assert.Equal(isDone, rollback.Reason is null);
    }

    [Fact]
    public void Steps_OneCannotBeDone_AreOver()
    {
        foreach (K failing in Perform(new RollbackInPlace(Branch), othersWrite: 1).Select(s => s.Kind))
        {
            var rollback = new RollbackInPlace(Branch);
            Assert.Equal(failing, Perform(rollback, othersWrite: 1, failAt: failing)[^1].Kind);
            Assert.Equal("failed", rollback.Reason);
            Assert.False(rollback.IsDone);
            Assert.False(rollback.Next(out _));
        }
    }

    [Theory]
    [InlineData((int)RollbackMutation.None, true)]
    [InlineData((int)RollbackMutation.StoreNotNoted, false)]
    [InlineData((int)RollbackMutation.NotedBehindWorldLine, false)]
    [InlineData((int)RollbackMutation.BranchNotAwaited, false)]
    [InlineData((int)RollbackMutation.AttachesAtBranch, false)]
    [InlineData((int)RollbackMutation.NoteForgottenEarly, false)]
    public void Process_EndsAtAnyStep_TheNextOneDoesNotGoOnWithWhatWasUndone(int mutation, bool isRight)
    {
        const int Steps = 16;
        bool isAlways = true;
        for (int first = 0; first < Steps; first++)
        {
            for (int second = 0; second < Steps; second++)
            {
                for (int end = 1; end <= Steps; end++)
                {
                    var rollback = new RollbackInPlace(Branch, (RollbackMutation)mutation);
                    isAlways &= new Shard().MayStartAgain(rollback, [first, second], end);
                }
            }
        }
        Assert.Equal(isRight, isAlways);
    }

    private static List<RollbackStep> Perform(RollbackInPlace rollback, int othersWrite, K? failAt = null)
    {
        List<RollbackStep> steps = [];
        while (rollback.Next(out RollbackStep step))
        {
            steps.Add(step);
            if (step.Kind == K.FindTransaction) { rollback.Found(Place, othersWrite-- > 0); }
            if (step.Kind == failAt) { rollback.Failed("failed"); }
        }
        return steps;
    }

    /// <summary>What outlives a process whose store lives. SQL is in the second world-line, and the store stands behind the log.</summary>
    private sealed class Shard
    {
        private readonly Queue<(K Kind, int Delay)> _beside = new();
        private int _line = 1, _logEnd = 20;
        private bool _isNoted, _isFilled;

        /// <summary>Whether the next start does what is right.</summary>
        /// <param name="rollback">What is under way when the process ends.</param>
        /// <param name="delays">How many steps each of those that are done beside others takes.</param>
        /// <param name="end">How many steps of the others the process lives.</param>
        public bool MayStartAgain(RollbackInPlace rollback, int[] delays, int end)
        {
            int begun = 0;
            for (int n = 0; n < end && rollback.Next(out RollbackStep step); n++)
            {
                if (step.IsBeside) { _beside.Enqueue((step.Kind, delays[begun++])); }
                else if (step.Kind == K.AwaitBranch) { Pass(int.MaxValue); }
                else { Do(step, rollback); }
                Pass(1);
                // What follows the stream with a log that is not where the stream is would be wrong in itself.
                if (step.Kind == K.Follow && !IsWhole) { return false; }
            }
            bool goesOn = !_isNoted && _line == 2;
            return !goesOn || IsWhole;
        }

        // It ends where the store stood at the branch again, and nothing in it was undone.
        private bool IsWhole => _line == 2 && _isFilled && _logEnd == Place.Offset;

        private void Pass(int steps)
        {
            while (_beside.TryDequeue(out (K Kind, int Delay) next))
            {
                if (next.Delay > steps)
                {
                    // The others behind it.
                    (K, int)[] others = [.. _beside];
                    _beside.Clear();
                    _beside.Enqueue((next.Kind, next.Delay - steps));
                    foreach ((K, int) other in others) { _beside.Enqueue(other); }
                    return;
                }
                if (next.Kind == K.NoteStore) { _isNoted = true; }
                else { (_line, _logEnd, _isFilled) = (2, (int)Branch.Offset, false); }
            }
        }

        private void Do(RollbackStep step, RollbackInPlace rollback)
        {
            switch (step.Kind)
            {
                case K.FindTransaction:
                    rollback.Found(Place, haveOthersWritten: false);
                    break;
                case K.FillLog:
                    (_logEnd, _isFilled) = ((int)step.At.Offset, _line == 2);
                    break;
                case K.ForgetNote:
                    _isNoted = false;
                    break;
            }
        }
    }
}

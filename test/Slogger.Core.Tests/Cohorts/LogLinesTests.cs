// Up to where two logs agree: by their lines alone, against logs that are made by taking turns to lead.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cohorts;

public class LogLinesTests
{
    private static LogBranch Line(long reign, long offset) =>
        new(new WorldLine(1), new VersionNumber(offset), offset) { Reign = new(reign) };

    private static LogIndex End(long reign, long offset) => new(new WorldLine(1), offset, new VersionNumber(offset)) { Reign = new(reign) };

    [Fact]
    public void Logs_InOneLine_AgreeUpToTheEndOfTheShorter()
    {
        var longer = new LogLines([Line(1, 0)], End(1, 30));
        var shorter = new LogLines([Line(1, 0)], End(1, 20));
        Assert.Equal(End(1, 20), longer.AgreesWith(shorter));
        Assert.Equal(End(1, 20), shorter.AgreesWith(longer));
    }

    // The follower led reign 2, for itself: nobody else has heard of it.
    [Fact]
    public void Logs_OneHasALineThatTheOtherNeverHad_AgreeUpToItsBeginning()
    {
        var leader = new LogLines([Line(1, 0), Line(3, 40)], End(3, 50));
        var follower = new LogLines([Line(1, 0), Line(2, 30)], End(2, 90));
        Assert.Equal(End(1, 30), leader.AgreesWith(follower));
    }

    // A leader's world-line branched off below the record of its reign: the end of that line is not known any more, and is void anyhow.
    [Fact]
    public void Logs_TheCommonLineIsVoidInTheLeaders_AgreeUpToTheEndOfTheOther()
    {
        LogBranch branch = new(new WorldLine(2), new VersionNumber(30), 30) { Reign = new(2) };
        var leader = new LogLines([Line(1, 0), Line(2, 40), branch], branch.Index);
        Assert.Equal(End(2, 55), leader.AgreesWith(new LogLines([Line(1, 0), Line(2, 40)], End(2, 55))));
        Assert.Equal(End(1, 40), leader.AgreesWith(new LogLines([Line(1, 0)], End(1, 60))));
        Assert.Equal(End(1, 20), leader.AgreesWith(new LogLines([Line(1, 0)], End(1, 20))));
    }

    [Fact]
    public void Logs_WithoutACommonLine_HaveToBeCopied() =>
        Assert.Null(new LogLines([Line(1, 0)], End(1, 10)).AgreesWith(new LogLines([Line(4, 100)], End(4, 110))));

    // Nodes lead in turn, and reach some of the others, some of the way. A step of a log is a version, or (negative) the record of a reign.
    [Fact]
    public void Logs_OfNodesThatLeadInTurn_AgreeWhereTheyAreTheSame()
    {
        for (int seed = 1; seed <= 2_000; seed++)
        {
            var random = new Random(seed);
            List<int>[] logs = [[], [], [], []];
            int next = 0;
            for (int reign = 1; reign <= 8; reign++)
            {
                List<int> leader = logs[random.Next(4)];
                leader.Add(-reign);
                for (int i = random.Next(4); i > 0; i--) { leader.Add(next++); }
                foreach (List<int> follower in logs.Where(l => l != leader && random.Next(2) == 0))
                {
                    int same = leader.Zip(follower).TakeWhile(p => p.First == p.Second).Count();
                    Assert.True(LinesOf(leader[..same]).End == LinesOf(leader).AgreesWith(LinesOf(follower)), $"seed {seed}");
                    follower.RemoveRange(same, follower.Count - same);
                    follower.AddRange(leader.Skip(same).Take(random.Next(6)));
                }
                for (int i = random.Next(3); i > 0; i--) { leader.Add(next++); }
            }
        }

        static LogLines LinesOf(List<int> log)
        {
            List<LogBranch> begins = [Line(0, 0)];
            int versions = 0;
            foreach (int step in log)
            {
                if (step < 0) { begins.Add(Line(-step, versions)); } else { versions++; }
            }
            return new([.. begins], End(begins[^1].Reign.Number, versions));
        }
    }
}

// How a process takes its stream's shard over (the paper, section 5.6), each rule by itself.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Sites;

public class StreamTakeoverTests
{
    private const long LimitUs = 100, LookUs = 10;

    private static readonly SiteEpoch Number = new(1);

    // Two streams: this process's, and another one.
    private static readonly SiteState Decided = (SiteState.BackupOf(2, SiteEpoch.First) with
    {
        Streams = [new(1, StreamPhase.Counts, Sender(3), Owner: 5), new(1, StreamPhase.Counts, Sender(4), Owner: 6)],
    }).Take([]).After!.Decide(Number, Point("1:7")).After!;

    private static readonly SiteState Open = Decided.Open(Number, new(new(0), 5, "")).After!;
    private static readonly SiteState Primary = Open.Open(Number, new(new(1), 6, "")).After!;

    [Fact]
    public void TakeOver_ByTheManager_GoesThroughItsSteps()
    {
        StreamTakeover takeover = Begin();
        Assert.Equal(new TakeoverStep.Enter(Number.FirstWorldLine), takeover.Next(0));
        // Tried again for as long as it takes: nobody is told before.
        Assert.IsType<TakeoverStep.Enter>(takeover.Next(1000));
        takeover.Entered();
        Assert.IsType<TakeoverStep.Ready>(takeover.Next(1000));
        Assert.IsType<TakeoverStep.Promote>(takeover.Next(1000));
        Assert.Equal(new TakeoverStep.Await(1000 + LimitUs), takeover.Next(1050));
        takeover.SiteIs(Primary, 1060);
        Assert.Equal(new TakeoverStep.Await(long.MaxValue), takeover.Next(1060));
        takeover.Promoted();
        Assert.Equal(new TakeoverStep.HandOver(Primary), takeover.Next(1070));
    }

    // Its manager has died: then each process has its own stream opened, and waits for the others.
    [Fact]
    public void TakeOver_TheManagerIsSilent_OpensByItself()
    {
        StreamTakeover takeover = Entered();
        Assert.Equal(new TakeoverStep.Open(Number), takeover.Next(LimitUs));
        // Not known whether it was done: again.
        Assert.Equal(new TakeoverStep.Open(Number), takeover.Next(LimitUs + 1));
        takeover.SiteIs(Open, 200);
        Assert.Equal(new TakeoverStep.Await(200 + LookUs), takeover.Next(205));
        Assert.IsType<TakeoverStep.Look>(takeover.Next(200 + LookUs));
        takeover.SiteIs(Primary, 220);
        Assert.IsType<TakeoverStep.HandOver>(takeover.Next(220));
    }

    // Clients' operations could be void before.
    [Fact]
    public void HandOver_BeforeTheSiteIsThePrimary_IsNone()
    {
        StreamTakeover takeover = Entered();
        foreach (SiteState site in (SiteState[])[Decided, Open])
        {
            takeover.SiteIs(site, 5);
            Assert.IsType<TakeoverStep.Await>(takeover.Next(5));
        }

        takeover.SiteIs(Primary with { Role = SiteRole.HandingOver }, 5);
        Assert.IsType<TakeoverStep.HandOver>(takeover.Next(5));
    }

    [Fact]
    public void TakeOver_ThatIsNotItsAnyMore_IsOver()
    {
        // Refused; another process has the stream; the site was deposed; and what it rules now it came to without this stream.
        StreamTakeover refused = Entered();
        refused.Refused("refused");
        Assert.Equal(new TakeoverStep.Over("refused"), refused.Next(5));
        SiteState later = Primary with { Epoch = new(3) };
        foreach (SiteState site in (SiteState[])[Decided.TakeStream(new(0), 9), Primary.DeposedBy(new(2)), later])
        {
            StreamTakeover takeover = Entered();
            takeover.SiteIs(site, 5);
            Assert.IsType<TakeoverStep.Over>(takeover.Next(5));
        }
    }

    [Fact]
    public void TakeOver_RuleIsOff_GoesOn()
    {
        Assert.IsType<TakeoverStep.Ready>(Begin(ShipMutation.ReadyBeforeEntered).Next(0));
        Assert.IsType<TakeoverStep.Open>(Begin(ShipMutation.OpensBeforeReady).Next(0));
        Assert.IsType<TakeoverStep.HandOver>(Told(ShipMutation.HandsOverEarly, Open).Next(5));
        Assert.IsType<TakeoverStep.HandOver>(Told(ShipMutation.AnyPrimaryTakes, Primary with { Epoch = new(3) }).Next(5));
        SiteState taken = Primary with { Streams = Primary.Streams.SetItem(0, Primary.Streams[0] with { Owner = 9 }) };
        Assert.IsType<TakeoverStep.HandOver>(Told(ShipMutation.DeposedHandsOver, taken).Next(5));
        StreamTakeover takeover = Begin(ShipMutation.PromotionNotAwaited);
        takeover.Entered();
        takeover.Next(0);
        takeover.Next(0);
        takeover.SiteIs(Primary, 5);
        Assert.IsType<TakeoverStep.HandOver>(takeover.Next(5));
    }

    private static StreamTakeover Begin(ShipMutation mutation = ShipMutation.None) => new(new(0), 5, Number, LimitUs, LookUs, mutation);

    // It has said that it is ready, at 0, and is promoted.
    private static StreamTakeover Entered(ShipMutation mutation = ShipMutation.None)
    {
        StreamTakeover takeover = Begin(mutation);
        takeover.Entered();
        Assert.IsType<TakeoverStep.Ready>(takeover.Next(0));
        Assert.IsType<TakeoverStep.Promote>(takeover.Next(0));
        takeover.Promoted();
        return takeover;
    }

    private static StreamTakeover Told(ShipMutation mutation, SiteState site)
    {
        StreamTakeover takeover = Entered(mutation);
        takeover.SiteIs(site, 5);
        return takeover;
    }
}

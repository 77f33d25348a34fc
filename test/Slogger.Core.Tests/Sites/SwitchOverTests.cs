// A planned change of sites: two SQLs, a manager that dies at any step, messages that come late.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Sites;

public class SwitchOverTests
{
    private const long DeadlineUs = 100;

    private static readonly SwitchOverProgress Ready = new([Point("1:7"), Point("1:5")], Point("1:8"), Point("1:8"));

    private SiteState _primary = SiteState.Alone;
    private SiteState _backup = SiteState.BackupOf(2,
        SiteEpoch.First) with { Streams = [new(1, StreamPhase.Counts, default), new(1, StreamPhase.Counts, default)] };

    [Fact]
    public void SwitchOver_NothingFails_TheBackupTakesOver()
    {
        SwitchOver manager = new(DeadlineUs);
        Assert.Equal(new SwitchOverStep.Hold(0), Next(manager, Ready));
        _primary = _primary.Hold(0).After!;
        Assert.Equal(new SwitchOverStep.Offer(1, Point("1:8")), Next(manager, Ready));
        _primary = _primary.Offer(1, Point("1:8")).After!;
        Assert.Equal(new SwitchOverStep.Take(1), Next(manager, Ready));
        _backup = _backup.TakeOffered(1).After!;
        Assert.Equal(new SwitchOverStep.Depose(new(1)), Next(manager, Ready));
        _primary = _primary.DeposedBy(new(1));
        Assert.Equal(new SwitchOverStep.Done(true), Next(manager, Ready));
        Assert.Equal((SiteRole.Deposed, SiteRole.FailingOver), (_primary.Role, _backup.Role));
    }

    [Fact]
    public void Offer_AwaitsEverythingThatWasAnswered()
    {
        _primary = _primary.Hold(0).After!;
        foreach (SwitchOverProgress early in (SwitchOverProgress[])
        [
            Ready with { Held = [Point("1:7"), null] }, Ready with { Held = [Point("1:7"), Point("1:9")] },
                Ready with { Watermark = Point("1:7") },
            // A recovery since: what was held is of another world-line.
            Ready with { Cut = Point("2:8"), Watermark = Point("2:8") },
        ])
            Assert.IsType<SwitchOverStep.Await>(Next(new(DeadlineUs), early));
        Assert.IsType<SwitchOverStep.Offer>(Next(new(DeadlineUs, ShipMutation.OffersEarly), Ready with { Watermark = Point("1:7") }));
    }

    [Fact]
    public void SwitchOver_NotInTime_ThePrimaryGoesOn()
    {
        SwitchOver manager = new(DeadlineUs);
        Next(manager, Ready);
        _primary = _primary.Hold(0).After!;
        Assert.Equal(new SwitchOverStep.Resume(1, false), Next(manager, Ready with { Watermark = default }, DeadlineUs));
        _primary = _primary.Resume(1, false).After!;
        Assert.Equal(SiteRole.Primary, _primary.Role);
        Assert.Equal(new SwitchOverStep.Done(false), Next(manager, Ready));
        // Another time.
        Assert.Equal(2, _primary.Hold(1).After!.HandOver.Number);
        // An order of before, late.
        Assert.Null(_primary.Hold(0).After);
    }

    [Fact]
    public void SwitchOver_OfferedAndLate_ThePrimaryGoesOnOnlyWhenTheBackupWillNot()
    {
        _primary = _primary.Hold(0).After!.Offer(1, Point("1:8")).After!;
        SwitchOver manager = new(DeadlineUs);
        Assert.Null(_primary.Resume(1, false).After);
        Assert.NotNull(_primary.Resume(1, false, ShipMutation.ResumesUnasked).After);
        Assert.IsType<SwitchOverStep.Await>(manager.Next(_primary, null, Ready, DeadlineUs));
        Assert.Equal(new SwitchOverStep.CallOff(1), Next(manager, Ready, DeadlineUs));
        _backup = _backup.CallOff(1).After!;
        // The offer that was on its way.
        Assert.Null(_backup.TakeOffered(1).After);
        Assert.Equal(new SwitchOverStep.Resume(1, true), Next(manager, Ready, DeadlineUs));
        _primary = _primary.Resume(1, true).After!;
        Assert.Equal(new SwitchOverStep.Done(false), Next(manager, Ready, DeadlineUs));
        Assert.Equal(SiteRole.FailingOver, _backup.TakeOffered(2).After!.Role);
    }

    [Fact]
    public void SwitchOver_TakenJustBeforeItIsCalledOff_IsTaken()
    {
        _primary = _primary.Hold(0).After!.Offer(1, Point("1:8")).After!;
        _backup = _backup.TakeOffered(1).After!;
        Assert.Null(_backup.CallOff(1).After);
        Assert.Equal(new SwitchOverStep.Depose(new(1)), Next(new(DeadlineUs), Ready, DeadlineUs));
    }

    // Steps in any order, done twice, late, by managers that know nothing of each other: never do both sites serve, and what the backup
    // begins with is all that was answered.
    [Theory]
    [InlineData((int)ShipMutation.None, true)]
    [InlineData((int)ShipMutation.ResumesUnasked, false)]
    [InlineData((int)ShipMutation.OffersEarly, false)]
    public void SwitchOver_Anyhow_OneSiteServesAndNothingIsLost(int mutation, bool holds)
    {
        bool hasHeld = true;
        int switched = 0, resumed = 0;
        for (int seed = 1; seed <= 3000; seed++)
        {
            Random random = new(seed);
            (_primary, _backup) = (SiteState.Alone, SiteState.BackupOf(
                2, SiteEpoch.First) with { Streams = [new(1, StreamPhase.Counts, default), new(1, StreamPhase.Counts, default)] });
            List<SwitchOver> managers = [new(20, (ShipMutation)mutation)];
            List<SwitchOverStep> late = [];
            long cut = 1, watermark = 0;
            for (int now = 0; now < 60; now++)
            {
                // The primary's shards do something while it serves; the backup follows.
                if (_primary.Role == SiteRole.Primary) cut++;
                if (random.Next(2) == 0) watermark = Math.Min(cut, watermark + random.Next(4));
                bool isHeld = _primary.Role != SiteRole.Primary;
                if (random.Next(8) == 0) managers.Add(new(now + random.Next(30), (ShipMutation)mutation));
                SwitchOverProgress progress = new([isHeld ? new(WorldLine.First, new(cut)) : null], new(WorldLine.First, new(cut)),
                    new(WorldLine.First, new(watermark)));
                SwitchOverStep step = managers[random.Next(managers.Count)].Next(
                    _primary, random.Next(6) == 0 ? null : _backup, progress, now);
                if (random.Next(3) > 0) Perform(step, (ShipMutation)mutation);
                if (random.Next(3) == 0) late.Add(step);
                if (late.Count > 0 && random.Next(4) == 0) Perform(late[random.Next(late.Count)], (ShipMutation)mutation);
                if (_backup.Role != SiteRole.FailingOver) continue;
                // What a failover finds now: nothing above the watermark.
                hasHeld &= _primary.Role != SiteRole.Primary && watermark >= cut;
            }

            switched += _backup.Role == SiteRole.FailingOver ? 1 : 0;
            resumed += _primary is { Role: SiteRole.Primary, HandOver.Number: > 0 } ? 1 : 0;
        }

        Assert.Equal(holds, hasHeld);
        if (holds) Assert.True(switched > 100 && resumed > 100, $"{switched} {resumed}");
    }

    private SwitchOverStep Next(SwitchOver manager, SwitchOverProgress progress, long nowUs = 0) =>
        manager.Next(_primary, _backup, progress, nowUs);

    private void Perform(SwitchOverStep step, ShipMutation mutation)
    {
        (_primary, _backup) = step switch
        {
            SwitchOverStep.Hold hold => (_primary.Hold(hold.After).After ?? _primary, _backup),
            SwitchOverStep.Offer offer => (_primary.Offer(offer.Number, offer.Cut).After ?? _primary, _backup),
            SwitchOverStep.Take take => (_primary, _backup.TakeOffered(take.Number).After ?? _backup),
            SwitchOverStep.CallOff callOff => (_primary, _backup.CallOff(callOff.Number).After ?? _backup),
            SwitchOverStep.Resume resume => (_primary.Resume(resume.Number, resume.IsCalledOff, mutation).After ?? _primary, _backup),
            SwitchOverStep.Depose depose => (_primary.DeposedBy(depose.By), _backup),
            _ => (_primary, _backup),
        };
    }
}

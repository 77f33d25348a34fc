// What a check found broken. Tests assert on the kinds; people read the text.
namespace Slogger.Integration.Tests.Checking;

internal enum ViolationKind
{
    /// <summary>I1: the state is no state that the writer's commands pass through.</summary>
    NotAPrefix,

    /// <summary>I2: a command that was reported committed is gone.</summary>
    CommittedLost,

    /// <summary>A fault that loses nothing by contract lost an answered command.</summary>
    AcknowledgedLost,

    /// <summary>The survivor or the uncertain commands told to the client are not what the state shows.</summary>
    WrongSurvivor,

    /// <summary>I1 at grid cuts: a surviving command was sent after the reply of a lost one.</summary>
    OrderBroken,

    /// <summary>A surviving value refers to a lost one.</summary>
    ReferenceBroken,

    /// <summary>Elements handed from writer to writer by a blocking pop were lost, doubled or reordered.</summary>
    HandOffBroken,

    /// <summary>A key that no writer owns.</summary>
    StrayKey,

    /// <summary>A writer saw a wrong reply or a broken promise of the protocol.</summary>
    Complaint,

    /// <summary>I3, I5: the cut or the world-line went back, or did not move when it had to.</summary>
    WorldLine,

    /// <summary>A replay of the log gives another state than the live one.</summary>
    Replay,
}

internal readonly record struct Violation(ViolationKind Kind, string Text)
{
    public override string ToString() => $"{Kind}: {Text}";
}

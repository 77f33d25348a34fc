// Deliberate faults, each one line of the gate switched. Only tests can select one: they prove that the tests would notice.
namespace Slogger.Core.Watermarks;

internal enum ReadGateMutation
{
    None,

    /// <summary>Readers are let in while a version waits for those before them.</summary>
    NewcomersPass,

    /// <summary>A version is applied while others read.</summary>
    FeedDoesNotWait,

    /// <summary>A version waits for as long as anybody reads.</summary>
    FeedWaitsForEver,

    /// <summary>A read that a version did not wait for is answered.</summary>
    VoidIsAnswered,

    /// <summary>Between two versions one of those who wait is let in, the others after the next.</summary>
    OneIsLetIn,
}

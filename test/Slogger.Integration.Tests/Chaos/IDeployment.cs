// Something that can be written to, killed and brought back: the proxy with its Redis, or a stand-in that tests the
// harness itself.
using System.Net;
using Slogger.Integration.Tests.Checking;

namespace Slogger.Integration.Tests.Chaos;

/// <summary>A way to hurt a deployment.</summary>
/// <param name="Name">For messages and for <see cref="IDeployment.InjectAsync"/>.</param>
/// <param name="LosesNothing">By contract every answered command survives it.</param>
/// <param name="NewWorldLine">By contract the world-line has moved on after it.</param>
/// <param name="EndsProxy">No client connection outlives it.</param>
/// <param name="KillsAgain">The store may be killed a second time, when it has been recovered once.</param>
internal sealed record Fault(string Name, bool LosesNothing = false, bool NewWorldLine = false, bool EndsProxy = false,
    bool KillsAgain = false)
{
    /// <summary>Nobody is killed: the writers are told to stop.</summary>
    public static readonly Fault None = new("none", LosesNothing: true);
}

internal interface IDeployment : IAsyncDisposable
{
    string Name { get; }

    /// <summary>Where clients connect; the same for the deployment's whole life.</summary>
    EndPoint Endpoint { get; }

    /// <summary>Whether the DPR.* commands are understood.</summary>
    bool SpeaksDpr { get; }

    /// <summary>Whether a client without blocking or transactions is never told that answered commands are uncertain.</summary>
    bool SharedIsExact => true;

    IReadOnlyList<Fault> Faults { get; }

    Task StartAsync();

    /// <summary>Kills whatever the fault says; returns when it is dead.</summary>
    Task InjectAsync(Fault fault, Random random);

    /// <summary>Brings everything back and returns when clients are served again.</summary>
    Task RecoverAsync();

    /// <summary>Compares the live state, at rest, with what the durable files give elsewhere; null if it cannot.</summary>
    Task<IReadOnlyList<Violation>?> CheckReplayAsync();

    /// <summary>The last output of every process.</summary>
    string Tail();
}

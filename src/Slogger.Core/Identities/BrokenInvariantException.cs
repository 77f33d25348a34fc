namespace Slogger.Core.Identities;

/// <summary>An invariant of the design does not hold: something that was promised is not true any more. Not to be
/// handled: nothing that this machine says afterwards can be trusted. The text names the invariant.</summary>
public sealed class BrokenInvariantException(string message) : Exception(message);

namespace Slogger.Simulation;

/// <summary>A check failed. The text begins with the invariant's name.</summary>
public sealed class SimException(string message) : Exception(message);

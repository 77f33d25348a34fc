namespace Slogger.Core.Tests.Model;

/// <summary>The model saw an invariant broken. The text names it.</summary>
public sealed class ModelException(string message) : Exception(message);

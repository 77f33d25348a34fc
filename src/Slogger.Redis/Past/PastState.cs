using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>One instant of a store's past.</summary>
/// <param name="Sources">From what the values at it are made.</param>
/// <param name="TimeMs">When it was, in milliseconds since the Unix epoch: a key that had expired by then is not there.</param>
public sealed record PastState(RollbackSources Sources, long TimeMs);

/// <summary>What was asked of the past cannot be answered.</summary>
/// <param name="message">Why; for a person.</param>
public sealed class PastException(string message) : Exception(message);

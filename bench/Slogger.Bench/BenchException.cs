namespace Slogger.Bench;

/// <summary>The bench cannot go on; the message tells a person why and what to do.</summary>
internal sealed class BenchException(string message) : Exception(message);

namespace Slogger.Client.Wire;

/// <summary>Who answers is no proxy that this client can use, or refused the login. Another address may serve.</summary>
internal sealed class HandshakeException(string message) : IOException(message);

// Which bytes on their way to a TLS client tell commits. The loop knows it, and the tasks that encipher see bytes only: without this what
// was executed could not be told apart from what was committed, and replies would be lost with a lease that concerns commits alone.
namespace Slogger.FrontEnd.Transports;

/// <summary>Said by the loop before it gives bytes out at the clear end; asked by the bridge when it has read them.</summary>
internal sealed class ToldCommits
{
    private long _givenBytes;   // of the loop only
    private long _tellingBytes;

    /// <summary>The next so many bytes are about to be given out, and tell commits.</summary>
    public void Announce(long countBytes) => Volatile.Write(ref _tellingBytes, _givenBytes + countBytes);

    /// <summary>So many bytes were given out.</summary>
    public void Advance(long countBytes) => _givenBytes += countBytes;

    /// <summary>Whether any commit is told behind so many bytes.</summary>
    public bool IsAnyBehind(long countBytes) => Volatile.Read(ref _tellingBytes) > countBytes;
}

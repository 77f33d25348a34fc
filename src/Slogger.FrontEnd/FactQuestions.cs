// What Redis says of itself when somebody is about to change how it lets others in. It is asked each time, since it may be changed at Redis
// directly.
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Asks Redis for <see cref="StoreFacts"/>, in behalf of clients that wait for them. The loop's thread.</summary>
internal sealed class FactQuestions(FrontEndLoop loop)
{
    private readonly List<Client> _waiting = [];
    private readonly List<string> _replies = [];
    private int _awaited;

    /// <summary>A client's request is judged by what Redis says now.</summary>
    public void WaitFor(Client client)
    {
        _waiting.Add(client);
        if (_awaited > 0) { return; }
        if (loop.Shared is not { IsClosed: false } shared)
        {
            GiveUp();
            return;
        }
        foreach (string command in (string[])["info", "config|get", "acl|getuser"])
        {
            loop.CountInternal(command);
            _awaited++;
        }
        shared.Write(InternalRequest.Facts);
        for (int i = 0; i < _awaited; i++) { shared.Expect(null, 1, ReplyKind.Facts); }
    }

    /// <summary>One of the replies has come.</summary>
    public void OnReply(ReadOnlySpan<byte> reply)
    {
        _replies.Add(Encoding.Latin1.GetString(reply));
        if (_replies.Count == _awaited) { Tell(StoreFacts.Of(_replies)); }
    }

    /// <summary>Redis cannot be asked: nothing is known.</summary>
    public void GiveUp() => Tell(StoreFacts.Unknown);

    private void Tell(StoreFacts facts)
    {
        _awaited = 0;
        _replies.Clear();
        Client[] waiting = [.. _waiting];
        _waiting.Clear();
        foreach (Client client in waiting) { client.OnFacts(facts); }
    }
}

// What Redis says of itself when somebody is about to change how it lets others in. It is asked each time, since it may be changed at Redis directly.
using System.Text;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private readonly List<Client> _waitingForFacts = [];
    private readonly List<string> _factReplies = [];
    private int _factsAwaited;

    /// <summary>A client's request is judged by what Redis says now.</summary>
    public void WaitForFacts(Client client)
    {
        _waitingForFacts.Add(client);
        if (_factsAwaited > 0) { return; }
        if (Shared is not { IsClosed: false } shared)
        {
            TellFacts(StoreFacts.Unknown);
            return;
        }
        foreach (string command in (string[])["info", "config|get", "acl|getuser"])
        {
            CountInternal(command);
            _factsAwaited++;
        }
        shared.Write(InternalRequest.Facts);
        for (int i = 0; i < _factsAwaited; i++) { shared.Expect(null, 1, ReplyKind.Facts); }
    }

    /// <summary>One of the replies has come.</summary>
    public void OnFact(ReadOnlySpan<byte> reply)
    {
        _factReplies.Add(Encoding.Latin1.GetString(reply));
        if (_factReplies.Count == _factsAwaited) { TellFacts(StoreFacts.Of(_factReplies)); }
    }

    private void TellFacts(StoreFacts facts)
    {
        _factsAwaited = 0;
        _factReplies.Clear();
        Client[] waiting = [.. _waitingForFacts];
        _waitingForFacts.Clear();
        foreach (Client client in waiting) { client.OnFacts(facts); }
    }
}

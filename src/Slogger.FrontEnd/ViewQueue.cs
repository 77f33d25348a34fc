// Clients that wait until the shared upstream has their database and protocol. One view comes after the other: each change is a round
// trip, in which those who want it gather.
namespace Slogger.FrontEnd;

/// <summary>Changes the shared upstream's view for those who wait for it. The loop's thread.</summary>
internal sealed class ViewQueue(FrontEndLoop loop)
{
    private readonly List<Client> _waiting = [];
    private readonly List<Client> _granted = [];
    private int _wantedDb, _wantedProtocol;

    /// <summary>A client waits until the shared upstream has its database and protocol.</summary>
    public void WaitFor(Client client) => _waiting.Add(client);

    /// <summary>Begins the next change, unless one is under way.</summary>
    public void Turn()
    {
        if (_waiting.Count == 0) { return; }
        if (loop.Shared is not { IsClosed: false } shared)
        {
            Grant(all: true, refused: true);
            return;
        }
        if (shared.ViewsInFlight > 0) { return; }
        Client first = _waiting[0];
        if (first.IsClosed)
        {
            _waiting.RemoveAt(0);
            return;
        }
        _wantedDb = first.Db;
        _wantedProtocol = first.Protocol;
        if (!shared.ChangeView(_wantedDb, _wantedProtocol)) { Grant(all: false, refused: false); }
    }

    /// <summary>Those who wanted the view are read before it changes again, or two views would chase each other for ever.</summary>
    public void ReadGranted()
    {
        foreach (Client client in _granted) { client.ReadGranted(); }
        _granted.Clear();
    }

    /// <summary>The shared upstream has another view, or was refused it.</summary>
    public void OnChanged(Upstream shared)
    {
        bool refused = shared.ViewError is not null;
        shared.ViewError = null;
        Grant(all: false, refused);
    }

    private void Grant(bool all, bool refused)
    {
        _waiting.RemoveAll(client =>
        {
            if (!all && !client.IsClosed && (client.Db != _wantedDb || client.Protocol != _wantedProtocol)) { return false; }
            client.OnView(refused);
            if (!refused) { _granted.Add(client); }
            return true;
        });
    }
}

// Connections made ahead of need: a request that needs one of its own must not be overtaken by others while it is made, nor
// while it changes to the client's database and protocol. So there is one at hand for each view that was in use lately.
namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private const int SpareCount = 8;
    private const int ViewCount = 4;
    private readonly List<Upstream> _spares = [];

    // Databases and protocols that clients have chosen or used, the latest first.
    private readonly List<(int Db, int Protocol)> _views = [(0, 2)];

    /// <summary>A connected upstream for a client, which should have been made by now; <c>null</c> when none is ready. Its
    /// view is the client's, if one of that view was ready.</summary>
    public Upstream? TakeSpare(Client client)
    {
        (int Db, int Protocol) view = (client.Db, client.Protocol);
        Prefer(view);
        if (client.Shared is null) { return null; }
        Upstream? spare = _spares.Find(s => IsUsable(s) && ViewOf(s) == view) ?? _spares.Find(IsUsable);
        if (spare is not null)
        {
            _spares.Remove(spare);
            spare.Assign(client);
        }
        MakeSpares();
        return spare;
    }

    /// <summary>A client has chosen a database or protocol: a spare of that kind should be at hand.</summary>
    public void PreferView(int db, int protocol)
    {
        Prefer((db, protocol));
        ArrangeSpares();
    }

    private void Prefer((int Db, int Protocol) view)
    {
        _views.Remove(view);
        _views.Insert(0, view);
        if (_views.Count > ViewCount) { _views.RemoveAt(ViewCount); }
    }

    private void MakeSpares()
    {
        if (!AcceptsSharing || _spares.Count >= SpareCount) { return; }
        while (_spares.Count < SpareCount && Shard.IsOpen && !_stopping)
        {
            try
            {
                _spares.Add(new Upstream(this, exclusive: null, isSpare: true));
            }
            catch (System.Net.Sockets.SocketException)
            {
                return;
            }
        }
        ArrangeSpares();
    }

    private void OnSpareConnected(Upstream spare)
    {
        (int db, int protocol) = _views.MinBy(view => CountSpares(view) - (ViewOf(spare) == view ? 1 : 0));
        spare.ChangeView(db, protocol);
    }

    // A view without a spare takes over one that no view needs, or the second of another.
    private void ArrangeSpares()
    {
        foreach ((int db, int protocol) in _views)
        {
            if (CountSpares((db, protocol)) > 0) { continue; }
            _spares.Find(s => s.IsReady && (!_views.Contains(ViewOf(s)) || CountSpares(ViewOf(s)) > 1))?.ChangeView(db, protocol);
        }
    }

    private int CountSpares((int Db, int Protocol) view) => _spares.Count(s => s.IsConnected && ViewOf(s) == view);

    private static (int Db, int Protocol) ViewOf(Upstream spare) => (spare.Db, spare.Protocol);

    private bool IsUsable(Upstream spare) => spare.IsReady && IsFresh(spare);

    private void DropSpares(string reason)
    {
        while (_spares.Count > 0) { _spares[^1].Close(reason); }
    }
}

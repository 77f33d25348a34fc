// Connections made ahead of need. A request that needs one of its own must not be overtaken by others while it is made, nor
// while it changes to the client's database and protocol. So there is one at hand for each view that was in use lately.
using System.Net.Sockets;

namespace Slogger.FrontEnd;

/// <summary>Connections for the next clients that need one of their own. The loop's thread.</summary>
internal sealed class SpareUpstreams(FrontEndLoop loop)
{
    private const int CountMax = 8;
    private const int ViewsMax = 4;
    private readonly List<Upstream> _spares = [];

    // Databases and protocols that clients have chosen or used, the latest first.
    private readonly List<(int Db, int Protocol)> _views = [(0, 2)];

    /// <summary>How many there are.</summary>
    public int Count => _spares.Count;

    /// <summary>A connected upstream for a client, which should have been made by now; <c>null</c> when none is ready. Its
    /// view is the client's, if one of that view was ready.</summary>
    public Upstream? Take(Client client)
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
        Make();
        return spare;
    }

    /// <summary>A client has chosen a database or protocol: a spare of that kind should be at hand.</summary>
    public void PreferView(int db, int protocol)
    {
        Prefer((db, protocol));
        Arrange();
    }

    private void Prefer((int Db, int Protocol) view)
    {
        _views.Remove(view);
        _views.Insert(0, view);
        if (_views.Count > ViewsMax) { _views.RemoveAt(ViewsMax); }
    }

    /// <summary>Makes as many as there should be.</summary>
    public void Make()
    {
        if (!loop.Probe.AcceptsSharing || _spares.Count >= CountMax) { return; }
        while (_spares.Count < CountMax && loop.Shard.IsOpen && !loop.IsStopping)
        {
            try
            {
                _spares.Add(new Upstream(loop, exclusive: null, isSpare: true));
            }
            catch (SocketException)
            {
                return;
            }
        }
        Arrange();
    }

    /// <summary>A spare is connected: it takes the view of which there are fewest.</summary>
    public void OnConnected(Upstream spare)
    {
        (int db, int protocol) = _views.MinBy(view => CountOf(view) - (ViewOf(spare) == view ? 1 : 0));
        spare.ChangeView(db, protocol);
    }

    /// <summary>A spare has its view, or was refused it.</summary>
    public void OnViewChanged(Upstream spare)
    {
        if (spare.ViewError is not null) { spare.Close("its database was refused"); } else { Arrange(); }
    }

    /// <summary>A spare's connection has ended.</summary>
    public void Remove(Upstream spare) => _spares.Remove(spare);

    /// <summary>Asks Redis for the ids of all.</summary>
    public void LearnIds()
    {
        foreach (Upstream spare in _spares) { loop.Directory.LearnId(spare); }
    }

    /// <summary>Closes all.</summary>
    public void Drop(string reason)
    {
        while (_spares.Count > 0) { _spares[^1].Close(reason); }
    }

    // A view without a spare takes over one that no view needs, or the second of another.
    private void Arrange()
    {
        foreach ((int db, int protocol) in _views)
        {
            if (CountOf((db, protocol)) > 0) { continue; }
            _spares.Find(s => s.IsReady && (!_views.Contains(ViewOf(s)) || CountOf(ViewOf(s)) > 1))?.ChangeView(db, protocol);
        }
    }

    private int CountOf((int Db, int Protocol) view) => _spares.Count(s => s.IsConnected && ViewOf(s) == view);

    private static (int Db, int Protocol) ViewOf(Upstream spare) => (spare.Db, spare.Protocol);

    private bool IsUsable(Upstream spare) => spare.IsReady && loop.Settings.IsFresh(spare);
}

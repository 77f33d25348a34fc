// Which link goes to a slot's owner. The answer may be old: a shard that is not the owner says who is.
using System.Collections.Concurrent;
using Slogger.Client.Wire;
using Slogger.Core.Ownership;

namespace Slogger.Client;

/// <summary>The links of a client, one to each address, and the owners of slots as far as they are known. Any thread.</summary>
/// <param name="newLink">Makes the link to an address; the number is its place among the links.</param>
internal sealed class Routes(Func<Address, int, Link> newLink)
{
    private readonly ConcurrentDictionary<Address, Link> _links = new();
    private readonly Lock _linksGate = new();
    private readonly Link?[] _owners = new Link?[HashSlot.Count];
    private readonly Link?[] _served = new Link?[HashSlot.Count];
    private long _changed;

    public IEnumerable<Link> Links => _links.Values;

    public IEnumerable<Address> Addresses => _links.Keys;

    public bool IsEmpty => _links.IsEmpty;

    /// <summary>Rises before an owner changes, and once more when it has. Who finds the same number before and behind has seen no
    /// change.</summary>
    public long Changed => Volatile.Read(ref _changed);

    /// <summary>The link to the owner of a slot; of no slot, or of one that is not known, to any shard, which will tell.</summary>
    public Link OwnerOf(int slot) => Volatile.Read(ref _owners[Math.Max(slot, 0)]) ?? _links.Values.First();

    /// <summary>The links to all shards that own slots.</summary>
    public IEnumerable<Link> Owners() => _owners.OfType<Link>().Distinct();

    /// <summary>Whether a slot's owner has executed something of the slot since this client takes it for the owner: so it knows by itself
    /// that it is.</summary>
    public bool HasServed(int slot, Link owner) => Volatile.Read(ref _served[slot]) == owner;

    /// <summary>A shard has executed something of a slot; null: one has refused to.</summary>
    public void NoteServed(int slot, Link? by) => Volatile.Write(ref _served[slot], by);

    public bool Knows(Address address) => _links.ContainsKey(address);

    /// <summary>The link to an address, made if there is none.</summary>
    public Link To(Address address)
    {
        if (_links.TryGetValue(address, out Link? known)) { return known; }
        lock (_linksGate)
        {
            // What has no known owner goes to any link, which may now be another one.
            Interlocked.Increment(ref _changed);
            Link link = _links.GetOrAdd(address, a => newLink(a, _links.Count));
            Interlocked.Increment(ref _changed);
            return link;
        }
    }

    /// <summary>The slots from the first to the last one are at an address.</summary>
    public void Own(int first, int last, Address address)
    {
        Link link = To(address);
        link.Start();
        Own(first, last, link);
    }

    /// <summary>The slots from the first to the last one are at the other end of a link.</summary>
    public void Own(int first, int last, Link link)
    {
        if (_owners.AsSpan(first, last - first + 1).IndexOfAnyExcept(link) < 0) { return; }
        Interlocked.Increment(ref _changed);
        for (int slot = first; slot <= last; slot++)
        {
            if (_owners[slot] == link) { continue; }
            Volatile.Write(ref _served[slot], null);
            Volatile.Write(ref _owners[slot], link);
        }

        Interlocked.Increment(ref _changed);
    }
}

// The connections of a view of the past, one to each shard, and which of them a question goes to. A question that could not be answered by
// a shard is asked again, where the shard says, or for a while at the same: see SloggerClientOptions.RedirectionsMax and GiveUpAfter.
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Text;
using Slogger.Client.Wire;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>An instant of the past.</summary>
/// <param name="Point">The version at whose end it is.</param>
/// <param name="Time">When that was.</param>
internal readonly record struct PastInstant(WorldPoint Point, DateTimeOffset Time);

/// <summary>Questions about the past of a cluster. Any thread.</summary>
internal sealed class PastConnections : IDisposable
{
    public const string Command = "DPR.ASOF";
    private static readonly TimeSpan s_tryAgainAfter = TimeSpan.FromMilliseconds(20);
    private readonly SloggerClient _client;
    private readonly ConcurrentDictionary<Address, PastConnection> _open = new();
    private readonly ConcurrentDictionary<int, Address> _owners = new();    // of slots whose present owner has named another
    private readonly CancellationTokenRegistration _stopping;
    private volatile bool _isDisposed;

    public PastConnections(SloggerClient client)
    {
        _client = client;
        _stopping = client.Stopping.UnsafeRegister(static self => ((PastConnections)self!).Dispose(), this);
    }

    /// <summary>Finds the instant that all shards have in common.</summary>
    /// <param name="by">How it is named: TIME, AGO or VERSION.</param>
    /// <param name="number">The number that goes with that.</param>
    /// <param name="cancellation">Gives up.</param>
    /// <exception cref="PastException">A shard does not have it.</exception>
    /// <exception cref="ShardUnreachableException">A shard cannot be reached.</exception>
    public async Task<PastInstant> FindAsync(string by, long number, CancellationToken cancellation)
    {
        // All that own slots now, whatever this client has heard of.
        await _client.Discovery.DiscoverAsync(cancellation).ConfigureAwait(false);
        Address[] shards = [.. _client.Routes.Owners().Select(l => l.Address)];
        var common = new CommonVersion(shards.Length, isNow: by == "AGO" && number == 0);
        PastInstant found = default;
        while (common.Next is { } question)
        {
            Argument[] request = question.Version is { } version ? [Command, "VERSION", version.Number] : [Command, by, number];
            found = InstantOf(await AskAsync(shards[question.Shard], Operation.NoSlot, request, cancellation).ConfigureAwait(false));
            common.OnAnswer(found.Point.Version);
        }

        return found;
    }

    /// <summary>Asks the shard that has a slot; of no slot any shard.</summary>
    /// <returns>The bytes of the reply, which is no error.</returns>
    /// <exception cref="PastException">The reply was an error.</exception>
    /// <exception cref="ShardUnreachableException">The shard cannot be reached.</exception>
    public Task<byte[]> AskAsync(int slot, Argument[] request, CancellationToken cancellation) =>
        AskAsync(null, slot, request, cancellation);

    /// <summary>Throws if a version is of a world-line that was left before it.</summary>
    /// <exception cref="PastVoidException">It is.</exception>
    public async Task ThrowIfVoidAsync(WorldPoint asked, CancellationToken cancellation)
    {
        Branch? branch = await TryAsync(() => _client.Routes.OwnerOf(Operation.NoSlot).Address,
            shard => At(shard).BranchOfAsync(asked.WorldLine, cancellation), cancellation).ConfigureAwait(false);
        // Where each shard went back to a version of its own, what is behind all of them is lost at any.
        if (branch is not null && branch.Versions.Max(v => v.Number) is var survived && asked.Version.Number > survived)
        {
            throw new PastVoidException(asked, branch.WorldLine, new(survived));
        }
    }

    /// <summary>Closes them. What is asked fails.</summary>
    public void Dispose()
    {
        _isDisposed = true;
        _stopping.Unregister();
        foreach (PastConnection connection in _open.Values) { connection.Dispose(); }
    }

    private async Task<byte[]> AskAsync(Address? at, int slot, Argument[] request, CancellationToken cancellation)
    {
        for (int redirections = 0; ; redirections++)
        {
            Address asked = default;
            byte[] reply = await TryAsync(() => asked = at ?? OwnerOf(slot), shard => At(shard).AskAsync(request, cancellation), cancellation)
                .ConfigureAwait(false);
            if (!new WireReply(reply).IsError) { return reply; }
            string error = Encoding.UTF8.GetString(new WireReply(reply).Payload);
            bool isMoved = Discovery.TryReadRedirection(error, asked, out int moved, out Address to);
            bool isTransient = isMoved || error.StartsWith("TRYAGAIN", StringComparison.Ordinal)
                || error.StartsWith("CLUSTERDOWN", StringComparison.Ordinal);
            if (!isTransient || redirections == _client.Options.RedirectionsMax) { throw PastException.Of(error); }
            Telemetry.Redirections.Add(1);
            if (isMoved) { Move(ref at, slot == Operation.NoSlot ? slot : moved, to); }
            else { await Task.Delay(s_tryAgainAfter, cancellation).ConfigureAwait(false); }
        }
    }

    private void Move(ref Address? at, int slot, Address to)
    {
        if (at is not null) { at = to; }
        else { _owners[slot] = to; }
    }

    private Address OwnerOf(int slot) => _owners.TryGetValue(slot, out Address known) ? known : _client.Routes.OwnerOf(slot).Address;

    // What is asked does no harm when it is asked twice.
    private async Task<T> TryAsync<T>(Func<Address> whom, Func<Address, Task<T>> ask, CancellationToken cancellation)
    {
        long since = Stopwatch.GetTimestamp();
        TimeSpan pause = _client.Options.ReconnectDelayMin;
        while (true)
        {
            Address shard = whom();
            try
            {
                return await ask(shard).ConfigureAwait(false);
            }
            catch (Exception e) when (Link.IsBroken(e) && !_isDisposed && !cancellation.IsCancellationRequested)
            {
                if (Stopwatch.GetElapsedTime(since) > _client.Options.GiveUpAfter)
                {
                    throw new ShardUnreachableException($"The shard at {shard} could not be asked about the past: {e.Message}", e);
                }
                // Another may have taken over.
                _owners.Clear();
                _client.Discovery.RefreshSoon();
            }

            await Task.Delay(pause, cancellation).ConfigureAwait(false);
            pause = TimeSpan.FromTicks(Math.Min(pause.Ticks * 2, _client.Options.ReconnectDelayMax.Ticks));
        }
    }

    private PastConnection At(Address address)
    {
        PastConnection connection = _open.GetOrAdd(address, static (a, client) => new(client, a), _client);
        if (_isDisposed) { connection.Dispose(); }
        return connection;
    }

    private static PastInstant InstantOf(byte[] reply)
    {
        RespValue value = RespValue.Read(reply);
        return value.Kind == RespKind.Array && value.Items.Length >= 3
            ? new(new(new(value.Items[0].AsInteger()), new(value.Items[1].AsInteger())),
                DateTimeOffset.UnixEpoch.AddMicroseconds(value.Items[2].AsInteger()))
            : throw new InvalidDataException($"a shard that was asked for an instant says {value}");
    }
}

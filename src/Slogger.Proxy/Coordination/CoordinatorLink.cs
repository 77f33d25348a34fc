// A shard's connection to the coordinator of cuts, wherever that is: what the shard has durable goes there as soon as it is, and the
// cut comes back. While there is none (nobody has the role, or it cannot be reached in clear text) SQL is the way, and slower.
using System.Diagnostics;
using System.Net.Sockets;
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Peers;
using Slogger.Resp;

namespace Slogger.Proxy.Coordination;

/// <summary>Who hears what the coordinator says. The link's task calls.</summary>
internal interface ICoordinatorListener
{
    /// <summary>A cut was recorded, or somebody begins to wait.</summary>
    /// <param name="cut">As far as it was told.</param>
    /// <param name="own">What is committed of this shard.</param>
    void OnTold(ClusterCut cut, VersionNumber own);

    /// <summary>The coordinator knows nothing of this shard but what SQL has.</summary>
    void OnAskedAgain();

    /// <summary>The coordinator cannot be spoken with any more.</summary>
    void OnLost();
}

internal sealed class CoordinatorLink(ClusterSeat seat, ILogger report, ICoordinatorListener listener) : IDisposable
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(250);
    private readonly SemaphoreSlim _signal = new(0, 1);
    private volatile Target? _target;
    private volatile PeerQueue? _connection;
    // A coordinator that has died, or has only just been started, is no news: another takes over, or it listens soon.
    private static readonly TimeSpan WarnAfter = TimeSpan.FromSeconds(5);
    private string _failedAt = "", _warnedOf = "";
    private long _failing;

    private sealed record Target(string Address, long Epoch);

    /// <summary>Whether what is said reaches the coordinator now.</summary>
    public bool IsConnected => _connection is not null;

    /// <summary>Where the coordinator is. Any thread.</summary>
    public void Aim(string address, long epoch)
    {
        if (address.Length == 0 || _target == new Target(address, epoch)) { return; }
        _target = new Target(address, epoch);
        // The connection before leads to who has the role no more.
        HangUp();
        try
        {
            _signal.Release();
        }
        catch (SemaphoreFullException)
        {
            // Already awake.
        }
    }

    /// <summary>Says what is durable. False if nobody hears.</summary>
    public bool Say(in DurableClaim claim, VersionNumber after, DependencySet dependencies) =>
        _connection?.Send(CoordinationText.Report(claim, after, dependencies)) ?? false;

    /// <summary>Somebody here waits until this version is open.</summary>
    public bool SayWaits(VersionNumber until) => _connection?.Send(CoordinationText.Wait(until)) ?? false;

    /// <summary>A world-line was begun here: the others need not wait for the coordinator's next look.</summary>
    public bool SayBegun() => _connection?.Send(CoordinationText.Look) ?? false;

    /// <summary>Keeps connected until stopped.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        try
        {
            while (true)
            {
                if (_target is not { } target)
                {
                    await _signal.WaitAsync(stop).ConfigureAwait(false);
                    continue;
                }
                try
                {
                    await FollowAsync(target, stop).ConfigureAwait(false);
                }
                catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException
                    || (e is OperationCanceledException && !stop.IsCancellationRequested))
                {
                    Warn(target, e.Message);
                }
                await _signal.WaitAsync(RetryDelay, stop).ConfigureAwait(false);
            }
        }
        catch (OperationCanceledException)
        {
            // Stopped.
        }
    }

    private async Task FollowAsync(Target target, CancellationToken stop)
    {
        if (!ListenAddress.TryParse(target.Address, out ListenAddress? address, out _) || address.IsUnix) { return; }
        await using PeerChannel peer = await PeerChannel.ConnectAsync(seat, address, PeerKind.Cuts, to: null, stop).ConfigureAwait(false);
        await using var connection = new PeerQueue(peer);
        Task pump = connection.PumpAsync(stop);
        try
        {
            _failedAt = _warnedOf = "";
            if (_target != target) { return; }
            _connection = connection;
            // Aimed elsewhere before that could be seen.
            if (_target != target) { return; }
            listener.OnAskedAgain();
            while (true)
            {
                string said = await connection.ReceiveAsync(stop).ConfigureAwait(false);
                if (said == CoordinationText.Again) { listener.OnAskedAgain(); }
                else if (CoordinationText.ReadCut(said) is { } told) { listener.OnTold(told.Cut, told.Own); }
                else { throw new IOException("it says what no coordinator says"); }
            }
        }
        catch (PeerGoneException)
        {
            // It has the role no more, or has ended.
        }
        finally
        {
            _connection = null;
            listener.OnLost();
            await connection.DisposeAsync().ConfigureAwait(false);
            await pump.ConfigureAwait(false);
        }
    }

    // Closing a socket does not wait.
    private void HangUp() => _ = _connection?.DisposeAsync().AsTask();

    // Once for each.
    private void Warn(Target target, string why)
    {
        if (_failedAt != target.Address) { (_failedAt, _failing) = (target.Address, Stopwatch.GetTimestamp()); }
        if (_warnedOf == target.Address || Stopwatch.GetElapsedTime(_failing) < WarnAfter) { return; }
        _warnedOf = target.Address;
        report.Warn($"shard {seat.Shard}: the coordinator at {target.Address} cannot be spoken with ({why}): what is durable is recorded "
            + "in SQL until it can. Its --announce must name an address in clear text that the other proxies reach");
    }

    public void Dispose()
    {
        HangUp();
        _signal.Dispose();
    }
}

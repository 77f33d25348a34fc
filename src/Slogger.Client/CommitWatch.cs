// Looks what is committed, on a connection of its own, while somebody waits for it: a session's trailers tell it only while the
// session works. One for all sessions: the committed version is the cluster's, so any shard will do, and one that does not
// answer is left for the next. A round: a probe (unless the last one was late enough) brings the shard to the version that is waited
// for, DPR.WAIT has all shards hurry and returns when it is committed, DPR.CUT tells. A probe that is refused tells of a rollback.
using System.Diagnostics;
using Slogger.Client.Wire;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Client;

internal sealed class CommitWatch(SloggerClient client)
{
    // A round waits for the last probe's version; what was committed before that, and who began to wait meanwhile, is looked after
    // when it ends. So rounds are short, unless nothing has moved for a while (a shard is down, or SQL).
    private const int RoundMs = 2, RoundStalledMs = 50;
    private static readonly TimeSpan s_patience = TimeSpan.FromMilliseconds(500);
    private readonly SemaphoreSlim _signal = new(0, 1);
    private Task _running = Task.CompletedTask;
    private RespChannel? _channel;
    private int _next;
    private WorldPoint _probed;
    private WorldPoint _cut;
    private long _movedAt;

    public void Start(CancellationToken stop) => _running = Task.Run(() => RunAsync(stop), CancellationToken.None);

    public Task StopAsync() => _running;

    /// <summary>Somebody waits.</summary>
    public void Signal()
    {
        if (_signal.CurrentCount > 0) { return; }
        try
        {
            _signal.Release();
        }
        catch (SemaphoreFullException)
        {
            // Another was faster.
        }
    }

    private async Task RunAsync(CancellationToken stop)
    {
        TimeSpan pause = client.Options.ReconnectDelayMin;
        while (!stop.IsCancellationRequested)
        {
            try
            {
                if (Need() is not { } need)
                {
                    await _signal.WaitAsync(stop).ConfigureAwait(false);
                    // Nobody looked meanwhile.
                    _movedAt = Stopwatch.GetTimestamp();
                    continue;
                }

                await RoundAsync(need, stop).ConfigureAwait(false);
                pause = client.Options.ReconnectDelayMin;
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
                break;
            }
            catch (RefusedException refused) when (refused.Branch is { } branch)
            {
                Leave();
                client.OnRollback(refused.Abandoned, branch);
            }
            catch (Exception e) when (e is IOException or ObjectDisposedException or OperationCanceledException or System.Net.Sockets.SocketException
                or InvalidDataException or SloggerException or System.Security.Authentication.AuthenticationException)
            {
                Leave();
                _next++;
                await Task.Delay(pause, CancellationToken.None).ConfigureAwait(false);
                pause = TimeSpan.FromTicks(Math.Min(pause.Ticks * 2, client.Options.ReconnectDelayMax.Ticks));
            }
            catch (Exception e)
            {
                client.OnBroken(e);
                break;
            }
        }

        Leave();
    }

    /// <summary>The version that has to be committed; null: nobody waits.</summary>
    private Version? Need()
    {
        Version? need = null;
        foreach (SloggerSession session in client.Sessions())
        {
            if (session.CommitNeed() is { } wanted && (need is null || wanted > need)) { need = wanted; }
        }

        return need;
    }

    private async Task RoundAsync(Version need, CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(client.Options.ConnectTimeout);
        if (_channel is null)
        {
            IReadOnlyList<Address> addresses = client.Addresses();
            _channel = await RespChannel.ConnectAsync(addresses[(int)((uint)_next % addresses.Count)], client.Options, limit.Token).ConfigureAwait(false);
            _probed = default;
        }

        WorldLine line = client.WorldLine;
        bool isProbe = _probed.WorldLine != line || _probed.Version < need;
        if (isProbe) { Probe.Write(_channel, client.NextProbe(line, need)); }
        long roundMs = Stopwatch.GetElapsedTime(_movedAt) < s_patience ? RoundMs : RoundStalledMs;
        await _channel.Write("DPR.WAIT", "*", roundMs).Write("DPR.CUT").SendAsync(limit.Token).ConfigureAwait(false);
        if (isProbe)
        {
            ProbeAnswer probe = await Probe.ReadAsync(_channel, limit.Token).ConfigureAwait(false);
            _probed = new(line, probe.Version);
            Take(probe.Cut);
        }

        RespValue waited = await _channel.ReadAsync(limit.Token).ConfigureAwait(false);
        RespValue cut = await _channel.ReadAsync(limit.Token).ConfigureAwait(false);
        if (cut.Items.Length == 2) { Take(new(new(cut.Items[0].Integer), new(cut.Items[1].Integer))); }
        // After a rollback the wait is an error: the next probe hears the branch.
        if (waited.Kind == RespKind.Error || cut.Items.Length != 2 || cut.Items[0].Integer != line.Number) { _probed = default; }
    }

    private void Take(WorldPoint cut)
    {
        if (cut > _cut) { (_cut, _movedAt) = (cut, Stopwatch.GetTimestamp()); }
        client.OnCommitted(cut, always: true);
    }

    private void Leave()
    {
        _channel?.Dispose();
        _channel = null;
        _probed = default;
    }
}

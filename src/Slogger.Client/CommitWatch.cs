// Looks what is committed, on a connection of its own, while somebody waits for it: a session's trailers tell it only while the
// session works. One for all sessions: every shard knows what is committed at all of them, so any will do, and one that does not
// answer is left for the next. A round: a probe (unless the last one is not committed yet) brings the shard to the version that is
// waited for, DPR.WAIT has all shards hurry and returns when it is committed, DPR.CUT SHARDS tells. With the finders exact and hybrid
// it may be another shard's version, and take more rounds. A probe that is refused tells of a rollback.
using System.Diagnostics;
using Slogger.Client.Wire;
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Resp;

namespace Slogger.Client;

internal sealed class CommitWatch(SloggerClient client)
{
    // A round waits for the last probe's version; what was committed before that, and who began to wait meanwhile, is looked after
    // when it ends. So rounds are short, unless nothing has moved for a while (a shard is down, or SQL).
    private const int RoundMs = 2, RoundStalledMs = 50;
    private static readonly TimeSpan s_patience = TimeSpan.FromMilliseconds(500);

    // A shard whose store is away holds its answers back. Others may know more, where each shard has a cut of its own.
    private static readonly TimeSpan s_roundMax = TimeSpan.FromSeconds(1);
    private readonly SemaphoreSlim _signal = new(0, 1);
    private Task _running = Task.CompletedTask;
    private RespChannel? _channel;
    private int _next;
    private WorldPoint _probed;
    private bool _isProbeCommitted;
    private Cut? _cut;
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
                client.OnRollback(branch);
            }
            catch (Exception e) when (e is IOException or ObjectDisposedException or OperationCanceledException
                or System.Net.Sockets.SocketException
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
    private VersionNumber? Need()
    {
        VersionNumber? need = null;
        foreach (SloggerSession session in client.Sessions())
        {
            if (session.CommitNeed() is { } wanted && (need is null || wanted > need)) { need = wanted; }
        }

        return need;
    }

    private async Task RoundAsync(VersionNumber need, CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(client.Options.ConnectTimeout);
        if (_channel is null)
        {
            IReadOnlyList<Address> addresses = client.Discovery.Addresses();
            _channel = await client.Discovery.OpenAsync(addresses[(int)((uint)_next % addresses.Count)], limit.Token).ConfigureAwait(false);
            _probed = default;
        }

        limit.CancelAfter(s_roundMax);
        WorldLine line = client.WorldLine;
        // What is waited for may be another shard's: then there is something to wait for here all the same.
        bool isProbe = _probed.WorldLine != line || _probed.Version < need || _isProbeCommitted;
        if (isProbe) { Probe.Write(_channel, client.NextProbe(line, need)); }
        long roundMs = Stopwatch.GetElapsedTime(_movedAt) < s_patience ? RoundMs : RoundStalledMs;
        await _channel.Write("DPR.WAIT", "*", roundMs).Write("DPR.CUT", "SHARDS").SendAsync(limit.Token).ConfigureAwait(false);
        if (isProbe)
        {
            ProbeAnswer probe = await Probe.ReadAsync(_channel, limit.Token).ConfigureAwait(false);
            _probed = new(line, probe.Version);
            client.OnCommitted(probe.Cut);
        }

        RespValue waited = await _channel.ReadAsync(limit.Token).ConfigureAwait(false);
        RespValue cut = await _channel.ReadAsync(limit.Token).ConfigureAwait(false);
        _isProbeCommitted = waited.Items.Length == 3 && waited.Items[2].Integer == 1;
        // After a rollback both are errors, or the cut is of another world-line: the next probe hears the branch.
        if (waited.Kind == RespKind.Error || cut.Items.Length is < 2 or > 1 + Cut.ShardsMax || cut.Items[0].Integer != line.Number)
        {
            _probed = default;
        }
        else { Take(new(line, [.. cut.Items.Skip(1).Select(v => new VersionNumber(v.Integer))])); }
    }

    private void Take(Cut cut)
    {
        if (!cut.Equals(_cut)) { (_cut, _movedAt) = (cut, Stopwatch.GetTimestamp()); }
        client.OnCommitted(cut);
    }

    private void Leave()
    {
        _channel?.Dispose();
        _channel = null;
        _probed = default;
    }
}

// Slots that are given away. From one moment on nothing more is forwarded for them; all that was forwarded before is awaited, so
// that nobody can be surprised by it later.

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private const long EndBlockedAgainMicroseconds = 20_000;
    private readonly List<Client> _waitingForSlots = [];
    private readonly List<Withholding> _withholdings = [];

    /// <summary>Stops serving the slots that a view says are withheld, and awaits what was forwarded before.</summary>
    /// <param name="view">The view.</param>
    /// <param name="commands">As for <see cref="UseSlots"/>.</param>
    /// <param name="withholding">Is told when that has been answered.</param>
    public void Withhold(ClusterSlots view, StoreCommands commands, Withholding withholding)
    {
        UseSlots(view, commands);
        AwaitForwarded(withholding);
    }

    /// <summary>Awaits all that was forwarded before. What blocks with nothing behind it is not awaited: it does nothing while all others
    /// are held.</summary>
    /// <param name="withholding">Is told when that has been answered.</param>
    /// <param name="endsBlocked">Somebody else will write: all that blocks is ended, or it would be served by that.</param>
    public void AwaitForwarded(Withholding withholding, bool endsBlocked = false)
    {
        if (Shared is { } shared) { withholding.Await(shared); }
        if (Sharing.Retiring is { } retiring) { withholding.Await(retiring); }
        foreach (Upstream lingering in Upstreams.Lingering) { withholding.AwaitEnd(lingering); }
        foreach (Client client in Clients)
        {
            bool isBlocked = endsBlocked && client.Dedicated is { BlockingInFlight: > 0 };
            if (!client.HoldsUp(Slots, out bool mustEnd) && !isBlocked) { continue; }
            withholding.Await(client.Dedicated!);
            if (mustEnd || isBlocked) { withholding.MustEnd.Add(client); }
        }
        _withholdings.Add(withholding);
    }

    /// <summary>A client waits until it is known who serves a slot.</summary>
    public void WaitForSlot(Client client) => _waitingForSlots.Add(client);

    private void OnSlotsChanged()
    {
        foreach (Client client in Clients.ToArray()) { client.OnSlotsChanged(Slots!); }
        if (_waitingForSlots.Count == 0) { return; }
        Client[] waiting = [.. _waitingForSlots];
        _waitingForSlots.Clear();
        foreach (Client client in waiting) { client.OnSlotKnown(); }
    }

    private void CheckWithholdings()
    {
        for (int i = _withholdings.Count - 1; i >= 0; i--)
        {
            Withholding withholding = _withholdings[i];
            bool over = Now >= withholding.DeadlineMicroseconds || withholding.IsGivenUp;
            if (!withholding.IsAnswered && !over)
            {
                if (withholding.MustEnd.Count > 0 && Now >= withholding.NextEndMicroseconds)
                {
                    withholding.NextEndMicroseconds = Now + EndBlockedAgainMicroseconds;
                    withholding.EndBlocked([.. withholding.MustEnd.Where(c => !c.IsClosed && c.Dedicated is { BlockingInFlight: > 0 })
                        .Select(c => (c.Dedicated!.RedisId, c.Dedicated.Address ?? ""))]);
                }
                continue;
            }
            _withholdings.RemoveAt(i);
            withholding.Answered.TrySetResult(withholding.IsAnswered);
        }
    }
}

/// <summary>What is awaited before slots can be given away. The loop's thread.</summary>
/// <param name="deadlineMicroseconds">When that has taken too long, by the loop's clock.</param>
/// <param name="endBlocked">Has Redis end what blocks on some connections: by their ids, or where that is 0 by their addresses.</param>
internal sealed class Withholding(long deadlineMicroseconds, Action<IReadOnlyList<(long Id, string Address)>> endBlocked)
{
    private readonly List<(Upstream Upstream, long Mark)> _marks = [];

    /// <summary>Completes with true when all has been answered, with false when it took too long. Any thread.</summary>
    public TaskCompletionSource<bool> Answered { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Nobody waits for it any more. Any thread.</summary>
    public volatile bool IsGivenUp;

    public long DeadlineMicroseconds => deadlineMicroseconds;

    public long NextEndMicroseconds { get; set; }

    public List<Client> MustEnd { get; } = [];

    public bool IsAnswered => _marks.TrueForAll(m => m.Upstream.HasAnswered(m.Mark));

    public void Await(Upstream upstream) => _marks.Add((upstream, upstream.Mark));

    /// <summary>Awaits that a connection has ended, however much of what was given to it Redis answers.</summary>
    public void AwaitEnd(Upstream upstream) => _marks.Add((upstream, long.MaxValue));

    public void EndBlocked(IReadOnlyList<(long Id, string Address)> connections) => endBlocked(connections);
}

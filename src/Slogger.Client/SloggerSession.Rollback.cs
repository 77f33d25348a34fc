// What a rollback means for a session: the machine says what survived; callers are told, all of them, before anything goes on.
using Slogger.Client.Wire;
using Slogger.Core.Sessions;

namespace Slogger.Client;

public sealed partial class SloggerSession
{
    /// <summary>The rollback that has not been taken in; null: none. While there is one, every call fails with it.</summary>
    public RollbackException? Rollback
    {
        get { lock (_gate) { return _closed as RollbackException; } }
    }

    /// <summary>Says that the application has taken a rollback in: the session goes on, in the new world-line.</summary>
    /// <param name="rollback">The one that it has taken in. Does nothing if the session is not held up by it (any more): so that each of
    /// several threads may call it.</param>
    public void Resume(RollbackException rollback)
    {
        ArgumentNullException.ThrowIfNull(rollback);
        lock (_gate)
        {
            if (_closed is RollbackException current && current.Rollback == rollback.Rollback)
            {
                _closed = null;
                GoOnLocally();
            }
        }
    }

    /// <summary>The world-line is over. A session that has lost nothing goes on as if nothing had happened.</summary>
    internal void OnRollback(Branch branch)
    {
        lock (_gate)
        {
            // From here on nothing more is executed in the old world-line.
            _local?.GoOn(null);
            Settle();
            if (branch.Tell(_machine) is not { } rollback)
            {
                GoOnLocally();
                return;
            }

            if (rollback.Lost.IsEmpty && rollback.Uncertain.IsEmpty && rollback.Exceptions.IsEmpty)
            {
                GoOnLocally();
                CheckWaiters();
                return;
            }

            if (_closed is not null) { return; }
            int unsent = _turns.Waiting + _lanes.Sum(static l => l is null ? 0 : l.Full.Sum(static b => b.Count) + (l.Gathering?.Count ?? 0));
            Close(new RollbackException(Id, rollback, unsent, Sequence.None), of => new RollbackException(Id, rollback, unsent, of));
            Telemetry.Rollbacks.Add(1);
        }
    }
}

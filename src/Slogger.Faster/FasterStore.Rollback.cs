// Going back to a commit while operations go on (DPR, section 5.5 and figure 8). FASTER has no such thing, so: at one moment all records
// above the commit become invisible: whoever meets one puts its key back first, lazily. A purge behind it does so for all keys. The
// first commit of the new timeline comes after the purge, so no commit ever holds a record that was taken back.
using FASTER.core;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Faster;

public sealed partial class FasterStore
{
    private int _rollbacks;

    /// <summary>Goes back to a commit. When <paramref name="begun"/> is called nobody sees anything later any more; commits follow.</summary>
    /// <param name="to">The commit.</param>
    /// <param name="line">The timeline that begins.</param>
    /// <param name="next">The version that is open after the first commit of that timeline: later than the open one.</param>
    /// <param name="begun">Called while nobody changes a record: the moment between the timelines. It must be short.</param>
    /// <param name="cancellation">Ends the wait for a commit that is under way.</param>
    /// <returns>The first commit of the new timeline; null: another rollback came before it was made.</returns>
    /// <exception cref="InvalidOperationException">There is no such commit.</exception>
    public async Task<CommitRecord?> RollbackAsync(WorldPoint to, WorldLine line, Version next, Action begun, CancellationToken cancellation = default)
    {
        // A purge that is under way would have to begin again anyhow.
        int number = Interlocked.Increment(ref _rollbacks);
        await _turn.WaitAsync(cancellation).ConfigureAwait(false);
        try
        {
            ArgumentOutOfRangeException.ThrowIfLessThanOrEqual(next.Number, Open.Number, nameof(next));
            CommitRecord commit = Commits.FirstOrDefault(c => c.Point == to)
                ?? throw new InvalidOperationException($"{_options.Directory} has no commit of version {to}: the store cannot go back to it.");
            // Should this process die now, the next one finds nothing of what is taken back.
            ForgetAfter(to);
            Undo undo = null!;
            Stripes.Alone(() =>
            {
                undo = new(commit.To, _kv.Log.TailAddress);
                // What is found is left as it is: a record that was taken back is never brought up to date in its place.
                _kv.Log.ShiftReadOnlyAddress(undo.To, wait: false);
                _undo = undo;
                begun();
            });
            _from = undo.To;
            if (!await Task.Run(() => Purge(undo, number), CancellationToken.None).ConfigureAwait(false)) return null;
            _undo = null;
            return await CommitInTurnAsync(line, next).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    }

    private bool Purge(Undo undo, int number)
    {
        using FasterWorker worker = NewWorker();
        using IFasterScanIterator<SpanByte, SpanByte> records = _kv.Log.Scan(undo.From, undo.To);
        while (records.GetNext(out _))
        {
            if (Volatile.Read(ref _rollbacks) != number) return false;
            byte[] key = records.GetKey().ToByteArray();
            int stripe = worker.Enter(key);
            try
            {
                worker.Restore(key, undo);
            }
            finally
            {
                worker.Exit(stripe);
            }
        }

        return true;
    }
}

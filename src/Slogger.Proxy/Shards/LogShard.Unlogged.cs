// Changes of data that Redis does not put into its replication stream (DEBUG POPULATE and its like). The log cannot replay
// them, so from before such a change no version is closed until a checkpoint holds it. A file says so meanwhile: a proxy that
// is killed in between takes the checkpoint when it comes back.
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    // Changes begun and not yet in a checkpoint; above 0, versions stay open. Changed by the loop and the control task.
    private volatile int _unlogged;
    private volatile bool _checkpointWanted;

    private string UnloggedNote => Path.Combine(_options.DataDirectory, "unlogged-change");

    /// <inheritdoc />
    public void BeforeUnloggedChange()
    {
        lock (_machineLock) { _unlogged = 1; }
        _checkpointWanted = false;
        DurableFile.Write(UnloggedNote, []);
    }

    /// <inheritdoc />
    public void AfterUnloggedChange()
    {
        _checkpointWanted = true;
        Wake();
    }

    // At a start: the change was made, or not; the store that goes on has what there is of it.
    private void ResumeUnlogged(bool storeGoesOn)
    {
        if (!File.Exists(UnloggedNote)) { return; }
        if (storeGoesOn)
        {
            lock (_machineLock) { _unlogged = 1; }
            _checkpointWanted = true;
            Wake();
        }
        else
        {
            File.Delete(UnloggedNote);
            lock (_machineLock) { _unlogged = 0; }
            _checkpointWanted = false;
        }
    }

    private async Task KeepUnloggedAsync(CancellationToken stop)
    {
        if (!_checkpointWanted || !_isOpen) { return; }
        _checkpointWanted = false;
        if (!await TakeCheckpointAsync(stop).ConfigureAwait(false))
        {
            _checkpointWanted = true;
            return;
        }
        // Another change may have begun meanwhile: it wants a checkpoint of its own.
        if (_checkpointWanted) { return; }
        File.Delete(UnloggedNote);
        lock (_machineLock) { _unlogged = 0; }
    }
}

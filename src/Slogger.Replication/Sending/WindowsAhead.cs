// The windows that a shipper's machine has asked for, with what is left of each in memory until it has arrived. One is made at a time,
// beside what is sent: that goes on meanwhile, and so do signs of life.
using Slogger.Core.Replication;
using Slogger.Log;

namespace Slogger.Replication.Sending;

/// <summary>Has windows made for a shipper's machine. One caller at a time.</summary>
/// <param name="log">What is shipped.</param>
/// <param name="machine">Asks for them.</param>
/// <param name="leftBytesMax">See <see cref="WindowMaker"/>.</param>
/// <param name="made">Is told that there is one, or that none could be made: <see cref="Keep"/> is to be called. Any thread.</param>
/// <param name="failed">See <see cref="WindowMaker"/>.</param>
/// <param name="stop">Gives up what is being made.</param>
internal sealed class WindowsAhead(VersionLog log, Shipper machine, long leftBytesMax, Action made, Action<Exception> failed,
    CancellationToken stop)
{
    private readonly Dictionary<ShipWindow, MadeWindow> _windows = [];
    private WindowMaker? _maker;
    private (LogIndex From, Task<(MadeWindow? Made, long Until)> Result)? _making;

    /// <summary>Gives the machine what was made, forgets what it does not need any more, and has the next one made if it wants one.</summary>
    public void Keep()
    {
        if (_making is { Result.IsCompleted: true } done)
        {
            _making = null;
            (MadeWindow? window, long until) = done.Result.GetAwaiter().GetResult();
            if (window is null) { machine.NotMade(done.From, until); }
            else
            {
                _windows[window.Window] = window;
                machine.Made(window.Window);
            }
        }
        foreach (ShipWindow window in _windows.Keys)
        {
            if (!machine.Windows.Contains(window)) { _windows.Remove(window); }
        }
        if (!machine.SendsWindows && _making is null) { _maker = null; }
        if (_making is not null || machine.WindowWanted is not var (from, below)) { return; }
        WindowMaker maker = _maker ??= new(log, leftBytesMax, failed);
        Task<(MadeWindow? Made, long Until)> making = Task.Run(() => maker.Make(from, below, stop));
        _making = (from, making);
        _ = making.ContinueWith(_ => made(), CancellationToken.None, TaskContinuationOptions.None, TaskScheduler.Default);
    }

    /// <summary>One that was made; null: it is forgotten.</summary>
    public MadeWindow? Find(in ShipWindow window) => _windows.GetValueOrDefault(window);

    /// <summary>Returns when nothing is being made any more.</summary>
    public async Task EndAsync()
    {
        if (_making is { } making) { await ((Task)making.Result).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing); }
    }
}

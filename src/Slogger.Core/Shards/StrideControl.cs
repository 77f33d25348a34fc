// Every how many versions a shard among several closes one. Versions that are closed together, since the marker before was late, can
// be in no cut but for the last of them; a shard that is late often closes every 2nd, 4th... only, so that its versions meet those of
// others (DPR, figure 3). Strides are powers of two, so that they nest.
using Slogger.Core.Versions;

namespace Slogger.Core.Shards;

/// <summary>The stride in mode Log. A value: keep it in a field.</summary>
internal struct StrideControl
{
    // More than one in five is late.
    private const int LateWeight = 4, LateMax = 24;
    private const long StrideMax = 64;

    // How many versions it has to be in time for before a smaller stride is tried. Each trial that fails costs commits the time in
    // which it is found out, so the next one comes after twice as many.
    private const long PatienceMin = 100, PatienceMax = 1600;

    private int _lateness;
    private VersionNumber _steadySince;
    private long _patience;
    private bool _isTrial;   // the last change made it smaller

    public StrideControl() => (Stride, _patience) = (1, PatienceMin);

    /// <summary>Every how many versions one is closed.</summary>
    public long Stride { get; private set; }

    /// <summary>A version was closed.</summary>
    /// <param name="closed">Which.</param>
    /// <param name="skipped">Whether others that should have been closed before were closed with it.</param>
    /// <returns>Whether the stride is smaller from now on: what lies before was closed by the larger one.</returns>
    public bool Closed(VersionNumber closed, bool skipped)
    {
        _lateness = skipped ? _lateness + LateWeight : Math.Max(0, _lateness - 1);
        if (skipped) _steadySince = closed;
        if (_lateness >= LateMax && Stride < StrideMax)
        {
            Stride *= 2;
            _patience = _isTrial ? Math.Min(_patience * 2, PatienceMax) : PatienceMin;
            Changed(closed, isTrial: false);
            return false;
        }

        if (Stride == 1 || closed.Number - _steadySince.Number < _patience) return false;
        // The trial before has stood its time.
        if (_isTrial) _patience = PatienceMin;
        Stride /= 2;
        Changed(closed, isTrial: true);
        return true;
    }

    private void Changed(VersionNumber at, bool isTrial)
    {
        _isTrial = isTrial;
        _steadySince = at;
        _lateness = 0;
    }
}

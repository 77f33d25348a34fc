// Where in a client's output it begins to rest on a later version.
namespace Slogger.FrontEnd;

/// <summary>Places in the output, each with the version that what follows it waits for: both grow from one to the next. Few are kept:
/// with more, the last one stands for all that follow, and what is behind it waits for the latest of their versions.</summary>
internal struct ReplyMarks
{
    private const int PlacesMin = 4, PlacesMax = 64;
    private Mark[]? _marks;
    private int _first, _count;

    private readonly record struct Mark(long From, long Version);

    /// <summary>What is added to the output from this position on waits for a version, as long as it is not settled.</summary>
    public void Add(long from, long version)
    {
        _marks ??= new Mark[PlacesMin];
        if (_count > 0)
        {
            ref Mark last = ref At(_count - 1);
            if (version <= last.Version) { return; }
            if (_count == PlacesMax)
            {
                last = last with { Version = version };
                return;
            }
        }
        if (_count == _marks.Length) { Grow(); }
        At(_count++) = new(from, version);
    }

    /// <summary>Versions are settled.</summary>
    /// <param name="upTo">The last of them.</param>
    /// <returns>From where on the output waits still; <see cref="long.MaxValue"/>: from nowhere.</returns>
    public long Settle(long upTo)
    {
        while (_count > 0 && At(0).Version <= upTo)
        {
            _first++;
            _count--;
        }
        return _count > 0 ? At(0).From : long.MaxValue;
    }

    private readonly ref Mark At(int index) => ref _marks![(_first + index) & (_marks.Length - 1)];

    private void Grow()
    {
        var larger = new Mark[2 * _marks!.Length];
        for (int i = 0; i < _count; i++) { larger[i] = At(i); }
        (_marks, _first) = (larger, 0);
    }
}

// By which grids the versions went that a shard has followed: its leader, or the other site, has said so. Kept in a file, since the past
// is read when nobody says anything any more.
using System.Globalization;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Log.Files;

namespace Slogger.Proxy.Shards;

/// <summary>The grids that were told last. Any thread.</summary>
internal sealed class FollowedGrid
{
    private readonly string _path;
    private readonly Lock _gate = new();
    private volatile VersionGrid? _grid;
    private volatile Joined? _joined;   // the last that was put together

    private sealed record Joined(VersionGrid Told, VersionGrid Own, VersionGrid Whole);

    /// <summary>Reads what is kept.</summary>
    /// <param name="directory">The data directory.</param>
    public FollowedGrid(string directory)
    {
        _path = Path.Combine(directory, "followed-grid");
        _grid = Read();
    }

    /// <summary>The grids; null: nobody has told them.</summary>
    public VersionGrid? Grid => _grid;

    /// <summary>These, and behind them the grids of the shard's own rule.</summary>
    public VersionGrid JoinedWith(VersionGrid own)
    {
        if (_grid is not { } told) { return own; }
        if (_joined is not { } known || known.Told != told || known.Own != own) { _joined = known = new(told, own, own.Behind(told)); }
        return known.Whole;
    }

    /// <summary>As <see cref="Note"/>; what the disk refuses is reported.</summary>
    public void NoteOrWarn(VersionGrid told, ILogger report, ShardId shard)
    {
        try
        {
            Note(told);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            report.Warn($"shard {shard}: it cannot be noted how versions lie in time, so their past is not shown by time: {e.Message}");
        }
    }

    /// <summary>Notes them, unless later ones are known. Throws IOException.</summary>
    public void Note(VersionGrid told)
    {
        lock (_gate)
        {
            bool isNews = _grid is not { } known || (told.Stretches[^1].FirstVersion >= known.Stretches[^1].FirstVersion
                && !told.Stretches.SequenceEqual(known.Stretches));
            if (!isNews) { return; }
            string aside = _path + ".tmp";
            string text = string.Concat(told.Stretches.Select(s =>
                string.Create(CultureInfo.InvariantCulture, $"{s.FirstVersion.Number} {s.StartUs} {s.IntervalUs}\n")));
            using (FileStream file = PrivateFile.Open(aside, FileMode.Create))
            {
                file.Write(Encoding.ASCII.GetBytes(text));
                file.Flush(flushToDisk: true);
            }
            File.Move(aside, _path, overwrite: true);
            _grid = told;
        }
    }

    // What is damaged is told again.
    private VersionGrid? Read()
    {
        try
        {
            return VersionGrid.OfHistory(File.ReadLines(_path).Select(line =>
            {
                long[] numbers = [.. line.Split(' ').Select(n => long.Parse(n, NumberStyles.None, CultureInfo.InvariantCulture))];
                return new GridStretch(new(numbers[0]), numbers[1], numbers[2]);
            }));
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or FormatException or OverflowException
            or ArgumentException or IndexOutOfRangeException)
        {
            return null;
        }
    }
}

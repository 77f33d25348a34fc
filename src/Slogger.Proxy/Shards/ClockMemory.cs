// How far this shard's clock has come, for the next process on this machine: replies may have told of versions that no boundary in the
// log shows (none was closed, or all markers were refused), and a process that starts after the wall clock was set back would open
// them again. What one process has noted, the next continues by the time that the machine's own clock has counted since.
//
// A note of an earlier boot says nothing: all processes of that time have ended with what was not on disk.
using System.Globalization;
using System.Text;
using Slogger.Core.Time;
using Slogger.Log.Files;

namespace Slogger.Proxy.Shards;

/// <summary>A file that is rewritten about once a second. It need not survive the machine, so nothing is synced.</summary>
internal sealed class ClockMemory(string directory)
{
    private const string BootId = "/proc/sys/kernel/random/boot_id";
    private readonly string _path = Path.Combine(directory, "clock");
    private readonly string _boot = File.Exists(BootId) ? File.ReadAllText(BootId).Trim() : "";

    /// <summary>Notes the clock.</summary>
    /// <param name="now">What it says.</param>
    /// <param name="monotonicUs">The machine's own clock at that moment.</param>
    public void Note(HybridTimestamp now, long monotonicUs)
    {
        try
        {
            string aside = _path + ".tmp";
            PrivateFile.Write(aside,
                Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{_boot} {monotonicUs} {now.Bits}\n")));
            File.Move(aside, _path, overwrite: true);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // A full disk is told of by who has to write there.
        }
    }

    /// <summary>The least that the clock may say now; null if that is not known.</summary>
    public HybridTimestamp? Recall(long monotonicUs)
    {
        try
        {
            string[] words = File.ReadAllText(_path).Trim().Split(' ');
            if (words.Length != 3 || words[0] != _boot || _boot.Length == 0) { return null; }
            if (!long.TryParse(words[1], NumberStyles.None, CultureInfo.InvariantCulture, out long then) || then > monotonicUs)
            {
                return null;
            }
            return ulong.TryParse(words[2], NumberStyles.None, CultureInfo.InvariantCulture, out ulong bits)
                ? HybridTimestamp.Of(new HybridTimestamp(bits).Microseconds + monotonicUs - then, 0) : null;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }
}

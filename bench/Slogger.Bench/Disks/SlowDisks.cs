// The real files, on disks each of which takes a while for a sync, and does one at a time: a stand-in for slow disks where there is one
// that is fast.
using Slogger.Log.Files;

namespace Slogger.Bench.Disks;

/// <param name="syncTime">What a sync of data takes, besides what it takes here. Each directory is a disk.</param>
internal sealed class SlowDisks(TimeSpan syncTime) : IFileLayer
{
    private static readonly SystemFileLayer s_files = SystemFileLayer.Instance;
    private readonly Dictionary<string, Lock> _disks = [];

    public void CreateDirectory(string path) => s_files.CreateDirectory(path);

    public IReadOnlyList<string> List(string directory) => s_files.List(directory);

    public ILogFile Create(string path) => new File(s_files.Create(path), DiskOf(path), syncTime);

    public ILogFile Open(string path, bool writable) => new File(s_files.Open(path, writable), DiskOf(path), syncTime);

    public void Rename(string from, string to) => s_files.Rename(from, to);

    public void LinkOrCopy(string from, string to) => s_files.LinkOrCopy(from, to);

    public void Delete(string path) => s_files.Delete(path);

    public void SyncDirectory(string directory) => s_files.SyncDirectory(directory);

    public IDisposable? TryLock(string path) => s_files.TryLock(path);

    private Lock DiskOf(string path)
    {
        string directory = Path.GetDirectoryName(path)!;
        lock (_disks)
        {
            if (!_disks.TryGetValue(directory, out Lock? disk)) { _disks[directory] = disk = new(); }
            return disk;
        }
    }

    private sealed class File(ILogFile file, Lock disk, TimeSpan syncTime) : ILogFile
    {
        public long Length => file.Length;

        public int Read(Span<byte> destination, long position) => file.Read(destination, position);

        public void Write(ReadOnlySpan<byte> source, long position) => file.Write(source, position);

        public void Allocate(long length) => file.Allocate(length);

        public void SetLength(long length) => file.SetLength(length);

        public void SyncData()
        {
            lock (disk)
            {
                if (syncTime > TimeSpan.Zero) { Thread.Sleep(syncTime); }
                file.SyncData();
            }
        }

        public void Dispose() => file.Dispose();
    }
}

// The operating system's files. On Linux: pread, pwrite, posix_fallocate, fdatasync, fsync of directories; and whole sectors in
// aligned memory are written past the page cache (O_DIRECT), where the file system can: copying them there, and having the kernel
// write them back page by page, costs several times what the disk's own transfer does, and pushes out what others want
// cached. Elsewhere the portable calls of the framework, which flush more than needed and cannot sync directories.
using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace Slogger.Log.Files;

/// <summary>The real file system.</summary>
public sealed partial class SystemFileLayer : IFileLayer
{
    private const int Eintr = 4;
    private const int Einval = 22;
    private const int Eopnotsupp = 95;

    private SystemFileLayer()
    {
    }

    /// <summary>The only instance.</summary>
    public static SystemFileLayer Instance { get; } = new();

    /// <inheritdoc />
    public void CreateDirectory(string path)
    {
        string full = Path.GetFullPath(path);
        if (Directory.Exists(full))
        {
            return;
        }
        string? parent = Path.GetDirectoryName(full);
        if (parent is not null)
        {
            CreateDirectory(parent);
        }
        if (OperatingSystem.IsWindows())
        {
            Directory.CreateDirectory(full);
        }
        else
        {
            // The log holds the data of the store: for the owner only.
            Directory.CreateDirectory(full, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
        }
        if (parent is not null)
        {
            SyncDirectory(parent);
        }
    }

    /// <inheritdoc />
    public IReadOnlyList<string> List(string directory) =>
        [.. Directory.EnumerateFiles(directory).Select(p => Path.GetFileName(p))];

    /// <inheritdoc />
    public ILogFile Create(string path)
    {
        Delete(path);
        using (new FileStream(path, NewFileOptions()))
        {
        }
        return Open(path, writable: true);
    }

    /// <inheritdoc />
    public ILogFile Open(string path, bool writable) => new SystemFile(path, File.OpenHandle(
        path, FileMode.Open, writable ? FileAccess.ReadWrite : FileAccess.Read, FileShare.ReadWrite | FileShare.Delete));

    /// <inheritdoc />
    public void Rename(string from, string to) => File.Move(from, to, overwrite: true);

    /// <inheritdoc />
    public void LinkOrCopy(string from, string to)
    {
        File.Delete(to);
        if (!OperatingSystem.IsWindows() && NativeLink(from, to) == 0) { return; }
        // Another file system, or a file of another user.
        File.Copy(from, to, overwrite: true);
    }

    /// <inheritdoc />
    public void Delete(string path) => File.Delete(path);

    /// <inheritdoc />
    public void SyncDirectory(string directory)
    {
        if (OperatingSystem.IsWindows())
        {
            return;
        }
        using SafeFileHandle handle = NativeOpenDirectory(directory);
        while (NativeFsync(handle) != 0)
        {
            ThrowUnlessInterrupted("sync directory", directory);
        }
    }

    /// <inheritdoc />
    public IDisposable? TryLock(string path)
    {
        try
        {
            FileStreamOptions options = NewFileOptions();
            options.Mode = FileMode.OpenOrCreate;
            options.Share = FileShare.None;
            return new FileStream(path, options);
        }
        catch (IOException) when (File.Exists(path))
        {
            return null;
        }
    }

    private static FileStreamOptions NewFileOptions()
    {
        var options = new FileStreamOptions
        {
            Mode = FileMode.CreateNew, Access = FileAccess.ReadWrite, Share = FileShare.ReadWrite | FileShare.Delete, BufferSize = 0,
        };
        if (!OperatingSystem.IsWindows())
        {
            options.UnixCreateMode = UnixFileMode.UserRead | UnixFileMode.UserWrite;
        }
        return options;
    }

    private static void ThrowUnlessInterrupted(string operation, string path)
    {
        int errno = Marshal.GetLastPInvokeError();
        if (errno != Eintr)
        {
            throw Failure(operation, path, errno);
        }
    }

    private static IOException Failure(string operation, string path, int errno) =>
        new($"{operation} {path}: {Marshal.GetPInvokeErrorMessage(errno)}.", errno);

    // The bit of O_DIRECT differs between architectures.
    private static int DirectFlag => !OperatingSystem.IsLinux() ? 0 : RuntimeInformation.ProcessArchitecture switch
    {
        Architecture.X64 => 0x4000,
        Architecture.Arm64 => 0x10000,
        _ => 0,
    };

    private static SafeFileHandle? OpenDirect(string path)
    {
        const int writeOnly = 1;
        const int closeOnExec = 0x80000;
        int descriptor = DirectFlag == 0 ? -1 : NativeOpen(path, writeOnly | closeOnExec | DirectFlag);
        return descriptor < 0 ? null : new SafeFileHandle(descriptor, ownsHandle: true);
    }

    private static SafeFileHandle NativeOpenDirectory(string directory)
    {
        const int closeOnExec = 0x80000;
        int descriptor;
        while ((descriptor = NativeOpen(directory, OperatingSystem.IsLinux() ? closeOnExec : 0)) < 0)
        {
            ThrowUnlessInterrupted("open directory", directory);
        }
        return new SafeFileHandle(descriptor, ownsHandle: true);
    }

    [LibraryImport("libc", EntryPoint = "open", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    private static partial int NativeOpen(string path, int flags);

    [LibraryImport("libc", EntryPoint = "link", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    private static partial int NativeLink(string from, string to);

    [LibraryImport("libc", EntryPoint = "fsync", SetLastError = true)]
    private static partial int NativeFsync(SafeFileHandle handle);

    [LibraryImport("libc", EntryPoint = "fdatasync", SetLastError = true)]
    private static partial int NativeFdatasync(SafeFileHandle handle);

    [LibraryImport("libc", EntryPoint = "posix_fallocate")]
    private static partial int NativeFallocate(SafeFileHandle handle, long offset, long length);

    private sealed class SystemFile(string path, SafeFileHandle handle) : ILogFile
    {
        private const int SectorBytes = 512;
        private SafeFileHandle? _direct;
        private bool _directTried;

        public long Length => RandomAccess.GetLength(handle);

        public int Read(Span<byte> destination, long position)
        {
            int total = 0;
            while (total < destination.Length)
            {
                int read = RandomAccess.Read(handle, destination[total..], position + total);
                if (read == 0)
                {
                    break;
                }
                total += read;
            }
            return total;
        }

        public void Write(ReadOnlySpan<byte> source, long position)
        {
            if (!TryWriteDirectly(source, position))
            {
                RandomAccess.Write(handle, source, position);
            }
        }

        private unsafe bool TryWriteDirectly(ReadOnlySpan<byte> source, long position)
        {
            nint address = (nint)System.Runtime.CompilerServices.Unsafe.AsPointer(ref MemoryMarshal.GetReference(source));
            if (((position | (long)source.Length | address) & (SectorBytes - 1)) != 0)
            {
                return false;
            }
            if (!_directTried)
            {
                _directTried = true;
                _direct = OpenDirect(path);
            }
            if (_direct is null)
            {
                return false;
            }
            try
            {
                RandomAccess.Write(_direct, source, position);
                return true;
            }
            catch (IOException e) when (e.HResult == Einval)
            {
                // Not in units of this size, or not on this file system.
                _direct.Dispose();
                _direct = null;
                return false;
            }
        }

        public void Allocate(long length)
        {
            if (OperatingSystem.IsLinux())
            {
                int errno;
                do
                {
                    errno = NativeFallocate(handle, 0, length);
                }
                while (errno == Eintr);
                if (errno is not (0 or Einval or Eopnotsupp))
                {
                    throw Failure("reserve space for", path, errno);
                }
            }
            if (RandomAccess.GetLength(handle) < length)
            {
                RandomAccess.SetLength(handle, length);
            }
        }

        public void SetLength(long length) => RandomAccess.SetLength(handle, length);

        public void SyncData()
        {
            if (!OperatingSystem.IsLinux())
            {
                RandomAccess.FlushToDisk(handle);
                return;
            }
            while (NativeFdatasync(handle) != 0)
            {
                ThrowUnlessInterrupted("fdatasync", path);
            }
        }

        public void Dispose()
        {
            _direct?.Dispose();
            handle.Dispose();
        }
    }
}

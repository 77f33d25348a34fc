// The transport on Linux: one epoll set, level-triggered, and system calls without a transition of the collector's mode
// where they cannot block. Figures behind the choice: half the time of .NET's own socket layer is its queueing.
using System.Diagnostics;
using System.Net.Sockets;
using System.Runtime.InteropServices;

namespace Slogger.FrontEnd.Transports;

/// <summary>Epoll by direct system calls.</summary>
internal sealed unsafe partial class EpollPoller : IPoller
{
    private const int MaxEvents = 512;
    private const long YieldingMicrosecondsMax = 1000;
    private const uint In = 1, Out = 4, Error = 8, HangUp = 16;
    private const int ControlAdd = 1, ControlDelete = 2, ControlModify = 3;
    private const int Again = 11, Interrupted = 4, NoSystemCall = 38;
    private const int DontWait = 0x40, NoSignal = 0x4000;
    private const long EpollPwait2 = 441;

    // The kernel's epoll_event is packed on x86-64 only.
    private static readonly int EventStride = RuntimeInformation.ProcessArchitecture == Architecture.X64 ? 12 : 16;
    private static readonly int DataOffset = EventStride - 8;

    private readonly int _epoll;
    private readonly int _wakeRead;
    private readonly int _wakeWrite;
    private readonly byte* _events;
    private EpollChannel?[] _byDescriptor = new EpollChannel?[1024];
    private bool _hasPwait2 = true;
    private int _wakePending;
    private int _disposed;

    public EpollPoller()
    {
        _epoll = epoll_create1(0x80000);
        int* pair = stackalloc int[2];
        if (_epoll < 0 || pipe2(pair, 0x80000 | 0x800) != 0)
        {
            throw new InvalidOperationException(
                $"epoll is not available (error {Marshal.GetLastSystemError()}): start with --transport sockets.");
        }
        _wakeRead = pair[0];
        _wakeWrite = pair[1];
        _events = (byte*)NativeMemory.AllocZeroed((nuint)(MaxEvents * EventStride));
        Control(ControlAdd, _wakeRead, In);
    }

    public string Name => "epoll";

    public LocalEvents Local { get; } = new();

    public Channel Adopt(Socket socket)
    {
        socket.Blocking = false;
        return new EpollChannel(socket);
    }

    public void Watch(Channel channel, bool read, bool write)
    {
        if (channel is LocalChannel local)
        {
            local.Watch(read, write);
            return;
        }
        var epollChannel = (EpollChannel)channel;
        if (channel.IsClosed || (epollChannel.IsAdded && read == channel.WantsRead && write == channel.WantsWrite))
        {
            return;
        }
        int descriptor = epollChannel.Descriptor;
        if (!epollChannel.IsAdded)
        {
            if (descriptor >= _byDescriptor.Length)
            {
                Array.Resize(ref _byDescriptor, Math.Max(descriptor + 1, _byDescriptor.Length * 2));
            }
            _byDescriptor[descriptor] = epollChannel;
        }
        channel.WantsRead = read;
        channel.WantsWrite = write;
        Control(epollChannel.IsAdded ? ControlModify : ControlAdd, descriptor, (read ? In : 0) | (write ? Out : 0));
        epollChannel.IsAdded = true;
    }

    public void Close(Channel channel)
    {
        if (channel is LocalChannel local) { local.Close(); }
        else if (!channel.IsClosed) { Release(channel).Dispose(); }
    }

    public Socket Release(Channel channel)
    {
        var epollChannel = (EpollChannel)channel;
        channel.IsClosed = true;
        if (epollChannel.IsAdded)
        {
            Control(ControlDelete, epollChannel.Descriptor, 0);
            _byDescriptor[epollChannel.Descriptor] = null;
        }
        return channel.Socket;
    }

    public int Wait(long timeoutMicroseconds, int yields)
    {
        int count = epoll_poll(_epoll, _events, MaxEvents, 0);
        if (count != 0 || timeoutMicroseconds == 0)
        {
            return Math.Max(count, 0);
        }
        long started = Stopwatch.GetTimestamp();
        for (int i = 0; i < yields; i++)
        {
            _ = sched_yield();
            count = epoll_poll(_epoll, _events, MaxEvents, 0);
            if (count != 0) { return Math.Max(count, 0); }
            // Others use up their share of the core. A thread that has slept is let in before them when its time has come, one that
            // yields is not: what is due would be late by all of their shares.
            long elapsed = (long)Stopwatch.GetElapsedTime(started).TotalMicroseconds;
            if (elapsed < YieldingMicrosecondsMax) { continue; }
            if (timeoutMicroseconds > 0) { timeoutMicroseconds = Math.Max(0, timeoutMicroseconds - elapsed); }
            break;
        }
        if (_hasPwait2 && timeoutMicroseconds > 0)
        {
            long* time = stackalloc long[2];
            time[0] = timeoutMicroseconds / 1_000_000;
            time[1] = timeoutMicroseconds % 1_000_000 * 1000;
            count = (int)syscall6(EpollPwait2, _epoll, _events, MaxEvents, time, null, 0);
            if (count >= 0) { return count; }
            if (Marshal.GetLastSystemError() != NoSystemCall) { return 0; }
            _hasPwait2 = false;
        }
        long milliseconds = timeoutMicroseconds < 0 ? -1 : (timeoutMicroseconds + 999) / 1000;
        return Math.Max(epoll_wait(_epoll, _events, MaxEvents, (int)Math.Min(milliseconds, int.MaxValue)), 0);
    }

    public Channel? Event(int index, out bool readable, out bool writable)
    {
        byte* e = _events + (index * EventStride);
        uint flags = *(uint*)e;
        int descriptor = *(int*)(e + DataOffset);
        readable = (flags & (In | Error | HangUp)) != 0;
        writable = (flags & (Out | Error | HangUp)) != 0;
        if (descriptor == _wakeRead)
        {
            byte* sink = stackalloc byte[64];
            while (read(_wakeRead, sink, 64) > 0) { }
            Volatile.Write(ref _wakePending, 0);
            return null;
        }
        EpollChannel? channel = descriptor < _byDescriptor.Length ? _byDescriptor[descriptor] : null;
        if (channel is not null)
        {
            // An error must reach somebody even if only the other direction is waited for.
            readable &= channel.WantsRead || (flags & (Error | HangUp)) != 0;
            writable &= channel.WantsWrite;
        }
        return channel;
    }

    public void Wake()
    {
        if (Volatile.Read(ref _disposed) == 0 && Interlocked.Exchange(ref _wakePending, 1) == 0)
        {
            byte one = 1;
            _ = write(_wakeWrite, &one, 1);
        }
    }

    public void Dispose()
    {
        if (Interlocked.Exchange(ref _disposed, 1) != 0) { return; }
        _ = close(_epoll);
        _ = close(_wakeRead);
        _ = close(_wakeWrite);
        NativeMemory.Free(_events);
    }

    private void Control(int operation, int descriptor, uint events)
    {
        byte* e = stackalloc byte[16];
        *(uint*)e = events;
        *(long*)(e + DataOffset) = descriptor;
        if (epoll_ctl(_epoll, operation, descriptor, e) != 0 && operation != ControlDelete)
        {
            throw new InvalidOperationException($"epoll_ctl failed with error {Marshal.GetLastSystemError()}.");
        }
    }

    private sealed class EpollChannel(Socket socket) : Channel(socket)
    {
        public int Descriptor { get; } = (int)socket.SafeHandle.DangerousGetHandle();

        public bool IsAdded { get; set; }

        public override int Receive(byte* buffer, int capacityBytes)
        {
            nint got = recv(Descriptor, buffer, capacityBytes, DontWait);
            return got >= 0 ? (int)got : Failure();
        }

        public override int Send(byte* buffer, int countBytes)
        {
            nint sent = send(Descriptor, buffer, countBytes, DontWait | NoSignal);
            return sent >= 0 ? (int)sent : Failure();
        }

        private static int Failure() => Marshal.GetLastSystemError() is Again or Interrupted ? WouldBlock : Broken;
    }

    [LibraryImport("libc")]
    private static partial int epoll_create1(int flags);

    [LibraryImport("libc")]
    private static partial int epoll_ctl(int epoll, int operation, int descriptor, byte* e);

    [LibraryImport("libc")]
    private static partial int epoll_wait(int epoll, byte* events, int max, int timeoutMilliseconds);

    [LibraryImport("libc", EntryPoint = "epoll_wait")]
    [SuppressGCTransition]
    private static partial int epoll_poll(int epoll, byte* events, int max, int timeoutMilliseconds);

    [LibraryImport("libc", EntryPoint = "syscall")]
    private static partial nint syscall6(long number, long epoll, byte* events, long max, long* time, void* mask, long size);

    [LibraryImport("libc")]
    [SuppressGCTransition]
    private static partial nint recv(int descriptor, void* buffer, nint length, int flags);

    [LibraryImport("libc")]
    [SuppressGCTransition]
    private static partial nint send(int descriptor, void* buffer, nint length, int flags);

    [LibraryImport("libc")]
    private static partial int pipe2(int* pair, int flags);

    [LibraryImport("libc")]
    private static partial nint read(int descriptor, void* buffer, nint length);

    [LibraryImport("libc")]
    private static partial nint write(int descriptor, void* buffer, nint length);

    [LibraryImport("libc")]
    private static partial int close(int descriptor);

    [LibraryImport("libc")]
    private static partial int sched_yield();
}

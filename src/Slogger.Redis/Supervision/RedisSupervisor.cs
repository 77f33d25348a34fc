// Runs a redis-server for the proxy. Redis daemonises (a session of its own), so that it survives the proxy: a proxy that
// comes back adopts the running one by its socket and loses nothing. It keeps nothing on disk itself: the proxy's log and
// checkpoints are its durability, and a Redis that was started is empty until it is restored.
using System.ComponentModel;
using System.Diagnostics;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Supervision;

/// <summary>Starts, adopts, watches and stops a redis-server. One caller at a time. Disposing leaves Redis running.</summary>
public sealed class RedisSupervisor : IAsyncDisposable
{
    // sun_path holds 108 bytes including the final zero.
    private const int SocketPathMax = 107;

    private readonly RedisSupervisorOptions _options;
    private readonly CancellationTokenSource _stop = new();
    private readonly string _directory;
    private TimeSpan _nextDelay = TimeSpan.Zero;
    private long _lastStartTicks = long.MinValue;

    /// <summary>Makes one; nothing runs before <see cref="StartOrAdoptAsync"/>.</summary>
    public RedisSupervisor(RedisSupervisorOptions options)
        : this(options, Path.GetTempPath())
    {
    }

    /// <summary>The same, with the directory that all users share.</summary>
    internal RedisSupervisor(RedisSupervisorOptions options, string shared)
    {
        ArgumentNullException.ThrowIfNull(options);
        _options = options;
        _directory = Path.GetFullPath(options.Directory);
        SocketPath = Path.Combine(_directory, "redis.sock");
        if (Encoding.UTF8.GetByteCount(SocketPath) > SocketPathMax)
        {
            // The same short path for the same directory, in a directory of this user's own.
            string home = Path.Combine(shared, "slogger-" + Environment.UserName);
            string name = Convert.ToHexStringLower(SHA256.HashData(Encoding.UTF8.GetBytes(_directory)))[..16];
            SocketPath = Path.Combine(home, name + ".sock");
        }
        Endpoint = RedisEndpoint.Unix(SocketPath, options.Password, options.User);
    }

    /// <summary>How the proxy reaches it.</summary>
    public RedisEndpoint Endpoint { get; }

    /// <summary>Path of the Unix socket.</summary>
    public string SocketPath { get; }

    /// <summary>Its process; 0 if it does not run.</summary>
    public int ProcessId { get; private set; }

    /// <summary>Whether the one that ran last has certainly ended.</summary>
    public bool HasEnded => ProcessId != 0 && !ProcessWatch.IsRunning(ProcessId);

    /// <summary>Whether it answers nobody any more: it has ended, or is being taken down.</summary>
    public bool IsEnding => ProcessId != 0 && ProcessWatch.IsEnding(ProcessId);

    /// <summary>Ends when the running Redis ends, for whatever reason. Renewed by each successful start.</summary>
    public Task Exited { get; private set; } = Task.CompletedTask;

    /// <summary>Adopts the Redis that runs in the directory, or starts one. To be called again whenever <see cref="Exited"/> has
    /// ended; starts that follow one another within 10 s are delayed by 20 ms, 40 ms ... 5 s.</summary>
    public async Task<SupervisedStart> StartOrAdoptAsync(CancellationToken cancellation = default)
    {
        try
        {
            PrepareDirectory();
            if (await AdoptAsync(cancellation).ConfigureAwait(false) is { } adopted)
                return adopted;
            return await StartAsync(cancellation).ConfigureAwait(false);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return new SupervisedStart.Failed(RedisProblem.LocalFile, $"The directory {_directory} of Redis cannot be used: {e.Message}");
        }
    }

    /// <summary>Stops it: SHUTDOWN NOSAVE, then SIGTERM, then SIGKILL. Returns when it has ended.</summary>
    public async Task StopAsync(CancellationToken cancellation = default)
    {
        int process = ProcessId;
        if (process == 0 || !ProcessWatch.IsRunning(process))
            return;
        try
        {
            await using RedisConnection connection = await RedisConnection.ConnectAsync(
                Endpoint, _options.StopTimeMax, cancellation).ConfigureAwait(false);
            await connection.CommandAsync(["SHUTDOWN", "NOSAVE", "NOW", "FORCE"], cancellation).ConfigureAwait(false);
        }
        catch (RedisException)
        {
            // It answers SHUTDOWN by closing the connection; or it is in no state to answer.
        }
        if (await EndedWithinAsync(_options.StopTimeMax, cancellation).ConfigureAwait(false))
            return;
        ProcessWatch.Terminate(process);
        if (await EndedWithinAsync(_options.StopTimeMax, cancellation).ConfigureAwait(false))
            return;
        await KillAsync(cancellation).ConfigureAwait(false);
    }

    /// <summary>SIGKILL: for a Redis that does not answer (the log has what counts). Returns when it has ended.</summary>
    public async Task KillAsync(CancellationToken cancellation = default)
    {
        if (ProcessId != 0)
            ProcessWatch.KillHard(ProcessId);
        await Exited.WaitAsync(cancellation).ConfigureAwait(false);
    }

    /// <summary>Has it take turns behind all others, as far as the system allows: for work that nobody waits for.</summary>
    public void LowerPriority()
    {
        try
        {
            using Process redis = Process.GetProcessById(ProcessId);
            redis.PriorityClass = ProcessPriorityClass.Idle;
            // Where the system shares processors among sessions (sched_autogroup) the session's own priority counts; a daemon has one.
            string group = string.Create(CultureInfo.InvariantCulture, $"/proc/{ProcessId}/autogroup");
            if (File.Exists(group)) { File.WriteAllText(group, "19"); }
        }
        catch (Exception e) when (e is ArgumentException or InvalidOperationException or Win32Exception or IOException
            or UnauthorizedAccessException)
        {
            // It has ended, which is seen elsewhere; or it stays as it is.
        }
    }

    /// <summary>Has it run in the time that the machine has to spare, at the lowest priority, until it is given up. Elsewhere than on
    /// Linux it runs as any other.</summary>
    public async Task RunInSpareTimeAsync(CancellationToken stop)
    {
        LowerPriority();
        if (OperatingSystem.IsLinux()) { await SpareTime.RunAsync(ProcessId, stop).ConfigureAwait(false); }
    }

    /// <summary>Ends, by SIGKILL, what a process before this one has left running in the directory, also one that was about to start;
    /// nothing is started, and nobody else's is touched. Returns when it has ended.</summary>
    public async Task EndLeftBehindAsync(CancellationToken cancellation = default)
    {
        // Elsewhere it cannot be told whose a process is.
        if (!OperatingSystem.IsLinux()) return;
        string[] said;
        try
        {
            said = [File.Exists(PidPath) ? await File.ReadAllTextAsync(PidPath, cancellation).ConfigureAwait(false)
                : "", .. LogSince(0).Split('\n').Select(l => l.Split(':')[0])];
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return;
        }
        foreach (string text in said.Distinct())
        {
            if (!int.TryParse(text.Trim(), NumberStyles.None, CultureInfo.InvariantCulture, out int process)
                || !HasOurConfiguration(process)) continue;
            ProcessWatch.KillHard(process);
            await ProcessWatch.WaitForExitAsync(process, cancellation).ConfigureAwait(false);
        }
        if (File.Exists(SocketPath)) File.Delete(SocketPath);
    }

    /// <inheritdoc />
    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        await Exited.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        _stop.Dispose();
    }

    private string ConfigPath => Path.Combine(_directory, "redis.conf");
    private string PidPath => Path.Combine(_directory, "redis.pid");
    private string LogPath => Path.Combine(_directory, "redis.log");

    private void PrepareDirectory()
    {
        MakePrivate(_directory);
        string home = Path.GetDirectoryName(SocketPath)!;
        if (home == _directory) { return; }
        MakePrivate(home);
        // Where all may make directories, another user may have made this one: whoever listens there would be told the password and the
        // data.
        if (OperatingSystem.IsLinux() && !FileStatus.IsPrivateDirectory(home))
            throw new IOException($"Its socket would be in {home}, which is not a directory that this user owns and only this user may "
                + "use (mode 700). Have it removed, or give a shorter data directory, which then holds the socket.");
    }

    private static void MakePrivate(string directory)
    {
        if (OperatingSystem.IsWindows())
            Directory.CreateDirectory(directory);
        else
            Directory.CreateDirectory(directory, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
    }

    private async Task<SupervisedStart?> AdoptAsync(CancellationToken cancellation, int triesLeft = 250)
    {
        if (!File.Exists(SocketPath))
            return null;
        try
        {
            await using RedisConnection connection = await RedisConnection.ConnectAsync(
                Endpoint, _options.StartTimeMax, cancellation).ConfigureAwait(false);
            await WaitUntilReadyAsync(connection, cancellation).ConfigureAwait(false);
            Dictionary<string, string> server = await connection.InfoAsync("server", cancellation).ConfigureAwait(false);
            bool differ = !File.Exists(ConfigPath)
                || await File.ReadAllTextAsync(ConfigPath, cancellation).ConfigureAwait(false) != Configuration();
            int process = int.Parse(server["process_id"], CultureInfo.InvariantCulture);
            WatchProcess(process);
            return new SupervisedStart.Adopted(process, server["run_id"], differ);
        }
        catch (RedisException e) when (e.Problem == RedisProblem.Unreachable)
        {
            return await RunsWithoutSocketAsync(cancellation).ConfigureAwait(false) ?? Stale();
        }
        catch (RedisException e) when (e.Problem == RedisProblem.Closed && triesLeft > 0)
        {
            // It is on its way out: a process that is killed closes its clients first and its socket later.
            await Task.Delay(20, cancellation).ConfigureAwait(false);
            return await AdoptAsync(cancellation, triesLeft - 1).ConfigureAwait(false);
        }
        catch (RedisException e)
        {
            return new SupervisedStart.Failed(e.Problem,
                $"A Redis runs in {_directory} but cannot be adopted: {e.Message} If its password was changed, stop it (its "
                    + $"process id is in {PidPath}) and start again.");
        }
    }

    private SupervisedStart? Stale()
    {
        File.Delete(SocketPath);
        return null;
    }

    // A Redis that does not accept on its socket but still runs must not be doubled. (It is between its start and its listening,
    // or on its way out: both pass within moments.)
    private async Task<SupervisedStart?> RunsWithoutSocketAsync(CancellationToken cancellation)
    {
        for (int i = 0; i < 50; i++)
        {
            if (!File.Exists(PidPath) || !int.TryParse(await File.ReadAllTextAsync(PidPath, cancellation).ConfigureAwait(false),
                    CultureInfo.InvariantCulture, out int process) || !IsOurRedis(process))
                return null;
            await Task.Delay(100, cancellation).ConfigureAwait(false);
        }
        return new SupervisedStart.Failed(RedisProblem.Unreachable,
            $"The Redis of {_directory} runs (process id in {PidPath}) but does not accept connections. End it, and start again.");
    }

    // Process ids are reused: only one that works in our directory is ours.
    private bool IsOurRedis(int process)
    {
        if (!ProcessWatch.IsRunning(process))
            return false;
        try
        {
            // Its working directory holds a pid file with its own id.
            string pid = string.Create(CultureInfo.InvariantCulture, $"{process}");
            return !OperatingSystem.IsLinux() || File.ReadAllText($"/proc/{pid}/cwd/{Path.GetFileName(PidPath)}").Trim() == pid;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return false;
        }
    }

    // The same, of one that may not have written its pid file yet: our configuration names our directory.
    private bool HasOurConfiguration(int process)
    {
        if (!OperatingSystem.IsLinux()) return IsOurRedis(process);
        try
        {
            return ProcessWatch.IsRunning(process)
                && File.ReadAllText(string.Create(CultureInfo.InvariantCulture, $"/proc/{process}/cwd/{Path.GetFileName(ConfigPath)}"))
                == File.ReadAllText(ConfigPath);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return false;
        }
    }

    private async Task<SupervisedStart> StartAsync(CancellationToken cancellation)
    {
        await RestAsync(cancellation).ConfigureAwait(false);
        File.Delete(PidPath);
        // A dump that somebody's SAVE left behind is older than the log: never load it. It bears a name of its own, so that no
        // dump of another origin is touched.
        File.Delete(Path.Combine(_directory, DumpName));
        WritePrivate(ConfigPath, Configuration());
        long logBefore = File.Exists(LogPath) ? new FileInfo(LogPath).Length : 0;
        var start = new ProcessStartInfo(_options.Executable) { UseShellExecute = false, RedirectStandardError = true,
            RedirectStandardOutput = true, RedirectStandardInput = true };
        start.ArgumentList.Add(ConfigPath);
        int launcherId;
        try
        {
            using Process launcher = Process.Start(start)!;
            launcher.StandardInput.Close();
            launcherId = launcher.Id;
            // It ends as soon as the daemon has been forked off; a broken configuration is told here.
            Task<string> errors = launcher.StandardError.ReadToEndAsync(cancellation);
            string spoken = await launcher.StandardOutput.ReadToEndAsync(cancellation).ConfigureAwait(false)
                + await errors.ConfigureAwait(false);
            await launcher.WaitForExitAsync(cancellation).ConfigureAwait(false);
            if (launcher.ExitCode != 0)
                return new SupervisedStart.Failed(RedisProblem.LocalFile,
                    $"{_options.Executable} did not start: {Shorten(spoken)} {Shorten(LogSince(logBefore))}");
        }
        catch (Win32Exception e)
        {
            return new SupervisedStart.Failed(RedisProblem.LocalFile,
                $"{_options.Executable} cannot be run: {e.Message}. Install Redis 7.0 or later, or give its path.");
        }
        return await WaitForStartAsync(logBefore, launcherId, cancellation).ConfigureAwait(false);
    }

    private async Task<SupervisedStart> WaitForStartAsync(long logBefore, int launcherId, CancellationToken cancellation)
    {
        var clock = Stopwatch.StartNew();
        while (clock.Elapsed < _options.StartTimeMax)
        {
            // Redis writes its pid file only after it has bound its ports; its log lines bear the process id from the first one on.
            int process = DaemonId(LogSince(logBefore), launcherId);
            if (process > 0 && !ProcessWatch.IsRunning(process))
                return new SupervisedStart.Failed(RedisProblem.Closed, $"Redis ended while it started: {Shorten(LogSince(logBefore))}");
            if (process > 0 && File.Exists(SocketPath))
            {
                try
                {
                    await using RedisConnection connection = await RedisConnection.ConnectAsync(
                        Endpoint, _options.StartTimeMax, cancellation).ConfigureAwait(false);
                    await WaitUntilReadyAsync(connection, cancellation).ConfigureAwait(false);
                    Dictionary<string, string> server = await connection.InfoAsync("server", cancellation).ConfigureAwait(false);
                    WatchProcess(process);
                    return new SupervisedStart.Started(process, server["run_id"]);
                }
                catch (RedisException e) when (e.Problem is RedisProblem.Unreachable or RedisProblem.Closed)
                {
                    // Between making the socket and listening on it.
                }
                catch (RedisException e)
                {
                    return new SupervisedStart.Failed(e.Problem, e.Message);
                }
            }
            await Task.Delay(2, cancellation).ConfigureAwait(false);
        }
        return new SupervisedStart.Failed(RedisProblem.Timeout,
            $"Redis did not answer within {_options.StartTimeMax.TotalSeconds:0} s of its start: {Shorten(LogSince(logBefore))}");
    }

    // A Redis that dies again and again right after its start is started ever more slowly, up to every 5 s.
    private async Task RestAsync(CancellationToken cancellation)
    {
        bool quick = _lastStartTicks != long.MinValue && Environment.TickCount64 - _lastStartTicks < 10_000;
        _nextDelay = !quick ? TimeSpan.Zero : TimeSpan.FromMilliseconds(Math.Clamp(_nextDelay.TotalMilliseconds * 2, 20, 5000));
        await Task.Delay(_nextDelay, cancellation).ConfigureAwait(false);
        _lastStartTicks = Environment.TickCount64;
    }

    // "4711:M 01 Jan 2025 ..." of the last line that is not the launcher's.
    private static int DaemonId(string log, int launcherId)
    {
        foreach (string line in log.Split('\n').Reverse())
        {
            int colon = line.IndexOf(':', StringComparison.Ordinal);
            if (colon > 0 && int.TryParse(line.AsSpan(0, colon), NumberStyles.None, CultureInfo.InvariantCulture, out int id)
                && id != launcherId)
                return id;
        }
        return 0;
    }

    private static async Task WaitUntilReadyAsync(RedisConnection connection, CancellationToken cancellation)
    {
        while (true)
        {
            RedisReply reply = await connection.CommandAsync(["PING"], cancellation).ConfigureAwait(false);
            if (!reply.IsError || RedisProblems.Classify(reply.Text) is not (RedisProblem.Loading or RedisProblem.PasswordNeeded))
                return; // busy or without its master, but it is there
            if (RedisProblems.Classify(reply.Text) == RedisProblem.PasswordNeeded)
                throw new RedisException(RedisProblem.PasswordNeeded, $"Redis at {connection.Endpoint} wants a password.");
            await Task.Delay(10, cancellation).ConfigureAwait(false);
        }
    }

    private void WatchProcess(int process)
    {
        // Adopted again: it is watched already.
        if (process == ProcessId && !Exited.IsCompleted)
            return;
        ProcessId = process;
        Exited = ProcessWatch.WaitForExitAsync(process, _stop.Token);
    }

    private async Task<bool> EndedWithinAsync(TimeSpan time, CancellationToken cancellation)
    {
        try
        {
            await Exited.WaitAsync(time, cancellation).ConfigureAwait(false);
            return true;
        }
        catch (TimeoutException)
        {
            return false;
        }
    }

    /// <summary>The file that a SAVE writes, in its directory.</summary>
    public const string DumpName = "slogger-redis.rdb";

    private string Configuration()
    {
        var lines = new List<string>
        {
            "# Written by slogger at each start; changes are lost.",
            "daemonize yes",
            "supervised no",
            string.Create(CultureInfo.InvariantCulture, $"port {_options.Port}"),
            "bind 127.0.0.1",
            $"unixsocket {Quote(SocketPath)}",
            "unixsocketperm 700",
            "tcp-backlog 4096",                             // of both sockets: a burst of clients that need connections of their own
            $"pidfile {Quote(PidPath)}",
            $"logfile {Quote(LogPath)}",
            $"dir {Quote(_directory)}",
            $"dbfilename {DumpName}",
            "save \"\"",
            "appendonly no",
            "repl-diskless-sync yes",
            "repl-diskless-sync-delay 0",
            "repl-diskless-load swapdb",
            string.Create(CultureInfo.InvariantCulture, $"repl-backlog-size {_options.BacklogBytes}"),
            "repl-backlog-ttl 0",                           // the proxy may be away for long
            "client-output-buffer-limit replica 0 0 0",     // the proxy bounds what is outstanding; Redis must not cut the link
        };
        if (_options.MemoryBytesMax > 0)
            lines.Add(string.Create(CultureInfo.InvariantCulture, $"maxmemory {_options.MemoryBytesMax}"));
        if (_options.Password is { } password)
        {
            lines.Add(_options.User is { } user
                ? $"user {user} on #{Convert.ToHexStringLower(SHA256.HashData(Encoding.UTF8.GetBytes(password)))} ~* &* +@all"
                : $"requirepass {Quote(password)}");
        }
        lines.AddRange(_options.ExtraLines);
        return string.Join('\n', lines) + "\n";
    }

    private static string Quote(string text)
    {
        var quoted = new StringBuilder("\"");
        foreach (byte b in Encoding.UTF8.GetBytes(text))
        {
            if (b is >= 0x20 and < 0x7f and not (byte)'"' and not (byte)'\\')
                quoted.Append((char)b);
            else
                quoted.Append(CultureInfo.InvariantCulture, $"\\x{b:x2}");
        }
        return quoted.Append('"').ToString();
    }

    private static void WritePrivate(string path, string text)
    {
        using FileStream file = PrivateFile.Create(path);
        file.Write(Encoding.UTF8.GetBytes(text));
    }

    private string LogSince(long offset)
    {
        if (!File.Exists(LogPath))
            return "";
        using var log = new FileStream(LogPath, FileMode.Open, FileAccess.Read, FileShare.ReadWrite);
        log.Seek(Math.Max(offset, log.Length - 2000), SeekOrigin.Begin);
        return new StreamReader(log).ReadToEnd();
    }

    private static string Shorten(string text)
    {
        string line = string.Join(" | ", text.Split('\n', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries));
        return line.Length <= 800 ? line : "..." + line[^800..];
    }
}

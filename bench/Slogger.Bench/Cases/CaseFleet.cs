// Starts contestants, keeps them apart (ports, directories, cores), fills their stores, and stops them at the end.
using System.Globalization;
using System.Net.Sockets;
using Slogger.Bench.Host;
using Slogger.Bench.Load;

namespace Slogger.Bench.Cases;

internal sealed class CaseFleet(BenchOptions options, Layout layout, string directory) : IDisposable
{
    /// <summary>The second ACL user; its clients cannot share the proxy's own connection.</summary>
    public const string OtherUser = "bench";
    public const string OtherPassword = "bench-only";

    private static readonly TimeSpan s_startLimit = TimeSpan.FromSeconds(20);
    private static int s_nextPortOffset;
    private readonly List<RunningCase> _cases = [];
    private (ManagedProcess Process, int Port)? _sharedRedis;

    public IReadOnlyList<RunningCase> Cases => _cases;

    private int? ServerCore => layout == Layout.Pinned ? 0 : null;

    /// <summary>The core of the load, or null for anywhere.</summary>
    public int? LoadCore => layout == Layout.Pinned ? 1 : null;

    /// <summary>Starts a contestant, or returns null, with a word on the console, when it is not installed or does not start.</summary>
    public RunningCase? TryStart(string name)
    {
        try
        {
            return Start(CaseSpec.ByName(name, options));
        }
        catch (BenchException e)
        {
            Console.WriteLine($"  -- without {name}: {e.Message}");
            return null;
        }
    }

    public RunningCase Start(CaseSpec spec)
    {
        if (spec.Kind == CaseKind.Embedded)
        {
            RunningCase embedded = StartEmbedded(spec);
            _cases.Add(embedded);
            return embedded;
        }

        (ManagedProcess redis, int redisPort) = spec.NeedsOwnRedis ? StartRedis(spec)
            : _sharedRedis ??= StartRedis(new CaseSpec("raw", CaseKind.Raw));
        RunningCase started;
        switch (spec.Kind)
        {
            case CaseKind.HaProxy:
            {
                int port = NextPort();
                string file = PeerConfiguration.HaProxy(directory, spec.Name, int.Parse(spec.Argument, CultureInfo.InvariantCulture), port,
                    redisPort);
                started = Launch(spec, port, redisPort, redis, ["haproxy", "-db", "-f", file], "PING\r\n");
                break;
            }

            case CaseKind.Nutcracker:
            {
                int port = NextPort();
                string file = PeerConfiguration.Nutcracker(directory, spec.Name, port, redisPort);
                string[] command = ["nutcracker", "-c", file, "-s", NextPort().ToString(CultureInfo.InvariantCulture), "-m", "16384"];
                started = Launch(spec, port, redisPort, redis, command, "*2\r\n$3\r\nGET\r\n$1\r\nx\r\n");
                break;
            }

            case CaseKind.Slogger:
            {
                int port = NextPort();
                string data = Path.Combine(directory, spec.Name + "-data");
                started = Launch(spec, port, redisPort, redis, SloggerCommand(spec.Argument, port, $"--redis 127.0.0.1:{redisPort}", data),
                    "PING\r\n", data);
                break;
            }

            case CaseKind.Drain:
                started = StartDrain(spec, redisPort, redis);
                break;
            default:
                started = new RunningCase(spec, redisPort, redisPort, redis, null, "");
                break;
        }

        _cases.Add(started);
        return started;
    }

    /// <summary>The words that run `slogger serve`.</summary>
    public IReadOnlyList<string> SloggerCommand(string arguments, int port, string store, string data)
    {
        Directory.CreateDirectory(data);
        string[] words = arguments.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        string executable = options.ProxyPath;
        if (words.Length > 0 && !words[0].StartsWith('-'))
        {
            (executable, words) = (words[0], words[1..]);
        }

        executable = Path.GetFullPath(executable);
        if (!File.Exists(executable))
        {
            throw new BenchException($"{executable} does not exist: dotnet build -c Release src/Slogger.Cli, or give --proxy");
        }

        string[] run = executable.EndsWith(".dll", StringComparison.Ordinal) ? ["dotnet", executable] : [executable];
        return [.. run, "serve", "--listen", $"127.0.0.1:{port}", .. store.Split(' ', StringSplitOptions.RemoveEmptyEntries), "--data",
            data, .. words,
            .. options.ProxyArguments.Split(' ', StringSplitOptions.RemoveEmptyEntries)];
    }

    /// <summary>Starts a redis-server; <paramref name="arguments"/> are added to what all of them get.</summary>
    public ManagedProcess LaunchRedis(string name, int port, string redisDirectory, params string[] arguments)
    {
        Directory.CreateDirectory(redisDirectory);
        // repl-timeout: a frozen contestant must not look dead when it goes on.
        ManagedProcess redis = ManagedProcess.Start(name,
            ["redis-server", "--port", port.ToString(CultureInfo.InvariantCulture), "--bind", "127.0.0.1",
            "--save", "", "--dir", redisDirectory, "--repl-timeout", "3600", "--maxclients", "9000", .. arguments], directory, ServerCore);
        return redis;
    }

    public ManagedProcess LaunchProcess(string name, IReadOnlyList<string> command) =>
        ManagedProcess.Start(name, command, directory, ServerCore);

    /// <summary>The next port of our range that nobody listens on.</summary>
    public int NextPort()
    {
        for (int i = 0; i < 500; i++)
        {
            int port = options.PortBase + (s_nextPortOffset++ % 900);
            try
            {
                using var probe = new TcpListener(System.Net.IPAddress.Loopback, port);
                probe.Start();
                return port;
            }
            catch (SocketException)
            {
                // Taken: the next one.
            }
        }

        throw new BenchException($"no free port from {options.PortBase}: give another --port-base");
    }

    /// <summary>Waits until a server answers <paramref name="probe"/> with something other than "loading".</summary>
    public static void WaitUntilUp(ManagedProcess process, int port, string probe, TimeSpan? limit = null)
    {
        DateTime end = DateTime.UtcNow + (limit ?? s_startLimit);
        while (DateTime.UtcNow < end)
        {
            if (process.HasExited)
            {
                throw new BenchException($"{process.Name} ended at its start:\n{process.LogTail()}");
            }

            try
            {
                using var client = new RespClient(port, TimeSpan.FromSeconds(2));
                string reply = client.Raw(probe);
                if (!reply.StartsWith("-LOADING", StringComparison.Ordinal))
                {
                    return;
                }
            }
            catch (Exception e) when (e is SocketException or IOException)
            {
                // Not yet listening.
            }

            Thread.Sleep(20);
        }

        throw new BenchException($"{process.Name} does not answer on port {port}:\n{process.LogTail()}");
    }

    /// <summary>Gives every store all keys of the load with values of one size, so that every GET finds one.</summary>
    public void Fill(int sizeBytes, bool secondDatabaseToo)
    {
        foreach (int port in _cases.Select(c => c.RedisPort).Distinct())
        {
            RunningCase owner = _cases.First(c => c.RedisPort == port);
            owner.Thaw();
            // Through the contestant, so that a proxy which follows its Redis is not surprised; a peer fills the shared one.
            int entry = owner.Spec.SpeaksAllOfRedis ? owner.Port : port;
            StoreFiller.Fill(entry, 0, options.KeySpace, sizeBytes);
            if (secondDatabaseToo)
            {
                StoreFiller.Fill(entry, 1, options.KeySpace, sizeBytes);
            }
        }
    }

    /// <summary>Only <paramref name="only"/> runs; null: all do.</summary>
    public void Focus(RunningCase? only)
    {
        if (!options.Freeze)
        {
            return;
        }

        foreach (RunningCase c in _cases)
        {
            if (only is not null && c != only)
            {
                c.Proxy?.Freeze();
                if (c.Redis != only.Redis)
                {
                    c.Redis.Freeze();
                }
            }
        }

        foreach (RunningCase c in _cases.Where(c => only is null || c == only))
        {
            c.Thaw();
        }
    }

    public void Dispose()
    {
        Focus(null);
        foreach (RunningCase c in _cases.AsEnumerable().Reverse())
        {
            c.Proxy?.Stop(TimeSpan.FromSeconds(10));
        }

        foreach (RunningCase c in _cases)
        {
            c.Redis.Kill();
        }

        _sharedRedis?.Process.Kill();
        _cases.Clear();
    }

    private (ManagedProcess Process, int Port) StartRedis(CaseSpec spec)
    {
        int port = NextPort();
        string name = "redis-" + spec.Name.Replace(':', '-');
        string[] extra = spec.Kind switch
        {
            CaseKind.Aof => ["--appendonly", "yes", "--appendfsync", spec.Argument, "--auto-aof-rewrite-percentage", "0"],
            _ => ["--appendonly", "no"],
        };
        ManagedProcess redis = LaunchRedis(name, port, Path.Combine(directory, name), extra);
        WaitUntilUp(redis, port, "PING\r\n");
        using var client = new RespClient(port, TimeSpan.FromSeconds(5));
        client.Expect("ACL", "SETUSER", OtherUser, "on", ">" + OtherPassword, "~*", "&*", "+@all");
        return (redis, port);
    }

    private RunningCase Launch(
        CaseSpec spec, int port, int redisPort, ManagedProcess redis, IReadOnlyList<string> command, string probe, string data = "")
    {
        ManagedProcess proxy;
        try
        {
            proxy = ManagedProcess.Start(spec.Name, command, directory, ServerCore);
            WaitUntilUp(proxy, port, probe);
        }
        catch (BenchException) when (spec.NeedsOwnRedis)
        {
            redis.Kill();
            throw;
        }

        return new RunningCase(spec, port, redisPort, redis, proxy, data);
    }

    // It is its own Redis: what it uses counts as what a Redis would use.
    private RunningCase StartEmbedded(CaseSpec spec)
    {
        int port = NextPort();
        string name = spec.Name.Replace(':', '-'), data = Path.Combine(directory, name + "-data");
        ManagedProcess store = ManagedProcess.Start(name, SloggerCommand(spec.Argument, port, "", data), directory, ServerCore);
        WaitUntilUp(store, port, "PING\r\n");
        return new RunningCase(spec, port, port, store, null, data);
    }

    private RunningCase StartDrain(CaseSpec spec, int redisPort, ManagedProcess redis)
    {
        string[] parts = spec.Argument.Split(':');
        long backlogBytes = long.Parse(parts[0], CultureInfo.InvariantCulture);
        string sleepUs = parts.Length > 1 ? parts[1] : "0";
        using var client = new RespClient(redisPort, TimeSpan.FromSeconds(5));
        // The same backlog as the proxy has asked its Redis for, or the comparison is not one.
        RunningCase? model = _cases.FirstOrDefault(c => c.Spec.Kind == CaseKind.Slogger && c.Spec.NeedsOwnRedis);
        if (backlogBytes == 0 && model is not null)
        {
            using var other = new RespClient(model.RedisPort, TimeSpan.FromSeconds(5));
            backlogBytes = long.Parse(other.Strings("CONFIG", "GET", "repl-backlog-size")[1], CultureInfo.InvariantCulture);
        }

        backlogBytes = backlogBytes == 0 ? 16 << 20 : backlogBytes;
        client.Expect("CONFIG", "SET", "repl-backlog-size", backlogBytes.ToString(CultureInfo.InvariantCulture),
            "client-output-buffer-limit", "replica 0 0 0");
        ManagedProcess drain = ManagedProcess.Start(spec.Name.Replace(':', '-'),
            ["dotnet", typeof(CaseFleet).Assembly.Location, "drain", redisPort.ToString(CultureInfo.InvariantCulture), sleepUs], directory,
                ServerCore);
        DateTime end = DateTime.UtcNow + s_startLimit;
        while (!client.Text("INFO", "replication").Contains("state=online", StringComparison.Ordinal))
        {
            if (drain.HasExited || DateTime.UtcNow > end)
            {
                drain.Kill();
                redis.Kill();
                throw new BenchException($"the drain did not attach:\n{drain.LogTail()}");
            }

            Thread.Sleep(20);
        }

        Console.WriteLine($"  {spec.Name}: backlog {backlogBytes >> 10} KB, sleeping {sleepUs} us between reads");
        return new RunningCase(spec, redisPort, redisPort, redis, drain, "");
    }
}

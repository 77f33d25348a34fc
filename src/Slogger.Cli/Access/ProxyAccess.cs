// How a command reaches a proxy: by its address, or by its data directory, in which the proxy that runs has left its own.
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Cli.Access;

/// <summary>A proxy, and as whom it is asked.</summary>
internal sealed class ProxyAccess
{
    private readonly string? _data;

    private ProxyAccess(ListenAddress? address, string? data, string? user, string? password, string? caFile, bool usesTls,
        bool takesAnyCertificate)
    {
        (Address, _data, User, Password, CaFile, TakesAnyCertificate) = (address, data, user, password, caFile, takesAnyCertificate);
        UsesTls = usesTls || caFile is not null || takesAnyCertificate;
    }

    /// <summary>The options that <see cref="Read"/> reads.</summary>
    /// <param name="group">Their heading in --help.</param>
    public static IReadOnlyList<OptionDefinition> Options(string group) =>
    [
        new("data", group, "DIR", "Find the proxy by its data directory.", "SLOGGER_DATA, then slogger-data in the current directory", ""),
        new("user", group, "NAME", "ACL user, where Redis asks for a password.", "Redis's user default", ""),
        new("password-file", group, "FILE", "File whose first line is the password.", "none", ""),
        new("tls", group, "", "Connect over TLS; implied where --data finds a proxy that listens with TLS only.", "",
            "") { Shape = OptionShape.Flag },
        new("tls-ca", group, "FILE", "Authorities (PEM) that the proxy's certificate must come from.", "the system's", ""),
        new("tls-insecure", group, "", "Take any certificate.", "", "") { Shape = OptionShape.Flag },
    ];

    /// <summary>Where it is; not null once it is found.</summary>
    public ListenAddress? Address { get; private set; }

    /// <summary>Whether it speaks TLS.</summary>
    public bool UsesTls { get; private set; }

    /// <summary>The ACL user; null: Redis's own default.</summary>
    public string? User { get; }

    /// <summary>The password; null: none is sent.</summary>
    public string? Password { get; }

    /// <summary>Authorities of its certificate; null: the system's.</summary>
    public string? CaFile { get; }

    /// <summary>Whether any certificate will do.</summary>
    public bool TakesAnyCertificate { get; }

    /// <summary>How its address was found, behind what is told of a failure.</summary>
    public string Found { get; private set; } = "";

    /// <summary>Reads the options.</summary>
    /// <param name="texts">The options.</param>
    /// <param name="address">Its address, if one is given.</param>
    /// <param name="errors">Receives what is wrong; then the result is null.</param>
    public static ProxyAccess? Read(OptionLayer texts, string? address, List<OptionError> errors)
    {
        int before = errors.Count;
        string? data = texts.One("data", errors), user = texts.One("user", errors);
        string? passwordFile = texts.One("password-file", errors), caFile = texts.One("tls-ca", errors);
        foreach ((string name, string? file) in new[] { ("password-file", passwordFile), ("tls-ca", caFile) })
        {
            if (file is not null && !OptionText.ExistingFile(file, out _, out string wrong))
            {
                errors.Add(new OptionError($"--{name} \"{file}\" {wrong}", "the command line", "correct the path"));
            }
        }
        ListenAddress? parsed = null;
        if (address is not null && data is not null)
        {
            errors.Add(new OptionError("more than one proxy is named", "the command line", "give one ADDRESS, or --data DIR"));
        }
        else if (address is not null && !OptionText.ServerAddress(address, out parsed, out string problem))
        {
            string hint = Directory.Exists(address) ? $"it is a directory: use --data {address}"
                : "write HOST:PORT or unix:PATH, or use --data DIR";
            errors.Add(new OptionError($"the address \"{address}\" {problem}", "the command line", hint));
        }
        return errors.Count > before ? null : new(parsed, data, user,
            passwordFile is null ? null : File.ReadLines(passwordFile).FirstOrDefault() ?? "", caFile, texts.Values.ContainsKey("tls"),
            texts.Values.ContainsKey("tls-insecure"));
    }

    /// <summary>The same, to another proxy of the cluster.</summary>
    public ProxyAccess To(ListenAddress address) =>
        new(address, null, User, Password, CaFile, UsesTls, TakesAnyCertificate);

    /// <summary>The same, for a connection that sends many commands at once. Its address is known.</summary>
    public RedisEndpoint Endpoint => new()
    {
        Host = Address!.IsUnix ? "" : Address.Host,
        Port = Address.IsUnix ? 0 : Address.Port,
        UnixSocketPath = Address.IsUnix ? Address.UnixPath : null,
        User = User,
        Password = Password,
        Tls = UsesTls ? new() { CaFile = CaFile, Insecure = TakesAnyCertificate } : null,
    };

    /// <summary>Finds the proxy, if no address is given.</summary>
    /// <param name="host">The process.</param>
    /// <param name="onStarting">Is told the data directory, and whose it is, if a proxy starts there.</param>
    /// <returns>Why it is not found; null: it is.</returns>
    public CommandResult? Find(AppHost host, Action<string, DirectoryOwner>? onStarting = null)
    {
        CommandResult? failure = null;
        return Address is not null || TryFind(host, onStarting, out failure) ? null : failure;
    }

    private bool TryFind(AppHost host, Action<string, DirectoryOwner>? onStarting, out CommandResult? failure)
    {
        failure = null;
        string path = Path.GetFullPath(_data ?? host.Environment["SLOGGER_DATA"] as string ?? ServeOptionsReader.DefaultDataDirectory);
        const string other = "give the data directory of a running proxy with --data DIR, or its ADDRESS";
        if (!Directory.Exists(path))
        {
            failure = CommandResult.Failed($"the data directory {path} does not exist", other);
            return false;
        }

        if (ProxyRecord.Read(path) is not { } record)
        {
            bool used = File.Exists(Path.Combine(path, StoreRecord.FileName));
            DirectoryOwner? owner = DataDirectory.OwnerOf(path) is { } known && IsAlive(known.Pid) ? known : null;
            if (owner is { IsProxy: true })
            {
                onStarting?.Invoke(path, owner);
                failure = CommandResult.Failed("the proxy starts, and serves nobody yet",
                    "wait; its log says what it does, and when it is ready");
                return false;
            }

            failure = owner is not null
                ? CommandResult.Failed($"no proxy runs on the data directory {path}: slogger restore (process {owner.Pid}) uses it",
                    "wait until that has ended, and start a proxy with slogger serve")
                : used
                ? CommandResult.Failed($"no proxy runs on the data directory {path}", "start one with slogger serve")
                : CommandResult.Failed($"{path} is not a data directory of Slogger: it has no {StoreRecord.FileName}", other);
            return false;
        }

        bool tls = record.Listen.IsDefaultOrEmpty;
        string? text = tls ? record.TlsListen.FirstOrDefault() : record.Listen[0];
        if (text is null || !ListenAddress.TryParse(text, out ListenAddress? address, out _))
        {
            failure = CommandResult.Failed($"the proxy (process {record.Pid}) of {path} names no address to connect to",
                "give its ADDRESS");
            return false;
        }

        (Address, UsesTls) = (Reachable(address), tls);
        Found = $" (address from {Path.Combine(path, ProxyRecord.FileName)}, written by process "
            + $"{record.Pid}{(IsAlive(record.Pid) ? "" : ", which no longer runs")})";
        return true;
    }

    // A proxy that listens on every interface is reached at the loopback one.
    private static ListenAddress Reachable(ListenAddress address) => address switch
    {
        { IsUnix: true } => address,
        { Host: "0.0.0.0" } => ListenAddress.Tcp("127.0.0.1", address.Port),
        { Host: "::" } => ListenAddress.Tcp("::1", address.Port),
        _ => address,
    };

    private static bool IsAlive(int pid)
    {
        try
        {
            using System.Diagnostics.Process process = System.Diagnostics.Process.GetProcessById(pid);
            return !process.HasExited;
        }
        catch (Exception e) when (e is ArgumentException or InvalidOperationException)
        {
            return false;
        }
    }
}

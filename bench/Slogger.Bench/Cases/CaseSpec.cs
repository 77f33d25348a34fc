// What can be measured: the names a person may give to --cases, and what each needs.
namespace Slogger.Bench.Cases;

internal enum CaseKind
{
    /// <summary>redis-server itself.</summary>
    Raw,

    /// <summary>haproxy in TCP mode.</summary>
    HaProxy,

    /// <summary>nutcracker (twemproxy).</summary>
    Nutcracker,

    /// <summary>The product in front of a Redis.</summary>
    Slogger,

    /// <summary>The product with its embedded store.</summary>
    Embedded,

    /// <summary>redis-server with a replica that reads and discards: what any consumer of the stream costs Redis.</summary>
    Drain,

    /// <summary>redis-server with its own append-only file.</summary>
    Aof,
}

/// <summary>A contestant before it is started.</summary>
/// <param name="Argument">Threads for haproxy; `everysec` or `always`; the options of `slogger serve`; for the drain its
/// backlog in bytes (0: as the running slogger has set it), then microseconds of sleep between reads, separated by a colon.</param>
internal sealed record CaseSpec(string Name, CaseKind Kind, string Argument = "")
{
    /// <summary>Only a Redis with nothing attached can be shared; the others change what Redis has to do.</summary>
    public bool NeedsOwnRedis => Kind is CaseKind.Drain or CaseKind.Aof
        || (Kind == CaseKind.Slogger && !Argument.Contains("--commit none", StringComparison.Ordinal));

    /// <summary>Understands HELLO, SELECT and AUTH with a user.</summary>
    public bool SpeaksAllOfRedis => Kind != CaseKind.Nutcracker;

    /// <summary>A proxy by others.</summary>
    public bool IsPeer => Kind is CaseKind.HaProxy or CaseKind.Nutcracker;

    /// <summary>Writes to the disk during a run.</summary>
    public bool WritesToDisk => Kind == CaseKind.Embedded || (NeedsOwnRedis && Kind != CaseKind.Drain);

    public static CaseSpec ByName(string name, BenchOptions options)
    {
        foreach ((string label, string arguments) in options.Extra)
        {
            if (label == name)
            {
                return new CaseSpec(name, CaseKind.Slogger, arguments);
            }
        }

        return name switch
        {
            "raw" => new CaseSpec(name, CaseKind.Raw),
            "haproxy" => new CaseSpec(name, CaseKind.HaProxy, "1"),
            "haproxy2" => new CaseSpec(name, CaseKind.HaProxy, "2"),
            "nutcracker" => new CaseSpec(name, CaseKind.Nutcracker),
            "none" => new CaseSpec(name, CaseKind.Slogger, "--commit none"),
            "log5" => new CaseSpec(name, CaseKind.Slogger, "--commit log --version-interval 5ms"),
            "log1" => new CaseSpec(name, CaseKind.Slogger, "--commit log --version-interval 1ms"),
            "bgsave" => new CaseSpec(name, CaseKind.Slogger, "--commit bgsave --version-interval 1s"),
            "faster" => new CaseSpec(name, CaseKind.Embedded),
            _ when name.StartsWith("faster:", StringComparison.Ordinal) => new CaseSpec(name, CaseKind.Embedded, name["faster:".Length..]),
            "drain" => new CaseSpec(name, CaseKind.Drain, "0:0"),
            "everysec" or "always" => new CaseSpec(name, CaseKind.Aof, name),
            _ when name.StartsWith("drain:", StringComparison.Ordinal) => new CaseSpec(name, CaseKind.Drain, name["drain:".Length..]),
            _ => throw new BenchException($"no case is called '{name}'\n\n{BenchOptions.Help}"),
        };
    }
}

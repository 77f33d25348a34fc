// The smallest configurations that make the peers do nothing but forward; written into the run's directory.
namespace Slogger.Bench.Cases;

internal static class PeerConfiguration
{
    /// <summary>haproxy as a TCP forwarder; one upstream connection per client is what it does.</summary>
    public static string HaProxy(string directory, string name, int threads, int port, int redisPort)
    {
        string file = Path.Combine(directory, name + ".cfg");
        File.WriteAllText(file, $"""
            global
                nbthread {threads}
                maxconn 9000
            defaults
                mode tcp
                maxconn 9000
                timeout connect 5s
                timeout client 2h
                timeout server 2h
            listen redis
                bind 127.0.0.1:{port}
                server redis 127.0.0.1:{redisPort}

            """);
        return file;
    }

    /// <summary>nutcracker with one server and its own pipelining over one connection.</summary>
    public static string Nutcracker(string directory, string name, int port, int redisPort)
    {
        string file = Path.Combine(directory, name + ".yml");
        File.WriteAllText(file, $"""
            bench:
              listen: 127.0.0.1:{port}
              redis: true
              hash: fnv1a_64
              distribution: ketama
              preconnect: true
              auto_eject_hosts: false
              backlog: 4096
              servers:
               - 127.0.0.1:{redisPort}:1

            """);
        return file;
    }
}

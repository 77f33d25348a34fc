// Which changes of Redis's settings and users would cut the proxy off: it could not connect again, or could not do what it has to. They
// are refused, with the reason, before Redis sees them. Others do no harm, whatever else they change.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Judges CONFIG SET and ACL by what they would do to the proxy's own way to Redis.</summary>
/// <param name="store">Where Redis is, and as whom the proxy logs in.</param>
/// <param name="asksForPassword">Whether Redis lets in nobody without a password.</param>
/// <param name="facts">What Redis has just said.</param>
internal sealed class LockOut(IStoreConnector store, bool asksForPassword, StoreFacts facts)
{
    /// <summary>Connections that must be left at Redis besides the front end's: link, checkpoints, spares, and some for others.</summary>
    private const int ConnectionsLeftLeast = 32;

    private const string Instead = "change it at Redis directly, and start the proxy with what is right then";

    // What the proxy asks of Redis: without one of these it neither commits nor recovers.
    private static readonly HashSet<string> Needed = new(StringComparer.OrdinalIgnoreCase)
    {
        "auth", "hello", "ping", "info", "role", "client", "config", "command", "select", "psync", "replconf", "replicaof", "spublish",
            "bgsave",
    };

    /// <summary>Why a setting must not be changed so; <c>null</c> if it may.</summary>
    /// <param name="name">The setting.</param>
    /// <param name="value">The value that it is to have.</param>
    /// <param name="connections">How many connections the front end has to Redis.</param>
    public string? OfSetting(string name, string value, int connections)
    {
        if (store.Address is not { } address) { return null; }
        switch (name.ToLowerInvariant())
        {
            case "port" when !address.IsUnix && !store.SpeaksTls && IsAnother(value, address.Port):
            case "tls-port" when !address.IsUnix && store.SpeaksTls && IsAnother(value, address.Port):
                return $"ERR SLOGGER the proxy reaches Redis at port {address.Port}, and would be cut off: {Instead}";
            case "bind" when !address.IsUnix && !value.Split(' ').Any(IsReachedBy):
                return $"ERR SLOGGER the proxy reaches Redis at {address.Host}, which is not among these addresses, and would be cut off: "
                    + $"{Instead}";
            case "tls-auth-clients" or "tls-ca-cert-file" or "tls-ca-cert-dir" or "tls-cert-file" or "tls-key-file" or "tls-protocols"
                or "tls-ciphers" or "tls-ciphersuites"
                when store.SpeaksTls:
                return $"ERR SLOGGER the proxy speaks TLS to Redis, and may be cut off by another '{name}': {Instead}";
            case "maxclients" when Math.Max(connections, facts.Connections) is long all
                && long.TryParse(value, NumberStyles.Integer, CultureInfo.InvariantCulture, out long most)
                && most < all + ConnectionsLeftLeast:
                return $"ERR SLOGGER 'maxclients' must be {all + ConnectionsLeftLeast} at least: Redis has {all} connections now, and the "
                    + "proxy needs more to recover";
            case "requirepass" when store.LoginUser == FrontEndLoop.DefaultUser && value.Length > 0 && value != store.Password:
                return store.Password is null
                    ? "ERR SLOGGER the proxy has no password for Redis, and would be cut off: start it with --redis-user or "
                    + "--redis-password-file first"
                    : $"ERR SLOGGER the proxy logs in with the password that is set now, and would be cut off: {Instead}";
            default:
                return null;
        }
    }

    /// <summary>Why users must not be removed; <c>null</c> if they may.</summary>
    public string? OfRemoval(string user) => store.Address is not null && user == store.LoginUser
        ? $"ERR SLOGGER the proxy itself is the user '{user}', and would be cut off: start it with another --redis-user first" : null;

    /// <summary>Why protected mode and the default user's password must not be set so; <c>null</c> if they may.</summary>
    /// <param name="mode">The mode that is to be; <c>null</c>: it stays.</param>
    /// <param name="password">The password that is to be; <c>null</c>: it stays.</param>
    public string? OfProtection(string? mode, string? password)
    {
        if (mode is null && password is null) { return null; }
        bool isProtected = mode is null ? facts.IsProtected : !mode.Equals("no", StringComparison.OrdinalIgnoreCase);
        return isProtected && (password is null ? IsOpenToAll : password.Length == 0) && IsElsewhere ? Protected : null;
    }

    /// <summary>The same of a user's rules, applied one after the other.</summary>
    public string? OfOpening(string user, IEnumerable<string> rules)
    {
        if (user != FrontEndLoop.DefaultUser || !facts.IsProtected || !IsElsewhere) { return null; }
        bool opens = false;
        foreach (string rule in rules)
        {
            if (rule.Equals("nopass", StringComparison.OrdinalIgnoreCase)) { opens = true; }
            else if (rule.ToLowerInvariant() is "reset" or "resetpass" || rule.StartsWith('>') || rule.StartsWith('#')) { opens = false; }
        }
        return opens ? Protected : null;
    }

    private const string Protected =
        "ERR SLOGGER the proxy reaches Redis from another address than its own, and would be cut off: in protected mode, and with a "
            + "default user without a password, Redis takes no such connection";

    // Whoever comes from the machine itself, by its loopback address or a Unix socket, Redis takes in protected mode too.
    private bool IsElsewhere => store.Ip is { } ip && !IPAddress.IsLoopback(ip);

    private bool IsOpenToAll => facts.IsOpenToAll ?? !asksForPassword;

    /// <summary>Why users must not be loaded from a file; <c>null</c> if they may.</summary>
    public string? OfLoading() => store.Address is not null
        ? "ERR SLOGGER loading users may change the proxy's own rights, and ends connections: use ACL SETUSER, or load them at "
        + "Redis directly" : null;

    /// <summary>Why a user must not be changed so; <c>null</c> if it may.</summary>
    public string? OfRule(string user, string rule)
    {
        if (store.Address is null || user != store.LoginUser || !TakesAway(rule)) { return null; }
        string anotherUser = user == FrontEndLoop.DefaultUser ? "start it with a user of its own first (--redis-user)" : Instead;
        // Of a password nothing is shown.
        string what = rule[0] is '<' or '>' or '#' or '!' ? $"{rule[0]}..." : rule;
        return $"ERR SLOGGER the proxy itself is the user '{user}', and would be cut off by '{what}': {anotherUser}";
    }

    private bool TakesAway(string rule)
    {
        if (rule.Length == 0) { return false; }
        switch (rule[0])
        {
            case '<':
                return store.Password is not null && rule[1..] == store.Password;
            case '!':
                return store.Password is not null && rule[1..].Equals(HashOf(store.Password), StringComparison.OrdinalIgnoreCase);
            case '>' or '#' when !asksForPassword && store.LoginUser == FrontEndLoop.DefaultUser:
                // Whoever gave none, or any, needs this one from now on.
                return store.Password is null
                    || (rule[1..] != store.Password && !rule[1..].Equals(HashOf(store.Password), StringComparison.OrdinalIgnoreCase));
            case '-':
                return rule.Length > 1 && (rule[1] == '@' || Needed.Contains(rule[1..].Split('|')[0]));
            default:
                return rule.ToLowerInvariant() is "off" or "reset" or "resetpass" or "nocommands" or "resetkeys" or "resetchannels"
                    or "clearselectors";
        }
    }

    // Whether Redis still hears the proxy if it listens there. No name but localhost is looked up: this is asked while clients wait.
    private bool IsReachedBy(string bound)
    {
        if (store.Ip is not { } ip) { return false; }
        IPAddress any = ip.AddressFamily == AddressFamily.InterNetwork ? IPAddress.Any : IPAddress.IPv6Any;
        string to = bound.StartsWith('-') ? bound[1..] : bound;
        IPAddress? listens = to switch
        {
            "*" => IPAddress.Any,
            "::*" => IPAddress.IPv6Any,
            _ when IPAddress.TryParse(to, out IPAddress? given) => given,
            // Of a name Redis takes an address of IPv4, as the proxy does.
            _ when to.Equals(store.Address!.Host, StringComparison.OrdinalIgnoreCase) && any.Equals(IPAddress.Any) => ip,
            _ when to.Equals("localhost", StringComparison.OrdinalIgnoreCase) => IPAddress.Loopback,
            _ => null,
        };
        return ip.Equals(listens) || any.Equals(listens);
    }

    // What is no number Redis refuses in its own words.
    private static bool IsAnother(string value, int port) =>
        long.TryParse(value, NumberStyles.Integer, CultureInfo.InvariantCulture, out long given) && given != port;

    private static string HashOf(string password) => Convert.ToHexString(SHA256.HashData(Encoding.UTF8.GetBytes(password)));
}

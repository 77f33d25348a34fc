// The commands that there are, with what Redis 7.0 says of each: a test compares them with a real one.
namespace Slogger.Faster.Commands;

internal static partial class CommandTable
{
    /// <summary>All commands of clients.</summary>
    public static readonly Command[] Entries =
    [
        // Values.
        new("get", 2, "readonly fast", 1, 1, 1, "read string fast", static c => c.Strings.Get()),
        new("set", -3, "write denyoom", 1, 1, 1, "write string slow", static c => c.Strings.Set()),
        new("setnx", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Strings.SetIfMissing()),
        new("setex", 4, "write denyoom", 1, 1, 1, "write string slow", static c => c.Strings.SetForSeconds()),
        new("psetex", 4, "write denyoom", 1, 1, 1, "write string slow", static c => c.Strings.SetForMilliseconds()),
        new("getset", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Strings.GetAndSet()),
        new("getdel", 2, "write fast", 1, 1, 1, "write string fast", static c => c.Strings.GetAndDelete()),
        new("getex", -2, "write fast", 1, 1, 1, "write string fast", static c => c.Strings.GetAndExpire()),
        new("mget", -2, "readonly fast", 1, -1, 1, "read string fast", static c => c.Strings.GetMany()),
        new("mset", -3, "write denyoom", 1, -1, 2, "write string slow", static c => c.Strings.SetMany()),
        new("msetnx", -3, "write denyoom", 1, -1, 2, "write string slow", static c => c.Strings.SetManyIfMissing()),
        new("append", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Strings.Append()),
        new("strlen", 2, "readonly fast", 1, 1, 1, "read string fast", static c => c.Strings.Length()),
        new("getrange", 4, "readonly", 1, 1, 1, "read string slow", static c => c.Strings.GetRange()),
        new("substr", 4, "readonly", 1, 1, 1, "read string slow", static c => c.Strings.GetRange()),
        new("setrange", 4, "write denyoom", 1, 1, 1, "write string slow", static c => c.Strings.SetRange()),
        new("incr", 2, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Numbers.Increment()),
        new("decr", 2, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Numbers.Decrement()),
        new("incrby", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Numbers.IncrementBy()),
        new("decrby", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Numbers.DecrementBy()),
        new("incrbyfloat", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Numbers.IncrementByFloat()),
        new("setbit", 4, "write denyoom", 1, 1, 1, "write bitmap slow", static c => c.Bits.SetBit()),
        new("getbit", 3, "readonly fast", 1, 1, 1, "read bitmap fast", static c => c.Bits.GetBit()),
        new("bitcount", -2, "readonly", 1, 1, 1, "read bitmap slow", static c => c.Bits.CountBits()),
        // Keys and when they expire.
        new("del", -2, "write", 1, -1, 1, "keyspace write slow", static c => c.Keys.Delete()),
        new("unlink", -2, "write fast", 1, -1, 1, "keyspace write fast", static c => c.Keys.Delete()),
        new("exists", -2, "readonly fast", 1, -1, 1, "keyspace read fast", static c => c.Keys.Exists()),
        new("touch", -2, "readonly fast", 1, -1, 1, "keyspace read fast", static c => c.Keys.Exists()),
        new("type", 2, "readonly fast", 1, 1, 1, "keyspace read fast", static c => c.Keys.TypeOf()),
        new("expire", -3, "write fast", 1, 1, 1, "keyspace write fast", static c => c.Expiries.ExpireInSeconds()),
        new("pexpire", -3, "write fast", 1, 1, 1, "keyspace write fast", static c => c.Expiries.ExpireInMilliseconds()),
        new("expireat", -3, "write fast", 1, 1, 1, "keyspace write fast", static c => c.Expiries.ExpireAtSecond()),
        new("pexpireat", -3, "write fast", 1, 1, 1, "keyspace write fast", static c => c.Expiries.ExpireAtMillisecond()),
        new("ttl", 2, "readonly fast", 1, 1, 1, "keyspace read fast", static c => c.Expiries.SecondsLeft()),
        new("pttl", 2, "readonly fast", 1, 1, 1, "keyspace read fast", static c => c.Expiries.MillisecondsLeft()),
        new("expiretime", 2, "readonly fast", 1, 1, 1, "keyspace read fast", static c => c.Expiries.ExpirySecond()),
        new("pexpiretime", 2, "readonly fast", 1, 1, 1, "keyspace read fast", static c => c.Expiries.ExpiryMillisecond()),
        new("persist", 2, "write fast", 1, 1, 1, "keyspace write fast", static c => c.Expiries.Persist()),
        new("rename", 3, "write", 1, 2, 1, "keyspace write slow", static c => c.Keys.Rename()),
        new("renamenx", 3, "write fast", 1, 2, 1, "keyspace write fast", static c => c.Keys.RenameIfMissing()),
        new("copy", -3, "write denyoom", 1, 2, 1, "keyspace write slow", static c => c.Keys.Copy()),
        new Command("keys", 2, "readonly", 0, 0, 0, "keyspace read slow dangerous",
            static c => c.Keys.FindKeys()).With(CommandTraits.Whole),
        new Command("scan", -2, "readonly", 0, 0, 0, "keyspace read slow", static c => c.Keys.Scan()).With(CommandTraits.Whole),
        new Command("randomkey", 1, "readonly", 0, 0, 0, "keyspace read slow", static c => c.Keys.RandomKey()).With(CommandTraits.Whole),
        new Command("dbsize", 1, "readonly fast", 0, 0, 0, "keyspace read fast",
            static c => c.Keys.CountKeys()) { Traits = CommandTraits.Whole },
        new Command("flushdb", -1, "write", 0, 0, 0, "keyspace write slow dangerous", static c => c.Keys.Flush()).With(CommandTraits.Alone),
        new Command("flushall", -1, "write", 0, 0, 0, "keyspace write slow dangerous",
            static c => c.Keys.Flush()).With(CommandTraits.Alone),
        // Transactions.
        new Command("multi", 1, "noscript loading stale fast allow_busy", 0, 0, 0, "fast transaction",
            static c => c.Transactions.Multi()).With(CommandTraits.Immediate),
        new Command("exec", 1, "noscript loading stale skip_slowlog", 0, 0, 0, "slow transaction",
            static c => c.Transactions.Exec(c)).With(CommandTraits.Immediate),
        new Command("watch", -2, "noscript loading stale fast allow_busy", 1, -1, 1, "fast transaction",
            static c => c.Transactions.Watch()).With(CommandTraits.Immediate),
        new("unwatch", 1, "noscript loading stale fast allow_busy", 0, 0, 0, "fast transaction", static c => c.Transactions.Unwatch()),
        new Command("discard", 1, "noscript loading stale fast allow_busy", 0, 0, 0, "fast transaction",
            static c => c.Transactions.Discard()).With(CommandTraits.Immediate),
        // Messages.
        new Command("subscribe", -2, "pubsub noscript loading stale", 0, 0, 0, "pubsub slow",
            static c => c.Messages.Subscribe()).With(CommandTraits.Subscriber),
        new Command("unsubscribe", -1, "pubsub noscript loading stale", 0, 0, 0, "pubsub slow",
            static c => c.Messages.Unsubscribe()).With(CommandTraits.Subscriber),
        new Command("psubscribe", -2, "pubsub noscript loading stale", 0, 0, 0, "pubsub slow",
            static c => c.Messages.SubscribeToPatterns()).With(CommandTraits.Subscriber),
        new Command("punsubscribe", -1, "pubsub noscript loading stale", 0, 0, 0, "pubsub slow",
            static c => c.Messages.UnsubscribeFromPatterns()).With(CommandTraits.Subscriber),
        new Command("ssubscribe", -2, "pubsub noscript loading stale", 1, -1, 1, "pubsub slow",
            static c => c.Messages.SubscribeToShardChannels()).With(CommandTraits.Subscriber | CommandTraits.Channels),
        new Command("sunsubscribe", -1, "pubsub noscript loading stale", 1, -1, 1, "pubsub slow",
            static c => c.Messages.UnsubscribeFromShardChannels()).With(CommandTraits.Subscriber | CommandTraits.Channels),
        new("publish", 3, "pubsub loading stale fast", 0, 0, 0, "pubsub fast", static c => c.Messages.Publish()),
        new Command("spublish", 3, "pubsub loading stale fast", 1, 1, 1, "pubsub fast",
            static c => c.Messages.PublishToShard()).With(CommandTraits.Channels),
        new("pubsub", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("pubsub|channels", -2, "pubsub loading stale", 0, 0, 0, "pubsub slow", static c => c.Messages.ListChannels()),
                new("pubsub|numsub", -2, "pubsub loading stale", 0, 0, 0, "pubsub slow", static c => c.Messages.CountSubscribers()),
                new("pubsub|numpat", 2, "pubsub loading stale", 0, 0, 0, "pubsub slow", static c => c.Messages.CountPatterns()),
                new("pubsub|shardchannels", -2, "pubsub loading stale", 0, 0, 0, "pubsub slow", static c => c.Messages.ListShardChannels()),
                new("pubsub|shardnumsub", -2, "pubsub loading stale", 0, 0, 0, "pubsub slow",
                    static c => c.Messages.CountShardSubscribers()),
                new("pubsub|help", 2, "loading stale", 0, 0, 0, "slow", static c => c.Catalog.Help()),
            ],
        },
        // Connections.
        new Command("ping", -1, "fast", 0, 0, 0, "fast connection", static c => c.Connection.Ping()).With(CommandTraits.Subscriber),
        new("echo", 2, "loading stale fast", 0, 0, 0, "fast connection", static c => c.Connection.Echo()),
        new("auth", -2, "noscript loading stale fast no_auth allow_busy", 0, 0, 0, "fast connection",
            static c => c.Connection.Authenticate()),
        new Command("quit", -1, "noscript loading stale fast no_auth allow_busy", 0, 0, 0, "fast connection",
            static c => c.Connection.Quit()).With(CommandTraits.Immediate | CommandTraits.Subscriber),
        new Command("reset", 1, "noscript loading stale fast no_auth allow_busy", 0, 0, 0, "fast connection",
            static c => c.Connection.Reset()).With(CommandTraits.Immediate | CommandTraits.Subscriber),
        new("hello", -1, "noscript loading stale fast no_auth allow_busy", 0, 0, 0, "fast connection", static c => c.Connection.Hello()),
        new("select", 2, "loading stale fast", 0, 0, 0, "fast connection", static c => c.Connection.Select()),
        new("client", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("client|id", 2, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.Clients.ClientId()),
                new("client|getname", 2, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.Clients.GetName()),
                new("client|setname", 3, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.Clients.SetName()),
                new("client|info", 2, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.Clients.ClientInfo()),
                new("client|list", -2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous connection",
                    static c => c.Clients.ClientList()),
                new("client|kill", -3, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous connection",
                    static c => c.Clients.KillClient()),
                new("client|reply", 3, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.Clients.SetReplyMode()),
                new("client|no-evict", 3, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous connection",
                    static c => c.Clients.SetNoEvict()),
                new("client|caching", 3, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.Clients.SetCaching()),
                new("client|getredir", 2, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.Clients.GetRedirection()),
                new("client|trackinginfo", 2, "noscript loading stale", 0, 0, 0, "slow connection",
                    static c => c.Clients.DescribeTracking()),
                new("client|unblock", -3, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous connection",
                    static c => c.Clients.UnblockClient()),
                new("client|unpause", 2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous connection",
                    static c => c.Clients.Unpause()),
                new("client|help", 2, "loading stale", 0, 0, 0, "slow connection", static c => c.Catalog.Help()),
            ],
        },
        // The server.
        new("command", -1, "loading stale", 0, 0, 0, "slow connection", static c => c.Catalog.ListCommands())
        {
            Subcommands =
            [
                new("command|count", 2, "loading stale", 0, 0, 0, "slow connection", static c => c.Catalog.CountCommands()),
                new("command|list", -2, "loading stale", 0, 0, 0, "slow connection", static c => c.Catalog.ListCommandNames()),
                new("command|docs", -2, "loading stale", 0, 0, 0, "slow connection", static c => c.Catalog.DocumentCommands()),
                new("command|info", -2, "loading stale", 0, 0, 0, "slow connection", static c => c.Catalog.DescribeCommands()),
                new("command|getkeys", -4, "loading stale", 0, 0, 0, "slow connection", static c => c.Catalog.FindKeysOfCommand()),
                new("command|help", 2, "loading stale", 0, 0, 0, "slow connection", static c => c.Catalog.Help()),
            ],
        },
        new("info", -1, "loading stale", 0, 0, 0, "slow dangerous", static c => c.Server.Info()),
        new("config", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("config|get", -3, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.Server.GetSettings()),
                new("config|set", -4, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.Server.SetSettings()),
                new("config|resetstat", 2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.ResetStatistics()),
                new("config|rewrite", 2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.RewriteSettings()),
                new("config|help", 2, "loading stale", 0, 0, 0, "slow", static c => c.Catalog.Help()),
            ],
        },
        new("memory", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("memory|usage", -3, "readonly", 2, 2, 1, "read slow", static c => c.Server.MemoryUsage()),
                new("memory|purge", 2, "", 0, 0, 0, "slow", static c => c.Server.PurgeMemory()),
                new("memory|help", 2, "loading stale", 0, 0, 0, "slow", static c => c.Catalog.Help()),
            ],
        },
        new("acl", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("acl|whoami", 2, "noscript loading stale", 0, 0, 0, "slow", static c => c.Users.WhoAmI()),
                new("acl|cat", -2, "noscript loading stale", 0, 0, 0, "slow", static c => c.Users.ListCategories()),
                new("acl|genpass", -2, "noscript loading stale", 0, 0, 0, "slow", static c => c.Users.MakePassword()),
                new("acl|getuser", 3, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.Users.DescribeUser()),
                new("acl|list", 2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.Users.DescribeUsers()),
                new("acl|log", -2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.Users.ShowAclLog()),
                new("acl|users", 2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.Users.ListUsers()),
                new("acl|help", 2, "loading stale", 0, 0, 0, "slow", static c => c.Catalog.Help()),
            ],
        },
        new("time", 1, "loading stale fast", 0, 0, 0, "fast", static c => c.Server.Time()),
        new("lastsave", 1, "loading stale fast", 0, 0, 0, "admin fast dangerous", static c => c.Server.LastSave()),
        new("role", 1, "noscript loading stale fast", 0, 0, 0, "admin fast dangerous", static c => c.Server.Role()),
        new("readonly", 1, "loading stale fast", 0, 0, 0, "fast connection", static c => c.Server.NoCluster()),
        new("readwrite", 1, "loading stale fast", 0, 0, 0, "fast connection", static c => c.Server.NoCluster()),
        new("asking", 1, "fast", 0, 0, 0, "fast connection", static c => c.Server.NoCluster()),
        // A proxy among several shards answers in its place.
        new("cluster", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("cluster|slots", 2, "stale", 0, 0, 0, "slow", static c => c.Server.NoCluster()),
                new("cluster|shards", 2, "stale", 0, 0, 0, "slow", static c => c.Server.NoCluster()),
                new("cluster|nodes", 2, "stale", 0, 0, 0, "slow", static c => c.Server.NoCluster()),
                new("cluster|info", 2, "stale", 0, 0, 0, "slow", static c => c.Server.NoCluster()),
                new("cluster|myid", 2, "stale", 0, 0, 0, "slow", static c => c.Server.NoCluster()),
                new("cluster|keyslot", 3, "stale", 0, 0, 0, "slow", static c => c.Server.NoCluster()),
                new("cluster|countkeysinslot", 3, "stale", 0, 0, 0, "slow", static c => c.Server.NoCluster()),
                new("cluster|getkeysinslot", 4, "stale", 0, 0, 0, "slow", static c => c.Server.NoCluster()),
                new("cluster|addslots", -3, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|addslotsrange", -4, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|bumpepoch", 2, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|count-failure-reports", 3, "admin stale", 0, 0, 0, "admin slow dangerous", static c => c.Server.NoCluster()),
                new("cluster|delslots", -3, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|delslotsrange", -4, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|failover", -2, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|flushslots", 2, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|forget", 3, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.Server.NoCluster()),
                new("cluster|help", 2, "loading stale", 0, 0, 0, "slow", static c => c.Server.NoCluster()),
                new("cluster|links", 2, "stale", 0, 0, 0, "slow", static c => c.Server.NoCluster()),
                new("cluster|meet", -4, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.Server.NoCluster()),
                new("cluster|replicas", 3, "admin stale", 0, 0, 0, "admin slow dangerous", static c => c.Server.NoCluster()),
                new("cluster|replicate", 3, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|reset", -2, "admin noscript stale", 0, 0, 0, "admin slow dangerous", static c => c.Server.NoCluster()),
                new("cluster|saveconfig", 2, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|set-config-epoch", 3, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|setslot", -4, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous",
                    static c => c.Server.NoCluster()),
                new("cluster|slaves", 3, "admin stale", 0, 0, 0, "admin slow dangerous", static c => c.Server.NoCluster()),
            ],
        },
        new("wait", 3, "noscript", 0, 0, 0, "slow connection", static c => c.Server.Wait()),
    ];

    private static readonly Command s_commit =
        new Command("slogger.commit", 3, "admin noscript", 0, 0, 0, "admin slow dangerous",
            static c => c.Server.Commit()).With(CommandTraits.Owner);
}

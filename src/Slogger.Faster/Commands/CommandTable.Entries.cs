// The commands that there are, with what Redis 7.0 says of each: a test compares them with a real one.
namespace Slogger.Faster.Commands;

internal static partial class CommandTable
{
    /// <summary>All commands of clients.</summary>
    public static readonly Command[] Entries =
    [
        // Values.
        new("get", 2, "readonly fast", 1, 1, 1, "read string fast", static c => c.Get()),
        new("set", -3, "write denyoom", 1, 1, 1, "write string slow", static c => c.Set()),
        new("setnx", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.SetIfMissing()),
        new("setex", 4, "write denyoom", 1, 1, 1, "write string slow", static c => c.SetForSeconds()),
        new("psetex", 4, "write denyoom", 1, 1, 1, "write string slow", static c => c.SetForMilliseconds()),
        new("getset", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.GetAndSet()),
        new("getdel", 2, "write fast", 1, 1, 1, "write string fast", static c => c.GetAndDelete()),
        new("getex", -2, "write fast", 1, 1, 1, "write string fast", static c => c.GetAndExpire()),
        new("mget", -2, "readonly fast", 1, -1, 1, "read string fast", static c => c.GetMany()),
        new("mset", -3, "write denyoom", 1, -1, 2, "write string slow", static c => c.SetMany()),
        new("msetnx", -3, "write denyoom", 1, -1, 2, "write string slow", static c => c.SetManyIfMissing()),
        new("append", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Append()),
        new("strlen", 2, "readonly fast", 1, 1, 1, "read string fast", static c => c.Length()),
        new("getrange", 4, "readonly", 1, 1, 1, "read string slow", static c => c.GetRange()),
        new("substr", 4, "readonly", 1, 1, 1, "read string slow", static c => c.GetRange()),
        new("setrange", 4, "write denyoom", 1, 1, 1, "write string slow", static c => c.SetRange()),
        new("incr", 2, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Increment()),
        new("decr", 2, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.Decrement()),
        new("incrby", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.IncrementBy()),
        new("decrby", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.DecrementBy()),
        new("incrbyfloat", 3, "write denyoom fast", 1, 1, 1, "write string fast", static c => c.IncrementByFloat()),
        new("setbit", 4, "write denyoom", 1, 1, 1, "write bitmap slow", static c => c.SetBit()),
        new("getbit", 3, "readonly fast", 1, 1, 1, "read bitmap fast", static c => c.GetBit()),
        new("bitcount", -2, "readonly", 1, 1, 1, "read bitmap slow", static c => c.CountBits()),
        // Keys and when they expire.
        new("del", -2, "write", 1, -1, 1, "keyspace write slow", static c => c.Delete()),
        new("unlink", -2, "write fast", 1, -1, 1, "keyspace write fast", static c => c.Delete()),
        new("exists", -2, "readonly fast", 1, -1, 1, "keyspace read fast", static c => c.Exists()),
        new("touch", -2, "readonly fast", 1, -1, 1, "keyspace read fast", static c => c.Exists()),
        new("type", 2, "readonly fast", 1, 1, 1, "keyspace read fast", static c => c.TypeOf()),
        new("expire", -3, "write fast", 1, 1, 1, "keyspace write fast", static c => c.ExpireInSeconds()),
        new("pexpire", -3, "write fast", 1, 1, 1, "keyspace write fast", static c => c.ExpireInMilliseconds()),
        new("expireat", -3, "write fast", 1, 1, 1, "keyspace write fast", static c => c.ExpireAtSecond()),
        new("pexpireat", -3, "write fast", 1, 1, 1, "keyspace write fast", static c => c.ExpireAtMillisecond()),
        new("ttl", 2, "readonly fast", 1, 1, 1, "keyspace read fast", static c => c.SecondsLeft()),
        new("pttl", 2, "readonly fast", 1, 1, 1, "keyspace read fast", static c => c.MillisecondsLeft()),
        new("expiretime", 2, "readonly fast", 1, 1, 1, "keyspace read fast", static c => c.ExpirySecond()),
        new("pexpiretime", 2, "readonly fast", 1, 1, 1, "keyspace read fast", static c => c.ExpiryMillisecond()),
        new("persist", 2, "write fast", 1, 1, 1, "keyspace write fast", static c => c.Persist()),
        new("rename", 3, "write", 1, 2, 1, "keyspace write slow", static c => c.Rename()),
        new("renamenx", 3, "write fast", 1, 2, 1, "keyspace write fast", static c => c.RenameIfMissing()),
        new("copy", -3, "write denyoom", 1, 2, 1, "keyspace write slow", static c => c.Copy()),
        new Command("keys", 2, "readonly", 0, 0, 0, "keyspace read slow dangerous", static c => c.FindKeys()).With(CommandTraits.Whole),
        new Command("scan", -2, "readonly", 0, 0, 0, "keyspace read slow", static c => c.Scan()).With(CommandTraits.Whole),
        new Command("randomkey", 1, "readonly", 0, 0, 0, "keyspace read slow", static c => c.RandomKey()).With(CommandTraits.Whole),
        new Command("dbsize", 1, "readonly fast", 0, 0, 0, "keyspace read fast", static c => c.CountKeys()) { Traits = CommandTraits.Whole },
        new Command("flushdb", -1, "write", 0, 0, 0, "keyspace write slow dangerous", static c => c.Flush()).With(CommandTraits.Alone),
        new Command("flushall", -1, "write", 0, 0, 0, "keyspace write slow dangerous", static c => c.Flush()).With(CommandTraits.Alone),
        // Transactions.
        new Command("multi", 1, "noscript loading stale fast allow_busy", 0, 0, 0, "fast transaction", static c => c.Multi()).With(CommandTraits.Immediate),
        new Command("exec", 1, "noscript loading stale skip_slowlog", 0, 0, 0, "slow transaction", static c => c.Exec()).With(CommandTraits.Immediate),
        new Command("watch", -2, "noscript loading stale fast allow_busy", 1, -1, 1, "fast transaction", static c => c.Watch()).With(CommandTraits.Immediate),
        new("unwatch", 1, "noscript loading stale fast allow_busy", 0, 0, 0, "fast transaction", static c => c.Unwatch()),
        new Command("discard", 1, "noscript loading stale fast allow_busy", 0, 0, 0, "fast transaction", static c => c.Discard()).With(CommandTraits.Immediate),
        // Messages.
        new Command("subscribe", -2, "pubsub noscript loading stale", 0, 0, 0, "pubsub slow", static c => c.Subscribe()).With(CommandTraits.Subscriber),
        new Command("unsubscribe", -1, "pubsub noscript loading stale", 0, 0, 0, "pubsub slow", static c => c.Unsubscribe()).With(CommandTraits.Subscriber),
        new Command("psubscribe", -2, "pubsub noscript loading stale", 0, 0, 0, "pubsub slow", static c => c.SubscribeToPatterns()).With(CommandTraits.Subscriber),
        new Command("punsubscribe", -1, "pubsub noscript loading stale", 0, 0, 0, "pubsub slow", static c => c.UnsubscribeFromPatterns()).With(CommandTraits.Subscriber),
        new Command("ssubscribe", -2, "pubsub noscript loading stale", 1, -1, 1, "pubsub slow", static c => c.SubscribeToShardChannels()).With(CommandTraits.Subscriber | CommandTraits.Channels),
        new Command("sunsubscribe", -1, "pubsub noscript loading stale", 1, -1, 1, "pubsub slow", static c => c.UnsubscribeFromShardChannels()).With(CommandTraits.Subscriber | CommandTraits.Channels),
        new("publish", 3, "pubsub loading stale fast", 0, 0, 0, "pubsub fast", static c => c.Publish()),
        new Command("spublish", 3, "pubsub loading stale fast", 1, 1, 1, "pubsub fast", static c => c.PublishToShard()).With(CommandTraits.Channels),
        new("pubsub", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("pubsub|channels", -2, "pubsub loading stale", 0, 0, 0, "pubsub slow", static c => c.ListChannels()),
                new("pubsub|numsub", -2, "pubsub loading stale", 0, 0, 0, "pubsub slow", static c => c.CountSubscribers()),
                new("pubsub|numpat", 2, "pubsub loading stale", 0, 0, 0, "pubsub slow", static c => c.CountPatterns()),
                new("pubsub|shardchannels", -2, "pubsub loading stale", 0, 0, 0, "pubsub slow", static c => c.ListShardChannels()),
                new("pubsub|shardnumsub", -2, "pubsub loading stale", 0, 0, 0, "pubsub slow", static c => c.CountShardSubscribers()),
                new("pubsub|help", 2, "loading stale", 0, 0, 0, "slow", static c => c.Help()),
            ],
        },
        // Connections.
        new Command("ping", -1, "fast", 0, 0, 0, "fast connection", static c => c.Ping()).With(CommandTraits.Subscriber),
        new("echo", 2, "loading stale fast", 0, 0, 0, "fast connection", static c => c.Echo()),
        new("auth", -2, "noscript loading stale fast no_auth allow_busy", 0, 0, 0, "fast connection", static c => c.Authenticate()),
        new Command("quit", -1, "noscript loading stale fast no_auth allow_busy", 0, 0, 0, "fast connection", static c => c.Quit()).With(CommandTraits.Immediate | CommandTraits.Subscriber),
        new Command("reset", 1, "noscript loading stale fast no_auth allow_busy", 0, 0, 0, "fast connection", static c => c.Reset()).With(CommandTraits.Immediate | CommandTraits.Subscriber),
        new("hello", -1, "noscript loading stale fast no_auth allow_busy", 0, 0, 0, "fast connection", static c => c.Hello()),
        new("select", 2, "loading stale fast", 0, 0, 0, "fast connection", static c => c.Select()),
        new("client", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("client|id", 2, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.ClientId()),
                new("client|getname", 2, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.GetName()),
                new("client|setname", 3, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.SetName()),
                new("client|info", 2, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.ClientInfo()),
                new("client|list", -2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous connection", static c => c.ClientList()),
                new("client|kill", -3, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous connection", static c => c.KillClient()),
                new("client|reply", 3, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.SetReplyMode()),
                new("client|no-evict", 3, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous connection", static c => c.SetNoEvict()),
                new("client|caching", 3, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.SetCaching()),
                new("client|getredir", 2, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.GetRedirection()),
                new("client|trackinginfo", 2, "noscript loading stale", 0, 0, 0, "slow connection", static c => c.DescribeTracking()),
                new("client|unblock", -3, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous connection", static c => c.UnblockClient()),
                new("client|unpause", 2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous connection", static c => c.Unpause()),
                new("client|help", 2, "loading stale", 0, 0, 0, "slow connection", static c => c.Help()),
            ],
        },
        // The server.
        new("command", -1, "loading stale", 0, 0, 0, "slow connection", static c => c.ListCommands())
        {
            Subcommands =
            [
                new("command|count", 2, "loading stale", 0, 0, 0, "slow connection", static c => c.CountCommands()),
                new("command|list", -2, "loading stale", 0, 0, 0, "slow connection", static c => c.ListCommandNames()),
                new("command|docs", -2, "loading stale", 0, 0, 0, "slow connection", static c => c.DocumentCommands()),
                new("command|info", -2, "loading stale", 0, 0, 0, "slow connection", static c => c.DescribeCommands()),
                new("command|getkeys", -4, "loading stale", 0, 0, 0, "slow connection", static c => c.FindKeysOfCommand()),
                new("command|help", 2, "loading stale", 0, 0, 0, "slow connection", static c => c.Help()),
            ],
        },
        new("info", -1, "loading stale", 0, 0, 0, "slow dangerous", static c => c.Info()),
        new("config", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("config|get", -3, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.GetSettings()),
                new("config|set", -4, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.SetSettings()),
                new("config|resetstat", 2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.ResetStatistics()),
                new("config|rewrite", 2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.RewriteSettings()),
                new("config|help", 2, "loading stale", 0, 0, 0, "slow", static c => c.Help()),
            ],
        },
        new("memory", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("memory|usage", -3, "readonly", 2, 2, 1, "read slow", static c => c.MemoryUsage()),
                new("memory|purge", 2, "", 0, 0, 0, "slow", static c => c.PurgeMemory()),
                new("memory|help", 2, "loading stale", 0, 0, 0, "slow", static c => c.Help()),
            ],
        },
        new("acl", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("acl|whoami", 2, "noscript loading stale", 0, 0, 0, "slow", static c => c.WhoAmI()),
                new("acl|cat", -2, "noscript loading stale", 0, 0, 0, "slow", static c => c.ListCategories()),
                new("acl|genpass", -2, "noscript loading stale", 0, 0, 0, "slow", static c => c.MakePassword()),
                new("acl|getuser", 3, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.DescribeUser()),
                new("acl|list", 2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.DescribeUsers()),
                new("acl|log", -2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.ShowAclLog()),
                new("acl|users", 2, "admin noscript loading stale", 0, 0, 0, "admin slow dangerous", static c => c.ListUsers()),
                new("acl|help", 2, "loading stale", 0, 0, 0, "slow", static c => c.Help()),
            ],
        },
        new("time", 1, "loading stale fast", 0, 0, 0, "fast", static c => c.Time()),
        new("lastsave", 1, "loading stale fast", 0, 0, 0, "admin fast dangerous", static c => c.LastSave()),
        new("role", 1, "noscript loading stale fast", 0, 0, 0, "admin fast dangerous", static c => c.Role()),
        new("readonly", 1, "loading stale fast", 0, 0, 0, "fast connection", static c => c.NoCluster()),
        new("readwrite", 1, "loading stale fast", 0, 0, 0, "fast connection", static c => c.NoCluster()),
        new("asking", 1, "fast", 0, 0, 0, "fast connection", static c => c.NoCluster()),
        // A proxy among several shards answers in its place.
        new("cluster", -2, "", 0, 0, 0, "slow", null)
        {
            Subcommands =
            [
                new("cluster|slots", 2, "stale", 0, 0, 0, "slow", static c => c.NoCluster()),
                new("cluster|shards", 2, "stale", 0, 0, 0, "slow", static c => c.NoCluster()),
                new("cluster|nodes", 2, "stale", 0, 0, 0, "slow", static c => c.NoCluster()),
                new("cluster|info", 2, "stale", 0, 0, 0, "slow", static c => c.NoCluster()),
                new("cluster|myid", 2, "stale", 0, 0, 0, "slow", static c => c.NoCluster()),
                new("cluster|keyslot", 3, "stale", 0, 0, 0, "slow", static c => c.NoCluster()),
                new("cluster|countkeysinslot", 3, "stale", 0, 0, 0, "slow", static c => c.NoCluster()),
                new("cluster|getkeysinslot", 4, "stale", 0, 0, 0, "slow", static c => c.NoCluster()),
                new("cluster|addslots", -3, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|addslotsrange", -4, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|bumpepoch", 2, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|count-failure-reports", 3, "admin stale", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|delslots", -3, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|delslotsrange", -4, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|failover", -2, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|flushslots", 2, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|forget", 3, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|help", 2, "loading stale", 0, 0, 0, "slow", static c => c.NoCluster()),
                new("cluster|links", 2, "stale", 0, 0, 0, "slow", static c => c.NoCluster()),
                new("cluster|meet", -4, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|replicas", 3, "admin stale", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|replicate", 3, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|reset", -2, "admin noscript stale", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|saveconfig", 2, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|set-config-epoch", 3, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|setslot", -4, "admin stale no_async_loading", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
                new("cluster|slaves", 3, "admin stale", 0, 0, 0, "admin slow dangerous", static c => c.NoCluster()),
            ],
        },
        new("wait", 3, "noscript", 0, 0, 0, "slow connection", static c => c.Wait()),
    ];

    private static readonly Command s_commit =
        new Command("slogger.commit", 3, "admin noscript", 0, 0, 0, "admin slow dangerous", static c => c.Commit()).With(CommandTraits.Owner);
}

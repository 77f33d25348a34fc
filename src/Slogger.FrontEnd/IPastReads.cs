// What the front end needs of whoever reads the past.
namespace Slogger.FrontEnd;

/// <summary>How an instant is named.</summary>
internal enum InstantBy
{
    /// <summary>By the version at whose end it is.</summary>
    Version,

    /// <summary>By a time, in milliseconds since the Unix epoch.</summary>
    Time,

    /// <summary>By how long ago it was, in milliseconds.</summary>
    Ago,
}

/// <summary>An instant, as it is asked for.</summary>
/// <param name="By">How it is named.</param>
/// <param name="Number">The number that goes with that.</param>
internal readonly record struct Instant(InstantBy By, long Number);

/// <summary>A command that reads the past.</summary>
/// <param name="At">The instant.</param>
/// <param name="User">Who asks: a user of the store's.</param>
/// <param name="Database">The database that is selected.</param>
/// <param name="Protocol">Of the reply: 2 or 3.</param>
/// <param name="Words">The command.</param>
/// <param name="Keys">The keys that it names.</param>
/// <param name="IsOfAnyKey">Whether it may read others, too.</param>
/// <param name="IsScript">Whether it is a script.</param>
internal sealed record PastRead(Instant At, string User, int Database, int Protocol, IReadOnlyList<byte[]> Words,
    IReadOnlyList<byte[]> Keys, bool IsOfAnyKey, bool IsScript);

/// <summary>A question for the history of a key: what named it in some versions.</summary>
/// <param name="Key">The key.</param>
/// <param name="From">The version behind which it begins; null: all that is kept.</param>
/// <param name="To">The version with which it ends; null: the first that has all that was acknowledged.</param>
/// <param name="Before">The place above which nothing is wanted; null: there is none.</param>
/// <param name="Count">How many commands are wanted: the newest.</param>
/// <param name="User">Who asks: a user of the store's.</param>
/// <param name="Database">The database that is selected.</param>
internal sealed record PastHistory(byte[] Key, long? From, long? To, long? Before, int Count, string User, int Database);

/// <summary>A question for the keys that were named in some versions.</summary>
/// <param name="From">The version behind which it begins.</param>
/// <param name="To">The version with which it ends.</param>
/// <param name="Count">How many keys are wanted, and the rest of the version that has the last of them.</param>
/// <param name="User">Who asks: a user of the store's.</param>
/// <param name="Database">The database that is selected.</param>
internal sealed record PastChanges(long From, long To, int Count, string User, int Database);

/// <summary>A question for what the beginning of a world-line took back.</summary>
/// <param name="WorldLine">The world-line.</param>
/// <param name="From">The place from which on commands are wanted.</param>
/// <param name="Count">How many are wanted.</param>
/// <param name="User">Who asks: a user of the store's.</param>
internal sealed record PastLost(long WorldLine, long From, int Count, string User);

/// <summary>Reads a shard's past. Any thread.</summary>
internal interface IPastReads
{
    /// <summary>Which version an instant is: a reply with world-line, version, and its end in microseconds since the Unix epoch; or an
    /// error.</summary>
    Task<byte[]> FindAsync(Instant at);

    /// <summary>What a command would have read: its reply, or an error.</summary>
    Task<byte[]> ReadAsync(PastRead read);

    /// <summary>Which shards had slots: a reply with the number and the address of each (null: it has left; empty: this one); or an
    /// error.</summary>
    /// <param name="from">The first version, at the end of one of which they had some.</param>
    /// <param name="to">The last.</param>
    Task<byte[]> OwnersAsync(long from, long to);

    /// <summary>What named a key: a reply with the versions between which was looked, how many commands were left out, the others, and the
    /// version up to which another shard has done what was done before (0: none has); or an error.</summary>
    Task<byte[]> HistoryAsync(PastHistory asked);

    /// <summary>Which keys were named: a reply with the version up to which these are all, and the keys; or an error.</summary>
    Task<byte[]> ChangedAsync(PastChanges asked);

    /// <summary>What was taken back: a reply with the version that was kept, its end in microseconds since the Unix epoch, the place at
    /// which there is more (0: there is not), and the commands; or an error.</summary>
    Task<byte[]> LostAsync(PastLost asked);

    /// <summary>The snapshots of the shard.</summary>
    IPastSnapshots Snapshots { get; }

    /// <summary>Sets the shard back, with the others.</summary>
    IPastReset Reset { get; }

    /// <summary>The whole store at one version after the other.</summary>
    IPastRoll Roll { get; }
}

/// <summary>A shard's part in a reset of the cluster, step by step. Each answer is a reply, or an error. Any thread.</summary>
internal interface IPastReset
{
    /// <summary>Begins to get ready: the reset's name, world-line, version, and its end in microseconds since the Unix epoch.</summary>
    /// <param name="version">The version at whose end the shard is to be again.</param>
    /// <param name="prefix">Only of keys that begin so.</param>
    /// <param name="shiftMs">Expiries are put off so long, in milliseconds.</param>
    /// <param name="user">Who asks: a user of the store's.</param>
    Task<byte[]> PrepareAsync(long version, byte[] prefix, long shiftMs, string user);

    /// <summary>How far it is: a state, keys, bytes of the writes, and the world-line and the version of the recorded cut.</summary>
    Task<byte[]> StateAsync(string name);

    /// <summary>Holds all operations, and waits a moment until what was let through is committed: as <see cref="StateAsync"/>.</summary>
    Task<byte[]> HoldAsync(string name);

    /// <summary>Overwrites: the newest version that may have been closed before, and how many keys were written.</summary>
    Task<byte[]> WriteAsync(string name);

    /// <summary>Closes the version that holds it: its number.</summary>
    /// <param name="name">The reset.</param>
    /// <param name="above">The newest version that any shard may have closed before.</param>
    Task<byte[]> CloseAsync(string name, long above);

    /// <summary>Ends it. If something was written a world-line begins, at the newest cut: its number, and the version at which it branches;
    /// or else two zeros.</summary>
    Task<byte[]> EndAsync(string name);
}

/// <summary>The snapshot that another one rests on.</summary>
/// <param name="Since">Its version.</param>
/// <param name="Behind">The lowest version of a snapshot that it rests on in turn, or its own.</param>
/// <param name="To">The highest of these. What was named between the two is looked at, if the instant lies before.</param>
internal readonly record struct SnapshotRest(long Since, long Behind, long To);

/// <summary>Makes snapshots of a shard's past. Each answer is a reply, or an error. Any thread.</summary>
internal interface IPastSnapshots
{
    /// <summary>Begins one: its name, world-line, version, and its end in microseconds since the Unix epoch.</summary>
    /// <param name="at">The instant.</param>
    /// <param name="rests">On which snapshot it is to rest: it has what differs from that; null: it has all.</param>
    /// <param name="user">Who asks: a user of the store's.</param>
    Task<byte[]> BeginAsync(Instant at, SnapshotRest? rests, string user);

    /// <summary>How far one is: a state, what is done, and all there is to do (in bytes; of one that rests on another in keys); and of one
    /// that is ready the bytes of its file, its keys, the bytes of its removals, and how many these are.</summary>
    Task<byte[]> StateAsync(string name);

    /// <summary>A part of its file, or of its removals; shorter at the end.</summary>
    Task<byte[]> ReadAsync(string name, bool ofRemovals, long offset, int bytesMax);

    /// <summary>Gives one up.</summary>
    Task<byte[]> EndAsync(string name);
}

/// <summary>Shows the whole of a shard's past, going forward. Each answer is a reply, or an error. Any thread.</summary>
internal interface IPastRoll
{
    /// <summary>Begins: its name. It stands nowhere yet.</summary>
    /// <param name="from">The first version at whose end it can be.</param>
    /// <param name="to">The last.</param>
    /// <param name="user">Who asks: a user of the store's.</param>
    Task<byte[]> BeginAsync(long from, long to, string user);

    /// <summary>Brings it forward, for a second at most, to the first end at or above a version: 1 if it is there, else 0; the version of
    /// that end, the end in microseconds since the Unix epoch, the next version at which something may differ (0: none), bytes done, and
    /// bytes in all.</summary>
    Task<byte[]> ToAsync(string name, long version);

    /// <summary>What a script reads where it stands.</summary>
    /// <param name="name">Its name.</param>
    /// <param name="database">The database that is selected.</param>
    /// <param name="protocol">Of the reply: 2 or 3.</param>
    /// <param name="script">The script.</param>
    /// <param name="arguments">Its arguments.</param>
    Task<byte[]> EvalAsync(string name, int database, int protocol, byte[] script, IReadOnlyList<byte[]> arguments);

    /// <summary>Lets whoever is on the same machine, as the same user, read there, too: the path of its Unix socket, and which server
    /// that is (run_id).</summary>
    Task<byte[]> OpenAsync(string name);

    /// <summary>What was done since a script read last: how many commands are left out, and the newest.</summary>
    Task<byte[]> CommandsAsync(string name);

    /// <summary>Ends it.</summary>
    Task<byte[]> EndAsync(string name);
}

// DPR.ASOF: what an instant of the past was, and what a command would have read then. DPR.HISTORY: what was done to a key. DPR.CHANGED:
// which keys something was done to. DPR.LOST: what a recovery took back. DPR.OWNERS: which shards had slots. See
// docs/reference/dpr-commands.md.
//
// The live store is only asked whether the client may ask. The answer comes from elsewhere, and rests on nothing that is not committed: it
// waits for no lease.
using System.Runtime.InteropServices;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>The handlers of what is asked about the past.</summary>
internal static class PastCommand
{
    public const string Names =
        $"{AsOf} {History} {Changed} {Lost} {Owners} {SnapshotCommand.Name} {RollCommand.Name} {ResetCommand.Name}";

    private const string AsOf = "DPR.ASOF", History = "DPR.HISTORY", Changed = "DPR.CHANGED", Lost = "DPR.LOST", Owners = "DPR.OWNERS";
    private const int FirstWord = 3;
    private const string AsOfForm = $"{AsOf} VERSION version | TIME milliseconds | AGO milliseconds [command [argument ...]]",
        HistoryForm = $"{History} key [FROM version] [TO version] [BEFORE place] [COUNT n]",
        ChangedForm = $"{Changed} FROM version TO version [COUNT n]",
        LostForm = $"{Lost} world-line [FROM place] [COUNT n]",
        OwnersForm = $"{Owners} FROM version TO version";
    private const int HistoryDefault = 100, ChangedDefault = 1000, CountMax = 10_000;

    public static bool Handle(Client client)
    {
        string name = NameOf(client);
        if (client.Loop.Shard.Past is not { } past)
        {
            return client.RefuseCommand(client.Loop.Shard.PastProblem is { } problem ? $"ERR SLOGGER {name}: {problem}"
                : $"ERR SLOGGER {name} needs --commit log and a Redis as the store, or an embedded store with --retention");
        }
        if ((client.Pins & Pins.Multi) != 0) { return client.RefuseCommand($"ERR SLOGGER {name} cannot be queued in a transaction"); }
        if (CommitCommands.WhileSubscribed(client, name) is { } subscribed) { return client.RefuseCommand(subscribed); }
        return name switch
        {
            SnapshotCommand.Name => SnapshotCommand.Handle(client, past.Snapshots),
            ResetCommand.Name => ResetCommand.Handle(client, past.Reset),
            RollCommand.Name => RollCommand.Handle(client, past.Roll),
            History => ReadHistory(client, past),
            Changed => ReadChanged(client, past),
            Lost => ReadLost(client, past),
            Owners => ReadOwners(client, past),
            _ => Read(client, past),
        };
    }

    /// <summary>Why it is refused where the store follows; null: it only reads.</summary>
    public static string? RefusalAtBackup(Client client) => NameOf(client) != ResetCommand.Name ? null
        : $"ERR SLOGGER this site is a backup: {ResetCommand.Name} is for the primary";

    private static string NameOf(Client client) => Encoding.ASCII.GetString(client.Argument(0)).ToUpperInvariant();

    private static bool Read(Client client, IPastReads past)
    {
        if (InstantOf(client, 1) is not { } at) { return client.RefuseCommand($"ERR SLOGGER it is {AsOfForm}"); }
        if (client.ArgumentCount == FirstWord) { return Ask(client, () => past.FindAsync(at)); }
        // Which commands the store has is known when a connection to it is.
        if (client.Route(needsDedicated: false) is null) { return false; }
        byte[][] words = [.. Enumerable.Range(FirstWord, client.ArgumentCount - FirstWord).Select(i => client.Argument(i).ToArray())];
        if (Refusal(client, words, out KeyPlaces places, out bool isOfAnyKey) is { } refusal) { return client.RefuseCommand(refusal); }
        byte[][] keys = [.. Enumerable.Range(0, places.Total).Select(i => words[places[i]])];
        // Which shard had them then is for who knows the moves to say.
        if (client.Loop.Slots is not null && !client.Slots.AreOfOneSlot(keys)) { return client.RefuseCommand(client.Slots.CrossSlot); }
        var read = new PastRead(at, client.UserName, client.Db, client.Protocol, words, keys, isOfAnyKey,
            Ascii.EqualsIgnoreCase(words[0], "EVAL_RO"));
        return Ask(client, () => past.ReadAsync(read));
    }

    private static bool ReadHistory(Client client, IPastReads past)
    {
        long?[]? numbers = client.ArgumentCount < 2 ? null : NumbersOf(client, 2, "FROM", "TO", "BEFORE", "COUNT");
        if (numbers is not [var from, var to, var before, var count] || count is < 1 or > CountMax)
        {
            return client.RefuseCommand($"ERR SLOGGER it is {HistoryForm}, with a count of 1 to 10000");
        }
        // Which shard had the key then is for who knows the moves to say.
        var asked = new PastHistory(client.Argument(1).ToArray(), from, to, before, (int)(count ?? HistoryDefault), client.UserName,
            client.Db);
        return Ask(client, () => past.HistoryAsync(asked));
    }

    private static bool ReadChanged(Client client, IPastReads past)
    {
        if (NumbersOf(client, 1, "FROM", "TO", "COUNT") is not [{ } from, { } to, var count] || count is < 1 or > CountMax)
        {
            return client.RefuseCommand($"ERR SLOGGER it is {ChangedForm}, with a count of 1 to 10000");
        }
        var asked = new PastChanges(from, to, (int)(count ?? ChangedDefault), client.UserName, client.Db);
        return Ask(client, () => past.ChangedAsync(asked));
    }

    private static bool ReadLost(Client client, IPastReads past)
    {
        if (client.ArgumentCount < 2 || !client.ArgumentNumber(1, out long line) || line < 1
            || NumbersOf(client, 2, "FROM", "COUNT") is not [var from, var count] || count is < 1 or > CountMax)
        {
            return client.RefuseCommand($"ERR SLOGGER it is {LostForm}, with a count of 1 to 10000");
        }
        var asked = new PastLost(line, from ?? 0, (int)(count ?? ChangedDefault), client.UserName);
        return Ask(client, () => past.LostAsync(asked));
    }

    private static bool ReadOwners(Client client, IPastReads past) =>
        NumbersOf(client, 1, "FROM", "TO") is [{ } from, { } to] && from <= to ? Ask(client, () => past.OwnersAsync(from, to))
            : client.RefuseCommand($"ERR SLOGGER it is {OwnersForm}, with the lower one first");

    // The numbers behind some words, each at most once and in whatever order; null: it is something else.
    private static long?[]? NumbersOf(Client client, int first, params string[] words)
    {
        var numbers = new long?[words.Length];
        for (int i = first; i < client.ArgumentCount; i += 2)
        {
            string word = Encoding.Latin1.GetString(client.Argument(i)).ToUpperInvariant();
            int known = Array.IndexOf(words, word);
            if (known < 0 || numbers[known] is not null || i + 1 == client.ArgumentCount
                || !client.ArgumentNumber(i + 1, out long number) || number < 0)
            {
                return null;
            }
            numbers[known] = number;
        }
        return numbers;
    }

    /// <summary>The instant that an argument and the one behind it name; null: they name none.</summary>
    public static Instant? InstantOf(Client client, int index)
    {
        if (!client.ArgumentNumber(index + 1, out long number) || number < 0) { return null; }
        return client.ArgumentIs(index, "VERSION"u8) ? new(InstantBy.Version, number)
            : client.ArgumentIs(index, "TIME"u8) ? new(InstantBy.Time, number)
            : client.ArgumentIs(index, "AGO"u8) ? new(InstantBy.Ago, number) : null;
    }

    // Why a command cannot be answered; else where its keys are among its words, and whether it may read others.
    private static string? Refusal(Client client, byte[][] words, out KeyPlaces places, out bool isOfAnyKey)
    {
        string name = Encoding.Latin1.GetString(words[0]).ReplaceLineEndings(" ").ToUpperInvariant();
        KeyFinder finder = client.Loop.Slots?.Keys ?? client.Loop.Catalog.Keys;
        bool isFound = finder.TryFind(client.Request, CollectionsMarshal.AsSpan(client.Loop.Arguments)[FirstWord..],
            out places, out DataUse use);
        bool Has(string option, int before) => words.Take(before).Any(w => Ascii.EqualsIgnoreCase(w, option));
        if (!isFound) { places = default; }
        isOfAnyKey = places.Total == 0 || name == "FCALL_RO" || (name == "SORT_RO" && (Has("BY", words.Length) || Has("GET", words.Length)));
        return finder.Count == 0 ? "ERR SLOGGER the store has not said yet which commands it has: try again"
            : !finder.Knows(words[0]) ? $"ERR SLOGGER the store has no command '{name}'"
            : use != DataUse.Reads ? $"READONLY SLOGGER '{name}' may change data, or is not about data: the past is only read"
            : name == "EVALSHA_RO" ? $"ERR SLOGGER '{name}' runs what was loaded before: the past is read by EVAL_RO"
            : places.Total > 0 && name == "XREAD" && Has("BLOCK", before: places[0]) ? "ERR SLOGGER nothing can be waited for in the past" : null;
    }

    /// <summary>Asks for an answer in the background, and replies with it.</summary>
    public static bool Ask(Client client, Func<Task<byte[]>> ask) => CommitCommands.Probe(client, Asking(ask));

    /// <summary>The same, also while operations are held.</summary>
    public static bool AskAlways(Client client, Func<Task<byte[]>> ask) => CommitCommands.Question(client, Asking(ask));

    private static Action<Client> Asking(Func<Task<byte[]>> ask) => c =>
    {
        c.Wait(Waiting.Past);
        Task.Run(ask).ContinueWith(asked => c.Loop.Post(() =>
        {
            if (c.IsClosed || !c.AwaitsPast) { return; }
            if (asked.Exception?.InnerException is { } e) { c.Loop.Shard.Warn($"the past could not be read: {e}"); }
            c.Answer(asked.IsCompletedSuccessfully ? asked.Result : "-ERR SLOGGER unexpected: the proxy's log says more\r\n"u8);
        }), TaskScheduler.Default);
    };
}

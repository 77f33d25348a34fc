// DPR.ASOF: what an instant of the past was, and what a command would have read then. See docs/reference/dpr-commands.md.
//
//   DPR.ASOF VERSION version | TIME milliseconds | AGO milliseconds [command [argument ...]]
//
// The live store is only asked whether the client may ask. The answer comes from elsewhere, and rests on nothing that is not committed: it
// waits for no lease.
using System.Runtime.InteropServices;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>The handler of DPR.ASOF.</summary>
internal static class PastCommand
{
    public const string Name = "DPR.ASOF";

    private const int FirstWord = 3;
    private const string Form = $"{Name} VERSION version | TIME milliseconds | AGO milliseconds [command [argument ...]]";

    /// <summary>Handles the commands about the past.</summary>
    public static bool HandleAny(Client client) =>
        client.ArgumentIs(0, "DPR.SNAPSHOT"u8) ? SnapshotCommand.Handle(client) : Handle(client);

    private static bool Handle(Client client)
    {
        if (Refusal(client, Name) is { } why) { return client.RefuseCommand(why); }
        IPastReads past = client.Loop.Shard.Past!;
        if (InstantOf(client, 1) is not { } at) { return client.RefuseCommand($"ERR SLOGGER it is {Form}"); }
        if (client.ArgumentCount == FirstWord) { return Ask(client, () => past.FindAsync(at)); }
        // Which commands the store has is known when a connection to it is.
        if (client.Route(needsDedicated: false) is null) { return false; }
        byte[][] words = [.. Enumerable.Range(FirstWord, client.ArgumentCount - FirstWord).Select(i => client.Argument(i).ToArray())];
        if (Refusal(client, words, out KeyPlaces places) is { } refusal) { return client.RefuseCommand(refusal); }
        byte[][] keys = [.. Enumerable.Range(0, places.Total).Select(i => words[places[i]])];
        if (client.Loop.Slots is not null && client.Slots.IsServed(keys) is { } done) { return done; }
        var read = new PastRead(at, client.UserName, client.Db, client.Protocol, words, keys);
        return Ask(client, () => past.ReadAsync(read));
    }

    /// <summary>Why a command about the past cannot be answered here; null: it can.</summary>
    public static string? Refusal(Client client, string name) =>
        client.Loop.Shard.Past is null ? $"ERR SLOGGER {name} needs --commit log, and a Redis as the store"
            : (client.Pins & Pins.Multi) != 0 ? $"ERR SLOGGER {name} cannot be queued in a transaction"
            : CommitCommands.WhileSubscribed(client, name);

    /// <summary>The instant that an argument and the one behind it name; null: they name none.</summary>
    public static Instant? InstantOf(Client client, int index)
    {
        if (!client.ArgumentNumber(index + 1, out long number) || number < 0) { return null; }
        return client.ArgumentIs(index, "VERSION"u8) ? new(InstantBy.Version, number)
            : client.ArgumentIs(index, "TIME"u8) ? new(InstantBy.Time, number)
            : client.ArgumentIs(index, "AGO"u8) ? new(InstantBy.Ago, number) : null;
    }

    // Why a command cannot be answered from the keys that it names alone; else where these are among its words.
    private static string? Refusal(Client client, byte[][] words, out KeyPlaces places)
    {
        string name = Encoding.Latin1.GetString(words[0]).ReplaceLineEndings(" ").ToUpperInvariant();
        KeyFinder finder = client.Loop.Slots?.Keys ?? client.Loop.Catalog.Keys;
        bool isFound = finder.TryFind(client.Request, CollectionsMarshal.AsSpan(client.Loop.Arguments)[FirstWord..], out places,
            out DataUse use);
        bool Has(string option, int before) => words.Take(before).Any(w => Ascii.EqualsIgnoreCase(w, option));
        return finder.Count == 0 ? "ERR SLOGGER the store has not said yet which commands it has: try again"
            : !finder.Knows(words[0]) ? $"ERR SLOGGER the store has no command '{name}'"
            : use != DataUse.Reads ? $"READONLY SLOGGER '{name}' may change data, or is not about data: the past is only read"
            : !isFound || places.Total == 0 ? $"ERR SLOGGER '{name}' names no key here: the past is read by keys that are named"
            : name is "EVAL_RO" or "EVALSHA_RO" or "FCALL_RO"
                || (name == "SORT_RO" && (Has("BY", words.Length) || Has("GET", words.Length)))
            ? $"ERR SLOGGER '{name}' may read keys that it does not name: the past is read by keys that are named"
            : name == "XREAD" && Has("BLOCK", before: places[0]) ? "ERR SLOGGER nothing can be waited for in the past" : null;
    }

    /// <summary>Asks for an answer in the background, and replies with it.</summary>
    public static bool Ask(Client client, Func<Task<byte[]>> ask) => CommitCommands.Probe(client, c =>
    {
        c.Wait(Waiting.Reply);
        Task.Run(ask).ContinueWith(asked => c.Loop.Post(() =>
        {
            if (c.IsClosed || !c.AwaitsReply) { return; }
            if (asked.Exception?.InnerException is { } e) { c.Loop.Shard.Warn($"the past could not be read: {e}"); }
            c.Answer(asked.IsCompletedSuccessfully ? asked.Result : "-ERR SLOGGER unexpected: the proxy's log says more\r\n"u8);
        }), TaskScheduler.Default);
    });
}

// slogger snapshot: the data of all shards at the end of one version, as an RDB file for each. The proxies make the files, and the command
// fetches them, and writes them where they are to be while they come. It is a snapshot only when all are there.
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Security.Cryptography;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;

namespace Slogger.Cli.Past;

/// <summary>Takes a snapshot.</summary>
internal static class SnapshotCommand
{
    public const string Name = "snapshot";

    private const string What = "The snapshot", Command = "DPR.SNAPSHOT";
    private const string OfAll = "take one of all keys: leave --from out";
    private const int PartBytes = 1 << 20, ParallelMax = 1024;
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(100), ToldEvery = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan HeldFor = TimeSpan.FromSeconds(20);

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new("to", What, SnapshotPlace.Form, "Where it goes: CLUSTER-VERSION is made in it. Keys, endpoint and region of a bucket come "
            + "from the environment or a profile, as of the tools of AWS.", "none", ""),
        new("from", What, "SNAPSHOT", "Rest on this snapshot, of an earlier or a later instant: take only the keys that something "
            + "was done to since.", "none: all keys", ""),
        new("parallel", What, "N", "How many shards make their files at a time. Each needs memory for one more copy of its data.", "2", ""),
        .. PastArguments.Instant,
        .. PastArguments.Access,
    ];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        List<OptionError> errors = [];
        string? to = texts.One("to", errors), from = texts.One("from", errors), parallelText = texts.One("parallel", errors);
        int parallel = 2;
        SnapshotPlace? target = null, resting = from is null ? null : SnapshotPlace.Of(from, "from", errors);
        if (to is null) { errors.Add(new OptionError("it is not said where the snapshot goes", "the command line", "give --to DIR")); }
        else { target = SnapshotPlace.Of(to, "to", errors); }
        if (parallelText is not null
            && !(int.TryParse(parallelText, NumberStyles.None, CultureInfo.InvariantCulture, out parallel)
                && parallel is >= 1 and <= ParallelMax))
        {
            errors.Add(new OptionError($"--parallel \"{parallelText}\" is no number from 1 to {ParallelMax}", "the command line",
                "write --parallel 2"));
        }
        string[]? instant = PastArguments.ReadInstant(texts, errors, fallback: ["AGO", "0"]);
        ProxyAccess? access = ProxyAccess.Read(texts, texts.One("address", errors), errors);
        if (errors.Count > 0) { return CommandResult.BadOptions(errors); }
        if (access!.Find(host) is { } failure) { return failure; }
        bool asJson = texts.Values.ContainsKey(Report.Option);
        using LineLog log = new(host.Error, LogLevel.Information);
        using StopSignals signals = new(log, host.HandlesSignals, host.Stop);
        try
        {
            SnapshotChain? previous = resting is null ? null : await SnapshotChain.ReadAsync(resting, signals.Token).ConfigureAwait(false);
            await using PastCluster past = await PastCluster.OpenAsync(access).ConfigureAwait(false);
            PastInstant at = await past.FindAsync(instant!).ConfigureAwait(false);
            SnapshotManifest made = await TakeAsync(past, at, target!, previous, parallel, Report.Progress(host, asJson),
                signals.Token).ConfigureAwait(false);
            made.Write(host, asJson);
            return CommandResult.Done;
        }
        catch (ProxyUnreachableException e)
        {
            return CommandResult.Failed(e.Message + access.Found, e.Remedy);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or RedisException)
        {
            return CommandResult.Failed($"the snapshot could not be written: {e.Message}", target!.AfterFailure);
        }
        catch (OperationCanceledException)
        {
            return CommandResult.Failed("interrupted", target!.AfterFailure);
        }
    }

    private static async Task<SnapshotManifest> TakeAsync(PastCluster past, PastInstant at, SnapshotPlace to, SnapshotChain? chain,
        int parallel, TextWriter progress, CancellationToken stop)
    {
        SnapshotLayer? previous = chain?.Layers[0];
        string[] rests = previous is null ? [] : ["SINCE", PastCluster.Text(previous.Manifest.Version)];
        // What was not counted below, as it had expired, may be alive again; also if it was deleted only later.
        if (at.Version < previous?.Manifest.Version)
        {
            rests = [.. rests, "BEHIND", PastCluster.Text(chain!.Layers.Min(l => l.Manifest.Version)),
                "TO", PastCluster.Text(chain.Layers.Max(l => l.Manifest.Version))];
        }
        List<Part> parts = [];
        foreach ((_, string address) in await past.OwnersOfAllAsync(at.Version, at.Version).ConfigureAwait(false))
        {
            ProxyConnection proxy = await past.Shards.AtAsync(address).ConfigureAwait(false);
            IReadOnlyList<KeyValuePair<string, string>> facts = await StatusClient.AskAsync(proxy, address).ConfigureAwait(false);
            string Fact(string name) => facts.FirstOrDefault(f => f.Key == name).Value ?? "";
            parts.Add(new(proxy, address, Fact("cluster"), long.Parse(Fact("shard"), CultureInfo.InvariantCulture), progress));
        }
        if (previous is not null) { await RequireSameHistoryAsync(parts, previous).ConfigureAwait(false); }
        SnapshotPlace place = to.Inside(string.Create(CultureInfo.InvariantCulture, $"{parts[0].Cluster}-{at.Version}"));
        SnapshotDraft draft = await place.BeginAsync(progress, stop).ConfigureAwait(false);
        try
        {
            using SemaphoreSlim turns = new(parallel);
            using var failed = CancellationTokenSource.CreateLinkedTokenSource(stop);
            List<Task<SnapshotShard>> taking = [.. parts.Select(async part =>
            {
                try
                {
                    while (!await turns.WaitAsync(HeldFor, failed.Token).ConfigureAwait(false))
                    {
                        await part.HoldAsync(at.Version).ConfigureAwait(false);
                        if (previous is not null) { await part.HoldAsync(previous.Manifest.Version).ConfigureAwait(false); }
                    }
                    try
                    {
                        return await part.TakeAsync(at.Version, rests, draft, failed.Token).ConfigureAwait(false);
                    }
                    finally
                    {
                        turns.Release();
                    }
                }
                catch
                {
                    await failed.CancelAsync().ConfigureAwait(false);
                    throw;
                }
            })];
            // The first failure, and not what it has called off.
            await foreach (Task<SnapshotShard> ended in Task.WhenEach(taking).ConfigureAwait(false))
            {
                if (ended.IsFaulted)
                {
                    await ((Task)Task.WhenAll(taking)).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
                    await ended.ConfigureAwait(false);
                }
            }
            stop.ThrowIfCancellationRequested();
            SnapshotShard[] shards = [.. taking.Select(t => t.Result)];
            if (parts.Select(p => p.WorldLine).Distinct().Count() > 1)
            {
                throw new ProxyUnreachableException("a recovery came between the shards' snapshots", "take it again");
            }
            var manifest = SnapshotManifest.Of(parts[0].Cluster, parts[0].WorldLine, at.Version, at.Time, shards, previous is null ? null
                : new(previous.Place.Name, previous.Manifest.Version, previous.Sha256));
            await draft.CompleteAsync(manifest.ToBytes(), stop).ConfigureAwait(false);
            progress.WriteLine($"the snapshot is in {place.Name}");
            return manifest;
        }
        catch
        {
            await draft.DiscardAsync().ConfigureAwait(false);
            throw;
        }
    }

    // What differs is known of one history only: that version ended at the same time, in the same world-line.
    private static async Task RequireSameHistoryAsync(List<Part> parts, SnapshotLayer previous)
    {
        SnapshotManifest known = previous.Manifest;
        bool isSame = parts.All(p => p.Cluster == known.Cluster);
        foreach (Part part in parts) { isSame = isSame && await part.HadAsync(known).ConfigureAwait(false); }
        if (isSame) { return; }
        throw new ProxyUnreachableException($"{previous.Place.Name} is a snapshot of another cluster, or of what a "
            + "recovery took back: a snapshot of this cluster cannot rest on it", OfAll);
    }

    // A shard's part of it.
    private sealed class Part(ProxyConnection proxy, string address, string cluster, long shard, TextWriter progress)
    {
        // One question at a time.
        private readonly SemaphoreSlim _turn = new(1);

        public string Cluster => cluster;

        public long WorldLine { get; private set; }

        public async Task<bool> HadAsync(SnapshotManifest known)
        {
            ProxyReply end = await proxy.CallAsync("DPR.ASOF", "VERSION", Text(known.Version)).ConfigureAwait(false);
            if (end.IsError) { throw new ProxyUnreachableException(PastCluster.Refused(end, $"{address}: ").Message, OfAll); }
            if (end.Items[1].Number < known.Version)
            {
                throw new ProxyUnreachableException(
                    $"{address}: version {known.Version} of that snapshot is not kept in detail any more", OfAll);
            }
            return end.Items[0].Number == known.WorldLine && end.Items[1].Number == known.Version
                && PastCluster.TimeOf(end.Items[2].Number) == known.Time;
        }

        // What the shard has of it stays for another minute.
        public Task HoldAsync(long version) => CallAsync("DPR.ASOF", "VERSION", Text(version));

        public async Task<SnapshotShard> TakeAsync(long version, string[] rests, SnapshotDraft draft, CancellationToken failed)
        {
            bool isWhole = rests.Length == 0;
            ProxyReply begun = await AskAsync(["BEGIN", "VERSION", Text(version), .. rests]).ConfigureAwait(false);
            (string name, WorldLine) = (begun.Items[0].Text, begun.Items[1].Number);
            try
            {
                if (begun.Items[2].Number != version)
                {
                    throw new ProxyUnreachableException($"{address}: version {version} has just been undone by a recovery",
                        "take it again");
                }
                ProxyReply state = await ReadyAsync(name, isWhole, failed).ConfigureAwait(false);
                long bytes = state.Items[3].Number;
                string own = SnapshotShard.FilesBegin + Text(shard), file = draft.NameOf(own + (isWhole ? ".rdb" : ".delta.rdb"));
                var check = new RdbChecker();
                await WriteAsync(draft, file, bytes, FetchAsync("READ", name, bytes, part => check.Append(part), failed), name, failed)
                    .ConfigureAwait(false);
                if (check.Result() != RdbIntegrity.Good)
                {
                    throw new IOException($"the file of shard {shard} has not come whole: its checksum does not fit");
                }
                SnapshotRemovals? removed = null;
                if (!isWhole)
                {
                    removed = new(draft.NameOf(own + ".removed"), state.Items[5].Number, state.Items[6].Number, "");
                    using var sum = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
                    await WriteAsync(draft, removed.File, removed.Bytes, FetchAsync("REMOVED", name, removed.Bytes,
                        part => sum.AppendData(part), failed), name, failed).ConfigureAwait(false);
                    removed = removed with { Sha256 = Convert.ToHexStringLower(sum.GetHashAndReset()) };
                }
                return new(shard, file, bytes, state.Items[4].Number, removed);
            }
            finally
            {
                // It would be given up a minute later.
                try { await proxy.CallAsync(Command, "END", name).ConfigureAwait(false); } catch (ProxyUnreachableException) { }
            }
        }

        private async Task<ProxyReply> ReadyAsync(string name, bool isWhole, CancellationToken failed)
        {
            for (long toldAt = Environment.TickCount64; ; await Task.Delay(Pause, failed).ConfigureAwait(false))
            {
                ProxyReply state = await AskAsync("STATE", name).ConfigureAwait(false);
                if (state.Items[0].Text == "ready") { return state; }
                if (Environment.TickCount64 - toldAt < ToldEvery.TotalMilliseconds) { continue; }
                toldAt = Environment.TickCount64;
                Tell(isWhole
                    ? $"{state.Items[0].Text}, {ConsoleText.Bytes(state.Items[1].Number)} of {ConsoleText.Bytes(state.Items[2].Number)}"
                    : $"{state.Items[0].Text}, {state.Items[1].Number} of {state.Items[2].Number} keys");
            }
        }

        // The proxy would give the file up that nobody asks for, and a slow storage may take its time for what it has got.
        private async Task WriteAsync(SnapshotDraft draft, string file, long bytes, IAsyncEnumerable<byte[]> parts, string name,
            CancellationToken failed)
        {
            Task writing = draft.WriteAsync(file, bytes, parts, failed);
            while (await Task.WhenAny(writing, Task.Delay(HeldFor, failed)).ConfigureAwait(false) != writing
                && !failed.IsCancellationRequested)
            {
                try
                {
                    await AskAsync("STATE", name).ConfigureAwait(false);
                }
                catch (ProxyUnreachableException)
                {
                    // What asks for the next part says so.
                }
            }
            await writing.ConfigureAwait(false);
        }

        private async IAsyncEnumerable<byte[]> FetchAsync(string what, string name, long bytes, Action<byte[]> seen,
            [EnumeratorCancellation] CancellationToken failed)
        {
            for (long at = 0, toldAt = Environment.TickCount64; at < bytes;)
            {
                failed.ThrowIfCancellationRequested();
                byte[] part = (await AskAsync(what, name, Text(at), Text(PartBytes)).ConfigureAwait(false)).Bytes;
                if (part.Length == 0) { throw new IOException($"the file of shard {shard} ends after {at} of {bytes} bytes"); }
                seen(part);
                yield return part;
                at += part.Length;
                if (Environment.TickCount64 - toldAt < ToldEvery.TotalMilliseconds) { continue; }
                toldAt = Environment.TickCount64;
                Tell($"is fetched, {ConsoleText.Bytes(at)} of {ConsoleText.Bytes(bytes)}");
            }
        }

        private Task<ProxyReply> AskAsync(params string[] words) => CallAsync([Command, .. words]);

        private async Task<ProxyReply> CallAsync(params string[] words)
        {
            await _turn.WaitAsync().ConfigureAwait(false);
            try
            {
                ProxyReply reply = await proxy.CallAsync(words).ConfigureAwait(false);
                return reply.IsError ? throw PastCluster.Refused(reply, $"{address}: ") : reply;
            }
            finally
            {
                _turn.Release();
            }
        }

        private void Tell(string how)
        {
            lock (progress) { progress.WriteLine($"shard {shard}: {how}"); }
        }

        private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
    }
}

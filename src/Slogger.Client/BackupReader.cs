// Reads at a backup site. Each of its shards answers at one whole version of the cluster's, but two of them may stand at neighbouring ones at a moment: who asks the one and then the other could see
// an effect without its cause. So a reader learns from each answer at which version the shard stood at the latest, and asks no shard that stands below it: before a command it sends DPR.REACH, behind it DPR.CUT.
using System.Globalization;
using Slogger.Client.Wire;
using Slogger.Core.Ownership;
using Slogger.Core.WorldLines;
using Slogger.Resp;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Client;

/// <summary>What was read at a backup.</summary>
/// <param name="Value">The answer.</param>
/// <param name="Earliest">The shard stood at this version or a later one.</param>
/// <param name="Latest">And at this one or an earlier one: where both are the same, this is the version that was read.</param>
public readonly record struct Reading(RespValue Value, WorldPoint Earliest, WorldPoint Latest);

/// <summary>A session of reads at a backup site: whatever it reads is no earlier than anything that it has read before, at whichever shard. Thread-safe; what is asked of one shard goes one after the other.
/// When the site has become the primary, reads fail with a <see cref="SloggerException"/> that says so: go on with a <see cref="SloggerClient"/>.</summary>
public sealed class BackupReader : IDisposable
{
    private readonly SloggerClientOptions _options;
    private readonly Lock _gate = new();
    private readonly Dictionary<Address, Line> _lines = [];
    private readonly Address?[] _owners = new Address?[HashSlot.Count];
    private readonly KeyFinder _keys;
    private readonly Partitioning _partitions;
    private readonly Address _first;
    private long _atLeast;

    private BackupReader(SloggerClientOptions options, RespChannel first, KeyFinder keys, Partitioning partitions)
    {
        (_options, _keys, _partitions, _first) = (options, keys, partitions, first.Address);
        _lines[_first] = new() { Channel = first };
    }

    /// <summary>The version that every read is of at least.</summary>
    public Version AtLeast => new(Volatile.Read(ref _atLeast));

    /// <summary>Connects to the first of the endpoints that is a backup's.</summary>
    /// <param name="options">Where the backup's processes are, and how to log in there. Of the times <see cref="SloggerClientOptions.ConnectTimeout"/> and
    /// <see cref="SloggerClientOptions.GiveUpAfter"/> count: the latter bounds each read, the wait for its version included.</param>
    /// <param name="cancellation">Gives up.</param>
    /// <exception cref="SloggerException">None of them can be reached, or is a backup's.</exception>
    public static async Task<BackupReader> ConnectAsync(SloggerClientOptions options, CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        var failures = new List<string>();
        foreach (Address address in options.Endpoints.Select(Address.Parse))
        {
            RespChannel? channel = null;
            try
            {
                channel = await ConnectAsync(options, address, cancellation).ConfigureAwait(false);
                RespValue stands = await channel.CallAsync(cancellation, "DPR.REACH", 0, 0).ConfigureAwait(false);
                if (stands.Kind == RespKind.Error) { throw new SloggerException(stands.ToString()); }
                await channel.Write("COMMAND").SendAsync(cancellation).ConfigureAwait(false);
                KeyFinder keys = KeyFinder.FromCommandReply(await channel.ReadRawAsync(cancellation).ConfigureAwait(false));
                Partitioning partitions = await SloggerClient.PartitionsAsync(channel, cancellation).ConfigureAwait(false);
                return new(options, channel, keys, partitions);
            }
            catch (Exception e) when (SloggerClient.IsNoProxy(e))
            {
                channel?.Dispose();
                failures.Add($"{address}: {e.Message}");
            }
        }
        throw new SloggerException($"No process of a backup answers. {string.Join(" ", failures)}");
    }

    /// <summary>From here on nothing earlier than this version is read: of what a session has done at the primary, and wants to see here.</summary>
    public void Observe(Version version)
    {
        for (long known = Volatile.Read(ref _atLeast); known < version.Number;)
        {
            long found = Interlocked.CompareExchange(ref _atLeast, version.Number, known);
            if (found == known) { return; }
            known = found;
        }
    }

    /// <summary>Reads. All keys have to be in one partition.</summary>
    /// <param name="cancellation">Gives up.</param>
    /// <param name="command">A command that reads: its name, one word.</param>
    /// <param name="arguments">What follows.</param>
    /// <exception cref="TimeoutException">The shard did not come to <see cref="AtLeast"/>, or did not answer, in time.</exception>
    /// <exception cref="SloggerException">The command was refused, or the site is no backup any more.</exception>
    /// <exception cref="IOException">The connection broke: reads do no harm twice.</exception>
    public async Task<Reading> ReadAsync(CancellationToken cancellation, string command, params Argument[] arguments)
    {
        ArgumentException.ThrowIfNullOrEmpty(command);
        ArgumentNullException.ThrowIfNull(arguments);
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        limit.CancelAfter(_options.GiveUpAfter);
        try
        {
            Argument[] request = [command, .. arguments];
            var scratch = new RequestWriter();
            scratch.Begin(request.Length);
            foreach (Argument argument in request) { argument.WriteTo(scratch); }
            _keys.FindSlot(scratch.WrittenMemory.Span, scratch.Arguments, _partitions, out HashSlot slot);
            for (int redirections = 0; ; redirections++)
            {
                Address at;
                lock (_gate) { at = _owners[slot.Number] ?? _first; }
                Reading reading = await ReadAtAsync(at, request, limit.Token).ConfigureAwait(false);
                if (reading.Value.Kind != RespKind.Error) { return reading; }
                if (redirections >= _options.RedirectionsMax || !Redirected(reading.Value.ToString(), at)) { throw new SloggerException($"{at}: {reading.Value}"); }
            }
        }
        catch (OperationCanceledException) when (!cancellation.IsCancellationRequested)
        {
            throw new TimeoutException(string.Create(CultureInfo.InvariantCulture, $"The backup has not answered at version {AtLeast} or later in {_options.GiveUpAfter.TotalSeconds:0.#} s."));
        }
    }

    /// <summary>Closes its connections.</summary>
    public void Dispose()
    {
        lock (_gate)
        {
            foreach (Line line in _lines.Values) { line.Channel?.Dispose(); }
            _lines.Clear();
        }
    }

    private bool Redirected(string error, Address from)
    {
        string[] words = error.Split(' ');
        bool isMoved = words.Length >= 3 && words[0] == "MOVED" && int.TryParse(words[1], NumberStyles.None, CultureInfo.InvariantCulture, out int slot) && slot < HashSlot.Count;
        // Without a host it is that of the shard that says so.
        if (!isMoved || !Address.TryParse(words[2].StartsWith(':') ? from.Host + words[2] : words[2], out Address to)) { return false; }
        lock (_gate) { _owners[int.Parse(words[1], CultureInfo.InvariantCulture)] = to; }
        return true;
    }

    private async Task<Reading> ReadAtAsync(Address at, Argument[] request, CancellationToken cancellation)
    {
        Line line;
        lock (_gate)
        {
            if (!_lines.TryGetValue(at, out line!)) { _lines[at] = line = new(); }
        }
        await line.Turn.WaitAsync(cancellation).ConfigureAwait(false);
        RespChannel? channel = line.Channel;
        line.Channel = null;
        try
        {
            channel ??= await ConnectAsync(_options, at, cancellation).ConfigureAwait(false);
            // The command follows before the answer: it waits there. Without end, as this side's own limit closes the connection.
            await channel.Write("DPR.REACH", AtLeast.Number, 0).Write(request).Write("DPR.CUT").SendAsync(cancellation).ConfigureAwait(false);
            WorldPoint earliest = PointOf(await channel.ReadAsync(cancellation).ConfigureAwait(false), at);
            RespValue value = await channel.ReadAsync(cancellation).ConfigureAwait(false);
            WorldPoint latest = PointOf(await channel.ReadAsync(cancellation).ConfigureAwait(false), at);
            Observe(latest.Version);
            lock (_gate)
            {
                // It is closed else: nobody would, when this is disposed.
                if (_lines.ContainsKey(at)) { (line.Channel, channel) = (channel, null); }
            }
            return new(value, earliest, latest);
        }
        finally
        {
            channel?.Dispose();
            line.Turn.Release();
        }
    }

    private static WorldPoint PointOf(RespValue reply, Address at) => reply.Kind == RespKind.Array && reply.Items.Length >= 2
        ? new(new(reply.Items[0].AsInteger()), new(reply.Items[1].AsInteger())) : throw new SloggerException($"{at}: {reply}");

    private static async Task<RespChannel> ConnectAsync(SloggerClientOptions options, Address address, CancellationToken cancellation)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        limit.CancelAfter(options.ConnectTimeout);
        try
        {
            return await RespChannel.ConnectAsync(address, options, limit.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!cancellation.IsCancellationRequested)
        {
            throw new IOException($"{address}: no connection in {options.ConnectTimeout.TotalSeconds:0.#} s");
        }
    }

    // To one shard.
    private sealed class Line
    {
        public SemaphoreSlim Turn { get; } = new(1, 1);

        public RespChannel? Channel { get; set; }
    }
}

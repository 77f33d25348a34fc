// A session that writes numbers into one shard's keys, each once, and knows of every one what it was told: its version, or that it was not
// answered. From that and the branch that a refusal names it follows which of them are there: what the store holds is compared with that,
// number by number. It also looks that versions and world-lines only rise.
using System.Globalization;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Sessions;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Stores;

internal sealed class Journal(ClusterDeployment cluster, int shard, string name = "journal") : IDisposable
{
    private const int PerRow = 100;
    private static readonly TimeSpan PatienceMax = TimeSpan.FromSeconds(60);
    private readonly SessionId _session = SessionClient.NewId();
    private readonly Random _random = new(shard);
    private readonly string _tag = "{" + cluster.Key(shard, name) + "}";
    private readonly SortedDictionary<long, long> _answered = [];   // those that must be there, and their versions
    private readonly SortedSet<long> _uncertain = [];
    private readonly HashSet<long> _gone = [];
    private SessionClient? _client;
    private long _line, _atLeast, _branch, _next = 1, _committed;

    /// <summary>How many were answered and lost.</summary>
    public long Lost { get; private set; }

    /// <summary>World-lines that it was told of.</summary>
    public int Rollbacks { get; private set; }

    /// <summary>The world-line that it is in.</summary>
    public long WorldLine => _line;

    /// <summary>The largest version of what is there.</summary>
    public long LastVersion => _answered.Count == 0 ? 0 : _answered.Last().Value;

    /// <summary>The rows, for whoever looks at a store by itself.</summary>
    public string[] Keys => [.. Enumerable.Range(0, (int)(_next / PerRow) + 1).Select(Row)];

    /// <summary>Writes some numbers, in one batch. Goes on until it is answered, through whatever happens meanwhile, unless it is told to
    /// stop.</summary>
    /// <returns>The version of the last one.</returns>
    public async Task<long> AppendAsync(int count, CancellationToken stop = default)
    {
        long began = Environment.TickCount64;
        while (true)
        {
            if (Environment.TickCount64 - began > PatienceMax.TotalMilliseconds)
            {
                throw new TimeoutException($"shard {shard} does not answer\n{cluster.Tail()}");
            }
            try
            {
                if (await TryAppendAsync(count) is { } version) { return version; }
            }
            catch (ConnectionLostException)
            {
                Disconnect();
                if (stop.IsCancellationRequested) { return _atLeast; }
                await Task.Delay(20, CancellationToken.None);
            }
        }
    }

    /// <summary>Writes until it is told to stop.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested) { await AppendAsync(_random.Next(1, 20), stop); }
    }

    /// <summary>Waits until all that was answered is committed.</summary>
    /// <returns>The committed version then; null if it was not reported in time.</returns>
    public async Task<long?> TryCommitAsync(int timeoutMilliseconds)
    {
        RespValue waited = await _client!.Wire.DoAsync("DPR.WAIT", "*", timeoutMilliseconds.ToString(CultureInfo.InvariantCulture));
        if (waited.Items[2].Number == 0) { return null; }
        RespValue cut = await _client.Wire.DoAsync("DPR.CUT");
        if (cut.Items[0].Number == _line)
        {
            Assert.True(cut.Items[1].Number >= LastVersion,
                $"all was said to be committed, and version {LastVersion} is not: the cut is {cut}");
            _committed = Math.Max(_committed, _answered.Count == 0 ? 0 : _answered.Last().Key);
        }

        return cut.Items[1].Number;
    }

    /// <summary>Waits until all that was answered is committed.</summary>
    public async Task<long> CommitAsync() => await TryCommitAsync(60_000)
        ?? throw new TimeoutException($"nothing is committed in 60 s\n{cluster.Tail()}");

    /// <summary>Looks that the shard holds exactly what it must.</summary>
    public async Task CheckAsync()
    {
        // What is over it is told of first.
        await AppendAsync(1);
        using RespClient client = await cluster.ConnectAsync(shard);
        Check([.. (await client.DoAsync(["MGET", .. Keys])).Items.Select(v => v.IsNull ? "" : v.Text)], long.MaxValue);
    }

    /// <summary>Looks that rows are exactly those at the end of a version.</summary>
    public void Check(IReadOnlyList<string> rows, long version)
    {
        long[] found = [.. rows.SelectMany(r => r.Split(',', StringSplitOptions.RemoveEmptyEntries))
            .Select(n => long.Parse(n, CultureInfo.InvariantCulture))];
        Assert.Equal(found.Order().Distinct(), found);
        var there = new HashSet<long>(found);
        foreach ((long number, long of) in _answered)
        {
            Assert.True(there.Contains(number) == of <= version,
                $"number {number} of version {of} is {(there.Contains(number) ? "" : "not ")}in the state at the end of version {version} "
                    + $"(branch {_branch}, world-line {_line})\n{cluster.Tail()}");
        }

        foreach (long number in found)
        {
            Assert.False(_gone.Contains(number),
                $"number {number} is there, and was lost (branch {_branch}, world-line {_line})\n{cluster.Tail()}");
            Assert.True(_answered.ContainsKey(number) || _uncertain.Contains(number),
                $"number {number} is there, and nobody has written it");
        }

        if (version < long.MaxValue) { return; }
        // What nobody answered and is not there will never be.
        foreach (long number in _uncertain.Where(n => !there.Contains(n)).ToArray())
        {
            _uncertain.Remove(number);
            _gone.Add(number);
        }
    }

    public void Dispose() => Disconnect();

    private string Row(int row) => string.Create(CultureInfo.InvariantCulture, $"{_tag}{row}");

    // Null: it was refused, and why is known now.
    private async Task<long?> TryAppendAsync(int count)
    {
        if (_client is null)
        {
            _client = await SessionClient.ConnectAsync(cluster.Endpoint(shard));
            if (_line == 0) { _line = (await _client.HelloAsync(_session))["worldline"].Number; }
        }

        long first = _next;
        _next += count;
        for (long n = first; n < _next; n++) { _uncertain.Add(n); }
        string[][] requests = [.. Enumerable.Range(0, count)
            .Select(i => (string[])["APPEND", Row((int)((first + i) / PerRow)),
                string.Create(CultureInfo.InvariantCulture, $"{first + i},")])];
        await _client.SendAsync(SessionClient.HeaderOf(_session, _line, _atLeast, first, count), requests);
        BatchOutcome outcome = await _client.ReadAsync(count);
        if (outcome.Refusal is { } refusal)
        {
            // Nothing of it was done.
            for (long n = first; n < _next; n++) { Never(n); }
            if (refusal.StartsWith("ROLLBACK ", StringComparison.Ordinal)) { RollBack(refusal); }
            else { Assert.Contains("try again", refusal, StringComparison.Ordinal); }
            Disconnect();
            return null;
        }

        Assert.All(outcome.Replies, r => Assert.False(r.IsError, r.Text));
        long number = first;
        foreach (VersionRun run in outcome.Reply.Versions.ToArray())
        {
            Assert.True(run.Version.Number >= _atLeast,
                $"version {run.Version} after {_atLeast}, which was seen before (world-line {_line})");
            Assert.True(run.Version.Number > _branch, $"version {run.Version} in world-line {_line}, which began with {_branch}");
            _atLeast = run.Version.Number;
            for (int i = 0; i < run.Count; i++)
            {
                _uncertain.Remove(number);
                _answered.Add(number++, run.Version.Number);
            }
        }

        Assert.Equal(_line, outcome.Reply.WorldLine.Number);
        Assert.Equal(_next, number);
        return _atLeast;
    }

    private void RollBack(string refusal)
    {
        (WorldLine abandoned, WorldPoint branch) = SessionClient.RollbackOf(refusal);
        Assert.Equal(_line, abandoned.Number);
        Assert.True(branch.WorldLine.Number > _line, refusal);
        Rollbacks++;
        (_line, _branch) = (branch.WorldLine.Number, branch.Version.Number);
        _atLeast = _branch + 1;
        foreach ((long number, long version) in _answered.Where(a => a.Value > _branch).ToArray())
        {
            Assert.True(number > _committed,
                $"number {number} of version {version} was committed, and world-line {_line} begins with {_branch}");
            _answered.Remove(number);
            _gone.Add(number);
            Lost++;
        }
    }

    private void Never(long number)
    {
        _uncertain.Remove(number);
        _gone.Add(number);
    }

    private void Disconnect()
    {
        _client?.Dispose();
        _client = null;
    }
}

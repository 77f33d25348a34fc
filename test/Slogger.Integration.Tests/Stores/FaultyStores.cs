// Stores with a fault: each breaks one law of docs/internals/STORES.md, in a line or two, at the seam where a store meets its shard. They
// prove that the conformance suite would notice (StoreMutantTests). Like all that it tests they run in a process of their own: this test
// program with --faulty-store NAME, and then what slogger is given.
using System.Text;
using Microsoft.Extensions.Logging;
using Slogger.Cli;
using Slogger.Cli.Terminal;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.FrontEnd;
using Slogger.Proxy;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Embedded;
using Slogger.Proxy.Shards;

namespace Slogger.Integration.Tests.Stores;

internal enum StoreFault
{
    None,

    /// <summary>A version is named durable when its commit has begun; what is on disk is the one before.</summary>
    NamedTooEarly,

    /// <summary>A restore takes the nearest state below the one that is asked for.</summary>
    RestoresTheOneBefore,

    /// <summary>A restore takes the newest state, be it beyond the one that is asked for.</summary>
    RestoresTheNewest,

    /// <summary>Of what is taken back in place one key stays.</summary>
    LeavesAKey,

    /// <summary>What the cut has not left behind is deleted.</summary>
    DeletesWhatIsNeeded,
}

internal static class FaultyStores
{
    public const string Option = "--faulty-store";

    /// <summary>What runs a proxy with such a store, with its first arguments. One with a Redis is as always.</summary>
    public static string[] Program(StoreFault fault) => [typeof(FaultyStores).Assembly.Location, Option, fault.ToString()];

    public static Task<int> RunAsync(string[] args)
    {
        StoreFault fault = Enum.Parse<StoreFault>(args[1]);
        return SloggerApp.RunAsync(
            args[2..], AppHost.Process with { Serve = (options, _, log, stop) =>
                ProxyHost.RunAsync(options, log, null, stop, o => o.Commit == CommitMode.Faster ? New(fault, o, log) : null) });
    }

    private static FasterShard New(StoreFault fault, ServeOptions options, ILogger log) => fault switch
    {
        StoreFault.None => new FasterShard(options, log),
        StoreFault.NamedTooEarly => new NamedTooEarly(options, log),
        StoreFault.RestoresTheOneBefore => new RestoresTheOneBefore(options, log),
        StoreFault.RestoresTheNewest => new RestoresTheNewest(options, log),
        StoreFault.LeavesAKey => new LeavesAKey(options, log),
        StoreFault.DeletesWhatIsNeeded => new DeletesWhatIsNeeded(options, log),
        _ => throw new ArgumentOutOfRangeException(nameof(fault), fault, "no such fault"),
    };

    private sealed class NamedTooEarly(ServeOptions options, ILogger log) : FasterShard(options, log)
    {
        private Marker? _before, _sent;

        internal override MarkerToSend ToSend(in Marker marker)
        {
            (_before, _sent) = (_sent, marker);
            return _before is { } before ? base.ToSend(before) with { NextOpen = marker.Next.Number }
                : new(Encoding.ASCII.GetBytes("*1\r\n$4\r\nPING\r\n"), marker.Next.Number) { Accepts = (byte)'+' };
        }

        public override void MarkerAnswered(bool counts)
        {
            base.MarkerAnswered(counts);
            lock (Versions.Lock) { Versions.OnSaveEnded(_sent!.Value, counts); }
        }
    }

    private sealed class RestoresTheOneBefore(ServeOptions options, ILogger log) : FasterShard(options, log)
    {
        protected override KeptState StateAt(VersionNumber version, WorldLine current)
        {
            KeptState exact = base.StateAt(version, current);
            return History.All.LastOrDefault(s => s.Line == exact.Line && s.Last < exact.First) is { Line.Number: > 0 } before
                ? exact with { Commit = before.Commit } : exact;
        }
    }

    private sealed class RestoresTheNewest(ServeOptions options, ILogger log) : FasterShard(options, log)
    {
        protected override KeptState StateAt(VersionNumber version, WorldLine current) =>
            base.StateAt(version, current) with { Commit = History.All[^1].Commit };
    }

    private sealed class LeavesAKey(ServeOptions options, ILogger log) : FasterShard(options, log)
    {
        internal override async Task<bool> RestoreAsync(WorldLine line, Boundary branch, WorldLine current, CancellationToken stop)
        {
            Change left = Faster is { } open ? open.Commits.Where(c => c.Point.Version > branch.Version).SelectMany(open.Changes)
                .LastOrDefault(c => c.Value is not null) : default;
            if (!await base.RestoreAsync(line, branch, current, stop)) { return false; }
            if (left.Key is null) { return true; }
            using FasterWorker worker = Faster!.NewWorker();
            int entered = worker.Enter(left.Key);
            worker.Write(left.Key, left.Value, left.ExpiryMs);
            worker.Exit(entered);
            return true;
        }
    }

    private sealed class DeletesWhatIsNeeded(ServeOptions options, ILogger log) : FasterShard(options, log)
    {
        public override void MarkerAnswered(bool counts)
        {
            base.MarkerAnswered(counts);
            Faster!.Keep(Faster.Commits[^1].Point);
        }
    }
}

// Places between two steps of a recovery at which a test has the process die as by kill -9, or wait (docs/internals/TESTING.md).
using System.Diagnostics;
using System.Globalization;
using Slogger.Redis.Feeding;

namespace Slogger.Proxy.Stores;

internal static class FailPoint
{
    public const string Variable = "SLOGGER_TEST_FAILPOINT";

    /// <summary>Has this process's clock stand so many microseconds off, as another machine's would.</summary>
    public const string ClockVariable = "SLOGGER_TEST_CLOCK_OFFSET_US";

    /// <summary>Set: a node of a cohort compiles nothing ahead of a takeover. That would take ten seconds of a processor for each start of
    /// one, and decides only how long a takeover takes.</summary>
    public const string UnpreparedVariable = "SLOGGER_TEST_UNPREPARED";

    public static readonly bool IsUnprepared = Environment.GetEnvironmentVariable(UnpreparedVariable) is { Length: > 0 };

    public static readonly long ClockOffsetUs = long.TryParse(Environment.GetEnvironmentVariable(ClockVariable), out long offset) ? offset
        : 0;

    public const string WorldLineRecorded = "world-line-recorded";
    public const string BranchWritten = "branch-written";
    public const string RollbackPlanned = "rollback-planned";
    public const string RollbackApplied = "rollback-applied";
    public const string RolledBack = "rolled-back";
    public const string OriginRecorded = "origin-recorded";
    public const string NoteWritten = "note-written";
    public const string RestoreRunning = "restore-running";
    public const string RestoreAtTarget = "restore-at-target";
    public const string Promoted = "promoted";
    public const string Restored = "restored";
    public const string Attached = "attached";
    public const string IdentityWritten = "identity-written";
    public const string SnapshotKept = "snapshot-kept";
    public const string CheckpointTaken = "checkpoint-taken";
    public const string CheckpointKept = "checkpoint-kept";
    public const string ReducedWritten = "reduced-written";
    public const string ReducedDurable = "reduced-durable";
    public const string ReducedTrimmed = "reduced-trimmed";
    public const string KeyIndexRead = "key-index-read";
    public const string KeyIndexWritten = "key-index-written";
    public const string HistoryBegun = "history-begun";
    public const string PastAppended = "past-appended";
    public const string PastDurable = "past-durable";
    public const string OlderVersionKept = "older-version-kept";
    public const string ClientsTold = "clients-told";
    public const string SiteTaken = "site-taken";
    public const string StreamEnded = "stream-ended";
    public const string StreamMoving = "stream-moving";
    public const string StreamMoved = "stream-moved";
    public const string ResetMarked = "reset-marked";
    public const string ResetPartWritten = "reset-part-written";

    public const string MovePurged = "move-purged";
    public const string MoveCopied = "move-copied";
    public const string MoveChangesSent = "move-changes-sent";
    public const string MoveWithheld = "move-withheld";
    public const string MoveLeaving = "move-leaving";
    public const string MoveLastChangesSent = "move-last-changes-sent";
    public const string MoveComplete = "move-complete";
    public const string MoveLanded = "move-landed";
    public const string MoveDiscarded = "move-discarded";

    public const string JoinBegun = "join-begun";
    public const string JoinAsks = "join-asks";
    public const string JoinAdmitted = "join-admitted";
    public const string LeaveBegun = "leave-begun";
    public const string LeaveAllowed = "leave-allowed";
    public const string LeaveClosed = "leave-closed";
    public const string LeaveTold = "leave-told";

    // "name", or "name+milliseconds".
    private static readonly string[]? s_given = Environment.GetEnvironmentVariable(Variable)?.Split('+');
    private static readonly string? s_wanted = s_given?[0];

    /// <summary>Goes on, unless the test wants the process to die here, or to wait for something.</summary>
    public static void Pass(string name)
    {
        if (s_wanted != name) { return; }
        if (s_given is [_, var wait])
        {
            Thread.Sleep(int.Parse(wait, CultureInfo.InvariantCulture));
            return;
        }
        using Process self = Process.GetCurrentProcess();
        self.Kill();
        Thread.Sleep(Timeout.Infinite);
    }

    /// <summary>Options of a restore that passes three places: when it has begun, when Redis stands at the target, and when it is a master
    /// again, its settings still changed.</summary>
    public static RestoreOptions Watched(RestoreOptions options) => s_wanted is null ? options : options with
    {
        Progress = new InRestore(),
        BeforePromotion = (_, _) =>
        {
            Pass(RestoreAtTarget);
            return Task.CompletedTask;
        },
        Promoted = () => Pass(Promoted),
    };

    private sealed class InRestore : IProgress<FeedProgress>
    {
        public void Report(FeedProgress value) => Pass(RestoreRunning);
    }
}

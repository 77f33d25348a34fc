// The memory for records. The whole log is kept in it, so that the log's length is what is used of it, and about what is used of the disk.
using FASTER.core;
using Slogger.Faster.Memory;
using Slogger.Faster.Records;

namespace Slogger.Faster;

/// <summary>How much of its memory a log takes, and who may write more. Any thread.</summary>
/// <param name="kv">Whose log it is.</param>
/// <param name="memoryBytes">The memory that was asked for.</param>
/// <param name="budget">How much may be used for what.</param>
/// <param name="limits">What of it has been reached.</param>
/// <param name="counts">What is in use.</param>
/// <param name="onPressed">Called when writers are to be slowed down: compaction has to begin.</param>
internal sealed class LogSpace(
    FasterKV<SpanByte, SpanByte> kv, long memoryBytes, LogBudget budget, LogLimits limits, RecordCounts counts, Action onPressed)
{
    // What a record takes besides its key and value, and the first page before its records, at most.
    private const int RecordOverheadBytes = 256;
    private static readonly TimeSpan s_throttleMax = TimeSpan.FromMilliseconds(50);

    public LogBudget Budget => budget;

    /// <summary>The most bytes of a key and its value: a page has to hold their record.</summary>
    public long RecordBytesMax => budget.PageBytes - RecordOverheadBytes;

    /// <summary>From the page in which the log begins to its end.</summary>
    public long UsedBytes => kv.Log.TailAddress - FirstPage;

    public long LiveBytes => counts.Sum().Bytes;

    /// <summary>How much is left before nothing at all may be written.</summary>
    public long Room => budget.Wall - UsedBytes;

    /// <summary>Held by who writes a large record.</summary>
    public Lock LargeGate { get; } = new();

    private long FirstPage => kv.Log.BeginAddress & -budget.PageBytes;

    /// <summary>Before an application's write.</summary>
    public void Admit(int bytes)
    {
        if (bytes > RecordBytesMax)
            throw new ArgumentException($"A key and its value together have at most {RecordBytesMax} bytes, not {bytes}.");
        if (limits.IsFull) throw Full();
    }

    public InvalidOperationException Full() =>
        new($"The memory for records ({memoryBytes} bytes) is full: ask {nameof(FasterStore.IsOutOfMemory)} before a write.");

    /// <summary>Behind each write that has made the log longer: how far it has come.</summary>
    public void Reached(long address)
    {
        if (limits.IsAlarming(address) && limits.Warn(address - FirstPage)) onPressed();
    }

    /// <summary>Sees where the log stands.</summary>
    public void Judge() => limits.Judge(LiveBytes, FirstPage, kv.Log.TailAddress);

    public void WaitWhilePressed()
    {
        long start = Environment.TickCount64;
        while (limits.IsPressed && Environment.TickCount64 - start < s_throttleMax.TotalMilliseconds) Thread.Sleep(1);
    }

    /// <summary>Whether a record for each of some keys can be written that says that it is removed.</summary>
    /// <param name="keyBytes">Of all keys.</param>
    /// <param name="keys">How many.</param>
    /// <param name="keyLengthMax">Of the longest.</param>
    public bool HasRoomForRemovals(long keyBytes, long keys, int keyLengthMax)
    {
        // A key's length is filled up, and a record that would not fit into the rest of a page is in the next one.
        long records = keyBytes + (keys * RecordFunctions.Size(sizeof(long) - 1, RecordHeader.Bytes));
        long record = RecordFunctions.Size(keyLengthMax, RecordHeader.Bytes);
        return records + (((records / (budget.PageBytes - record)) + 1) * record) <= Room;
    }
}

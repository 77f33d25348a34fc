// Commands on one key that are written as one, at the place of the first (rule 3). Nothing is copied: an argument of a run is a place in
// the bytes of the window. All arguments of all runs are in one array. What is dropped of a run stays there until the window ends.
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Reduction;

/// <summary>A run of commands.</summary>
internal struct MergedRun
{
    /// <summary>How many commands have joined it.</summary>
    public int Commands;

    /// <summary>The first of its arguments; -1: none.</summary>
    public int First;

    /// <summary>The last one.</summary>
    public int Last;

    /// <summary>How many they are.</summary>
    public int Arguments;

    /// <summary>Their size.</summary>
    public int Bytes;

    /// <summary>What is added to a number.</summary>
    public long Sum;

    /// <summary>The n of its LTRIMs; -1: none.</summary>
    public int Trim;

    /// <summary>How many elements were pushed behind the last LTRIM.</summary>
    public int Behind;
}

/// <summary>Arguments of a run: a field and its value, a member and its score, or one argument alone.</summary>
/// <param name="Name">Where the field, the member or the argument is.</param>
/// <param name="Value">Where the value or the score is.</param>
/// <param name="Next">The next of the run; -1: none.</param>
internal record struct MergedArgument((int Offset, int Length) Name, (int Offset, int Length) Value, int Next);

/// <summary>The runs of a window. Not thread-safe.</summary>
internal sealed class MergedRuns(ReductionLimits limits, ReductionMutation mutation)
{
    private readonly NameTable<int> _names = new();
    private MergedRun[] _runs = new MergedRun[64];
    private MergedArgument[] _arguments = new MergedArgument[256];
    private int _runCount, _argumentCount;

    /// <summary>A run.</summary>
    public ref MergedRun this[int run] => ref _runs[run];

    /// <summary>An argument of a run.</summary>
    public ref readonly MergedArgument Argument(int argument) => ref _arguments[argument];

    /// <summary>Forgets all.</summary>
    public void Clear()
    {
        _names.Clear();
        (_runCount, _argumentCount) = (0, 0);
    }

    /// <summary>Begins a run with a command. Returns -1 if it is none that others may join.</summary>
    public int Begin(byte[] bytes, Effect effect, EffectKind kind)
    {
        if (_runCount == _runs.Length) { Array.Resize(ref _runs, 2 * _runs.Length); }
        _runs[_runCount++] = new() { First = -1, Last = -1, Trim = -1 };
        if (TryJoin(_runCount - 1, bytes, effect, kind)) { return _runCount - 1; }
        _runCount--;
        return -1;
    }

    /// <summary>Has a command join a run of its kind. False: it cannot, and the run is as it was.</summary>
    public bool TryJoin(int run, byte[] bytes, Effect effect, EffectKind kind)
    {
        if (!(kind == EffectKind.Count ? TryAdd(ref _runs[run], effect) : TryMerge(run, bytes, effect, kind))) { return false; }
        _runs[run].Commands++;
        return true;
    }

    /// <summary>Has an LTRIM join a run of LPUSH. False: it cannot, and the run is as it was.</summary>
    public bool TryTrim(int run, Effect effect)
    {
        ref MergedRun pushed = ref _runs[run];
        int last = EffectClass.TrimOf(effect)!.Value;
        if (pushed.Trim >= 0 && pushed.Trim != last && mutation != ReductionMutation.AnyTrimJoins) { return false; }
        pushed.Commands++;
        (pushed.Trim, pushed.Behind) = (last, 0);
        // Those pushed last are in front. One at least stays.
        int kept = mutation == ReductionMutation.TrimKeepsOneLess ? Math.Max(last, 1) : last + 1;
        while (pushed.Arguments > kept)
        {
            pushed.Arguments--;
            pushed.Bytes -= _arguments[pushed.First].Name.Length;
            pushed.First = _arguments[pushed.First].Next;
        }
        return true;
    }

    private bool TryAdd(ref MergedRun run, Effect effect)
    {
        if (EffectClass.SumOf(effect) is not { } by) { return false; }
        if (mutation == ReductionMutation.DecrementCountsUp) { by = Math.Abs(by); }
        long sum = unchecked(run.Sum + by);
        bool overflows = ((run.Sum ^ sum) & (by ^ sum)) < 0;
        if (overflows && mutation != ReductionMutation.SumOverflows) { return false; }
        run.Sum = sum;
        return true;
    }

    private bool TryMerge(int run, byte[] bytes, Effect effect, EffectKind kind)
    {
        int added = effect.Count - 2;
        long addedBytes = 0;
        for (int i = 2; i < effect.Count; i++) { addedBytes += effect.PlaceOf(i).Length; }
        if (_runs[run].Arguments + added > limits.MergedArgumentsMax || _runs[run].Bytes + addedBytes > limits.MergedBytesMax)
        {
            return false;
        }
        switch (kind)
        {
            case EffectKind.SetFields:
                for (int i = 2; i < effect.Count; i += 2) { Set(run, bytes, effect.PlaceOf(i), effect.PlaceOf(i + 1)); }
                break;
            case EffectKind.Score:
                for (int i = 2; i < effect.Count; i += 2) { Set(run, bytes, effect.PlaceOf(i + 1), effect.PlaceOf(i)); }
                break;
            case EffectKind.AddMembers or EffectKind.RemoveMembers or EffectKind.RemoveFields:
                for (int i = 2; i < effect.Count; i++) { Set(run, bytes, effect.PlaceOf(i), (0, 0)); }
                break;
            default:
                for (int i = 2; i < effect.Count; i++) { Add(ref _runs[run], effect.PlaceOf(i), (0, 0)); }
                _runs[run].Behind += added;
                break;
        }
        return true;
    }

    // The last value of a name, in the order in which names appeared.
    private void Set(int run, byte[] bytes, (int Offset, int Length) name, (int Offset, int Length) value)
    {
        ref int known = ref _names[_names.FindOrAdd(bytes, run, name, out bool isNew)];
        if (isNew)
        {
            known = Add(ref _runs[run], name, value);
            return;
        }
        if (mutation == ReductionMutation.FirstValueStays) { return; }
        _runs[run].Bytes += value.Length - _arguments[known].Value.Length;
        _arguments[known].Value = value;
    }

    private int Add(ref MergedRun run, (int Offset, int Length) name, (int Offset, int Length) value)
    {
        if (_argumentCount == _arguments.Length) { Array.Resize(ref _arguments, 2 * _arguments.Length); }
        int added = _argumentCount++;
        _arguments[added] = new(name, value, -1);
        if (run.First < 0) { run.First = run.Last = added; }
        else if (mutation == ReductionMutation.FieldsReversed) { (_arguments[added].Next, run.First) = (run.First, added); }
        else { run.Last = _arguments[run.Last].Next = added; }
        run.Arguments += value.Offset > 0 ? 2 : 1;
        run.Bytes += name.Length + value.Length;
        return added;
    }
}

// Writes what is alive of a window, in its order. A command that nothing was merged with, and of which no part has died, is written with
// the bytes that it had.
using System.Buffers;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Reduction;

/// <summary>Writes windows. Not thread-safe.</summary>
internal sealed class ReducedWriter(ReducedEntries entries, MergedRuns runs, ReductionMutation mutation)
{
    private readonly Effect _effect = new();
    private byte[] _bytes = [];
    private RespWords _words;
    private int _database;

    /// <summary>Commands written that change data.</summary>
    public long Commands { get; private set; }

    /// <summary>Bytes written.</summary>
    public long Bytes => _words.Bytes;

    /// <summary>Begins a window.</summary>
    /// <param name="bytes">What holds its commands.</param>
    /// <param name="output">Is appended to.</param>
    /// <param name="database">The database selected where it begins.</param>
    public void Begin(byte[] bytes, IBufferWriter<byte> output, int database)
    {
        (_bytes, _words, _database) = (bytes, new(output), database);
        Commands = 0;
    }

    /// <summary>Writes all entries that are alive.</summary>
    public void WriteAll()
    {
        for (int at = 0; at < entries.Count;)
        {
            ref ReducedEntry entry = ref entries[at];
            if (entry.Kind is EffectKind.Delete or EffectKind.SetMany)
            {
                int end = entries.EndOfParts(at);
                WriteParts(at, end);
                at = end;
                continue;
            }
            at++;
            if (!entry.IsAlive) { continue; }
            Select(entry.Database);
            if (entry.Run >= 0 && runs[entry.Run].Commands > 1) { WriteRun(entry); }
            else { WriteAsItStood(entry); }
        }
    }

    /// <summary>Selects a database if it is not selected.</summary>
    public void Select(int database, bool isLast = false)
    {
        if (database == _database) { return; }
        if (mutation == (isLast ? ReductionMutation.LastSelectForgotten : ReductionMutation.SelectForgotten)) { return; }
        _database = database;
        _words.Begin(2);
        _words.Add("SELECT"u8);
        _words.Add(database);
    }

    private void WriteAsItStood(in ReducedEntry entry)
    {
        Commands++;
        _words.Raw(_bytes.AsSpan(entry.Start, entry.End - entry.Start));
    }

    private void WriteParts(int at, int end)
    {
        int alive = 0;
        for (int i = at; i < end; i++) { alive += entries[i].IsAlive ? 1 : 0; }
        if (alive == 0 || (alive < end - at && mutation == ReductionMutation.PartsDieTogether)) { return; }
        Select(entries[at].Database);
        if (alive == end - at)
        {
            WriteAsItStood(entries[at]);
            return;
        }
        Commands++;
        _effect.TryRead(_bytes, entries[at].Start, entries[at].End);
        int words = entries[at].Kind == EffectKind.SetMany ? 2 : 1;
        _words.Begin(1 + (words * alive));
        _words.Add(_effect[0]);
        for (int i = at; i < end; i++)
        {
            for (int word = 0; word < words && entries[i].IsAlive; word++) { _words.Add(_effect[entries[i].Argument + word]); }
        }
    }

    private void WriteRun(in ReducedEntry entry)
    {
        _effect.TryRead(_bytes, entry.Start, entry.End);
        ref MergedRun run = ref runs[entry.Run];
        switch (entry.Kind)
        {
            case EffectKind.Count:
                Begin("INCRBY"u8, 1);
                _words.Add(run.Sum);
                break;
            case EffectKind.Append:
                Begin("APPEND"u8, 1);
                _words.BeginWord(run.Bytes);
                for (int i = run.First; i >= 0; i = runs.Argument(i).Next) { _words.Raw(At(runs.Argument(i).Name)); }
                _words.EndWord();
                break;
            case EffectKind.PushLeft when run.Trim >= 0:
                WriteTrimmed(run);
                break;
            default:
                Begin(NameOf(entry.Kind), run.Arguments);
                WriteArguments(entry.Kind, run.First, int.MaxValue);
                break;
        }
    }

    private void WriteTrimmed(in MergedRun run)
    {
        int behind = mutation == ReductionMutation.PushedBehindIsTrimmed ? 0 : run.Behind, before = run.Arguments - behind;
        Begin("LPUSH"u8, before);
        int next = WriteArguments(EffectKind.PushLeft, run.First, before);
        Begin("LTRIM"u8, 2);
        _words.Add(0);
        _words.Add(run.Trim);
        if (behind == 0) { return; }
        Begin("LPUSH"u8, behind);
        WriteArguments(EffectKind.PushLeft, next, behind);
    }

    private int WriteArguments(EffectKind kind, int first, int count)
    {
        int at = first;
        for (; at >= 0 && count > 0; at = runs.Argument(at).Next, count--)
        {
            ref readonly MergedArgument argument = ref runs.Argument(at);
            if (kind == EffectKind.Score) { _words.Add(At(argument.Value)); }
            _words.Add(At(argument.Name));
            if (kind == EffectKind.SetFields) { _words.Add(At(argument.Value)); }
        }
        return at;
    }

    // Of a command on the key of the one that was read.
    private void Begin(ReadOnlySpan<byte> name, int arguments)
    {
        Commands++;
        _words.Begin(2 + arguments);
        _words.Add(name);
        _words.Add(_effect[1]);
    }

    private ReadOnlySpan<byte> At((int Offset, int Length) place) => _bytes.AsSpan(place.Offset, place.Length);

    private static ReadOnlySpan<byte> NameOf(EffectKind kind) => kind switch
    {
        EffectKind.SetFields => "HSET"u8,
        EffectKind.RemoveFields => "HDEL"u8,
        EffectKind.AddMembers => "SADD"u8,
        EffectKind.RemoveMembers => "SREM"u8,
        EffectKind.Score => "ZADD"u8,
        EffectKind.PushRight => "RPUSH"u8,
        EffectKind.PushLeft => "LPUSH"u8,
        _ => throw new InvalidOperationException($"{kind} is not merged."),
    };
}

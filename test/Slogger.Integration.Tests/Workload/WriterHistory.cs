// Everything one writer did in one round, for the checker. Index k means "after its first k commands of the round".
using Slogger.Integration.Tests.Model;

namespace Slogger.Integration.Tests.Workload;

/// <summary>What a -ROLLBACK error said, in the connection's sequence numbers.</summary>
internal sealed record RollbackNotice(long WorldLine, long Survived, IReadOnlyList<(long From, long To)> Uncertain)
{
    /// <summary>Reads "ROLLBACK worldline=W survived=S uncertain=A,B-C" (uncertain may be empty or missing).</summary>
    /// <exception cref="FormatException">It is something else.</exception>
    public static RollbackNotice Parse(string error)
    {
        var fields = error.Split(' ', StringSplitOptions.RemoveEmptyEntries).Skip(1)
            .Where(p => p.Contains('=', StringComparison.Ordinal))
            .ToDictionary(p => p[..p.IndexOf('=', StringComparison.Ordinal)], p => p[(p.IndexOf('=', StringComparison.Ordinal) + 1)..]);
        if (!fields.TryGetValue("worldline", out string? line) || !fields.TryGetValue("survived", out string? survived))
        {
            throw new FormatException($"not a rollback notice: {error}");
        }

        var ranges = fields.GetValueOrDefault("uncertain", "").Split(',', StringSplitOptions.RemoveEmptyEntries)
            .Where(r => char.IsAsciiDigit(r[0]))
            .Select(r => r.Split('-'))
            .Select(r => (Number(r[0]), Number(r[^1])));
        return new(Number(line), Number(survived), [.. ranges]);

        static long Number(string digits) => long.Parse(digits, System.Globalization.CultureInfo.InvariantCulture);
    }

    public override string ToString() =>
        $"ROLLBACK worldline={WorldLine} survived={Survived} uncertain={string.Join(',', Uncertain.Select(r => $"{r.From}-{r.To}"))}";

    public bool IsUncertain(long sequence) => Uncertain.Any(r => sequence >= r.From && sequence <= r.To);
}

internal sealed class WriterHistory(int writer, WriterProfile profile, KeyspaceModel start, long sequenceBefore)
{
    public int Writer { get; } = writer;

    public WriterProfile Profile { get; } = profile;

    /// <summary>The state before the round (checked at the end of the one before).</summary>
    public KeyspaceModel Start { get; } = start.Clone();

    /// <summary>The connection's sequence number before the round's first command.</summary>
    public long SequenceBefore { get; set; } = sequenceBefore;

    public List<Issued> Commands { get; } = [];

    /// <summary>Fingerprints[k]: the state after k commands.</summary>
    public List<ulong> Fingerprints { get; } = [start.Fingerprint];

    /// <summary>The largest k that was reported committed.</summary>
    public int Committed { get; set; }

    /// <summary>The largest k such that all first k commands were answered.</summary>
    public int Acknowledged { get; set; }

    public RollbackNotice? Rollback { get; set; }

    /// <summary>How many commands had been sent when the notice was due: those behind it, if they ran at all, ran in the new
    /// world-line.</summary>
    public int NoticeAt { get; set; }

    /// <summary>The first notice was the reply to command <paramref name="repliedTo"/>. Those behind it that it calls uncertain were under
    /// way, too, when the store was lost: they belong to the old world-line.</summary>
    public void OnNotice(RollbackNotice notice, int repliedTo)
    {
        Rollback = notice;
        NoticeAt = Math.Max(repliedTo, notice.Uncertain.Count == 0 ? 0 : IndexOf(notice.Uncertain.Max(u => u.To)));
    }

    /// <summary>The largest k that was reported committed after the notice.</summary>
    public int CommittedLater { get; set; }

    /// <summary>Its connection ended: of what happened at the very end it was not told.</summary>
    public bool Ended { get; set; }

    /// <summary>Its connection outlived a rollback without a notice, which only one may on which nothing had been answered: all
    /// of the round's commands ran in the new world-line.</summary>
    public bool RanAfterRollback { get; set; }

    /// <summary>Broken promises seen by the writer itself: wrong replies, a commit that went back.</summary>
    public List<string> Complaints { get; } = [];

    public string Name => $"writer {Writer} ({Profile.Name})";

    public long SequenceOf(int k) => SequenceBefore + k;

    public int IndexOf(long sequence) => (int)Math.Clamp(sequence - SequenceBefore, 0, Commands.Count);
}

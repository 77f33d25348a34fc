using Slogger.Redis.Slots;
using Slogger.Replication.Following;

namespace Slogger.Sites.Merging;

/// <summary>Keeps from a stream's log what cannot be followed slot by slot (SlotFilter). Of the copy that is seen where streams are put
/// together (RdbMerge).</summary>
/// <param name="share">What of the stream is followed here.</param>
internal sealed class SlotGuard(SlotShare share) : StreamGuard
{
    private const string Advice = "Have clients do without it, and the stream seeded anew (slogger seed)";
    private SlotFilter _filter = new(share, 0);

    public override void Look(ReadOnlySpan<byte> bytes)
    {
        try
        {
            _filter.Take(bytes, null);
        }
        catch (SlotEffectException e)
        {
            throw new UnfollowableException(
                $"{e.Message}, which a backup of another number of shards cannot follow.{(e.IsOver ? "" : $" {Advice}")}", e.IsOver);
        }
    }

    protected override void Begin(int database) => _filter = new(share, database);
}

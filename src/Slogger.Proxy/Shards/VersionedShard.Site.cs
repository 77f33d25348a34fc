// A shard as one of a primary's, beside another site: under which epoch its site rules, and what is done when another one does.
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard : IPrimaryShard
{
    private static readonly TimeSpan DeposedNoteLimit = TimeSpan.FromSeconds(5);
    protected SiteState _site = SiteState.Alone;
    private int _isDeposed;

    ShardId IPrimaryShard.Shard => _options.Shard;

    SiteEpoch IPrimaryShard.SiteEpoch => _site.Epoch;

    WorldPoint IPrimaryShard.Watermark => Watermark ?? default;

    /// <inheritdoc />
    public virtual string ShippingState => "off";

    bool IPrimaryShard.Attach() => AttachBackup();

    /// <summary>Ships again to a backup that was given up. Whether it ships now.</summary>
    protected virtual bool AttachBackup() => false;

    // Nothing is committed or answered any more; the site's SQL is told, so that no process starts here but as a backup's.
    protected void OnSiteDeposed(SiteEpoch by)
    {
        if (Interlocked.Exchange(ref _isDeposed, 1) != 0) { return; }
        lock (_machineLock) { _machine?.Deposed(); }
        ShutForGood();
        PostToLoop(() => _loop!.CloseStore("another site is the primary"));
        _ = Task.Run(async () =>
        {
            string note = "";
            try
            {
                using var limit = new CancellationTokenSource(DeposedNoteLimit);
                await _seat.Metadata.ChangeSiteAsync(_seat.Cluster, s => new(s.DeposedBy(by), null), limit.Token).ConfigureAwait(false);
            }
            catch (Exception e) when (e is MetadataException or OperationCanceledException)
            {
                note = $" It could not be noted in the metadata ({e.Message}), so other processes of this site may go on until they hear of it from the backup.";
            }
            Fail(ProxyExit.Failed(
                $"another site has taken over cluster \"{_seat.Cluster}\", with site epoch {by}: shard {_options.Shard} is served there, and no more here.{note}",
                "lead clients to the other site; slogger seed makes this one its backup"));
        });
    }
}

// Upstreams to a store in this process: what was sent to them is done already, so their replies are given out in the same turn.
using Slogger.FrontEnd.Transports;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    // Clients that are answered may have sent more, on upstreams of their own. The rest comes in the next turn, which does not wait.
    private const int LocalRounds = 4;

    private void DoLocal()
    {
        for (int round = 0; round < LocalRounds && Poller.Local.Any; round++)
        {
            foreach (LocalChannel channel in Poller.Local.Take())
            {
                if (channel.Owner is not Upstream upstream) { continue; }
                if (channel.CanWrite) { upstream.OnWritable(channel); }
                if (channel.CanRead)
                {
                    if (Now < Gate.RepliesHeldUntilUs)
                    {
                        upstream.HoldReading(true);
                        _heldReads.Add(upstream);
                    }
                    else
                    {
                        upstream.OnReadable(channel);
                    }
                }
                channel.Announce();
            }
        }
    }
}

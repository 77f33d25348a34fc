// What a client waits for that has asked for a commit.
using Slogger.Core.WorldLines;

namespace Slogger.FrontEnd;

/// <summary>A wait for the commit of a client's operations, up to one of them. The loop's thread.</summary>
/// <param name="sequence">The last operation; 0: of none.</param>
/// <param name="milliseconds">For how long; 0: for ever.</param>
internal class CommitWait(long sequence, long milliseconds)
{
    // When the wait ends unsuccessfully; 0 for never. Unit: microseconds of the loop's clock.
    private long _deadline;

    /// <summary>The version that is waited for.</summary>
    protected long Version { get; set; }

    /// <summary>Begins when all that the client has sent before has been answered.</summary>
    public void Begin(Client client)
    {
        Version = VersionFor(client, sequence);
        if (HasCome(client))
        {
            Answer(client, reached: true);
            return;
        }
        _deadline = milliseconds == 0 ? 0 : client.Loop.Now + (milliseconds * 1000);
        client.Commits.Wait(this, HurriedVersion);
    }

    /// <summary>Looks whether what is waited for has come, or the time is over. True when the wait has ended.</summary>
    public bool Check(Client client, long now)
    {
        bool reached = HasCome(client);
        if (!reached && (_deadline == 0 || now < _deadline)) { return false; }
        Answer(client, reached);
        return true;
    }

    /// <summary>Up to which version nobody puts a step off.</summary>
    protected virtual long HurriedVersion => Version;

    /// <summary>The version to wait for.</summary>
    protected virtual long VersionFor(Client client, long last) => client.Commits.VersionOf(last);

    /// <summary>Whether what is waited for has come.</summary>
    protected virtual bool HasCome(Client client) => sequence == 0 || client.Commits.IsCommitted(Version);

    /// <summary>Ends the wait.</summary>
    protected virtual void Answer(Client client, bool reached)
    {
        TellIf(client, reached);
        client.Answer(RespText.Integers(client.Loop.Shard.WorldLine, client.Commits.TellSequence(), reached ? 1 : 0));
    }

    /// <summary>That something has been committed is only told with the right to.</summary>
    protected void TellIf(Client client, bool reached)
    {
        if (reached && sequence > 0) { client.Tells(); }
    }
}

/// <summary>DPR.WAIT ... BACKUP: waits until the backup holds it.</summary>
internal sealed class BackupWait(long sequence, long milliseconds) : CommitWait(sequence, milliseconds)
{
    // Of what is committed the versions are not known any more: none is above the cut.
    protected override long VersionFor(Client client, long last) =>
        Math.Max(base.VersionFor(client, last), client.Commits.Cut.Version.Number);

    protected override bool HasCome(Client client) =>
        client.Loop.Shard.Watermark is { } at && at.WorldLine == client.WorldLine && Version <= at.Version.Number;

    // What the backup holds it holds whoever serves.
    protected override void Answer(Client client, bool reached) =>
        client.Answer(RespText.Integers(client.Loop.Shard.WorldLine, client.Commits.TellSequence(), reached ? 1 : 0));
}

/// <summary>WAITAOF.</summary>
internal sealed class AofWait(long sequence, long milliseconds) : CommitWait(sequence, milliseconds)
{
    protected override void Answer(Client client, bool reached)
    {
        TellIf(client, reached);
        client.Answer(RespText.Integers(reached ? 1 : 0, 0));
    }
}

/// <summary>DPR.REACH: waits until a backup has come to a version.</summary>
internal sealed class ReachWait(long version, long milliseconds) : CommitWait(0, milliseconds)
{
    // At a backup nobody can be hurried.
    protected override long HurriedVersion => 0;

    protected override long VersionFor(Client client, long last) => version;

    protected override bool HasCome(Client client) => Version <= client.Commits.Cut.Version.Number;

    protected override void Answer(Client client, bool reached)
    {
        WorldPoint at = client.Commits.Told(client.Commits.Cut);
        client.Answer(RespText.Integers(at.WorldLine.Number, at.Version.Number, reached ? 1 : 0));
    }
}

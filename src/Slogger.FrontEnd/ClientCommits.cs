// What a client hears of commits: which of its operations are committed, as far as that may be told, and the wait for a commit.
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.FrontEnd;

/// <summary>What one client is told of commits. The loop's thread.</summary>
/// <param name="loop">The loop.</param>
/// <param name="client">The client.</param>
/// <param name="progress">Which of its operations are of which version; <c>null</c>: operations have none.</param>
internal sealed class ClientCommits(FrontEndLoop loop, Client client, SessionProgress? progress)
{
    private CommitWait? _wait;

    /// <summary>A wait has begun: its end answers the request.</summary>
    public void Wait(CommitWait wait, long hurriedVersion)
    {
        _wait = wait;
        client.Wait(Waiting.Commit);
        loop.Waits.WaitForCommit(client, hurriedVersion);
    }

    /// <summary>Looks whether the commit waited for has come, or the time is over. True when the wait has ended.</summary>
    public bool Check(long now) => client.IsClosed || !client.WaitsForCommit || _wait!.Check(client, now);

    /// <summary>The last operation of the client's.</summary>
    public long Sequence => progress?.Forwarded.Number ?? 0;

    private long CommittedSequence => progress is null ? 0 : progress.OnCommitted(Cut).Number;

    /// <summary>The last committed operation, for the reply that is being made; 0 says nothing.</summary>
    public long TellSequence() => Told(Cut) is { Version.Number: > 0 } ? CommittedSequence : 0;

    /// <summary>What is said of a recorded cut in the reply that is being made; version 0 says nothing.</summary>
    public WorldPoint Told(WorldPoint cut)
    {
        if (!client.MayTell) { return cut with { Version = VersionNumber.Zero }; }
        client.Tells();
        return cut;
    }

    /// <summary>The text of DPR.INFO: it says what is committed, too.</summary>
    public string InfoText()
    {
        bool mayTell = client.MayTell;
        string text = loop.Shard.InfoText(loop);
        if (mayTell || client.MayTell) { client.Tells(); }
        return text;
    }

    /// <summary>The recorded cut, which not everybody may be told. Both parts are of one moment: a version of the next world-line says
    /// nothing of this one.</summary>
    public WorldPoint Cut
    {
        get
        {
            while (true)
            {
                long line = loop.Shard.WorldLine, version = loop.Shard.CommittedVersion;
                if (loop.Shard.WorldLine == line) { return new WorldPoint(new WorldLine(line), new VersionNumber(version)); }
            }
        }
    }

    /// <summary>Whether a version is committed, and may be told to be. In another world-line nothing can be said before the rollback has
    /// been looked at.</summary>
    public bool IsCommitted(long version) =>
        client.MayTell && Cut is var cut && cut.WorldLine == progress!.WorldLine && version <= cut.Version.Number;

    /// <summary>The version whose commit commits an operation; <see cref="long.MaxValue"/> if that is not known.</summary>
    public long VersionOf(long sequence)
    {
        _ = CommittedSequence;
        return progress!.TryVersionNeededFor(new SequenceNumber(sequence), out VersionNumber version) ? version.Number : long.MaxValue;
    }

    /// <summary>What sessions are told: committed at every shard.</summary>
    public WorldPoint SessionCut => Told(loop.Shard.Batches is { } port && !port.Finder.HasGridCuts
        ? port.CommittedEverywhere : Cut);
}

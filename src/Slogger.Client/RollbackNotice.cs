// The one error with which a proxy tells a plain connection of a rollback, as other Redis clients hand it to their callers.
using System.Globalization;
using System.Collections.Immutable;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;

namespace Slogger.Client;

/// <summary>"ROLLBACK worldline=... survived=... uncertain=...": what became of the operations of one plain connection. They are
/// counted by the connection, from 1; a client that shares connections among its callers cannot tell whose they are. What was sent behind
/// the notice is not done: the connection is closed, or goes on when the client sends DPR.RESUME with
/// <paramref name="WorldLine"/>.</summary>
/// <param name="WorldLine">The timeline in which the connection can go on.</param>
/// <param name="Survived">All operations up to here survived.</param>
/// <param name="Uncertain">Operations whose fate cannot be told. All behind are lost, the one that was answered with the notice
/// too.</param>
public sealed record RollbackNotice(WorldLine WorldLine, SequenceNumber Survived, ImmutableArray<SequenceRange> Uncertain)
{
    /// <summary>Reads the text of an error, as of StackExchange.Redis's RedisServerException.</summary>
    /// <param name="error">The error's text, with or without the '-'.</param>
    /// <returns>Null if it is no such notice.</returns>
    public static RollbackNotice? Parse(string? error)
    {
        string[] words = (error ?? "").TrimStart('-').Split(' ', StringSplitOptions.RemoveEmptyEntries);
        if (words.Length < 3 || words[0] != "ROLLBACK") { return null; }
        long? line = null, survived = null;
        ImmutableArray<SequenceRange>.Builder uncertain = ImmutableArray.CreateBuilder<SequenceRange>();
        foreach (string word in words[1..])
        {
            if (word.Split('=', 2) is not [var name, var value]) { return null; }
            switch (name)
            {
                case "worldline" when TryRead(value, out long number): line = number; break;
                case "survived" when TryRead(value, out long number): survived = number; break;
                case "uncertain":
                    foreach (string range in value.Split(',', StringSplitOptions.RemoveEmptyEntries))
                    {
                        string[] ends = range.Split('-');
                        if (ends.Length > 2 || !TryRead(ends[0], out long first) || !TryRead(ends[^1], out long last)) { return null; }
                        uncertain.Add(new(new(first), new(last)));
                    }

                    break;
            }
        }

        return line is { } l && survived is { } s ? new(new(l), new(s), uncertain.ToImmutable()) : null;
    }

    private static bool TryRead(string text, out long number) =>
        long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out number);
}

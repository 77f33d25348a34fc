using System.Globalization;

namespace Slogger.Replication.Seeding;

/// <summary>How far a copy is.</summary>
/// <param name="HasBytes">So much is at the backup.</param>
/// <param name="Bytes">Its length.</param>
internal readonly record struct SeedProgress(long HasBytes, long Bytes)
{
    /// <summary>For people.</summary>
    public override string ToString() => string.Create(CultureInfo.InvariantCulture, $"{HasBytes >> 20} of {Bytes >> 20} MiB");
}

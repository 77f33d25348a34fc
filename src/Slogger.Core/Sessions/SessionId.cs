using System.Globalization;

namespace Slogger.Core.Sessions;

/// <summary>The name of a client's session, unique for ever: 128 bits that the client draws. Source: DPR, section 5.2
/// ("D-FASTER client sessions are identified by a globally unique id").</summary>
public readonly record struct SessionId(UInt128 Bits)
{
    /// <summary>32 hexadecimal digits in lower case.</summary>
    public override string ToString() => Bits.ToString("x32", CultureInfo.InvariantCulture);
}

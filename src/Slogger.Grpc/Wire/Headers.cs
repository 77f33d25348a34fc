// Values of gRPC's own headers. Source: "gRPC over HTTP2".
using System.Globalization;
using System.Text;

namespace Slogger.Grpc.Wire;

internal static class Headers
{
    public const string ContentType = "application/grpc";
    public const string Timeout = "grpc-timeout", Encoding = "grpc-encoding", AcceptEncoding = "grpc-accept-encoding", Status = "grpc-status", Message = "grpc-message";
    public const string Gzip = "gzip", Identity = "identity", Accepted = "identity,gzip";

    /// <summary>The longest time that timers here can be set to.</summary>
    public static readonly TimeSpan TimeoutMax = TimeSpan.FromDays(40);

    private const long DigitsMax = 99_999_999;

    public static bool IsGrpc(string? contentType) =>
        contentType is not null && contentType.StartsWith(ContentType, StringComparison.OrdinalIgnoreCase) && (contentType.Length == ContentType.Length || contentType[ContentType.Length] is '+' or ';');

    /// <summary>At most eight digits and a unit, rounded up: a peer must not give up before us.</summary>
    public static string FormatTimeout(TimeSpan time)
    {
        foreach ((char unit, long ticks) in (ReadOnlySpan<(char, long)>)[('u', TimeSpan.TicksPerMicrosecond), ('m', TimeSpan.TicksPerMillisecond), ('S', TimeSpan.TicksPerSecond), ('M', TimeSpan.TicksPerMinute)])
        {
            long count = (Math.Max(time.Ticks, 1) - 1) / ticks + 1;
            if (count <= DigitsMax) { return string.Create(CultureInfo.InvariantCulture, $"{count}{unit}"); }
        }
        return string.Create(CultureInfo.InvariantCulture, $"{Math.Min((long)Math.Ceiling(time.TotalHours), DigitsMax)}H");
    }

    /// <returns>At most <see cref="TimeoutMax"/>.</returns>
    /// <exception cref="RpcException">That is none.</exception>
    public static TimeSpan ParseTimeout(string text)
    {
        long ticks = text.Length is 0 ? 0 : text[^1] switch
        {
            'H' => TimeSpan.TicksPerHour,
            'M' => TimeSpan.TicksPerMinute,
            'S' => TimeSpan.TicksPerSecond,
            'm' => TimeSpan.TicksPerMillisecond,
            'u' => TimeSpan.TicksPerMicrosecond,
            'n' => -1,
            _ => 0,
        };
        if (ticks == 0 || text.Length is < 2 or > 9 || !long.TryParse(text.AsSpan(0, text.Length - 1), NumberStyles.None, CultureInfo.InvariantCulture, out long count))
        {
            throw new RpcException(StatusCode.Internal, $"'{text}' is no {Timeout}");
        }
        if (ticks < 0) { return new TimeSpan(count / TimeSpan.NanosecondsPerTick); }
        return count > TimeoutMax.Ticks / ticks ? TimeoutMax : new TimeSpan(count * ticks);
    }

    /// <summary>A status's text: UTF-8, and what is not printable ASCII as <c>%XX</c>.</summary>
    public static string EncodeMessage(string text)
    {
        if (!text.AsSpan().ContainsAnyExceptInRange(' ', '~') && !text.Contains('%')) { return text; }
        var encoded = new StringBuilder(text.Length + 16);
        foreach (byte b in System.Text.Encoding.UTF8.GetBytes(text))
        {
            if (b is >= (byte)' ' and <= (byte)'~' and not (byte)'%') { encoded.Append((char)b); }
            else { encoded.Append('%').Append(b.ToString("X2", CultureInfo.InvariantCulture)); }
        }
        return encoded.ToString();
    }

    /// <summary>The text of a status. What is encoded wrongly stays as it came: a status must not be lost over its text.</summary>
    public static string DecodeMessage(string text)
    {
        if (!text.Contains('%')) { return text; }
        byte[] bytes = System.Text.Encoding.UTF8.GetBytes(text);
        int length = 0;
        for (int i = 0; i < bytes.Length; i++)
        {
            bool isEncoded = bytes[i] == '%' && i + 2 < bytes.Length && char.IsAsciiHexDigit((char)bytes[i + 1]) && char.IsAsciiHexDigit((char)bytes[i + 2]);
            bytes[length++] = isEncoded ? byte.Parse(bytes.AsSpan(i + 1, 2), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture) : bytes[i];
            if (isEncoded) { i += 2; }
        }
        return System.Text.Encoding.UTF8.GetString(bytes, 0, length);
    }
}

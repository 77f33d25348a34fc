// Requests as a person types them, a line each, made into arrays of bulk strings: behind this there is one kind of request only.
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>Converts inline requests.</summary>
internal static class InlineLines
{
    /// <summary>Converts the lines at the head of an input, up to a request that is an array, or to what has not come yet.</summary>
    /// <param name="input">The input.</param>
    /// <param name="requests">Receives the requests; empty lines are none.</param>
    /// <param name="consumed">How much of the input they were; 0: nothing can be done with it yet, or there is a problem.</param>
    /// <returns>The protocol error that the input begins with; null: none.</returns>
    public static string? Convert(ReadOnlySpan<byte> input, List<byte> requests, out int consumed)
    {
        consumed = 0;
        while (consumed < input.Length && input[consumed] != (byte)'*')
        {
            ReadOnlySpan<byte> rest = input[consumed..];
            int newline = rest.IndexOfAny((byte)'\n', (byte)0);
            if (newline < 0 || rest[newline] == 0)
            {
                bool isTooLong = rest.Length > CommandScanner.MaxLineBytes && requests.Count == 0;
                return isTooLong ? "ERR Protocol error: too big inline request" : null;
            }
            ReadOnlySpan<byte> line = rest[..newline];
            if (line.Length > 0 && line[^1] == (byte)'\r') { line = line[..^1]; }
            if (InlineRequest.Split(line) is not { } arguments)
            {
                return consumed == 0 ? "ERR Protocol error: unbalanced quotes in request" : null;
            }
            consumed += newline + 1;
            if (arguments.Count == 0) { continue; }
            RespText.AppendHeader(requests, '*', arguments.Count);
            foreach (byte[] argument in arguments) { RespText.AppendBulk(requests, argument); }
        }
        return null;
    }
}

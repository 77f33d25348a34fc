// A shard that has a past and cannot be set back: an embedded store knows no RESTORE, with which a reset puts keys back.
using Slogger.FrontEnd;

namespace Slogger.Proxy.Past;

/// <summary>Refuses resets.</summary>
internal sealed class NoReset : IPastReset
{
    private static readonly byte[] s_refusal = PastAnswer.Error(
        "ERR SLOGGER a shard with an embedded store cannot be set back: load a snapshot into another cluster (slogger snapshot, slogger "
        + "load)");

    /// <inheritdoc />
    public Task<byte[]> PrepareAsync(long version, byte[] prefix, long shiftMs, string user) => Task.FromResult(s_refusal);

    /// <inheritdoc />
    public Task<byte[]> StateAsync(string name) => Task.FromResult(s_refusal);

    /// <inheritdoc />
    public Task<byte[]> HoldAsync(string name) => Task.FromResult(s_refusal);

    /// <inheritdoc />
    public Task<byte[]> WriteAsync(string name) => Task.FromResult(s_refusal);

    /// <inheritdoc />
    public Task<byte[]> CloseAsync(string name, long above) => Task.FromResult(s_refusal);

    /// <inheritdoc />
    public Task<byte[]> EndAsync(string name) => Task.FromResult(s_refusal);
}

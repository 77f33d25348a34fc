// A reset is writes that put back what was, one of which may be of any type; and it holds all operations at the front end. An embedded store
// has neither RESTORE nor only that way in.
using Slogger.FrontEnd;

namespace Slogger.Proxy.Past;

/// <summary>Refuses resets.</summary>
internal sealed class NoReset : IPastReset
{
    private static readonly byte[] s_refusal = PastAnswer.Error(
        "ERR SLOGGER a shard with an embedded store cannot be set back: load a snapshot into another cluster (slogger snapshot, slogger load)");

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

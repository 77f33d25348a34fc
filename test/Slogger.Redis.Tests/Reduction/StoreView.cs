// All that can be seen of a store: per key its type, its expiry and its contents, the functions, and Redis's own digest.
using System.Text;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Tests.Reduction;

/// <summary>What a store holds.</summary>
/// <param name="Digest">DEBUG DIGEST.</param>
/// <param name="Functions">FUNCTION LIST WITHCODE.</param>
/// <param name="Keys">A line for each key.</param>
/// <param name="Orders">For each key the order of its fields, if the store keeps one; else empty. Beside <paramref name="Keys"/>.</param>
internal sealed record StoreView(string Digest, string Functions, string[] Keys, string[] Orders)
{
    // Of a consumer Redis keeps when it was seen, by the clock of whoever executes; how much a group has read it does not tell its
    // replicas; and the layout of a stream is not its content.
    private const string Script =
        """
        local function flat(value, out)
          if type(value) ~= 'table' then out[#out + 1] = tostring(value) return out end
          local skipped = {['seen-time'] = 1, ['active-time'] = 1, ['radix-tree-keys'] = 1, ['radix-tree-nodes'] = 1, ['entries-read'] = 1,
            ['lag'] = 1}
          local i = 1
          while i <= #value do
            if type(value[i]) == 'string' and skipped[value[i]] then i = i + 2 else flat(value[i], out) i = i + 1 end
          end
          return out
        end
        local function text(value, sorted)
          if sorted then table.sort(value) end
          return table.concat(flat(value, {}), ',')
        end
        local lines, orders = {}, {}
        for d = 0, 15 do
          redis.call('SELECT', d)
          local keys = redis.call('KEYS', '*')
          table.sort(keys)
          for _, k in ipairs(keys) do
            local t = redis.call('TYPE', k).ok
            local v, order = '', ''
            if t == 'string' then v = redis.call('GET', k)
            elseif t == 'list' then v = text(redis.call('LRANGE', k, 0, -1))
            elseif t == 'set' then v = text(redis.call('SMEMBERS', k), true)
            elseif t == 'zset' then v = text(redis.call('ZRANGE', k, 0, -1, 'WITHSCORES'))
            elseif t == 'stream' then v = text(redis.call('XINFO', 'STREAM', k, 'FULL', 'COUNT', 0))
            elseif t == 'hash' then
              local h, pairs = redis.call('HGETALL', k), {}
              for i = 1, #h, 2 do pairs[#pairs + 1] = h[i] .. '=' .. h[i + 1] end
              if redis.call('OBJECT', 'ENCODING', k) == 'listpack' then order = text(pairs) end
              v = text(pairs, true)
            end
            if #v > 200 then v = redis.sha1hex(v) end
            lines[#lines + 1] = d .. ' ' .. k .. ' ' .. t .. ' ' .. string.format('%.0f', redis.call('PEXPIRETIME', k)) .. ' ' .. v
            orders[#orders + 1] = order
          end
        end
        return {lines, orders}
        """;

    private static readonly byte[][] s_look = Words("EVAL", Script, "0"), s_functions = Words("FUNCTION", "LIST", "WITHCODE"),
        s_digest = Words("DEBUG", "DIGEST");

    public static byte[][] Words(params string[] words) => [.. words.Select(Encoding.Latin1.GetBytes)];

    public static async Task<StoreView> ReadAsync(RedisPipeline redis)
    {
        IReadOnlyList<RedisReply> replies = await redis.RunAsync(new RedisBatch().Add(s_look).Add(s_functions).Add(s_digest), default);
        Assert.False(replies[0].IsError, replies[0].Text);
        // Functions are in no order.
        string functions = string.Join('\n', replies[1].Items.Select(Flat).Order(StringComparer.Ordinal));
        return new(replies[2].Text, functions, Texts(replies[0].Items[0]), Texts(replies[0].Items[1]));
    }

    /// <summary>What is different in another; null if nothing is.</summary>
    public string? DifferenceTo(StoreView other)
    {
        string[] ours = [.. Keys.Except(other.Keys)], theirs = [.. other.Keys.Except(Keys)];
        if (ours.Length + theirs.Length > 0)
        {
            return string.Join('\n', ours.Select(l => "raw: " + l).Concat(theirs.Select(l => "reduced: " + l)).Take(10));
        }
        for (int i = 0; i < Keys.Length; i++)
        {
            if (Orders[i] != other.Orders[i] && Orders[i] != "" && other.Orders[i] != "")
            {
                return $"{Keys[i]}: in the order {Orders[i]}, and reduced {other.Orders[i]}";
            }
        }
        return Functions != other.Functions ? $"functions\n{Functions}\n{other.Functions}" : Digest != other.Digest ? "the digests" : null;
    }

    private static string[] Texts(RedisReply reply) => [.. reply.Items.Select(i => i.Text)];

    private static string Flat(RedisReply reply) =>
        reply.Kind == RedisReplyKind.Array ? $"[{string.Join(' ', reply.Items.Select(Flat))}]" : reply.Text;
}

"""Contract: seeded random cases. Commands: random but deterministic commands over few keys of all types, pipelined by random
amounts from a few connections, replies compared. Bytes: valid pipelines damaged at random, sent and half-closed, and all
that comes back compared. The seed is printed by the runner and replays everything."""
import os
import random

from harness import add, command

SEED = int(os.environ.get("CONFORMANCE_SEED", "1"))
LONG = bool(os.environ.get("CONFORMANCE_LONG"))


def any_command(r):
    """A command whose reply does not depend on hash order, time or chance."""
    k, k2 = "k%d" % r.randrange(6), "k%d" % r.randrange(6)
    v, n, f = "v%d" % r.randrange(50), str(r.randrange(-20, 20)), "f%d" % r.randrange(8)
    return r.choice([
        lambda: ("SET", k, v), lambda: ("SET", k, n), lambda: ("SET", k, v, r.choice(["NX", "XX", "GET", "KEEPTTL"])), lambda: ("GET", k), lambda: ("GETDEL", k), lambda: ("GETSET", k, v),
        lambda: ("APPEND", k, v), lambda: ("STRLEN", k), lambda: ("INCRBY", k, n), lambda: ("INCRBYFLOAT", k, n), lambda: ("SETRANGE", k, str(r.randrange(100)), v), lambda: ("GETRANGE", k, n, n),
        lambda: ("MSET", k, v, k2, n), lambda: ("MGET", k, k2, "none"), lambda: ("MSETNX", k, v, k2, v), lambda: ("DEL", k), lambda: ("UNLINK", k, k2), lambda: ("EXISTS", k, k2, k), lambda: ("TYPE", k),
        lambda: ("RENAME", k, k2), lambda: ("RENAMENX", k, k2), lambda: ("COPY", k, k2, "REPLACE"), lambda: ("EXPIRE", k, "1000"), lambda: ("PERSIST", k), lambda: ("MOVE", k, str(r.randrange(3))),
        lambda: ("LPUSH", k, v, n), lambda: ("RPUSH", k, v), lambda: ("LPOP", k), lambda: ("RPOP", k, str(r.randrange(3))), lambda: ("LRANGE", k, n, n), lambda: ("LLEN", k), lambda: ("LINDEX", k, n), lambda: ("LSET", k, n, v),
        lambda: ("LREM", k, n, v), lambda: ("LTRIM", k, n, n), lambda: ("LINSERT", k, "BEFORE", v, n), lambda: ("LPOS", k, v), lambda: ("LMOVE", k, k2, "LEFT", "RIGHT"),
        lambda: ("SADD", k, v, n), lambda: ("SREM", k, v), lambda: ("SCARD", k), lambda: ("SISMEMBER", k, v), lambda: ("SMISMEMBER", k, v, n), lambda: ("SINTERCARD", "2", k, k2), lambda: ("SUNIONSTORE", k, k2, k),
        lambda: ("SMOVE", k, k2, v), lambda: ("SDIFFSTORE", k, k2, k), lambda: ("SORT", k, "ALPHA"), lambda: ("SORT", k, "LIMIT", "0", "5"),
        lambda: ("HSET", k, f, v), lambda: ("HGET", k, f), lambda: ("HDEL", k, f), lambda: ("HLEN", k), lambda: ("HINCRBY", k, f, n), lambda: ("HEXISTS", k, f), lambda: ("HSTRLEN", k, f), lambda: ("HMGET", k, f, "f0"), lambda: ("HSETNX", k, f, v),
        lambda: ("ZADD", k, n, v), lambda: ("ZADD", k, r.choice(["NX", "XX", "GT", "LT", "CH", "INCR"]), n, v), lambda: ("ZSCORE", k, v), lambda: ("ZRANGE", k, "0", "-1", "WITHSCORES"), lambda: ("ZRANK", k, v), lambda: ("ZPOPMIN", k),
        lambda: ("ZRANGEBYSCORE", k, n, "+inf"), lambda: ("ZINCRBY", k, n, v), lambda: ("ZREM", k, v), lambda: ("ZCARD", k), lambda: ("ZCOUNT", k, "-inf", n), lambda: ("ZUNIONSTORE", k, "2", k, k2), lambda: ("ZREMRANGEBYRANK", k, "0", "1"),
        lambda: ("XADD", k, "%d-%d" % (r.randrange(1, 50), r.randrange(50)), f, v), lambda: ("XLEN", k), lambda: ("XRANGE", k, "-", "+"), lambda: ("XTRIM", k, "MAXLEN", "3"), lambda: ("XREAD", "COUNT", "2", "STREAMS", k, "0"),
        lambda: ("SETBIT", k, str(r.randrange(200)), "1"), lambda: ("BITCOUNT", k), lambda: ("BITPOS", k, "1"), lambda: ("PFADD", k, v), lambda: ("PFCOUNT", k, k2),
        lambda: ("BLPOP", k, "0.001"), lambda: ("BZPOPMIN", k, k2, "0.001"), lambda: ("BLMOVE", k, k2, "LEFT", "LEFT", "0.001"), lambda: ("MULTI",), lambda: ("EXEC",), lambda: ("EXEC",), lambda: ("DISCARD",), lambda: ("WATCH", k), lambda: ("UNWATCH",),
        lambda: ("SELECT", str(r.randrange(4))), lambda: ("CLIENT", "SETNAME", v), lambda: ("CLIENT", "GETNAME"), lambda: ("PING",), lambda: ("ECHO", v), lambda: ("DBSIZE",), lambda: ("RESET",), lambda: ("NOSUCH", v), lambda: ("GET",),
        lambda: ("EVAL", "return redis.call('APPEND', KEYS[1], ARGV[1])", "1", k, v), lambda: ("EVAL", "return redis.pcall('INCR', KEYS[1])", "1", k), lambda: ("EVALSHA", "0" * 40, "0"), lambda: ("OBJECT", "ENCODING", k), lambda: ("PUBLISH", "ch", v),
        lambda: ("SPUBLISH", "ch", v), lambda: ("TOUCH", k), lambda: ("LCS", k, k2), lambda: ("CLIENT", "TRACKING", r.choice(["on", "off"])), lambda: ("SWAPDB", "0", "1") if r.random() < 0.2 else ("PING",), lambda: ("FLUSHDB",) if r.random() < 0.1 else ("PING",),
    ])()


def commands(number, count, clients):
    def run(side):
        r = random.Random("%d commands %d" % (SEED, number))
        connections = [side.connect("c%d" % n) for n in range(clients)]
        done = 0
        while done < count:
            c = r.choice(connections)
            batch = [any_command(r) for _ in range(r.choice([1, 1, 1, 2, 3, 5, 20, 100]))]
            payload = b"".join(command(*one) for one in batch)
            cut = r.randrange(len(payload)) if r.random() < 0.3 else 0
            if cut:
                c.send(payload[:cut])
            c.send(payload[cut:])
            c.expect(len(batch))
            done += len(batch)
        connections[0].do("DBSIZE")
        side.note("digest", side.direct().alone().do("DEBUG DIGEST"))
    add("fuzz", "commands_%d" % number, run)


def damaged(number, count):
    def run(side):
        r = random.Random("%d bytes %d" % (SEED, number))
        side.mask(rb"(\$2\r\nid\r\n:|\bid=)\d+", rb"\1<n>")  # damage makes HELLOs, too
        for turn in range(count):
            items = []
            # Not both: multi/subscribe_inside is for that.
            session = r.choice([[("MULTI",), ("EXEC",)], [("SUBSCRIBE", "a")]])
            for _ in range(r.randrange(1, 8)):
                one = r.choice([("SET", "k", "v" * r.randrange(30)), ("GET", "k"), ("PING",), ("ECHO", "hello"), ("INCR", "n"), ("RPUSH", "l", "a"), ("SELECT", "1"), *session])
                items.append(command(*one) if r.random() < 0.7 else " ".join(one).encode() + r.choice([b"\r\n", b"\n"]))
            payload = bytearray(b"".join(items))
            for _ in range(r.choice([0, 1, 1, 2, 4])):
                at = r.randrange(len(payload))
                how = r.randrange(5)
                if how == 0:
                    payload[at] = r.randrange(256)
                elif how == 1:
                    del payload[at:at + r.randrange(1, 4)]
                elif how == 2:
                    payload[at:at] = bytes(r.choice(b"\r\n*$0123456789-+: \"'\0x") for _ in range(r.randrange(1, 4)))
                elif how == 3:
                    payload[at:at] = payload[at:at + r.randrange(1, 20)]
                else:
                    del payload[at:]
                if not payload:
                    payload = bytearray(b"\r\n")
            c = side.connect("turn%d" % turn)
            cut = r.randrange(len(payload)) if r.random() < 0.4 else 0
            c.send(bytes(payload[:cut]))
            early = c.quiet(0.001) if cut else b""
            c.send(bytes(payload[cut:])).end_of_input()
            side.note("sent%d" % turn, bytes(payload))
            side.note("turn%d" % turn, early.removesuffix(b"<end>") + c.read_rest())
            c.close()
        side.connect("after").do("PING", "DBSIZE", "GET n", "LLEN l")
    add("fuzz", "bytes_%d" % number, run)


for row in range(20 if LONG else 4):
    commands(row, 3_000, 1 + row % 4)
    damaged(row, 300)

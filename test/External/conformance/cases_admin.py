"""Contract: cases about commands of the server itself, scripts, functions and streams: what a proxy might answer, refuse or
change on the way. Values that differ by nature (times, ids, sizes) are masked; names and shapes are compared."""
import re
import time

from harness import add, case
from cases_sessions import script

NUMBERS = (rb"\d+", rb"<n>")


def fields(name, item, pattern=rb"(?m)^([a-z_0-9.]+):"):
    """The names of the fields of a text reply, in order."""
    def run(side):
        c = side.connect()
        side.note(name, b" ".join(re.findall(pattern, c.alone().text(item))))
    add("info", name, run)


for section in ("server", "clients", "memory", "persistence", "stats", "replication", "cpu", "errorstats", "cluster", "keyspace", "nosuch"):
    fields(section, "INFO " + section)
fields("default", "INFO")
fields("everything", "INFO everything", rb"(?m)^(# ?[A-Za-z]+|[a-z_0-9.]+:)")
fields("two_sections", "INFO clients cpu")
fields("memory_stats_doctor", "MEMORY DOCTOR", rb"\w+")


@case("info")
def commandstats_count_what_clients_did(side):
    """A proxy's own commands (markers, probes) show in no statistics; what a client did shows as often as it did it."""
    c = side.connect()
    c.do("CONFIG RESETSTAT")
    for n in range(20):
        c.do(("SET", "k", n), "GET k")
        time.sleep(0.005)
    c.do("LPUSH k x", "NOSUCH", "GET")
    text = c.alone().text("INFO commandstats").decode()
    for line in sorted(text.splitlines()):
        name = line.split(":")[0]
        if line.startswith("cmdstat_"):
            side.note(name, re.sub(r"usec[a-z_]*=[0-9.]+,?", "", line))
    side.note("errors", c.alone().text("INFO errorstats"))
    side.note("keyspace", c.alone().text("INFO keyspace").split(b",avg")[0])
    stats = dict(line.split(":", 1) for line in c.alone().text("INFO stats").decode().splitlines() if ":" in line)
    for key in ("total_error_replies", "keyspace_hits", "keyspace_misses", "pubsub_channels", "pubsub_patterns", "pubsubshard_channels", "tracking_clients"):
        if key in stats:
            side.note(key, stats[key].strip())


@case("info")
def clients_are_counted(side):
    c = side.connect()
    others = [side.connect() for _ in range(10)]
    for other in others:
        other.do("PING")
    others[0].do("SUBSCRIBE a")
    others[1].send("BLPOP none 0")
    others[1].quiet(0.05)
    text = c.alone().text("INFO clients").decode()
    found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    for key in ("blocked_clients", "tracking_clients", "clients_in_timeout_table"):
        side.note(key, found.get(key, "none"))


@case("info")
def connected_clients_is_exact(side):
    c = side.connect()
    others = [side.connect() for _ in range(10)]
    for other in others:
        other.do("PING")
    side.wait_until(lambda: b"connected_clients:11\r\n" in c.alone().text("INFO clients"), 3)


@case("info")
def role_and_replication(side):
    c = side.connect()
    side.mask(rb":\d+", b":<n>")
    c.do("ROLE", "LASTSAVE")
    text = c.alone().text("INFO replication")
    side.note("slaves", re.findall(rb"(role|connected_slaves):(\S+)", text))


script("server", "small", "DBSIZE", "ECHO a", "PING", "PING a", "PING a b", "TIME x", "LOLWUT VERSION 1 1 1 1", "COMMAND COUNT", "COMMAND GETKEYS SET k v", "COMMAND GETKEYS GET",
       "COMMAND LIST FILTERBY PATTERN xreadg*", "COMMAND INFO set get nosuch", "COMMAND DOCS get", "COMMAND NOSUCH", "OBJECT HELP", "OBJECT ENCODING none", "SET k 1", "OBJECT ENCODING k", "OBJECT REFCOUNT k",
       "TYPE k", "TYPE none", "DUMP none", "RESTORE k 0 x", "TOUCH k none", "EXPIRETIME k", "KEYS *", "RANDOMKEY", "SCAN 0", "LATENCY RESET", "LATENCY HISTORY none", "LATENCY NOSUCH", "MEMORY NOSUCH",
       "SLOWLOG LEN", "SLOWLOG RESET", "MODULE LIST", "ACL CAT nosuch", "ACL GETUSER nobody", "ACL LIST", "ACL USERS", "ACL WHOAMI", "ACL GENPASS x", "SWAPDB 0 99", "SWAPDB a b", "WAIT 0 0",
       "FLUSHDB SYNC", "FLUSHALL ASYNC", "FLUSHALL NOSUCH", "DEBUG SLEEP 0", "DEBUG JMAP", "LATENCY HELP", "CONFIG HELP", "RESTORE-ASKING k 0 x", "MIGRATE x", "PFSELFTEST x", "READONLY",
       "SAVE x", "BGSAVE NOSUCH", "LASTSAVE x", "BGREWRITEAOF x", "CLUSTER NODES")
script("server", "taken_from_the_proxy", "SHUTDOWN ABORT", "SHUTDOWN NOSUCH", "FAILOVER ABORT", "REPLICAOF a", "REPLICAOF x notaport", "PSYNC", "REPLCONF a", "WAITAOF 0 0 0", "WAIT 0 0")
script("server", "config", "CONFIG GET maxmemory", "CONFIG GET max*-policy", "CONFIG GET nosuch", "CONFIG SET hz 15", "CONFIG GET hz", "CONFIG SET hz 10", "CONFIG SET nosuch 1", "CONFIG SET hz abc",
       "CONFIG SET maxmemory 100mb timeout 0", "CONFIG GET maxmemory", "CONFIG SET maxmemory 0 maxmemory 1", "CONFIG SET port 0x", "CONFIG GET databases", "CONFIG SET databases 3", "CONFIG GET save", "CONFIG GET appendonly",
       "CONFIG GET requirepass", "CONFIG GET client-output-buffer-limit", "CONFIG SET client-output-buffer-limit 'x'", "CONFIG REWRITE", "CONFIG RESETSTAT")


@case("server")
def whole_command_table(side):
    """Byte for byte; a target that adds commands of its own says so in its list of exceptions."""
    c = side.connect()
    for item in ("COMMAND COUNT", "COMMAND LIST"):
        reply = c.alone().do(item)
        side.note(item, sorted(reply.split(b"\r\n")[1:]))
    reply = c.alone().do("COMMAND INFO get set subscribe blpop multi client config info psync wait")
    side.note("info", sorted(reply.split(b"\r\n")))  # the order of subcommands is free


@case("server")
def whole_config(side):
    c = side.connect()
    rows = c.alone().do("CONFIG GET *").split(b"\r\n")
    side.note("names", sorted(rows[2::4]))
    pairs = dict(zip(rows[2::4], rows[4::4]))
    for own in (b"port", b"dir", b"pidfile", b"logfile", b"bind", b"proc-title-template"):
        pairs.pop(own, None)
    for key in sorted(pairs):
        side.note(key.decode(), pairs[key])


@case("server")
def timeout_spares_the_busy_and_closes_the_idle(side):
    """`timeout` is for clients: an idle one is closed, one that works is not, subscribers are not."""
    admin, idle, busy, sub = side.connect("admin"), side.connect("idle"), side.connect("busy"), side.connect("sub")
    sub.do("SUBSCRIBE a")
    idle.do("PING")
    admin.do("CONFIG SET timeout 2")
    for n in range(12):
        busy.do("INCR n")
        time.sleep(0.4)
    side.note("idle", idle.read_rest(5))
    busy.do("CONFIG SET timeout 0", "PUBLISH a x")
    sub.expect()


@case("server")
def maxmemory_errors(side):
    c = side.connect()
    c.do("CONFIG SET maxmemory 1", "SET k v", "GET k", "DEL k", "MULTI", "SET k v", "EXEC", ("EVAL", "return redis.call('SET', 'k', 'v')", "0"), "CONFIG SET maxmemory 0", "SET k v")


@case("server")
def maxclients_refuses(side):
    """Redis counts the connections it has, a proxy's are others; the client must see the error in any case, or be served."""
    admin = side.connect("admin")
    admin.do("CONFIG GET maxclients")
    admin.do("PING")


@case("server")
def slowlog_has_the_clients_commands(side):
    c = side.connect()
    c.do("CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET", "SET k v", ("EVAL", "return 1", "0"), "CONFIG SET slowlog-log-slower-than 10000")
    side.mask(rb"\*6\r\n:\d+\r\n:\d+\r\n:\d+", b"*6 entry")
    side.mask(rb"\$\d+\r\n127\.0\.0\.1:\d+", b"addr")
    c.do("SLOWLOG GET 10", "SLOWLOG LEN")


@case("server")
def slowlog_has_the_clients_names(side):
    a, b = side.connect("a"), side.connect("b")
    a.do("CLIENT SETNAME a")
    b.do("CLIENT SETNAME b", "CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET")
    side.mask(rb"\*6\r\n:\d+\r\n:\d+\r\n:\d+", b"*6 entry")
    side.mask(rb"\$\d+\r\n127\.0\.0\.1:\d+", b"addr")
    a.do(("EVAL", "return 1", "0"), "SLOWLOG GET 1")
    a.do("SET k v", "SLOWLOG GET 1", "CONFIG SET slowlog-log-slower-than 10000")


@case("server")
def dump_and_restore(side):
    c = side.connect()
    c.do("SET k v", "RPUSH l a b c", "HSET h f v")
    for key in ("k", "l", "h"):
        payload = c.alone().do("DUMP " + key).split(b"\r\n", 1)[1][:-2]
        c.do(("RESTORE", key + "2", "0", payload), ("RESTORE", key + "2", "0", payload), ("RESTORE", key + "3", "0", payload[:-1] + b"x"), "TYPE %s2" % key)
    c.do("LRANGE l2 0 -1", "DEBUG DIGEST-VALUE k l h", "DEBUG DIGEST-VALUE k2 l2 h2")


@case("server")
def a_replica_may_attach(side):
    """In mode none nothing is refused that Redis answers in order: the header of a full synchronisation arrives."""
    c = side.connect()
    c.do("REPLCONF listening-port 12345", "REPLCONF capa psync2")
    side.mask(rb"[0-9a-f]{40} \d+", b"<id>")
    side.mask(rb"\$EOF:[0-9a-f]{40}", b"$EOF")
    c.send("PSYNC ? -1")
    got = c.quiet(1.0).lstrip(b"\n")
    side.note("start", got.split(b"\n")[0])
    side.note("rdb", b"REDIS0010" in got)
    c.close()
    side.wait_until(lambda: b"connected_slaves:0" in side.direct().alone().text("INFO replication") or side.name != "redis")


# -- scripts, functions, streams ------------------------------------------------------------------------------------------
script("scripts", "eval", ("EVAL", "return {KEYS[1], ARGV[1], ARGV[2]}", "1", "k", "a", "b"), ("EVAL", "return 1", "x"), ("EVAL", "return 1", "-1"), ("EVAL", "return 1", "5", "a"), ("EVAL", "syntax error here", "0"),
       ("EVAL", "return redis.call('NOSUCH')", "0"), ("EVAL", "return redis.pcall('INCR', 'a', 'b')", "0"), ("EVAL", "error('boom')", "0"), ("EVAL", "return redis.error_reply('MY error')", "0"),
       ("EVAL", "return nosuchglobal", "0"), ("EVAL_RO", "return redis.call('SET', 'k', 'v')", "0"), ("EVAL", "return redis.call('BLPOP', 'none', 0)", "0"), ("EVAL", "return redis.call('SUBSCRIBE', 'a')", "0"),
       ("EVAL", "return redis.sha1hex('')", "0"), ("EVAL", "return string.rep('x', 100000)", "0"), ("EVAL", "return {1,{2,{3,{4}}}}", "0"), ("EVAL", "#!lua flags=no-writes\nreturn redis.call('SET','a','b')", "0"),
       ("EVAL", "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('GET', KEYS[1])", "1", "k", b"\x00\xff"), ("EVAL", "return redis.call('PUBLISH', 'a', 'b')", "0"), ("EVAL", "return #KEYS", "0"))
script("scripts", "by_sha", "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0", ("SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"), "SCRIPT EXISTS 2bab3b661081db58bd2341920e0ba7cf5dc77b25 x",
       "EVALSHA 2bab3b661081db58bd2341920e0ba7cf5dc77b25 1 n", "EVALSHA 2BAB3B661081DB58BD2341920E0BA7CF5DC77B25 1 n", "MULTI", "EVALSHA 2bab3b661081db58bd2341920e0ba7cf5dc77b25 1 n", "EXEC", "SCRIPT FLUSH",
       "EVALSHA 2bab3b661081db58bd2341920e0ba7cf5dc77b25 1 n", "SCRIPT KILL", "SCRIPT HELP", "SCRIPT NOSUCH", "SCRIPT FLUSH ASYNC")


@case("scripts")
def debug_is_off(side):
    """Not in a pipeline: there Redis refuses it if replies are still in its buffer, and how it cut its reads decides that."""
    c = side.connect()
    c.do("SCRIPT DEBUG no")
    c.do("PING")


LIBRARY = "#!lua name=lib\nredis.register_function('f', function(k, a) return {k[1], a[1]} end)\nredis.register_function{function_name='r', callback=function() return redis.call('DBSIZE') end, flags={'no-writes'}}"
script("scripts", "functions", ("FUNCTION", "LOAD", LIBRARY), ("FUNCTION", "LOAD", LIBRARY), ("FUNCTION", "LOAD", "REPLACE", LIBRARY), "FCALL f 1 k a", "FCALL_RO f 1 k a", "FCALL_RO r 0", "FCALL nosuch 0",
       ("FUNCTION", "LOAD", "nonsense"), "FUNCTION DELETE nosuch", "FUNCTION DELETE lib", "FCALL f 1 k a", "FUNCTION LIST", "FUNCTION STATS", "FUNCTION KILL", "FUNCTION FLUSH")
script("streams", "groups", "XADD x 1-1 a 1", "XADD x 1-1 a 1", "XADD x 2-1 b 2 c 3", "XADD x 3-0 d 4", "XGROUP CREATE x g 0", "XGROUP CREATE x g 0", "XREADGROUP GROUP g me COUNT 2 STREAMS x >", "XREADGROUP GROUP g me STREAMS x 0",
       "XACK x g 1-1", "XPENDING x g", "XREADGROUP GROUP g you STREAMS x >", "XCLAIM x g me 0 3-0 JUSTID", "XAUTOCLAIM x g you 0 0 COUNT 10 JUSTID", "XINFO GROUPS x", "XLEN x", "XRANGE x - + COUNT 1", "XREVRANGE x + -",
       "XTRIM x MAXLEN 1", "XDEL x 3-0", "XSETID x 9-9", "XADD x NOMKSTREAM 10-1 a b", "XGROUP CREATECONSUMER x g c", "XGROUP DELCONSUMER x g me", "XGROUP SETID x g $", "XGROUP DESTROY x g", "XREADGROUP GROUP none c STREAMS x >",
       "XREAD COUNT 1 STREAMS x y 0 0", "XADD y * x", "XINFO STREAM none", "XADD x MAXLEN ~ 10 11-1 k v", "XREAD STREAMS x")


@case("scan")
def finds_everything(side):
    c = side.connect()
    c.send(*[("SET", "key:%d" % n, n) for n in range(5000)], *[("SADD", "set", "m%d" % n) for n in range(2000)], *[("HSET", "hash", "f%d" % n, n) for n in range(1000)])
    c.read_many(8000)
    for item in ("SCAN", "SSCAN set", "HSCAN hash", "SCAN match"):
        found, cursor = set(), b"0"
        while True:
            words = {"SCAN": ("SCAN", cursor, "COUNT", "100"), "SCAN match": ("SCAN", cursor, "MATCH", "key:1*", "COUNT", "200")}.get(item) or (*item.split(), cursor, "COUNT", "77")
            reply = c.alone().do(words).split(b"\r\n")
            cursor = reply[2]
            found.update(reply[5::2])
            if cursor == b"0":
                break
        side.note(item, (len(found), sorted(found)[:3], sorted(found)[-4:]))

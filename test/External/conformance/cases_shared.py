"""Contract: cases about what passes between clients: publish/subscribe, sharded too, blocking commands, client tracking,
MONITOR, scripts that run long, slow readers. What one client does must reach, and must not disturb, the others."""
import os
import threading
import time

from harness import add, case, command

LONG = bool(os.environ.get("CONFORMANCE_LONG"))
ID = (rb"(\$2\r\nid\r\n:|\bid=)\d+", rb"\1<n>")


# -- publish and subscribe ----------------------------------------------------------------------------------------------
@case("pubsub")
def channels_patterns_shards(side):
    for version in ("2", "3"):
        sub, pub = side.connect("sub" + version), side.connect("pub")
        side.mask(*ID)
        sub.do("HELLO " + version)
        sub.send("SUBSCRIBE a b a", "PSUBSCRIBE a*", "SSUBSCRIBE a s")
        sub.expect(6)
        for channel in "a", "b", "ab", "c", "s":
            pub.do(("PUBLISH", channel, "to " + channel), ("SPUBLISH", channel, b"\x00\r\n" + channel.encode()))
        sub.expect(6)  # a: message, pmessage, smessage; b: message; ab: pmessage; s: smessage
        pub.do("PUBSUB NUMSUB a b c", "PUBSUB NUMPAT", "PUBSUB SHARDNUMSUB a s x", "PUBSUB NUMSUB")
        sub.send("UNSUBSCRIBE a", "PUNSUBSCRIBE", "SUNSUBSCRIBE a", "SUNSUBSCRIBE", "UNSUBSCRIBE nosuch", "PING", "PING hello")
        sub.expect(1 + 1 + 2 + 1 + 2)
        side.note("rest", sub.quiet(0.05))
        sub.send("UNSUBSCRIBE", "UNSUBSCRIBE", "SUNSUBSCRIBE", "PUNSUBSCRIBE", "GET none", "PING")
        sub.expect(6)
        sub.close()


@case("pubsub")
def lists_show_only_what_clients_did(side):
    """No channel of a proxy's own."""
    c, sub = side.connect("c"), side.connect("sub")
    c.do("PUBSUB CHANNELS", "PUBSUB SHARDCHANNELS", "PUBSUB NUMPAT")
    sub.do("SUBSCRIBE only", "SSUBSCRIBE shard")
    c.do("PUBSUB CHANNELS", "PUBSUB SHARDCHANNELS", "PUBSUB CHANNELS o*", "PUBSUB SHARDCHANNELS x*", "PUBSUB HELP", "PUBSUB NOSUCH")
    listener = side.connect("listener")
    listener.do("PSUBSCRIBE *")
    for n in range(50):
        c.do("INCR n")
    time.sleep(0.1)
    side.note("listener", listener.quiet(0.1))


@case("pubsub")
def only_some_commands_while_subscribed(side):
    c = side.connect()
    c.do("SUBSCRIBE a")
    for item in ("GET k", "SET k v", "PING", "PING x", "MULTI", "EXEC", "NOSUCH", "GET", "HELLO 3", "AUTH x", "SELECT 1", "CLIENT GETNAME", "SUBSCRIBE b",
                 "PSUBSCRIBE p*", "SSUBSCRIBE s", "MONITOR", "UNSUBSCRIBE a", "COMMAND COUNT"):
        c.do(item)
    c.send("UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE")
    c.expect(3)
    c.do("GET k", "SELECT 1", "GET k")


@case("pubsub")
def everything_while_subscribed_in_3(side):
    c = side.connect()
    side.mask(*ID)
    c.do("HELLO 3", "SUBSCRIBE a", "SET k v", "GET k", "PING", "PING x", "MULTI", "INCR n", "EXEC", "SELECT 1", "GET k", "CLIENT GETNAME", "HGETALL none")
    c.send("PUBLISH a self")
    c.expect(2)
    c.send("MULTI", "PUBLISH a in-multi", "PUBLISH a again", "GET k", "EXEC")
    c.expect(7)
    c.do("HELLO 2", "GET k", "PING")


@case("pubsub")
def subscriber_in_one_write(side):
    c = side.connect()
    c.do("SET k v", "SUBSCRIBE a", "GET k", "PING", "UNSUBSCRIBE a", "GET k", "PSUBSCRIBE x*", "PUNSUBSCRIBE x*", "INCR n", "SSUBSCRIBE s", "SUNSUBSCRIBE s", "INCR n")


@case("pubsub")
def order_of_messages(side):
    subs = [side.connect("sub%d" % n) for n in range(10)]
    for sub in subs:
        sub.do("SUBSCRIBE a", "SSUBSCRIBE s")
    pub = side.connect("pub")
    for n in range(500):
        pub.send(("PUBLISH", "a", n), ("SPUBLISH", "s", n))
    pub.expect(1000)
    for sub in subs:
        sub.expect(1000)


@case("pubsub")
def large_messages(side):
    sub, pub = side.connect("sub"), side.connect("pub")
    sub.do("SUBSCRIBE a")
    for size in (0, 1, 16_000, 20_000, 1_000_000, 8_000_000):
        pub.do(("PUBLISH", "a", "x" * size))
        sub.expect()


@case("pubsub")
def keyspace_events(side):
    sub, c = side.connect("sub"), side.connect("c")
    c.do("CONFIG SET notify-keyspace-events KEA")
    sub.do("PSUBSCRIBE __key*__:*")
    c.do("SET k v", "DEL k", "RPUSH l a", "LPOP l", "SELECT 2", "SET k v", "RENAME k j", "EXPIRE j 100", "MULTI", "INCR n", "EXEC")
    side.note("all", sub.quiet(0.3))


@case("pubsub")
def many_channels(side):
    c, pub = side.connect("c"), side.connect("pub")
    c.send(("SUBSCRIBE", *["c%d" % n for n in range(5000)]))
    c.expect(5000)
    pub.do("PUBLISH c4999 x")
    c.expect()
    c.send("UNSUBSCRIBE c1")
    c.expect()
    c.close()
    side.wait_until(lambda: pub.alone().do("PUBSUB CHANNELS") == b"*0\r\n")
    pub.do("PUBLISH c4999 x")


# -- blocking -----------------------------------------------------------------------------------------------------------
WAITERS = [("blpop", "BLPOP k1 k2 0", ("RPUSH", "k2", "v")), ("brpop", "BRPOP k1 0", ("RPUSH", "k1", "v", "w")), ("blmove", "BLMOVE k1 k2 LEFT RIGHT 0", ("RPUSH", "k1", "v")),
           ("brpoplpush", "BRPOPLPUSH k1 k2 0", ("RPUSH", "k1", "v")), ("blmpop", "BLMPOP 0 2 k1 k2 LEFT COUNT 2", ("RPUSH", "k2", "a", "b", "c")),
           ("bzpopmin", "BZPOPMIN k1 0", ("ZADD", "k1", "1", "m")), ("bzpopmax", "BZPOPMAX k1 k2 0", ("ZADD", "k2", "1", "m")), ("bzmpop", "BZMPOP 0 1 k1 MIN", ("ZADD", "k1", "1", "m")),
           ("xread", "XREAD BLOCK 0 STREAMS k1 $", ("XADD", "k1", "5-1", "a", "b")), ("xreadgroup", "XREADGROUP GROUP g c BLOCK 0 STREAMS st >", ("XADD", "st", "5-1", "a", "b"))]


def waiter(name, waits, wakes):
    def run(side):
        for version in ("2", "3"):
            side.mask(*ID)
            c, other, late = side.connect("c" + version), side.connect("other"), side.connect("late")
            other.do("FLUSHALL", "XGROUP CREATE st g 0 MKSTREAM")
            c.do("HELLO " + version)
            c.send(waits, "PING", "GET none")
            side.note("waits", c.quiet(0.05))
            late.send(waits)
            late.quiet(0.05)
            other.do("PING", wakes)
            c.expect(3)
            other.do("CLIENT LIST TYPE nosuch", wakes if name != "xreadgroup" else "PING", *(["XADD st 6-1 c d"] if name == "xreadgroup" else []))
            if name in ("xread", "xreadgroup", "blmpop", "brpop"):
                late.quiet(0.1)  # woken or not according to what the wake left; the state below tells
            else:
                late.expect()
            c.close()
            late.close()
    add("blocking", "woken_" + name, run)


for row in WAITERS:
    waiter(*row)


@case("blocking")
def time_outs_and_errors(side):
    for version in ("2", "3"):
        side.mask(*ID)
        c = side.connect("c" + version)
        c.do("HELLO " + version, "SET str v")
        for item in ("BLPOP none 0.02", "BLPOP none 1x", "BLPOP none -1", "BLPOP none 99999999999999999999", "BLPOP str 0", "BLPOP none", "BZPOPMIN none 0.02", "BZPOPMIN str 0",
                     "BLMOVE none n2 LEFT RIGHT 0.02", "BLMPOP 0.02 1 none LEFT", "BLMPOP 0 0 none LEFT", "BZMPOP 0.02 1 none MIN", "XREAD BLOCK 20 STREAMS none $", "XREAD BLOCK -1 STREAMS none $",
                     "XREADGROUP GROUP g c BLOCK 20 STREAMS none >", "WAIT x 0", "WAIT 1 -1", "WAIT 0", "BRPOP none none none 0.02"):
            c.do(item)


@case("blocking")
def wait_counts_replicas(side):
    side.connect().do("SET k v", "WAIT 1 20", "WAIT 0 0")


@case("blocking")
def fifo_of_waiters(side):
    waiters = [side.connect("w%d" % n) for n in range(10)]
    for c in waiters:
        c.send("BLPOP l 0")
        c.quiet(0.03)
    other = side.connect("other")
    other.do(("RPUSH", "l", "a", "b", "c"))
    for n in range(7):
        other.do(("RPUSH", "l", n))
    for c in waiters:
        c.expect()


@case("blocking")
def many_waiters_and_others_work(side):
    waiters = [side.connect("w%d" % n) for n in range(200)]
    for n, c in enumerate(waiters):
        c.send("BLPOP l%d 0" % n)
    other = side.connect("other")
    other.do("SET k v", "GET k")
    side.wait_until(lambda: b"blocked_clients:200" in other.alone().do("INFO clients"))
    for n in range(200):
        other.do(("RPUSH", "l%d" % n, n))
    for c in waiters:
        c.expect()


@case("blocking")
def unblock_by_id(side):
    c, other = side.connect("c"), side.connect("other")
    number = c.alone().integer("CLIENT ID")
    for how in ("", " TIMEOUT", " ERROR"):
        c.send("BLPOP none 0", "PING")
        side.wait_until(lambda: other.alone().do("CLIENT UNBLOCK %d%s" % (number, how)) == b":1\r\n")
        c.expect(2)
    other.do("CLIENT UNBLOCK %d" % number)


@case("blocking")
def vanishing_waiters_take_nothing(side):
    other = side.connect("other")
    for n in range(10):
        c = side.connect()
        c.send("BLPOP l 0")
        c.quiet(0.02)
        c.close(reset=n % 2 == 0)
    side.wait_until(lambda: b"blocked_clients:0" in other.alone().do("INFO clients"))
    other.do(("RPUSH", "l", "a"), "LLEN l")


@case("blocking")
def in_other_databases(side):
    a, b, other = side.connect("a"), side.connect("b"), side.connect("other")
    a.do("SELECT 3")
    b.do("SELECT 4")
    a.send("BLPOP l 0")
    b.send("BLPOP l 0")
    a.quiet(0.05)
    other.do(("RPUSH", "l", "in0"), "SELECT 4", ("RPUSH", "l", "in4"), "SELECT 3")
    b.expect()
    side.note("a", a.quiet(0.05))
    other.do("SELECT 5", ("RPUSH", "l", "in5"), "SWAPDB 5 3")
    a.expect()
    a.do("LLEN l")


@case("blocking")
def group_destroyed(side):
    c, other = side.connect("c"), side.connect("other")
    other.do("XGROUP CREATE x g $ MKSTREAM")
    c.send("XREADGROUP GROUP g me BLOCK 0 STREAMS x >", "PING")
    c.quiet(0.05)
    other.do("XGROUP DESTROY x g")
    c.expect(2)
    other.do("XGROUP CREATE x g $")
    c.send("XREADGROUP GROUP g me BLOCK 0 STREAMS x >", "PING")
    c.quiet(0.05)
    other.do("DEL x")
    c.expect(2)


@case("blocking")
def woken_in_transaction_and_script(side):
    a, b, other = side.connect("a"), side.connect("b"), side.connect("other")
    a.send("BLPOP l 0", "LLEN l")
    a.quiet(0.05)
    other.do("MULTI", ("RPUSH", "l", "1", "2"), "LPOP l", "LLEN l", "EXEC")
    a.expect(2)
    b.send("BLPOP l 0", "LLEN l")
    b.quiet(0.05)
    other.do(("EVAL", "redis.call('RPUSH', 'l', 'x', 'y', 'z'); return redis.call('LLEN', 'l')", "0"))
    b.expect(2)
    other.do("LRANGE l 0 -1")


# -- tracking -----------------------------------------------------------------------------------------------------------
@case("tracking")
def in_3(side):
    side.mask(*ID)
    c, other = side.connect("c"), side.connect("other")
    c.do("HELLO 3", "CLIENT TRACKING on", "GET k", "MGET a b", "HGETALL h")
    for item in ("SET k 1", "SET a 1", "SET none 1", "HSET h f v", "SET k 2"):
        other.do(item)
    c.expect(3)
    side.note("rest", c.quiet(0.05))
    c.do("GET k", "CLIENT TRACKINGINFO")
    c.send("SET k mine")
    c.expect(2)
    c.do("GET k")
    other.do("FLUSHALL")
    c.expect()
    c.do("CLIENT TRACKING off", "GET k")
    other.do("SET k 3")
    side.note("rest", c.quiet(0.05))


@case("tracking")
def options(side):
    side.mask(*ID)
    other = side.connect("other")
    for options in ("OPTIN", "OPTOUT", "NOLOOP", "BCAST", "BCAST PREFIX a PREFIX b", "BCAST PREFIX a NOLOOP"):
        c = side.connect(options)
        c.do("HELLO 3", "CLIENT TRACKING on " + options, "GET a1", "CLIENT TRACKINGINFO")
        if options == "OPTIN":
            c.do("CLIENT CACHING yes", "GET a2", "GET a3", "MULTI", "GET a4", "EXEC", "CLIENT CACHING no")
        if options == "OPTOUT":
            c.do("CLIENT CACHING no", "GET a2", "GET a3", "CLIENT CACHING yes")
        for key in ("a1", "a2", "a3", "a4", "b1", "c1"):
            other.do(("SET", key, "x"))
            # What was pushed came before the other's reply, and so before this one.
            c.send("PING x" + key)
            for _ in range(5):
                if c.expect().endswith(b"\r\nx%s\r\n" % key.encode()):
                    break
        side.note("pushed", sorted(c.quiet(0.1).split(b"invalidate")))
        own = []
        for item, last in (("SET a1 mine", b"+OK\r\n"), ("PING done", b"$4\r\ndone\r\n")):
            c.send(item)
            own.append(c.read())
            while own[-1] != last:
                own.append(c.read())
        side.note("own", sorted(own))
        c.close()
    bad = side.connect("bad")
    bad.do("CLIENT TRACKING on PREFIX a", "CLIENT TRACKING on BCAST OPTIN", "CLIENT TRACKING on OPTIN OPTOUT", "CLIENT TRACKING on REDIRECT 99999999", "CLIENT TRACKING on REDIRECT x",
           "CLIENT TRACKING on BCAST PREFIX a PREFIX ab", "CLIENT TRACKING on NOSUCH", "CLIENT TRACKING on", "CLIENT TRACKING on OPTIN", "CLIENT TRACKING off", "CLIENT CACHING yes")


@case("tracking")
def redirected(side):
    listener, c, other = side.connect("listener"), side.connect("c"), side.connect("other")
    number = listener.alone().integer("CLIENT ID")
    listener.do("SUBSCRIBE __redis__:invalidate")
    c.do("CLIENT TRACKING on REDIRECT %d" % number, "GET k", "MGET a b")
    side.note("redirect", c.alone().integer("CLIENT GETREDIR") == number)
    other.do("SET k 1")
    listener.expect()
    other.do("SET b 1")
    listener.expect()
    c.do("GET k")
    other.do("FLUSHALL")
    listener.expect()
    c.do("GET k")
    listener.close()
    side.wait_until(lambda: b"tracking_clients" in other.alone().do("INFO clients"))
    time.sleep(0.1)
    side.note("mine", b"broken_redirect" in c.alone().do("CLIENT TRACKINGINFO"))
    other.do("SET k 2")
    c.do("GET k", "CLIENT TRACKING off")


@case("tracking")
def expiry_and_eviction_reach(side):
    side.mask(*ID)
    c, other = side.connect("c"), side.connect("other")
    other.do("SET k v PX 50")
    c.do("HELLO 3", "CLIENT TRACKING on", "GET k")
    c.expect()
    c.do("GET k")


@case("tracking")
def of_many(side):
    side.mask(*ID)
    clients, other = [side.connect("c%d" % n) for n in range(20)], side.connect("other")
    for n, c in enumerate(clients):
        c.do("HELLO 3", "CLIENT TRACKING on", "GET k%d" % (n % 5))
    for n in range(5):
        other.do("SET k%d x" % n)
    for c in clients:
        c.expect()
        c.do("PING")


# -- MONITOR ------------------------------------------------------------------------------------------------------------
MONITORED = (rb"\+\d+\.\d+ \[(\d+) [^\]]*\]", rb"+T [\1 A]")


@case("monitor")
def shows_what_clients_send(side):
    side.mask(*MONITORED)
    m, a, b = side.connect("monitor"), side.connect("a"), side.connect("b")
    m.do("MONITOR")
    items = ["SET k v", ("SET", b"\x00\r\n\xff", 'q"\\'), "SELECT 3", "GET k", "MULTI", "INCR n", "EXEC", ("EVAL", "redis.call('SET', 'x', '1'); return 1", "0"), "BLPOP none 0.01",
             "NOSUCH a", "GET", "CONFIG GET port-none", "CLIENT SETNAME x", "PING", "PUBLISH a x", "SPUBLISH a x", "DBSIZE"]
    for item in items:
        a.do(item)
        b.do("GET b")
    side.note("seen", m.quiet(0.3))


@case("monitor")
def shows_nothing_of_a_proxys_own(side):
    side.mask(*MONITORED)
    m, c = side.connect("monitor"), side.connect("c")
    m.do("MONITOR")
    for n in range(20):
        c.do(("SET", "k", n))
        time.sleep(0.01)
    side.note("seen", m.quiet(0.2))
    c.send(*[("INCR", "n")] * 200)
    c.expect(200)
    side.note("seen", m.quiet(0.3))


@case("monitor")
def hides_secrets(side):
    side.mask(*MONITORED)
    m, c = side.connect("monitor"), side.connect("c")
    m.do("MONITOR")
    for item in ("AUTH secret", "AUTH default secret", "HELLO 3 AUTH default secret", "ACL SETUSER alice >secret", "CONFIG SET requirepass pw1", ("CONFIG", "SET", "requirepass", ""), "ACL LIST", "PING"):
        c.alone().do(item)
    side.note("seen", m.quiet(0.3))


@case("monitor")
def does_as_redis_when_it_monitors(side):
    side.mask(*MONITORED)
    m, c = side.connect("monitor"), side.connect("c")
    m.do("MONITOR")
    m.send("MONITOR", "GET k", "PING", "MONITOR x")
    side.note("seen", m.quiet(0.2))
    c.do("SET k 1")
    side.note("seen", m.quiet(0.2))
    m.send("QUIT")
    side.note("quit", m.read_rest(5))


# -- scripts that run long ------------------------------------------------------------------------------------------------
@case("busy")
def others_are_told_and_can_kill(side):
    a, b, killer = side.connect("a"), side.connect("b"), side.connect("killer")
    a.do("CONFIG SET busy-reply-threshold 50")
    a.send(("EVAL", "while true do end", "0"), "PING")
    side.note("script", a.quiet(0.3))
    b.do("GET k", "PING", "MULTI", "GET k", "EXEC", "NOSUCH")
    killer.do("FUNCTION KILL", "SCRIPT KILL")
    a.expect(2)
    b.do("GET k", "PING", "SCRIPT KILL")
    late = side.connect("late")
    late.do("GET k")


@case("busy")
def functions(side):
    a, b = side.connect("a"), side.connect("b")
    a.do(("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('spin', function() while true do end end)"), "CONFIG SET busy-reply-threshold 50")
    a.send("FCALL spin 0", "PING")
    side.note("script", a.quiet(0.3))
    b.do("GET k", "SCRIPT KILL", "FUNCTION STATS-NO", "FUNCTION KILL")
    a.expect(2)
    b.do("GET k")


@case("busy")
def pipelined_behind_a_long_script(side):
    """What was sent before the threshold waits, what comes after it is refused."""
    a, b = side.connect("a"), side.connect("b")
    a.do("CONFIG SET busy-reply-threshold 50")
    a.send("SET k 1", ("EVAL", "local t = redis.call('TIME'); local s = t[1] * 1e6 + t[2]; "
                       "repeat local n = redis.call('TIME'); until n[1] * 1e6 + n[2] > s + 20000; return 'done'", "0"), "GET k")
    b.do("GET none")
    a.expect(3)


# -- slow readers -------------------------------------------------------------------------------------------------------
def in_the_middle_of_a_large_reply(size, big_seconds=60):
    def run(side):
        slow, other = side.connect("slow"), side.connect("other")
        other.do(("SETRANGE", "big", size - 1, "x"))
        slow.send("GET big", "PING")
        first = slow.socket.recv(1000)  # and then it stops reading
        for n in range(100):
            other.do(("SET", "k", n), "GET k", "STRLEN big")
        third = side.connect("third")
        third.do("SELECT 2", "SET k v", "GET k", "MULTI", "GET k", "EXEC")
        slow.buffer += first
        reply = slow.read(big_seconds)
        side.note("big", (len(reply), reply[:20], reply[-3:], reply.count(b"\0")))
        slow.expect()
    return run


add("slow", "reader_of_20_mb", in_the_middle_of_a_large_reply(20_000_000))


@case("slow")
def ten_readers_of_5_mb(side):
    other = side.connect("other")
    other.do(("SETRANGE", "big", 4_999_999, "x"))
    slow = [side.connect("slow%d" % n) for n in range(10)]
    for c in slow:
        c.send(*["GET big"] * 3)
    for n in range(50):
        other.do(("SET", "k", n), "GET k")
    for c in slow:
        for _ in range(3):
            side.note("length", len(c.read(60)))
        c.do("PING")


@case("slow")
def senders(side):
    """A command that arrives over a second stalls nobody."""
    slow, other = side.connect("slow"), side.connect("other")
    payload = command("SET", "slow", "x" * 100_000)
    for at in range(0, len(payload), 10_000):
        slow.send(payload[at:at + 10_000])
        other.do("INCR n", "GET slow")
        time.sleep(0.02)
    slow.expect()
    other.do("STRLEN slow")


@case("slow")
def large_values_there_and_back(side):
    c = side.connect()
    for size in (16_383, 16_384, 32_768, 65_535, 65_536, 1_000_003, 10_000_019) + ((64 << 20,) if LONG else ()):
        value = os.urandom(1000) * (size // 1000) + b"y" * (size % 1000) if size < 100_000 else (bytes(range(256)) * (size // 256 + 1))[:size]
        if side.name == "redis":
            large_values_there_and_back.values = getattr(large_values_there_and_back, "values", {})
            large_values_there_and_back.values[size] = value
        value = large_values_there_and_back.values[size]
        sender = threading.Thread(target=c.send, args=(("SET", "k", value), "STRLEN k", "GET k", "PING"))
        sender.start()
        c.expect(2)
        reply = c.read(120)
        side.note("same", (len(reply), reply == b"$%d\r\n%s\r\n" % (size, value)))
        c.expect()
        sender.join()


@case("slow")
def large_values_of_many(side):
    clients = [side.connect("c%d" % n) for n in range(8)]
    threads = []

    def work(n, c):
        value = bytes([65 + n]) * 3_000_000
        for turn in range(4):
            c.send(("SET", "k%d" % n, value), "GET k%d" % n, "INCR n%d" % n)
            c.read()
            if c.read() != b"$3000000\r\n%s\r\n" % value:
                side.note("c%d" % n, "wrong bytes in turn %d" % turn)
            c.read()
    for n, c in enumerate(clients):
        threads.append(threading.Thread(target=work, args=(n, c)))
        threads[-1].start()
    for thread in threads:
        thread.join(120)
        side.note("ended", not thread.is_alive())
    clients[0].do(*["GET n%d" % n for n in range(8)])


@case("slow")
def over_the_limit_of_a_value(side):
    c, other = side.connect("c"), side.connect("other")
    other.do("CONFIG SET proto-max-bulk-len 1mb")
    c.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n")
    side.note("all", c.read_rest(5))
    d = side.connect("d")
    d.do(("SET", "k", "x" * 1_048_576), "STRLEN k", "APPEND k x", "STRLEN k")
    other.do("CONFIG SET proto-max-bulk-len 512mb")
    d.do(("SET", "k", "x" * 1_048_577), "STRLEN k")


if LONG:
    add("slow", "reader_of_512_mb", in_the_middle_of_a_large_reply(512 << 20, 170))


# -- many at once -------------------------------------------------------------------------------------------------------
@case("crowd")
def five_hundred_clients(side):
    clients = [side.connect("c%d" % n) for n in range(500)]
    for turn in range(5):
        for n, c in enumerate(clients):
            c.send(("SET", "k%d" % n, turn), "GET k%d" % n, *(["MULTI", "GET k%d" % n, "EXEC"] if n % 10 == turn else []))
        for n, c in enumerate(clients):
            c.expect(5 if n % 10 == turn else 2)
    clients[0].do("DBSIZE")


@case("crowd")
def all_kinds_at_once(side):
    """Threads of different kinds of clients for a while; each sees exactly its own."""
    stop = time.monotonic() + 2.0
    wrong = []

    def plain(n):
        c = side.connect("plain")
        turn = 0
        while time.monotonic() < stop:
            turn += 1
            c.send(*[("SET", "p%d" % n, turn), ("GET", "p%d" % n)] * 10)
            got = c.read_many(20)
            if got[-1] != b"$%d\r\n%d\r\n" % (len(str(turn)), turn):
                wrong.append((n, turn, got[-1]))

    def transaction(n):
        c = side.connect("transaction")
        turn = 0
        while time.monotonic() < stop:
            turn += 1
            c.send("WATCH t%d" % n, "MULTI", "INCR t%d" % n, "INCR t%d" % n, "EXEC")
            got = c.read_many(5)
            if got[-1] != b"*2\r\n:%d\r\n:%d\r\n" % (2 * turn - 1, 2 * turn):
                wrong.append((n, turn, got[-1]))

    def queue(n):
        a, b = side.connect("a"), side.connect("b")
        turn = 0
        while time.monotonic() < stop:
            turn += 1
            b.send("BLPOP q%d 0" % n)
            a.send(("RPUSH", "q%d" % n, turn))
            a.read()
            if not b.read().endswith(b"\r\n%d\r\n" % turn):
                wrong.append((n, turn))

    def channel(n):
        a, b = side.connect("a"), side.connect("b")
        b.send("SUBSCRIBE ch%d" % n)
        b.read()
        turn = 0
        while time.monotonic() < stop:
            turn += 1
            a.send(("PUBLISH", "ch%d" % n, turn))
            if a.read() != b":1\r\n" or not b.read().endswith(b"\r\n%d\r\n" % turn):
                wrong.append((n, turn))

    def switcher(n):
        c = side.connect("switcher")
        turn = 0
        while time.monotonic() < stop:
            turn += 1
            c.send("SELECT %d" % (turn % 16), ("SET", "s%d" % n, turn), "HELLO %d" % (2 + turn % 2), "GET s%d" % n, "CLIENT SETNAME x%d" % turn, "CLIENT GETNAME", "RESET", "GET s%d" % n)
            got = c.read_many(8)
            if got[3] != b"$%d\r\n%d\r\n" % (len(str(turn)), turn) or got[5] != b"$%d\r\nx%d\r\n" % (len(str(turn)) + 1, turn):
                wrong.append((n, turn, got))

    def guarded(kind, n):
        try:
            kind(n)
        except Exception as error:
            wrong.append((kind.__name__, n, repr(error)))
    threads = [threading.Thread(target=guarded, args=(kind, n)) for kind in (plain, transaction, queue, channel, switcher) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    side.note("wrong", wrong[:3])

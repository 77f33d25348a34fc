"""Contract: clients that behave badly, or mix what is seldom mixed: cut and half-closed at odd places, modes changed in mid-pipeline,
random sessions of everything that a connection can be. The seed is the runner's."""
import os
import random
import time

from harness import add, case, command
from cases_sessions import ID, script

SEED = int(os.environ.get("CONFORMANCE_SEED", "1"))
LONG = bool(os.environ.get("CONFORMANCE_LONG"))

script("attack", "watch_across_databases", "SELECT 1", "SET k 1", "WATCH k", "SELECT 2", "SET k 2", "MULTI", "GET k", "EXEC", "SELECT 1", "WATCH k", "SET k 3", "SELECT 2", "MULTI", "INCR n", "EXEC", "GET n",
       "WATCH n", "SELECT 1", "SET n 9", "MULTI", "GET n", "EXEC", "WATCH k", "UNWATCH", "SELECT 2", "MULTI", "SELECT 1", "SET k 5", "SELECT 3", "EXEC", "SET here 1", "DBSIZE", "SELECT 1", "GET k")
script("attack", "protocols_in_mid_pipeline", "HELLO 3", "HSET h f v", "HGETALL h", "HELLO 2", "HGETALL h", "MULTI", "HELLO 3", "HGETALL h", "HELLO 2", "HGETALL h", "EXEC", "HGETALL h", "HELLO 3", "WATCH h", "MULTI", "HGETALL h", "HELLO 2", "EXEC",
       "HGETALL h", "HELLO 3", ("EVAL", "return redis.call('HGETALL', 'h')", "0"), "HELLO 2", "BLPOP none 0.01", "HELLO 3", "BLPOP none 0.01", "RESET", "HGETALL h", "HELLO 4", "HGETALL h", "HELLO 3 NOSUCH", "HGETALL h")
script("attack", "multi_with_errors", "MULTI", "GET", "EXEC", "MULTI", "NOSUCH", "DISCARD", "MULTI", "MULTI", "WATCH a", "INCR n", "EXEC", "EXEC", "DISCARD", "MULTI", "EXEC x", "INCR n", "EXEC", "MULTI", "DISCARD x", "INCR n", "EXEC", "MULTI",
       "CLIENT KILL", "EXEC", "MULTI", "SELECT 99", "SELECT 1", "EXEC", "INCR n", "MULTI", "AUTH a b", "EXEC", "GET n", "MULTI", "RESET x", "EXEC", "MULTI", "RESET", "EXEC", "GET n")
script("attack", "blocking_behind_blocking", "RPUSH a 1 2 3", "BLPOP a 0", "BLPOP none 0.01", "BRPOP a 0", "BLMOVE a b LEFT LEFT 0", "BLPOP a 0.01", "BZPOPMIN z 0.01", "XREAD BLOCK 10 STREAMS x $", "BLPOP b 0", "WAIT 0 1x", "GET k", "SELECT 1", "BLPOP b 0.01",
       "MULTI", "BLPOP b 0", "EXEC", "BLPOP b 0.01", "SELECT 0", "PING")
script("attack", "tracking_modes", "HELLO 3", "CLIENT TRACKING on OPTIN", "CLIENT CACHING yes", "GET k", "GET k2", "CLIENT CACHING yes", "MULTI", "GET k", "EXEC", "CLIENT TRACKINGINFO", "CLIENT TRACKING on BCAST", "CLIENT TRACKING off", "CLIENT TRACKING on BCAST PREFIX a", "SET b 1",
       "CLIENT TRACKING off", "CLIENT GETREDIR", "CLIENT TRACKING on OPTOUT", "CLIENT CACHING no", "GET k", "RESET", "CLIENT TRACKINGINFO", "GET k")
script("attack", "subscribed_and_reset", "SUBSCRIBE a", "PSUBSCRIBE p*", "SSUBSCRIBE s", "RESET", "GET k", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "SUBSCRIBE a", "UNSUBSCRIBE b", "UNSUBSCRIBE a", "MULTI", "INCR n", "EXEC", "SUBSCRIBE a", "RESET", "MULTI", "INCR n", "EXEC", "SELECT 1", "GET n")


@case("attack")
def replies_on_and_off(side):
    side.mask(*ID)
    for n, items in enumerate((["CLIENT REPLY OFF", "SET k 1", "INCR k", "CLIENT REPLY ON", "GET k"], ["CLIENT REPLY SKIP", "GET k", "GET k"], ["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "GET k", "PING"],
                               ["CLIENT REPLY OFF", "CLIENT REPLY SKIP", "GET k", "CLIENT REPLY ON", "PING"], ["CLIENT REPLY SKIP", "MULTI", "INCR k", "EXEC", "GET k"], ["CLIENT REPLY OFF", "MULTI", "INCR k", "EXEC", "CLIENT REPLY ON", "GET k"],
                               ["MULTI", "INCR k", "CLIENT REPLY ON", "EXEC", "GET k"], ["CLIENT REPLY OFF", "SELECT 2", "SET k two", "HELLO 3", "CLIENT REPLY ON", "GET k", "HGETALL none"], ["CLIENT REPLY SKIP", "NOSUCH", "PING"],
                               ["CLIENT REPLY SKIP", "BLPOP none 0.01", "BLPOP none 0.01"], ["CLIENT REPLY OFF", "RPUSH l a", "BLPOP l 0", "CLIENT REPLY ON"], ["CLIENT REPLY OFF", "RESET", "PING"], ["CLIENT REPLY SKIP", "RESET", "PING", "PING"],
                               ["CLIENT REPLY SKIP", "CLIENT REPLY OFF", "PING", "CLIENT REPLY ON"], ["CLIENT REPLY SKIP", "CLIENT REPLY ON", "PING"], ["CLIENT REPLY SKIP", "SELECT 1", "CLIENT SETNAME x", "CLIENT GETNAME"], ["CLIENT REPLY SKIP", ("SET", "k", "x" * 300_000), "STRLEN k"],
                               ["CLIENT REPLY OFF", "CLIENT INFO", "INFO", "SLOWLOG GET", "CLIENT LIST", "CLIENT KILL ID 1", "CLIENT REPLY ON", "PING"], ["CLIENT REPLY SKIP", "CLIENT LIST", "PING"], ["CLIENT REPLY SKIP", "INFO", "PING"], ["CLIENT REPLY SKIP", ("EVAL", "return 1", "0"), "PING"])):
        c = side.connect("%d" % n)
        c.send(*items)
        c.send("CLIENT REPLY ON", "GET k", "CLIENT GETNAME", "QUIT")
        side.note(c.name, c.read_rest())


@case("attack")
def subscribers_with_replies_off(side):
    pub = side.connect("pub")
    for version in ("2", "3"):
        for items, replies in ((["CLIENT REPLY OFF", "SUBSCRIBE a"], 1), (["SUBSCRIBE a", "CLIENT REPLY OFF", "PING"], 3 if version == "2" else 1), (["CLIENT REPLY SKIP", "SUBSCRIBE a", "PING"], 2),
                               (["CLIENT REPLY SKIP", "SUBSCRIBE a b", "PING"], 3), (["CLIENT REPLY OFF", "SUBSCRIBE a", "UNSUBSCRIBE a", "CLIENT REPLY ON", "PING"], 0)):
            side.mask(*ID)
            c = side.connect(version + "+".join(items))
            c.do("HELLO " + version)
            c.send(*items)
            if "UNSUBSCRIBE a" not in items:
                # All before the message, or nobody says which of the two comes first.
                c.expect(replies)
                side.wait_until(lambda: pub.alone().do("PUBSUB NUMSUB a") == b"*2\r\n$1\r\na\r\n:1\r\n")
                pub.do("PUBLISH a x")
            c.end_of_input()
            side.note(c.name, c.read_rest())
            side.wait_until(lambda: pub.alone().do("PUBSUB NUMSUB a") == b"*2\r\n$1\r\na\r\n:0\r\n")


@case("attack")
def storms_of_unsubscribing(side):
    side.mask(*ID)
    for version in ("2", "3"):
        c = side.connect("c" + version)
        c.do("HELLO " + version)
        c.send(*["UNSUBSCRIBE"] * 50, *["PUNSUBSCRIBE"] * 50, "SUNSUBSCRIBE", "PING")
        c.expect(102)
        c.send(*["SUBSCRIBE a", "UNSUBSCRIBE", "SUBSCRIBE b", "UNSUBSCRIBE b", "PSUBSCRIBE p", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"] * 50, "PING", "GET k")
        c.expect(402)
        c.send("SUBSCRIBE a a a", "UNSUBSCRIBE x a y", "UNSUBSCRIBE a a", "SSUBSCRIBE s", "UNSUBSCRIBE", "SUNSUBSCRIBE", "PING", "SUBSCRIBE", "UNSUBSCRIBE", "GET k")
        c.expect(3 + 3 + 2 + 1 + 1 + 1 + 1 + 1 + 1 + 1)


@case("attack")
def a_huge_promise_then_nothing(side):
    other = side.connect("other")
    for payload in (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n", b"*1048576\r\n$3\r\nDEL\r\n", b"*2\r\n$3\r\nGET\r\n$536870913\r\n", b"*3\r\n$4\r\nEVAL\r\n$400000000\r\nreturn", b"*2\r\n$9\r\nSUBSCRIBE\r\n$500000000\r\nx",
                    b"*2147483647\r\n", b"*2\r\n$5\r\nMULTI\r\n$536870912\r\nx", b"$536870912\r\n"):
        c = side.connect()
        c.send("INCR n", payload)
        side.note("said", c.quiet(0.1))
        other.do("INCR n")
        c.end_of_input()
        side.note("end", c.read_rest(5))


@case("attack")
def never_reads(side):
    """50 MB of replies that are not read before all has been sent; everything is there, in order."""
    c, other = side.connect("c"), side.connect("other")
    other.do(("SET", "big", "x" * 50_000))
    c.send(*(["GET big", "INCR n", "MULTI", "INCR n", "EXEC", "SELECT 1", "SELECT 0"] * 100))
    other.do("PING", "GET none")
    got = c.read_many(700, 60)
    side.note("replies", [len(r) for r in got[::7]])
    side.note("numbers", got[1::7] + got[4::7])


@case("attack")
def one_byte_at_a_time(side):
    side.mask(*ID)
    c = side.connect()
    for item in ("MULTI", "INCR n", "EXEC", "HELLO 3", "SUBSCRIBE a", "UNSUBSCRIBE a", "HELLO 2", "CLIENT SETNAME x", "SELECT 1", "BLPOP none 0.01", ("EVAL", "return 1", "0"), "RESET", b"PING\r\n", b"SET k 'a b'\r\n"):
        c.send(item, pieces=1, pause=0.0002)
        c.expect()


def any_item(r):
    k = "k%d" % r.randrange(3)
    return r.choice([
        "GET " + k, "SET %s %d" % (k, r.randrange(9)), "INCR " + k, "INCR n", "MULTI", "MULTI", "EXEC", "EXEC", "DISCARD", "WATCH " + k, "UNWATCH", "SELECT %d" % r.randrange(3), "HELLO 2", "HELLO 3", "HELLO", "HELLO 5", "RESET", "BLPOP none 0.001", "RPUSH l x", "BLPOP l 0.001",
        ("EVAL", "return redis.call('INCR', 'n')", "0"), ("EVAL", "return {1, {2, 'x'}, false}", "0"), "CLIENT SETNAME n%d" % r.randrange(3), "CLIENT GETNAME", "CLIENT REPLY ON", "NOSUCH x", "GET", "PING", "PING x", "ECHO e", "HGETALL none", "CLIENT TRACKINGINFO", "CLIENT GETREDIR",
        "CLIENT NO-EVICT on", "CLIENT CACHING yes", "CLIENT TRACKING off", "XREAD BLOCK 1 STREAMS none $", "XREAD COUNT 1 STREAMS none 0", "CONFIG GET hz", "ACL WHOAMI", "SCRIPT EXISTS x", "OBJECT HELP", "SET", "RESET x", "MULTI x", "EXEC x", "SELECT", "SELECT x", "HELLO x", "CLIENT",
        "CLIENT NOSUCH", "CLIENT SETNAME", "SLOWLOG LEN x", "AUTH x", "AUTH default x", "HELLO 3 AUTH default x", "HELLO 2 SETNAME h", ("SET", "k0", "x" * r.choice([10, 20_000, 300_000])), "STRLEN k0", "DBSIZE", "FUNCTION LIST", "LATENCY RESET",
        "CLIENT PAUSE 0", "CLIENT UNPAUSE", "CLIENT UNBLOCK 1", b"PING\r\n", b"\r\n", b"*0\r\n", b"SET k1 'q q'\r\n", b"INCR n\n", "PUBLISH a x", "SPUBLISH a x", "DEBUG SLEEP 0", "CONFIG SET hz 10", "ACL SETUSER bob", "ACL DELUSER bob", "WAIT 0", "CLUSTER INFO",
    ])


def sessions(number, count):
    """Connections of random requests, cut at random, ended at random: all bytes that come back are compared."""
    def run(side):
        r = random.Random("%d sessions %d" % (SEED, number))
        side.mask(*ID)
        for turn in range(count):
            c = side.connect("turn%d" % turn)
            items = [any_item(r) for _ in range(r.choice([2, 5, 10, 40]))]
            payload = b"".join(command(*(i if isinstance(i, tuple) else i.split())) if not isinstance(i, bytes) else i for i in items)
            cuts = sorted(r.randrange(len(payload)) for _ in range(r.choice([0, 0, 1, 3])))
            last = 0
            for cut in cuts + [len(payload)]:
                c.send(payload[last:cut])
                last = cut
                if r.random() < 0.3:
                    time.sleep(0.002)
            # At the end of input Redis drops what waits behind a request that blocks.
            if r.random() < 0.6 or b"BL" in payload:
                c.send("QUIT")
            else:
                c.end_of_input()
            side.note("sent%d" % turn, repr([i if len(i) < 50 else i[:50] for i in items]))
            got = c.read_rest(10)
            side.note("got%d" % turn, got)
            c.close()
        side.connect("after").do("GET n", "LLEN l", "DBSIZE")
    add("attack", "sessions_%d" % number, run)


for row in range(20 if LONG else 3):
    sessions(row, 150)


@case("attack")
def watchers_of_each_other(side):
    """Optimistic transactions against writes of every other kind of client: what each EXEC says is exactly what Redis would."""
    a, b, t = side.connect("a"), side.connect("b"), side.connect("t")
    side.mask(*ID)
    t.do("HELLO 3", "CLIENT TRACKING on BCAST NOLOOP")
    for writes in (["SET k 1"], ["MULTI", "SET k 2", "EXEC"], [("EVAL", "redis.call('SET', 'k', '3')", "0")], ["SELECT 1", "SET k 4", "SELECT 0"], ["SWAPDB 0 1", "SWAPDB 0 1"], ["FLUSHDB"], ["RPUSH l x", "BLPOP l 0"], ["SET other 1"], ["EXPIRE k 100"],
                   [("SET", "k", "x" * 300_000)], ["DEL k"], ["DEL k"], ["FLUSHALL"], ["DEBUG SLEEP 0"]):
        a.do("WATCH k l", "GET nothing")
        b.do(*writes)
        a.do("MULTI", "STRLEN k", "EXEC")
        t.send("PING")
        while True:
            reply = t.read()
            if reply in (b"+PONG\r\n", b"<end>"):
                break


@case("attack")
def redirected_to_one_that_goes(side):
    side.mask(*ID)
    side.mask(rb"(tracking-redir-broken\r\n:)\d+", rb"\1<n>")
    for version in ("2", "3"):
        to, c, other = side.connect("to" + version), side.connect("c"), side.connect("other")
        number = to.alone().integer("CLIENT ID")
        to.do("HELLO " + version, "SUBSCRIBE __redis__:invalidate")
        c.do("HELLO 3", "CLIENT TRACKING on REDIRECT %d BCAST PREFIX k PREFIX j" % number)
        side.note("redir", c.alone().integer("CLIENT GETREDIR") == number)
        other.do("MSET k1 1 j1 1 x1 1")
        side.note("to", sorted(to.quiet(0.1).split(b"\r\n")))
        to.do("UNSUBSCRIBE")
        other.do("SET k2 1", "PING")
        side.note("to", to.quiet(0.1))
        to.close()
        side.wait_until(lambda: b"id=%d " % number not in other.alone().do("CLIENT LIST"))
        other.do("SET k3 1", "PING")
        c.send("PING")
        side.note("c", c.quiet(0.1))
        c.do("CLIENT TRACKING off", "CLIENT TRACKING on OPTIN", "GET k3")
        other.do("SET k3 2", "PING")
        c.do("PING", "RESET", "PING")


@case("attack")
def killed_in_every_state(side):
    killer = side.connect("killer")
    for state in ([], ["MULTI", "INCR n"], ["SUBSCRIBE a"], ["WATCH k"], ["BLPOP none 0"], ["MONITOR"], ["HELLO 3", "CLIENT TRACKING on"], ["SELECT 3"], [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000\r\nabc"], ["CLIENT REPLY OFF", "PING"]):
        side.mask(*ID)
        victim = side.connect(repr(state)[:30])
        number = victim.alone().integer("CLIENT ID")
        victim.send(*state)
        side.note("state", victim.quiet(0.1))
        killer.do("CLIENT KILL ID %d" % number)
        side.note("end", victim.read_rest(5))
        killer.do("GET n", "PING")


@case("attack")
def in_flight_when_others_vanish(side):
    """Half of a crowd is reset at odd moments; the other half gets every reply, in order."""
    r = random.Random("%d vanish" % SEED)
    stay = [side.connect("stay%d" % n) for n in range(10)]
    for turn in range(20):
        goers = [side.connect("go") for _ in range(10)]
        for n, c in enumerate(stay):
            c.send("INCR s%d" % n, *(["MULTI", "INCR s%d" % n, "EXEC"] if n % 3 == 0 else ["SELECT %d" % (turn % 3), "SELECT 0"] if n % 3 == 1 else ["BLPOP none 0.001", "PING"]))
            goers[n].send(r.choice([("SET", "g", "x" * 100_000), "GET g", "MULTI", "BLPOP g 0", "SUBSCRIBE g", "HELLO 3", "SELECT 2", b"*3\r\n$3\r\nSET\r\n$1", "MONITOR", ("EVAL", "return 1", "0"), "CLIENT REPLY OFF"]), *["GET g"] * r.randrange(30))
        for n, c in enumerate(goers):
            c.close(reset=r.random() < 0.5)
        for n, c in enumerate(stay):
            c.expect(4 if n % 3 == 0 else 3)
    stay[0].do(*["GET s%d" % n for n in range(10)])

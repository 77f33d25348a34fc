"""Contract: cases about what one connection carries: protocol version, name, database, transactions, replies off, RESET,
authentication and rights, subscriptions. Most are scripts: items sent one by one, one reply noted for each."""
import time

from harness import add, case, command

ID = (rb"(\$2\r\nid\r\n:|\bid=)\d+", rb"\1<n>")


def script(group, name, *items, together=False):
    """Items one after the other, each awaited; and the same in one write, which must not make a difference."""
    def one_by_one(side):
        side.mask(*ID)
        c = side.connect()
        for item in items:
            c.do(item)

    def in_one_write(side):
        side.mask(*ID)
        side.connect().do(*items)
    add(group, name, one_by_one)
    add(group, name + ".pipelined", in_one_write)


# -- HELLO --------------------------------------------------------------------------------------------------------------
TYPES = ["DEBUG PROTOCOL " + kind for kind in
         "string integer double null array set map attrib push verbatim true false bignum".split()]
VALUES = [("HSET", "h", "a", "1"), "HGETALL h", ("ZADD", "z", "1.5", "m"), "ZSCORE z m", "ZRANGE z 0 -1 WITHSCORES", "GET none",
          "LRANGE none 0 -1", "SADD s 1 2 3", "SMEMBERS s", "SISMEMBER s 1", "BLPOP none 0.01", "LPOP none 2", "LPOP none",
          "ZPOPMIN z", "HGET none f", "EXISTS h", "CONFIG GET maxmemory", "XADD x 1-1 a b", "XRANGE x - +",
          "XREAD STREAMS x 0", "CLIENT GETNAME", "OBJECT FREQ none", "ZRANDMEMBER none", "HRANDFIELD h 1 WITHVALUES",
          "GEOADD g 13 38 p", "GEOPOS g p q", "LCS a b IDX", "MEMORY USAGE none", "ACL WHOAMI",
          ("EVAL", "return {1, 'a', false, true, 3.9, {err='ERR x'}}", "0"), ("EVAL", "return redis.status_reply('X')", "0"),
          ("EVAL", "redis.setresp(3); return redis.call('HGETALL', KEYS[1])", "1", "h"),
          ("EVAL", "redis.setresp(3); return {double=3.25}", "0"), ("EVAL", "return {map={a=1}}", "0"),
          ("EVAL", "return {set={a=true}}", "0"), ("EVAL", "return {big_number='123'}", "0"),
          ("EVAL", "return {verbatim_string={format='txt', string='abc'}}", "0"), ("EVAL", "return nil", "0"),
          "MULTI", "HGETALL h", "GET none", "EXEC", "COMMAND INFO get nosuch"]
script("hello", "none", "HELLO")
# A bare HELLO says how things are: it takes nothing up that an earlier request named.
script("hello", "bare_after_others", "HELLO 3", "SELECT 2", "HELLO", "GET none", "CLIENT SETNAME n1", "RESET", "HELLO", "CLIENT GETNAME",
       "HELLO 2 SETNAME h", "CLIENT SETNAME", "RESET", "HELLO", "CLIENT GETNAME", "HELLO 3 AUTH default x", "RESET", "HELLO", "CLIENT GETNAME", "GET none")


@case("hello")
def authenticates_then_ends(side):
    """What follows AUTH is answered, though the client's stream has ended behind it."""
    side.mask(*ID)
    for first in ("HELLO 3 AUTH default x", "AUTH default x"):
        for turn in range(20):
            c = side.connect("%s %d" % (first, turn))
            c.send(first)
            if turn % 2:
                time.sleep(0.0002 * turn)
            c.send("OBJECT HELP", "CLIENT GETNAME")
            c.end_of_input()
            side.note("rest", c.read_rest(10))
            c.close()


for version in ("1", "2", "3", "4", "abc", "-1", "3.0", "99999999999999999999"):
    script("hello", "version_" + version, "HELLO " + version, "PING", "HGETALL none")
script("hello", "types_in_2", "HELLO 2", *TYPES, *VALUES)
script("hello", "types_in_3", "HELLO 3", *TYPES, *VALUES)
script("hello", "types_unsaid", *TYPES, *VALUES)
script("hello", "there_and_back", "HELLO 3", "HGETALL none", "HELLO 2", "HGETALL none", "HELLO", "HGETALL none", "HELLO 3", "HELLO")
script("hello", "name", "HELLO 3 SETNAME abc", "CLIENT GETNAME", "HELLO 2 SETNAME def", "CLIENT GETNAME", "HELLO 3", "CLIENT GETNAME")
script("hello", "bad_name", ("HELLO", "3", "SETNAME", "a b"), "CLIENT GETNAME", "HELLO", ("HELLO", "3", "SETNAME", ""), "CLIENT GETNAME")
script("hello", "bad_option", "HELLO 3 NOSUCH", "HELLO 3 AUTH", "HELLO 3 AUTH default", "HELLO 3 SETNAME", "HELLO AUTH a b", "HELLO")
script("hello", "auth", "HELLO 3 AUTH default anything", "HELLO 2 AUTH default x SETNAME n", "CLIENT GETNAME", "HELLO 3 AUTH nobody x", "HELLO")
script("hello", "in_multi", "MULTI", "HELLO 3", "HGETALL none", "EXEC", "HGETALL none", "HELLO 2")
script("hello", "after_select", "SELECT 3", "SET k v", "HELLO 3", "GET k", "HELLO 2", "GET k", "DBSIZE")
script("hello", "in_script", ("EVAL", "return redis.pcall('HELLO','3')", "0"))
script("hello", "setinfo_of_later_versions", "CLIENT SETINFO LIB-NAME x", "CLIENT SETINFO lib-ver 1", "CLIENT NO-TOUCH on", "PING")


@case("hello")
def both_protocols_at_once(side):
    two, three = side.connect("two"), side.connect("three")
    three.alone().do("HELLO 3")
    for n in range(30):
        two.do(("HSET", "h", "f", n), "HGETALL h", "GET none", "ZSCORE none m")
        three.do("HGETALL h", "GET none", "CONFIG GET port-none", "ZSCORE none m")
    for n in range(30):  # neither waits for the other
        two.send("HGETALL h", "GET none")
        three.send("HGETALL h", "GET none")
    two.expect(60)
    three.expect(60)


# -- names, ids ---------------------------------------------------------------------------------------------------------
script("client", "name", "CLIENT GETNAME", "CLIENT SETNAME abc", "CLIENT GETNAME", ("CLIENT", "SETNAME", "a b"), ("CLIENT", "SETNAME", "a\nb"),
       "CLIENT GETNAME", ("CLIENT", "SETNAME", ""), "CLIENT GETNAME", "CLIENT SETNAME", "CLIENT SETNAME a b", ("CLIENT", "SETNAME", "\x7f"),
       ("CLIENT", "SETNAME", "!~"), "CLIENT GETNAME")
script("client", "name_in_multi", "MULTI", "CLIENT SETNAME abc", "CLIENT GETNAME", "EXEC", "CLIENT GETNAME")
script("client", "bad", "CLIENT REPLY", "CLIENT REPLY maybe", "CLIENT KILL", "CLIENT KILL 1.2.3.4:5", "CLIENT KILL ID abc", "CLIENT KILL ID 0",
       "CLIENT KILL TYPE nosuch", "CLIENT KILL ADDR", "CLIENT KILL USER nobody", "CLIENT KILL SKIPME maybe", "CLIENT KILL ID 999999999",
       "CLIENT LIST TYPE nosuch", "CLIENT LIST ID abc", "CLIENT LIST ID 999999999", "CLIENT LIST NOSUCH", "CLIENT UNBLOCK abc",
       "CLIENT UNBLOCK 999999999", "CLIENT UNBLOCK 999999999 NOSUCH", "CLIENT PAUSE abc", "CLIENT PAUSE 10 NOSUCH", "CLIENT NO-EVICT maybe",
       "CLIENT NO-EVICT on", "CLIENT NO-EVICT off", "CLIENT GETREDIR", "CLIENT TRACKING maybe", "CLIENT CACHING yes", "CLIENT HELP",
       "CLIENT TRACKINGINFO", "CLIENT UNPAUSE")


@case("client")
def the_id_is_mine(side):
    """Ids differ in value between the sides; what must hold is what they relate to."""
    a, b = side.connect(), side.connect()
    ids = [c.alone().integer("CLIENT ID") for c in (a, b)]
    side.note("ids", (ids[0] != ids[1], ids[0] > 0, ids[0] < ids[1]))
    side.note("same again", a.alone().integer("CLIENT ID") == ids[0])
    for c, number in ((a, ids[0]), (b, ids[1])):
        info = c.alone().text("CLIENT INFO").decode()
        fields = dict(pair.split("=", 1) for pair in info.split())
        side.note("info", fields["id"] == str(number))
        side.note("fields", " ".join(fields))
        side.note("values", " ".join("%s=%s" % (f, fields[f]) for f in
                                     "name db sub psub ssub multi cmd user redir resp flags".split()))
        by_id = a.alone().text("CLIENT LIST ID %d" % number).decode()
        side.note("by id", by_id.count("\n") == 1 and "id=%d " % number in by_id)
    hello = a.alone().do("HELLO 3")
    side.note("hello's id", b":%d\r\n" % ids[0] in hello)
    side.note("still the same", a.alone().integer("CLIENT ID") == ids[0])
    a.alone().do("RESET")
    side.note("after reset", a.alone().integer("CLIENT ID") == ids[0])
    for before in ("MULTI", "DISCARD", "WATCH k", "UNWATCH", "SELECT 2", "CLIENT TRACKING ON", "CLIENT TRACKING OFF"):
        a.alone().do(before)
        if before != "MULTI":
            side.note(before, a.alone().integer("CLIENT ID") == ids[0])


@case("client")
def the_address_is_mine(side):
    """addr is the client's own end, laddr what it connected to."""
    for c in (side.connect(), side.connect()):
        fields = dict(pair.split("=", 1) for pair in c.alone().text("CLIENT INFO").decode().split())
        side.note("addr", fields["addr"] == "%s:%d" % c.socket.getsockname())
        side.note("laddr", fields["laddr"] == "%s:%d" % side.address)


@case("client")
def list_shows_each_client_once(side):
    clients = [side.connect() for _ in range(10)]
    for n, c in enumerate(clients):
        c.do("CLIENT SETNAME name%d" % n, "SELECT %d" % n)
    clients[3].do("SUBSCRIBE a b")
    clients[4].do("MULTI", "PING")
    clients[5].send("BLPOP none 0")
    clients[6].do("WATCH k")
    clients[7].alone().do("HELLO 3")

    def rows():
        text = clients[0].alone().text("CLIENT LIST").decode()
        found = [dict(p.split("=", 1) for p in line.split()) for line in text.splitlines()]
        return sorted((r for r in found if r["name"].startswith("name")), key=lambda r: r["name"])
    side.wait_until(lambda: "b" in dict((r["name"], r["flags"]) for r in rows()).get("name5", ""))
    for row in rows():
        side.note(row["name"], " ".join("%s=%s" % (k, row[k]) for k in "db sub psub ssub multi cmd user flags resp".split() if k in row))
    side.note("addresses", len({r["addr"] for r in rows()}))
    side.note("ids", len({r["id"] for r in rows()}))
    text = clients[0].alone().text("CLIENT LIST TYPE pubsub").decode()
    side.note("pubsub", sorted(w for w in text.split() if w.startswith("name=name")))


@case("client")
def kill_by_id_and_user(side):
    kill_by(side, "ID", "USER")


@case("client")
def kill_by_address(side):
    kill_by(side, "ADDR", "old", "LADDR-and-ID")


def kill_by(side, *all_means):
    killer = side.connect("killer")
    user = ("ACL", "SETUSER", "alice", "on", ">p", "~*", "&*", "+@all")
    killer.do(user)
    for means in all_means:
        victim, bystander = side.connect("victim"), side.connect("bystander")
        bystander.do("INCR n")
        if means == "USER":
            victim.do(("AUTH", "alice", "p"))
        number, peer = victim.alone().integer("CLIENT ID"), "%s:%d" % victim.socket.getsockname()
        laddr = "%s:%d" % side.address
        killer.do({"ID": "CLIENT KILL ID %d" % number, "ADDR": "CLIENT KILL ADDR " + peer, "old": "CLIENT KILL " + peer,
                   "USER": "CLIENT KILL USER alice", "LADDR-and-ID": "CLIENT KILL LADDR %s ID %d" % (laddr, number)}[means])
        side.note("victim", victim.read_rest(5))
        bystander.do("INCR n")
        victim.close()
    killer.do(("CLIENT", "KILL", "ID", killer.alone().integer("CLIENT ID")))  # itself is skipped
    killer.do("PING")
    killer.do(("CLIENT", "KILL", "ID", killer.alone().integer("CLIENT ID"), "SKIPME", "no"))
    side.note("killer", killer.read_rest(5))


@case("client")
def kill_everybody_of_a_type(side):
    killer, normal, subscriber, blocked = (side.connect(n) for n in ("killer", "normal", "subscriber", "blocked"))
    normal.do("SET k v")
    subscriber.do("SUBSCRIBE a")
    blocked.send("BLPOP none 0")
    side.wait_until(lambda: b"cmd=blpop" in killer.alone().text("CLIENT LIST"))
    killer.do("CLIENT KILL TYPE pubsub")
    side.note("subscriber", subscriber.read_rest(5))
    normal.do("GET k")
    reply = killer.alone().integer("CLIENT KILL TYPE normal")
    side.note("killed", reply)
    side.note("normal", normal.read_rest(5))
    side.note("blocked", blocked.read_rest(5))
    killer.do("PING")
    side.connect().do("GET k")


@case("client")
def killed_with_commands_under_way(side):
    """A client killed while it blocks with more commands behind: these must not be done."""
    killer, victim = side.connect("killer"), side.connect("victim")
    number = victim.alone().integer("CLIENT ID")
    victim.send("INCR n", "BLPOP none 0", "INCR n", "INCR n")
    victim.expect()
    side.wait_until(lambda: b"cmd=blpop" in killer.alone().text("CLIENT LIST"))
    killer.do("CLIENT KILL ID %d" % number)
    side.note("victim", victim.read_rest(5))
    killer.do("GET n")


@case("client")
def pause_holds_others_and_ends(side):
    boss, other = side.connect("boss"), side.connect("other")
    boss.do("CLIENT PAUSE 60000 WRITE")
    other.do("GET k", "PING")
    other.send("SET k v")
    side.note("held", other.quiet())
    boss.do("PING", "GET k", "CLIENT UNPAUSE")
    other.expect()
    boss.do("CLIENT PAUSE abc", "CLIENT PAUSE 5 NOSUCH", "CLIENT UNPAUSE x")
    boss.do("GET k", "CLIENT PAUSE 400 ALL")  # holds the boss as well
    other.send("GET k")
    side.note("held", other.quiet(0.05))
    other.expect()
    boss.do("CLIENT PAUSE 200")
    other.do("GET k")
    boss.do("MULTI", "CLIENT PAUSE 60000 WRITE", "EXEC")
    other.do("GET k")
    boss.do("GET k", "CLIENT UNPAUSE")
    other.do("SET k v3", "GET k")
    third = side.direct()
    third.do("CLIENT PAUSE 300 WRITE")  # no proxy hears of this
    other.do("GET k", "SET k v4", "GET k")


# -- SELECT -------------------------------------------------------------------------------------------------------------
script("select", "bounds", "SELECT 0", "SELECT 15", "SELECT 16", "SELECT -1", "SELECT abc", "SELECT", "SELECT 1 2", "SELECT 99999999999999999999",
       ("SELECT", ""), ("SELECT", "01"), "DBSIZE")
script("select", "keeps_apart", "SET k 0", "SELECT 1", "GET k", "SET k 1", "SELECT 2", "SET k 2", "SELECT 0", "GET k", "SELECT 1", "GET k", "MOVE k 5",
       "SELECT 5", "GET k", "SWAPDB 5 0", "GET k", "SELECT 0", "GET k", "COPY k j DB 7", "SELECT 7", "GET j", "FLUSHDB", "DBSIZE", "SELECT 2", "DBSIZE")
script("select", "in_multi", "SET k 0", "MULTI", "SELECT 3", "SET k 3", "EXEC", "GET k", "SELECT 0", "GET k", "MULTI", "SELECT 4", "DISCARD", "GET k")
script("select", "in_script", "SET k 0", ("EVAL", "redis.call('SELECT', 4); redis.call('SET', 'k', 'in4'); return redis.call('GET', 'k')", "0"),
       "GET k", "SELECT 4", "GET k")
script("select", "failed_stays", "SELECT 3", "SET k 3", "SELECT 77", "GET k", "SELECT x", "GET k")
script("select", "blocking", "SELECT 3", "RPUSH l a", "BLPOP l 0", "SELECT 0", "LLEN l", "RPUSH l b", "SELECT 3", "BLPOP l 0.01", "SELECT 0", "BLPOP l 0")


@case("select")
def many_clients_many_databases(side):
    clients = [side.connect() for _ in range(32)]
    for n, c in enumerate(clients):
        c.do("SELECT %d" % (n % 16))
    for turn in range(20):
        for n, c in enumerate(clients):
            c.send("INCR n%d" % n, ("SET", "c%d" % n, turn), "INCR all", "GET c%d" % n)
    for c in clients:
        for _ in range(20):
            c.expect(2)
            c.expect(note=False)  # the order between clients is free
            c.expect()
    for n, c in enumerate(clients):
        c.do("GET all", "DBSIZE", "SELECT %d" % ((n + 5) % 16), "GET all", "MULTI", "INCR mine%d" % n, "EXEC", "DBSIZE")


# -- transactions -------------------------------------------------------------------------------------------------------
script("multi", "plain", "MULTI", "SET k v", "GET k", "INCR n", "EXEC", "GET k")
script("multi", "empty", "MULTI", "EXEC", "PING")
script("multi", "alone", "EXEC", "DISCARD", "UNWATCH", "MULTI a", "EXEC a", "DISCARD a", "WATCH", "PING")
script("multi", "nested", "MULTI", "MULTI", "SET k v", "EXEC", "GET k")
script("multi", "watch_inside", "MULTI", "WATCH k", "SET k v", "EXEC")
script("multi", "unwatch_inside", "WATCH k", "MULTI", "UNWATCH", "SET k v", "EXEC")
script("multi", "discard", "MULTI", "SET k v", "DISCARD", "GET k", "EXEC")
script("multi", "unknown_command", "MULTI", "NOSUCH a", "SET k v", "EXEC", "GET k", "EXEC")
script("multi", "wrong_arity", "MULTI", "GET", "SET k v", "EXEC", "GET k")
script("multi", "bad_subcommand", "MULTI", "CLIENT NOSUCH", "EXEC", "MULTI", "CONFIG", "EXEC")
script("multi", "runtime_error", "SET k v", "MULTI", "INCR k", "SET j 1", "LPUSH k x", "EXEC", "GET j")
script("multi", "blocking_inside", "RPUSH l a", "MULTI", "BLPOP l 0", "BLPOP l 0", "XREAD BLOCK 0 STREAMS x $", "WAIT 1 0", "BZPOPMIN z 0", "EXEC")
script("multi", "subscribe_inside", "MULTI", "SUBSCRIBE a", "PING", "EXEC")
script("multi", "subscribe_inside_3", "HELLO 3", "MULTI", "SUBSCRIBE a", "PING", "EXEC", "PING")
script("multi", "monitor_inside", "MULTI", "MONITOR", "EXEC", "PING")
script("multi", "refused_inside", "MULTI", "CLIENT REPLY ON", "AUTH x y", "RESET", "PING")
script("multi", "script_inside", "MULTI", ("EVAL", "return redis.call('INCR', 'n')", "0"), "EVALSHA abc 0", "EXEC", "GET n")
script("multi", "own_write_breaks_watch", "WATCH k", "SET k 1", "MULTI", "GET k", "EXEC", "MULTI", "GET k", "EXEC")
script("multi", "unwatch_forgets", "WATCH k", "SET k 1", "UNWATCH", "MULTI", "GET k", "EXEC")
script("multi", "discard_unwatches", "WATCH k", "SET k 1", "MULTI", "DISCARD", "MULTI", "GET k", "EXEC")
script("multi", "watch_other_database", "WATCH k", "SELECT 1", "SET k 1", "MULTI", "PING", "EXEC", "WATCH k", "SELECT 0", "SELECT 1", "SET k 2", "MULTI", "PING", "EXEC")
script("multi", "client_commands", "MULTI", "CLIENT SETNAME x", "CLIENT GETNAME", "SELECT 2", "SET k 2", "CLIENT TRACKING ON", "CLIENT TRACKING OFF", "EXEC", "CLIENT GETNAME", "GET k")
script("multi", "flush_inside", "SET k v", "MULTI", "FLUSHALL", "SET j 1", "EXEC", "DBSIZE")
script("multi", "no_keys", "MULTI", "PING", "TIME x", "EXEC", "MULTI", "ECHO a", "DBSIZE", "EXEC")
script("multi", "hundred", "MULTI", *["INCR n"] * 100, "EXEC")


@case("multi")
def watch_and_others(side):
    a, b = side.connect("a"), side.connect("b")
    for touch in ("SET k 2", "DEL k", "SET other 1", "GET k", "EXPIRE k 100", "PERSIST k", "FLUSHALL", "APPEND k x", "SWAPDB 0 1", "RENAME k j", "PING"):
        a.do("FLUSHALL", "SET k 1", "WATCH k", "GET k")
        b.do(touch)
        a.do("MULTI", "INCR n", "EXEC", "GET n")


@case("multi")
def watch_expired(side):
    a = side.connect("a")
    a.do("SET k v PX 30", "WATCH k")
    time.sleep(0.1)
    a.do("MULTI", "GET k", "EXEC")
    a.do("WATCH none", "MULTI", "GET none", "EXEC")


@case("multi")
def nothing_leaks_between_clients(side):
    """Transactions, watches and plain commands of many clients at the same time."""
    clients = [side.connect() for _ in range(20)]
    for n, c in enumerate(clients):
        c.do(("WATCH", "k%d" % n), "MULTI")
    plain = side.connect("plain")
    plain.do("INCR n")
    for n, c in enumerate(clients):
        c.do(("INCR", "k%d" % n))
    plain.do("MGET k0 k1 k2 n", "SET k3 100")
    for n, c in enumerate(clients):
        c.do("EXEC", ("GET", "k%d" % n))


@case("multi")
def large_transactions(side):
    c = side.connect()
    c.do("MULTI", *[("SET", "k%d" % n, "x" * 10_000) for n in range(2_000)])
    c.do("EXEC", "DBSIZE", "STRLEN k1999")


# -- replies off --------------------------------------------------------------------------------------------------------
INSIDE_MULTI = None  # Redis sends half an array then: not framed, so all that comes is compared


def silent(name, items, replies):
    def run(side):
        side.mask(*ID)
        c = side.connect()
        c.send(*items)
        if replies is not None:
            c.expect(replies)
        side.note("after", c.quiet(0.05 if replies else 0.5))
        side.connect("other").do("GET n", "GET k")
    add("reply", name, run)


silent("off_on", ["CLIENT REPLY OFF", "INCR n", "GET k", "NOSUCH", "CLIENT REPLY ON", "GET n"], 2)
silent("skip", ["CLIENT REPLY SKIP", "INCR n", "GET n"], 1)
silent("skip_skip", ["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "INCR n", "GET n"], 1)
silent("skip_error", ["CLIENT REPLY SKIP", "NOSUCH", "GET n"], 1)
silent("skip_then_off_on", ["CLIENT REPLY SKIP", "CLIENT REPLY OFF", "INCR n", "CLIENT REPLY SKIP", "INCR n", "CLIENT REPLY ON", "GET n"], 2)
silent("off_twice", ["CLIENT REPLY OFF", "CLIENT REPLY OFF", "CLIENT REPLY ON", "CLIENT REPLY ON"], 2)
silent("on_alone", ["CLIENT REPLY ON", "PING"], 2)
silent("off_malformed_argument", ["CLIENT REPLY OFF", "CLIENT REPLY maybe", "CLIENT REPLY", "CLIENT REPLY ON"], 1)
silent("off_multi", ["CLIENT REPLY OFF", "MULTI", "INCR n", "EXEC", "CLIENT REPLY ON", "GET n"], 2)
silent("skip_multi", ["CLIENT REPLY SKIP", "MULTI", "INCR n", "EXEC"], 2)
silent("inside_multi", ["MULTI", "CLIENT REPLY OFF", "INCR n", "EXEC", "INCR n", "CLIENT REPLY ON", "GET n"], INSIDE_MULTI)
silent("skip_inside_multi", ["MULTI", "CLIENT REPLY SKIP", "INCR n", "EXEC", "PING", "PING", "GET n"], INSIDE_MULTI)
silent("off_select_hello", ["CLIENT REPLY OFF", "SELECT 3", "SET k in3", "HELLO 3", "CLIENT SETNAME x", "CLIENT REPLY ON", "GET k", "CLIENT GETNAME", "GET none"], 4)
silent("off_reset", ["CLIENT REPLY OFF", "SELECT 3", "RESET", "GET k", "PING"], 3)
silent("skip_blocking", ["RPUSH l a", "CLIENT REPLY SKIP", "BLPOP l 0", "LLEN l"], 2)
silent("off_script", ["CLIENT REPLY OFF", ("EVAL", "return redis.call('INCR','n')", "0"), "CLIENT REPLY ON", "GET n"], 2)
silent("off_thousand", ["CLIENT REPLY OFF"] + ["INCR n"] * 1000 + ["CLIENT REPLY ON", "GET n"], 2)
silent("off_big_replies", [("SET", "k", "x" * 100_000), "CLIENT REPLY OFF"] + ["GET k"] * 100 + ["CLIENT REPLY ON", "PING"], 3)


@case("reply")
def off_and_pushes(side):
    for version in ("2", "3"):
        c, other = side.connect("c" + version), side.connect("other")
        c.alone().do("HELLO " + version)
        c.send("CLIENT REPLY OFF", "SUBSCRIBE a")
        side.wait_until(lambda: b":1\r\n" in other.alone().do("PUBSUB NUMSUB a"))
        other.do("PUBLISH a x")
        side.note("after", c.quiet(0.1))
        c.close()
        side.wait_until(lambda: b":0\r\n" in other.alone().do("PUBSUB NUMSUB a"))


# -- RESET --------------------------------------------------------------------------------------------------------------
PROBE = ["PING", "CLIENT GETNAME", "GET k", "HGETALL none", "ACL WHOAMI", "CLIENT TRACKINGINFO", "CLIENT GETREDIR", "MULTI", "PING", "EXEC"]
for title, before in {"plain": [], "name": ["CLIENT SETNAME x"], "database": ["SELECT 3", "SET k in3"], "three": ["HELLO 3"],
                      "multi": ["MULTI", "SET k v"], "watch": ["WATCH k", "SET k 2"], "tracking": ["CLIENT TRACKING ON"],
                      "tracking_3": ["HELLO 3", "CLIENT TRACKING ON BCAST"], "all": ["HELLO 3 SETNAME y", "SELECT 2", "WATCH k", "CLIENT NO-EVICT on", "CLIENT TRACKING ON OPTIN"],
                      "asking": ["ASKING", "READONLY"]}.items():
    script("reset", title, *before, "RESET", *PROBE)
script("reset", "arguments", "RESET a", "RESET")
script("reset", "many", *["SELECT 1", "RESET"] * 50, "DBSIZE")


@case("reset")
def leaves_subscriptions_and_monitor(side):
    for before, replies in (("SUBSCRIBE a b", 2), ("PSUBSCRIBE a*", 1), ("SSUBSCRIBE a", 1), ("MONITOR", 1)):
        c, other = side.connect("c"), side.connect("other")
        c.send(before)
        c.expect(replies)
        c.do("RESET")
        other.do("PUBLISH a x", "SPUBLISH a x", "SET k v")
        c.do("GET k", "PING")


# -- authentication -----------------------------------------------------------------------------------------------------
script("auth", "no_password", "AUTH x", "AUTH default x", "AUTH nobody x", "AUTH", "AUTH a b c", "PING", "ACL WHOAMI")


@case("auth")
def password_needed(side):
    admin, before = side.connect("admin"), side.connect("before")
    before.do("SET k v")
    admin.do("CONFIG SET requirepass pw1")
    before.do("GET k", "PING")  # who was there stays
    attempts = ["PING", "GET k", "NOSUCH", "GET", "MULTI", "EXEC", "SUBSCRIBE a", "HELLO", "HELLO 3", "HELLO 3 AUTH default wrong", "AUTH wrong",
                "AUTH default wrong", "AUTH nobody pw1", "CLIENT SETNAME x", "SELECT 1", "RESET", "COMMAND COUNT", "INFO", "MONITOR",
                "CLIENT REPLY ON", "WATCH k", "EVAL x 0", "BLPOP l 0", "CONFIG GET requirepass", "ACL WHOAMI", "AUTH", ("EVAL", "return 1", "0")]
    for attempt in attempts:
        side.connect("one").do(attempt, "PING")
    c = side.connect("all")
    c.do(*attempts)
    c.do("AUTH pw1", "GET k", "ACL WHOAMI", "AUTH wrong", "GET k", "RESET", "GET k", "AUTH default pw1", "GET k")
    side.mask(*ID)
    three = side.connect("three")
    three.do("HELLO 3 AUTH default pw1 SETNAME n", "CLIENT GETNAME", "HGETALL none")
    pipelined = side.connect("pipelined")
    pipelined.do("GET k", "AUTH wrong", "GET k", "AUTH pw1", "GET k", "RESET", "GET k")
    quits = side.connect("quits")
    quits.send("QUIT")
    side.note("quits", quits.read_rest())
    admin.do("CONFIG SET requirepass pw2")
    for password in ("pw1", "pw2"):
        side.connect("new").do("AUTH " + password, "GET k")
    c.do("GET k")
    admin.do(("CONFIG", "SET", "requirepass", ""))
    side.connect("free").do("GET k")


@case("auth")
def first_request_sets_the_password(side):
    """Of a client that was there when another was let in; a proxy must not wait for an answer that nobody fetches."""
    time.sleep(0.7)  # a proxy may know for half a second what a new connection may do
    admin, other = side.connect("admin"), side.connect("other")
    other.do("PING")
    admin.do("CONFIG SET requirepass pw1")
    other.do("PING")
    admin.do(("CONFIG", "SET", "requirepass", ""))


@case("auth")
def limits_before_authentication(side):
    side.connect().do("CONFIG SET requirepass pw1")
    for payload in (b"*11\r\n", b"*10\r\n", b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", b"*2\r\n$4\r\nAUTH\r\n$16384\r\n",
                    command("AUTH", "x" * 16384), command("AUTH", *["x"] * 12), command("MSET", *["x"] * 9)):
        c = side.connect()
        c.send(payload)
        side.note("said", c.quiet())
        c.send(b"PING\r\n" * 3)
    c = side.connect()
    c.do("AUTH pw1", ("MSET", *["x"] * 20), ("SET", "k", "x" * 20000))


@case("auth")
def password_set_directly_at_redis(side):
    before, direct = side.connect("before"), side.direct()
    before.do("SET k v")
    direct.do("CONFIG SET requirepass pw1")
    time.sleep(1.1)  # what the target promises at most
    before.do("GET k")
    side.connect("new").do("GET k", "AUTH pw1", "GET k")
    direct.do(("CONFIG", "SET", "requirepass", ""))
    time.sleep(1.1)
    side.connect("newer").do("GET k")


RULES = ("ACL", "SETUSER", "alice", "on", ">p", "resetkeys", "~a:*", "%R~r:*", "resetchannels", "&ch:*", "-@all", "+@read", "+@write", "+@connection",
         "+@transaction", "+@pubsub", "+@scripting", "+@blocking", "-del", "-client|kill", "-select")


@case("acl")
def rights_of_a_user(side):
    admin, c = side.connect("admin"), side.connect("alice")
    admin.do(RULES)
    tries = ["ACL WHOAMI", "SET a:1 x", "GET a:1", "SET b:1 x", "GET b:1", "MGET a:1 b:1", "GET r:1", "SET r:1 x", "COPY r:1 a:2", "DEL a:1", "FLUSHALL",
             "CONFIG GET *", "SELECT 1", "PUBLISH ch:1 x", "PUBLISH no:1 x", "SPUBLISH no:1 x", "CLIENT KILL ID 1", "CLIENT GETNAME", "ACL LIST", "NOSUCH",
             "RENAME a:1 b:1", "RENAME a:1 a:3", "SORT a:1 BY w_*", "KEYS *", "DBSIZE", "DEBUG SLEEP 0", "MONITOR", "RPUSH a:l 1", "BLPOP a:l 0", "BLPOP b:l 0",
             "XREAD STREAMS b:x 0", ("EVAL", "return redis.call('GET', 'b:1')", "0"), ("EVAL", "return redis.call('GET', KEYS[1])", "1", "a:3"),
             ("EVAL", "return redis.call('DEL', KEYS[1])", "1", "a:3"), "MULTI", "SET a:4 x", "SET b:4 x", "GET a:4", "EXEC", "MULTI", "SET a:4 x", "EXEC"]
    c.do(("AUTH", "alice", "wrong"), ("AUTH", "alice", "p"))
    for one in tries:
        c.do(one)
    again = side.connect("again")
    side.mask(*ID)
    again.do(("HELLO", "3", "AUTH", "alice", "p"))
    again.do(*tries)
    admin.do("ACL DRYRUN alice GET b:1", "ACL DRYRUN alice GET a:1", "GET a:4", "GET b:4")
    side.mask(rb"age-seconds\r\n(\$\d+\r\n|,)[0-9.e-]+", b"age")
    side.mask(rb"(client-info\r\n)\$\d+\r\n[^\r]*", rb"\1")
    admin.do("ACL LOG 3")


@case("acl")
def rights_to_what_takes_the_store_away(side):
    admin, c = side.connect("admin"), side.connect("alice")
    admin.do(RULES)
    c.do(("AUTH", "alice", "p"), "SHUTDOWN", "MULTI", "SHUTDOWN", "EXEC")


@case("acl")
def changes_take_effect_at_once(side):
    for way in ("through", "direct"):
        admin = side.connect("admin") if way == "through" else side.direct()

        def change(*rule):
            admin.do(rule)
            if way == "direct":
                time.sleep(1.1)
        change("ACL", "SETUSER", "alice", "reset", "on", ">p", "~*", "&*", "+@all")
        c, sub, blocked = side.connect("alice"), side.connect("sub"), side.connect("blocked")
        for one in (c, sub, blocked):
            one.do(("AUTH", "alice", "p"))
        c.do("SET k 1", "GET k")
        change("ACL", "SETUSER", "alice", "-get")
        c.do("GET k", "SET k 2", "STRLEN k")
        c.do("MULTI", "GET k", "SET k 3", "EXEC")
        change("ACL", "SETUSER", "alice", "+get", "resetkeys", "~x:*")
        c.do("GET k", "GET x:1")
        change("ACL", "SETUSER", "alice", "allkeys")
        c.do("MULTI", "SET k 5", "GET k")
        change("ACL", "SETUSER", "alice", "-set")
        c.do("EXEC", "GET k")
        change("ACL", "SETUSER", "alice", "off")  # who is in stays in; nobody new
        c.do("GET k")
        side.connect("new").do(("AUTH", "alice", "p"))
        change("ACL", "SETUSER", "alice", "on", "+@all")
        sub.do("SUBSCRIBE a")
        change("ACL", "SETUSER", "alice", "resetchannels")  # closes subscribers of what is no longer theirs
        side.note("sub", sub.read_rest(5))
        blocked.send("BLPOP none 0")
        blocked.quiet(0.05)
        change("ACL", "DELUSER", "alice")
        side.note("c", c.read_rest(5))
        side.note("blocked", blocked.read_rest(5))


@case("acl")
def the_default_user_is_cut_down(side):
    """The shared connection of a proxy may be of another user: the default user's rights must still be his."""
    direct, c = side.direct(), side.connect("c")
    c.do("SET k v", "GET k")
    for rule in ("-get", "-@write", "resetkeys", "nocommands"):
        direct.do(("ACL", "SETUSER", "default", rule, "+acl"))
        time.sleep(1.1)
        c.do("GET k", "SET k v2", "STRLEN k", "NOSUCH", "PING")
        side.connect("new").do("GET k", "SET k v3", "STRLEN k", "PING")
    direct.do(("ACL", "SETUSER", "default", "allkeys", "allcommands"))
    time.sleep(1.1)
    c.do("GET k", "SET k v4", "GET k")


@case("acl")
def the_default_user_is_off(side):
    admin = side.connect("admin")
    admin.do(("ACL", "SETUSER", "bob", "on", ">q", "~*", "&*", "+@all"), "SET k v", ("ACL", "SETUSER", "default", "off"))
    c = side.connect("c")
    c.do("GET k", "HELLO 3", "AUTH x", "AUTH default x", "NOSUCH", ("AUTH", "bob", "q"), "GET k", "ACL WHOAMI", "RESET", "GET k")
    admin.do("GET k", ("ACL", "SETUSER", "default", "on"))
    side.connect("d").do("GET k")


@case("acl")
def users_do_not_mix(side):
    admin = side.connect("admin")
    for user in ("alice", "bob"):
        admin.do(("ACL", "SETUSER", user, "on", ">" + user, "~%s:*" % user, "+@all"))
    clients = []
    for n in range(30):
        c = side.connect()
        if n % 3:
            user = ("alice", "bob")[n % 3 - 1]
            c.do(("AUTH", user, user))
        clients.append(c)
    for turn in range(5):
        for c in clients:
            c.send("ACL WHOAMI", "SET alice:%d x" % turn, "SET bob:%d x" % turn, "GET alice:1", "GET other")
        for c in clients:
            c.expect(5)


# Found by fuzz/commands, shrunk: what was queued before a RESET must not come back with a later EXEC.
script("reset", "forgets_what_was_queued", "MULTI", "CLIENT SETNAME x", "SELECT 5", "RESET", "SELECT 2", "EXEC", "INCR n", "CLIENT GETNAME", "SELECT 0", "GET n",
       "MULTI", "SELECT 3", "DISCARD", "SELECT 2", "EXEC", "INCR n", "SELECT 0", "GET n")

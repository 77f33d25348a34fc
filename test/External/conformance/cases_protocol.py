"""Contract: cases about the protocol itself: inline commands, framing, malformed input, splits, pipelines, the end of a
connection. Mostly tables: a row is a name, the bytes sent and how many replies Redis gives, or END when it closes."""
from harness import add, case, command, encode

END = object()  # Redis closes the connection (after the replies that were due)
MORE = object()  # Redis waits for more input and says nothing

# After a row that leaves the connection open, this shows that both sides are at the same place of the stream.
SENTINEL = command("ECHO", "in-step")


def transcript(payload, outcome, pieces=None):
    def run(side):
        c = side.connect()
        c.send(payload, pieces=pieces)
        if outcome is END:
            side.note("all", c.read_rest())
        elif outcome is MORE:
            side.note("all", c.quiet())
            # It harms only itself: another client is served, and the server is in order afterwards.
            side.connect().do("PING")
        else:
            c.expect(outcome)
            c.send(SENTINEL)
            c.expect()
    return run


def table(group, rows, splits=True):
    for name, payload, outcome in rows:
        add(group, name, transcript(payload, outcome))
        if splits and len(payload) <= 200 and outcome is not MORE:
            add(group, name + ".bytewise", transcript(payload, outcome, pieces=1))


table("inline", [
    ("ping", b"PING\r\n", 1),
    ("bare_newline", b"PING\n", 1),
    ("blanks_around", b"   PING   hello   \r\n", 1),
    ("tabs", b"\tECHO\thello\t\r\n", 1),
    ("lower_case", b"ping\r\nset k v\r\nget k\r\n", 3),
    ("empty_lines", b"\r\n\r\n\n\nPING\r\n\r\n", 1),
    ("only_blanks", b"    \r\nPING\r\n", 1),
    ("double_quotes", b'SET k "a b\\x41\\n\\r\\t\\"\\\\"\r\nGET k\r\n', 2),
    ("single_quotes", b"SET k 'a \\' \\n b'\r\nGET k\r\n", 2),
    ("empty_quotes", b'ECHO ""\r\nECHO \'\'\r\n', 2),
    ("unbalanced_double", b'ECHO "abc\r\nPING\r\n', END),
    ("unbalanced_single", b"ECHO 'abc\r\n", END),
    ("quote_then_text", b'ECHO "abc"def\r\n', END),
    ("quote_inside_word", b'ECHO ab"c d"\r\n', 1),
    ("escape_at_end", b'ECHO "abc\\"\r\n', END),
    ("bad_hex", b'ECHO "\\xZZ"\r\n', 1),
    ("binary", b"ECHO \x80\xff\xfe\r\n", 1),
    ("carriage_return_inside", b"ECHO a\rb\r\n", 1),
    ("two_carriage_returns", b"PING\r\r\n", 1),
    ("unknown", b"FOO a 'b c' \"d\"\r\n", 1),
    ("looks_like_a_reply", b"+OK\r\n:1\r\n-ERR x\r\n", 3),
    ("looks_like_a_bulk", b"$4\r\nPING\r\n", 2),
    ("mixed_with_arrays", b"PING\r\n" + command("ECHO", "x") + b"ECHO y\n" + command("PING"), 4),
    ("multi", b"MULTI\r\nINCR n\r\nINCR n\r\nEXEC\r\n", 4),
    ("subscribe", b"SUBSCRIBE a\r\nPING x\r\nUNSUBSCRIBE\r\n", 3),
    ("post", b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", END),
    ("host", b"Host: example\r\n", END),
    ("get_http", b"GET / HTTP/1.1\r\n\r\n", 1),
    ("quit", b"QUIT\r\n", END),
])
table("inline", [
    ("long_line", b"ECHO " + b"x" * 60000 + b"\r\n", 1),
    ("longest_line", b"ECHO " + b"x" * (64 * 1024 - 10) + b"\r\n", 1),
    ("line_over_64k_with_end", b"ECHO " + b"x" * 70000 + b"\r\nPING\r\n", 2),
    ("no_end", b"x" * (64 * 1024 + 100), END),
    ("no_end_after_commands", b"PING\r\nPING\r\n" + b"x" * (80 * 1024), END),
    ("nul_hides_the_rest", b"ECHO a\x00b\r\n", MORE),
    ("unfinished", b"PING", MORE),
    ("many_arguments", b"DEL " + b" ".join(b"k%d" % n for n in range(5000)) + b"\r\n", 1),
])

table("framing", [
    ("ping", command("PING"), 1),
    ("empty_array", b"*0\r\n" + command("PING"), 1),
    ("null_array", b"*-1\r\n" + command("PING"), 1),
    ("very_negative_array", b"*-100\r\n" + command("PING"), 1),
    ("empty_command", b"*1\r\n$0\r\n\r\n", 1),
    ("empty_command_with_argument", b"*2\r\n$0\r\n\r\n$1\r\na\r\n", 1),
    ("null_bulk", b"*1\r\n$-1\r\n", END),
    ("null_second_bulk", b"*2\r\n$4\r\nECHO\r\n$-1\r\n", END),
    ("array_not_a_number", b"*abc\r\n", END),
    ("array_empty_number", b"*\r\n", END),
    ("array_plus", b"*+1\r\n", END),
    ("array_leading_zero", b"*01\r\n$4\r\nPING\r\n", END),
    ("array_blank", b"* 1\r\n", END),
    ("array_trailing_blank", b"*1 \r\n$4\r\nPING\r\n", END),
    ("array_too_big", b"*2147483648\r\n", END),
    ("array_overflow", b"*99999999999999999999999\r\n", END),
    ("array_minus_zero", b"*-0\r\n", END),
    ("array_fraction", b"*1.0\r\n", END),
    ("bulk_not_a_number", b"*1\r\n$abc\r\n", END),
    ("bulk_empty_number", b"*1\r\n$\r\n", END),
    ("bulk_plus", b"*1\r\n$+4\r\nPING\r\n", END),
    ("bulk_leading_zero", b"*1\r\n$04\r\nPING\r\n", END),
    ("bulk_too_big", b"*2\r\n$4\r\nECHO\r\n$536870913\r\n", END),
    ("bulk_overflow", b"*2\r\n$4\r\nECHO\r\n$18446744073709551616\r\n", END),
    ("bulk_int_max", b"*2\r\n$4\r\nECHO\r\n$2147483647\r\n", END),
    ("wrong_type_plus", b"*1\r\n+PING\r\n", END),
    ("wrong_type_integer", b"*2\r\n$4\r\nECHO\r\n:1\r\n", END),
    ("wrong_type_nested", b"*1\r\n*1\r\n$4\r\nPING\r\n", END),
    ("wrong_type_unprintable", b"*1\r\n\x01PING\r\n", END),
    ("wrong_type_nul", b"*1\r\n\x00\r\n", MORE),
    ("wrong_type_cr", b"*1\r\n\r\n", END),
    ("terminators_not_checked", b"*1\r\n$4\r\nPINGxx" + command("PING"), 2),
    ("header_cr_then_any", b"*1\rx$4\ryPING\r\n" + command("PING"), 2),
    ("header_newline_only", b"*1\n$4\nPING\n", MORE),
    ("good_before_bad", command("SET", "k", "1") + command("INCR", "k") + b"*1\r\n$x\r\n" + command("INCR", "k"), END),
    ("bad_after_subscribe", command("SUBSCRIBE", "a") + b"*1\r\n$x\r\n", END),
    ("bad_inside_multi", command("MULTI") + command("SET", "k", "1") + b"*1\r\n!\r\n", END),
    ("binary_arguments", command("SET", b"\x00\r\n\xff", bytes(range(256))) + command("GET", b"\x00\r\n\xff"), 2),
    ("protocol_inside_value", command("SET", "k", "*1\r\n$4\r\nPING\r\n") + command("GET", "k"), 2),
    ("empty_key_and_value", command("SET", "", "") + command("GET", "") + command("STRLEN", ""), 3),
    ("nul_in_array_header", b"*1\x00\r\n$4\r\nPING\r\n", MORE),
    ("unfinished_header", b"*2\r\n$4", MORE),
    ("unfinished_value", b"*2\r\n$4\r\nECHO\r\n$10\r\nabc", MORE),
    ("unfinished_terminator", b"*1\r\n$4\r\nPING\r", MORE),
    ("announced_large", b"*1000000\r\n$4\r\nPING\r\n", MORE),
    ("announced_huge", b"*2147483647\r\n$4\r\nPING\r\n", MORE),
    ("announced_huge_value", b"*2\r\n$4\r\nECHO\r\n$536870912\r\nabc", MORE),
])
table("framing", [
    ("endless_array_header", b"*" + b"1" * (70 * 1024), END),
    ("endless_bulk_header", b"*1\r\n$" + b"1" * (70 * 1024), END),
    ("many_arguments", command("DEL", *("k%d" % n for n in range(100_000))), 1),
    ("million_arguments", command("EXISTS", *("k" for n in range(1_048_600))), 1),
    ("thousand_empty_arrays", b"*0\r\n*-1\r\n" * 1000 + command("PING"), 1),
    ("long_command_name", command("x" * 300, "y" * 300, "z"), 1),
    ("huge_command_name", command("x" * 300_000), 1),
], splits=False)

table("errors", [
    ("unknown", command("NOSUCH"), 1),
    ("unknown_arguments", command("NOSUCH", "a", "b", "c" * 200, "d"), 1),
    ("unknown_binary", command(b"NO\r\nSUCH\x00", b"\x01\xff\r\n"), 1),
    ("arity_low", command("GET"), 1),
    ("arity_high", command("GET", "a", "b"), 1),
    ("arity_subcommand", command("CONFIG", "GET"), 1),
    ("unknown_subcommand", command("CONFIG", "NOSUCH"), 1),
    ("unknown_subcommand_client", command("CLIENT", "NOSUCH", "a"), 1),
    ("container_alone", command("CLIENT"), 1),
    ("container_object", command("OBJECT"), 1),
    ("wrong_type", command("SET", "k", "v") + command("LPUSH", "k", "a") + command("GET", "k"), 3),
    ("not_integer", command("SET", "k", "v") + command("INCR", "k"), 2),
    ("syntax", command("SET", "k", "v", "NX", "XX"), 1),
    ("mixed_case", command("sEt", "k", "v") + command("GeT", "k") + command("cLiEnT", "gEtNaMe"), 3),
    ("command_with_blank", command("GET k"), 1),
    ("looks_like_ours", command("DPR.NOSUCH"), 1),
    ("quit_with_arguments", command("QUIT", "a"), END),
    ("stat", command("NOSUCH") + command("GET"), 2),
    ("debug_error", command("DEBUG", "SET-ACTIVE-EXPIRE", "1") + command("DEBUG", "NOSUCH"), 2),
    ("cluster", command("CLUSTER", "INFO") + command("ASKING") + command("READONLY") + command("READWRITE"), 4),
], splits=False)


# -- every split --------------------------------------------------------------------------------------------------------
SPLIT = (command("SET", "k", b"a\r\nb$3\r\n*1\r\n") + b"PING\r\n" + command("GET", "k") + b"*0\r\n" + command("NOSUCH")
         + b"ECHO 'x y'\n" + command("MGET", "k", "none", "k"))


@case("split")
def at_every_position(side):
    """The same stream cut in two at each position, each on a connection of its own."""
    connections = []
    for at in range(1, len(SPLIT)):
        c = side.connect("at%d" % at)
        c.send(SPLIT[:at])
        connections.append((at, c))
    for at, c in connections:
        c.send(SPLIT[at:])
        c.expect(6)
        c.do("PING")
        c.close()


@case("split")
def in_pieces_of_every_size(side):
    for size in range(1, 40):
        c = side.connect("size%d" % size)
        c.send(SPLIT, pieces=size)
        c.expect(6)
        c.close()


@case("split")
def malformed_at_every_position(side):
    payload = command("SET", "k", "v") + b"*2\r\n$3\r\nGET\r\n$x1\r\n" + command("PING")
    for at in range(1, len(payload)):
        c = side.connect("at%d" % at)
        c.send(payload[:at])
        early = c.quiet(0.002).removesuffix(b"<end>")
        c.send(payload[at:])
        side.note("at%d" % at, early + c.read_rest())
        c.close()


# -- pipelines ----------------------------------------------------------------------------------------------------------
def deep(name, items, count, seconds=120):
    def run(side):
        c = side.connect()
        c.socket.settimeout(seconds)
        c.send(b"".join(items))
        total = 0
        for reply in range(count):
            total = hash((total, c.read(seconds)))
            if reply % 10_000 == 0 or reply == count - 1:
                side.note("pipeline", total)
        c.send(SENTINEL)
        c.expect()
    add("pipeline", name, run)


# hash() of bytes differs between processes, not within one: both sides run in the same process.
deep("100k_pings", [command("PING")] * 100_000, 100_000)
deep("100k_inline_pings", [b"PING\r\n"] * 100_000, 100_000)
deep("100k_increments", [command("INCR", "n")] * 100_000, 100_000)
deep("100k_mixed", [command("SET", "k%d" % (n % 100), n) + command("GET", "k%d" % ((n * 7) % 100)) + command("LPUSH", "l", n)
                    + command("NOSUCH") + command("HSET", "h", n % 50, n) for n in range(20_000)], 100_000)
deep("100k_values_of_1k", [command("SET", "k", "x" * 1024)] + [command("GET", "k")] * 100_000, 100_001)
deep("100k_selects", [command("SELECT", n % 16) + command("SET", "k%d" % (n % 3), n) + command("GET", "k%d" % (n % 3))
                      for n in range(33_000)], 99_000)
deep("20k_transactions", [command("MULTI") + command("INCR", "n") + command("GET", "n") + command("EXEC")] * 20_000, 80_000)
deep("20k_scripts", [command("EVAL", "return redis.call('incr', KEYS[1])", "1", "n")] * 20_000, 20_000)
deep("5k_reply_skips", [command("CLIENT", "REPLY", "SKIP") + command("INCR", "n") + command("GET", "n")] * 5_000, 5_000)
deep("10k_blocking_that_do_not_block", [command("RPUSH", "l", n) + command("BLPOP", "l", "0") for n in range(10_000)], 20_000)
deep("2k_subscriptions", [command("SUBSCRIBE", "c%d" % n) for n in range(2_000)] +
     [command("UNSUBSCRIBE", "c%d" % n) for n in range(2_000)], 4_000)


@case("pipeline")
def shared_and_dedicated_kinds_interleaved(side):
    """What needs a connection of its own and what does not, in one write: the order of replies must hold."""
    c = side.connect()
    items = []
    for n in range(50):
        items += [("SET", "k", n), ("GET", "k"), "MULTI", ("INCR", "n"), "EXEC", ("WATCH", "k"), ("GET", "k"), "UNWATCH",
                  ("RPUSH", "l", n), ("BLPOP", "l", "0"), ("SELECT", n % 4), ("GET", "k"), ("SELECT", 0),
                  ("CLIENT", "SETNAME", "n%d" % n), "CLIENT GETNAME", ("EVAL", "return ARGV[1]", "0", n), "ASKING", "DBSIZE"]
    c.do(*items)


# -- the end of a connection -----------------------------------------------------------------------------------------------
def half_closed(name, *items):
    def run(side):
        side.mask(rb"\$2\r\nid\r\n:\d+", b"id")
        c = side.connect()
        c.send(*items).end_of_input()
        side.note("all", c.read_rest())
        side.connect().do(("GET", "k"), ("GET", "n"), ("LRANGE", "l", 0, -1))
    add("half_close", name, run)


half_closed("nothing")
half_closed("ping", "PING")
half_closed("writes", ("SET", "k", "v"), "INCR n", "INCR n", ("RPUSH", "l", "a"))
half_closed("thousand", *(["INCR n"] * 300))
half_closed("in_mid_command", ("SET", "k", "v"), b"*2\r\n$3\r\nGET\r\n$1")
half_closed("in_multi", "MULTI", "INCR n")
half_closed("after_exec", "MULTI", "INCR n", "EXEC")
half_closed("blocked", ("RPUSH", "l", "a"), "BLPOP l 0", "BLPOP none 0")
half_closed("blocked_barriers", ("RPUSH", "l", "a", "b"), "BLPOP l 0", "SELECT 1", "SELECT 0", "CLIENT SETNAME x", "BLPOP l 0", "HELLO 2 SETNAME y", "CLIENT GETNAME")
half_closed("subscribed", "SUBSCRIBE a b")
half_closed("subscribed_and_more", "SUBSCRIBE a", "PSUBSCRIBE c", "PING", "UNSUBSCRIBE", "PUNSUBSCRIBE", "INCR n")
half_closed("large", ("SET", "k", "x" * 1_000_000), "STRLEN k", ("APPEND", "k", "y" * 300_000), "INCR n")
half_closed("in_mid_large", "INCR n", ("EVAL", "return 1", "0"), b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n" + b"x" * 400_000)
half_closed("transactions", *(["MULTI", "INCR n", "EXEC"] * 200))
half_closed("watching", "WATCH k", "GET k")
half_closed("script", ("EVAL", "return {1,2,3}", "0"))
half_closed("quit", "INCR n", "QUIT")
half_closed("malformed", "INCR n", b"*1\r\n$x\r\n")
half_closed("monitor", "MONITOR")


@case("close")
def quit_drops_what_follows(side):
    c = side.connect()
    c.send("INCR n", "QUIT", "INCR n", "PING")
    side.note("all", c.read_rest())
    side.connect().do("GET n")


@case("close")
def quit_everywhere(side):
    for before in ([], ["MULTI", "INCR n"], ["SUBSCRIBE a"], ["HELLO 3", "SUBSCRIBE a"], ["SELECT 3"], ["WATCH k"],
                   ["CLIENT TRACKING ON"], ["MONITOR"], ["RPUSH l a", "BLPOP l 0"], ["SUBSCRIBE a", "UNSUBSCRIBE"], ["MULTI", "NOSUCH"]):
        side.mask(rb"\$2\r\nid\r\n:\d+", b"id")
        c = side.connect("+".join(before) or "plain")
        c.send(*before, "QUIT", "PING")
        side.note(c.name, c.read_rest(5))
    side.connect().do("GET n")


@case("close")
def quit_with_replies_off(side):
    for mode in ("OFF", "SKIP"):
        c = side.connect(mode)
        c.send("CLIENT REPLY " + mode, "QUIT", "PING")
        side.note(c.name, c.read_rest(1))


@case("close")
def gone_behind_a_blocking_command(side):
    """A client that has ended its stream, with more requests behind one that blocks, takes no element any more."""
    other = side.connect("other")
    for behind in ([], ["PING"], ["SELECT 1", "PING"], ["QUIT"], ["MULTI", "PING", "EXEC"], ["CLIENT SETNAME x", "SUBSCRIBE a"]):
        c = side.connect("+".join(behind) or "nothing")
        c.send("BLPOP none 0", *behind)
        c.quiet(0.05)
        c.end_of_input()
        side.note(c.name, c.read_rest(5))
        other.do("RPUSH none " + str(len(behind)), "LPOP none")


@case("close")
def vanish_in_mid_command(side):
    for payload in (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\nabc", b"*2\r\n$3", b"SET k", command("MULTI") + command("SET", "k", "v"),
                    command("BLPOP", "l", "0"), command("SUBSCRIBE", "a"), command("WATCH", "k"), b"*", command("MONITOR")):
        for reset in (False, True):
            c = side.connect()
            c.send(payload)
            c.quiet(0.01)
            c.close(reset=reset)
    c = side.connect()
    c.do(("GET", "k"), ("RPUSH", "l", "a"), ("LLEN", "l"), ("PUBLISH", "a", "x"), "DBSIZE")


@case("close")
def vanish_with_replies_due(side):
    """Clients that send much and never read the replies: what they sent first is done, others are served."""
    other = side.connect("other")
    other.do(("SET", "big", "x" * 1_000_000))
    for n in range(20):
        c = side.connect()
        c.send(*([("GET", "big")] * 20))
        c.close(reset=n % 2 == 0)
        other.do(("ECHO", n), "STRLEN big")


@case("close")
def connects_and_goes(side):
    for n in range(300):
        side.connect().close(reset=n % 3 == 0)
    side.connect().do("PING")


@case("close")
def client_list_forgets_the_gone(side):
    keep = side.connect()
    for _ in range(20):
        c = side.connect()
        c.send("CLIENT SETNAME goner", "PING")
        c.read_many(2)
        c.close()
    side.wait_until(lambda: b"goner" not in keep.alone().text("CLIENT LIST"))
    side.note("list", b"goner" in keep.alone().text("CLIENT LIST"))

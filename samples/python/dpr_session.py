#!/usr/bin/env python3
"""A session over several shards of Slogger, in nothing but Python's standard library: see "Sessions" in docs/reference/sessions.md.

A session numbers its operations across all shards, tells each shard what it has seen elsewhere (vs), knows which of its
operations are committed, and after a recovery which of them survived. Whatever was done since, the past can be read: see "Read the past"
in docs/operate. Try it against running proxies of one cluster:

    python3 dpr_session.py --demo 127.0.0.1:6379 127.0.0.1:6380
"""
import argparse
import collections
import itertools
import secrets
import socket
import time

WINDOW = 1024  # operations that may be unanswered


class Rollback(Exception):
    """The cluster went back to an earlier version. The session goes on at once, in the new world-line."""

    def __init__(self, world_line, survived, lost, uncertain):
        super().__init__(f"world-line {world_line}: survived={survived} lost={lost} uncertain={uncertain}")
        self.world_line, self.survived, self.lost, self.uncertain = world_line, survived, lost, uncertain


class ReplyError(Exception):
    """An error that Redis or the proxy answered."""


def encode(*arguments):
    parts = [a if isinstance(a, bytes) else str(a).encode() for a in arguments]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


class Connection:
    """One shard: requests out, replies in. An error reply is returned, not raised."""

    def __init__(self, address, session_id):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        hello = self.call("DPR.HELLO", 1, session_id)
        if isinstance(hello, ReplyError):
            raise hello
        self.about = dict(zip(hello[::2], hello[1::2]))

    def send(self, data):
        self.socket.sendall(data)

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed by the proxy")
        kind, text = line[:1], line[1:-2]
        if kind == b"+":
            return text
        if kind == b"-":
            return ReplyError(text.decode())
        if kind == b":":
            return int(text)
        if kind == b"$":
            return None if text == b"-1" else self.file.read(int(text) + 2)[:-2]
        if kind == b"*":
            return None if text == b"-1" else [self.read() for _ in range(int(text))]
        raise ConnectionError(f"not RESP2: {line!r}")

    def call(self, *arguments):
        self.send(encode(*arguments))
        return self.read()

    def close(self):
        self.file.close()
        self.socket.close()


class Session:
    """One session, one thread. Operations are numbered from 1 in the order in which they are sent."""

    def __init__(self, addresses):
        self.id, self.addresses = secrets.token_hex(16), addresses
        self.connections = [None] * len(addresses)
        self.batches = [collections.deque() for _ in addresses]  # per shard, (first, count, vs), unanswered
        self.world_line = 0
        self.vs = 0  # the largest version seen: nothing sent from now on is executed in an earlier one
        self.seen = [0] * len(addresses)  # per shard, the largest version that its trailers told in this world-line
        self.told = [[0] * len(addresses) for _ in addresses]  # per shard, what of that its connection has been told
        self.used = set()  # shards that have been sent anything
        self.begun = 0
        self.committed = 0  # every operation up to here is committed, or was reported as lost or uncertain
        self.cut = 0
        self.runs = []  # answered and not committed: (first, last, version, shard)
        self.skipped = []  # (first, last) that will never be answered

    def connect(self, shard):
        if self.connections[shard] is None:
            self.connections[shard] = Connection(self.addresses[shard], self.id)
            self.told[shard] = [0] * len(self.addresses)
            self.world_line = self.world_line or self.connections[shard].about[b"worldline"]
        return self.connections[shard]

    def send(self, shard, requests):
        """Sends a batch, each request a tuple; returns the number of its first operation."""
        while sum(count for queue in self.batches for _, count, _ in queue) + len(requests) > WINDOW:
            self.receive(max(range(len(self.batches)), key=lambda s: len(self.batches[s])))
        connection = self.connect(shard)
        first, self.begun = self.begun + 1, self.begun + len(requests)
        self.batches[shard].append((first, len(requests), self.vs))
        self.used.add(shard)
        seen = []  # with the finders exact and hybrid nothing else tells the order between shards
        for other, version in enumerate(self.seen):
            if other != shard and version > self.told[shard][other]:
                seen += ["DEP", other, version]
        self.told[shard] = list(self.seen)
        header = encode("DPR.BATCH", self.id, self.world_line, self.vs, first, len(requests), *seen)
        try:
            connection.send(header + b"".join(encode(*r) for r in requests))
        except OSError:
            pass  # whatever was answered before is still to be read
        return first

    def receive(self, shard):
        """The replies to the oldest unanswered batch of a shard. Raises Rollback, or ConnectionError: then what that shard
        has not answered is uncertain, for ever."""
        connection = self.connections[shard]
        try:
            first, count, _ = self.batches[shard][0]
            verdict = connection.read()
            if isinstance(verdict, ReplyError):
                self.refused(shard, str(verdict))
            replies = [connection.read() for _ in range(count)]
            trailer = connection.read()
        except OSError as e:
            self.disconnect(shard)
            raise ConnectionError(str(e)) from e
        self.batches[shard].popleft()
        for run, version in zip(trailer[2::2], trailer[3::2]):
            self.runs.append((first, first + run - 1, version, shard))
            first += run
            self.vs = max(self.vs, version)
            self.seen[shard] = max(self.seen[shard], version)
        self.advance(trailer[0], trailer[1])
        return replies

    def advance(self, world_line, cut):
        """Takes in what a shard says is committed."""
        if world_line != self.world_line:
            return
        self.cut = max(self.cut, cut)
        self.runs.sort()
        gone = sorted(self.skipped + [(f, l) for f, l, v, _ in self.runs if v <= self.cut])
        for first, last in gone:
            if first <= self.committed + 1:
                self.committed = max(self.committed, last)
        self.runs = [r for r in self.runs if r[1] > self.committed]
        self.skipped = [s for s in self.skipped if s[1] > self.committed]

    def refused(self, shard, error):
        words = error.split()
        if words[0] != "ROLLBACK":
            raise ConnectionError(error)
        notice = dict(word.split("=") for word in words[1:])
        if int(notice["abandoned"]) != self.world_line:
            raise ConnectionError(error)  # the session has heard of that one before
        if "branch" in notice:
            branches = [int(notice["branch"])] * len(self.addresses)
        else:  # each shard went back to a version of its own
            branches = [int(branch) for branch in notice["branches"].split(",")]
        lost = [(f, l) for f, l, v, s in self.runs if v > branches[s]]
        uncertain = []
        for s, queue in enumerate(self.batches):
            for first, count, vs in queue:
                # It was executed in version vs or later, if at all; what was refused was not.
                (lost if vs > branches[s] else uncertain).append((first, first + count - 1))
        survived = max([self.committed] + [l for _, l, v, s in self.runs if v <= branches[s]])
        branch = min(branches[s] for s in self.used)
        for s in range(len(self.addresses)):
            self.disconnect(s, forget=True)
        self.world_line, self.vs, self.cut = int(notice["worldline"]), branch + 1, branch
        self.runs, self.skipped, self.committed = [], [], self.begun
        self.seen = [0] * len(self.addresses)
        raise Rollback(self.world_line, survived, sorted(lost), sorted(uncertain))

    def disconnect(self, shard, forget=False):
        if self.connections[shard]:
            self.connections[shard].close()
        self.connections[shard] = None
        if not forget:
            self.skipped += [(first, first + count - 1) for first, count, _ in self.batches[shard]]
        self.batches[shard].clear()

    def wait(self):
        """Until all that was sent is answered and committed."""
        for shard, queue in enumerate(self.batches):
            while queue:
                self.receive(shard)
        while self.committed < self.begun:
            for shard in range(len(self.addresses)):
                connection = self.connect(shard)
                connection.send(encode("DPR.WAIT", "*", 1000) + encode("DPR.CUT"))
                connection.read()  # committed or not, or an error after a rollback: the cut tells all
                line, cut = connection.read()
                if line > self.world_line:  # the next batch is refused, and tells what survived
                    self.send(shard, [("PING",)])
                    self.receive(shard)
                self.advance(line, cut)


class Past:
    """What was there at one instant, ("TIME", milliseconds) or ("VERSION", version), at all shards. What is read is no operation of a
    session."""

    def __init__(self, addresses, *instant):
        self.connections = [Connection(address, secrets.token_hex(16)) for address in addresses]
        # Of a time each shard would take its own clock's: one is asked for that.
        self.version = self.find(self.connections[0], *instant)[1]
        # A shard that has not closed that version by itself names one before: then all are asked for that one.
        agreed = 0
        while agreed < len(self.connections):
            for connection in self.connections:
                self.world_line, version, self.time_us = self.find(connection, "VERSION", self.version)
                agreed = agreed + 1 if version == self.version else 1
                self.version = version

    @staticmethod
    def find(connection, *instant):
        found = connection.call("DPR.ASOF", *instant)
        if isinstance(found, ReplyError):
            raise found
        return found

    def read(self, shard, *command):
        """The reply to a command that only reads, as it would have been then."""
        reply = self.connections[shard].call("DPR.ASOF", "VERSION", self.version, *command)
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def close(self):
        for connection in self.connections:
            connection.close()


def key_at(connection, prefix):
    """A key that this shard owns."""
    return next(key for key in (f"{prefix}:{n}" for n in itertools.count()) if connection.call("EXISTS", key) == 0)


def demo(addresses, operations, looks_back):
    session, batch, first_cut = Session(addresses), 16, 0
    keys = [key_at(session.connect(shard), f"demo:{session.id}") for shard in range(len(addresses))]
    while session.begun < operations:
        try:
            for _ in range(8):
                for shard in range(len(addresses)):
                    session.send(shard, [("INCR", keys[shard])] * batch)
            session.wait()
            first_cut = first_cut or session.cut
            print(f"committed={session.committed} of={session.begun} vs={session.vs} cut={session.cut}", flush=True)
        except Rollback as rollback:
            print(f"rollback {rollback}", flush=True)
        except OSError as error:
            print(f"trying again: {error}", flush=True)
            time.sleep(0.1)
    print(f"done committed={session.committed}", flush=True)
    if looks_back:
        past = Past(addresses, "VERSION", first_cut)
        counters = [past.read(shard, "GET", key).decode() for shard, key in enumerate(keys)]
        print(f"as of version={past.version} time_us={past.time_us} counters={','.join(counters)}", flush=True)
        past.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true", required=True, help="increment a counter on each shard, and tell how far it is committed")
    parser.add_argument("--operations", type=int, default=4096, help="how many in all (default 4096)")
    parser.add_argument("--past", action="store_true", help="then tell what the counters were when the first were committed")
    parser.add_argument("addresses", nargs="+", metavar="host:port", help="the proxies of one cluster, by shard")
    arguments = parser.parse_args()
    demo(arguments.addresses, arguments.operations, arguments.past)

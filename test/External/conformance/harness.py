"""Contract: what a conformance case is written with. A case is a function of one Side (raw Redis, or Redis behind a
target); it talks on as many connections as it likes and notes what it saw with side.note(). The runner calls it once for
each side and compares the notes byte for byte. Cases never compare times; a wait is only ever bounded from above.
Standard library only."""
import re
import socket
import time

READ_SECONDS_MAX = 20.0  # for one reply; far above anything a healthy server needs
QUIET_SECONDS = 0.15     # how long "nothing more comes" is watched for


class Gone(Exception):
    """The peer closed (or reset) the connection where a reply was expected."""


class Slow(Exception):
    """No whole reply within READ_SECONDS_MAX. Ends the case: what follows would only be waited for as well."""


class CaseTooLong(BaseException):
    """The runner's limit on a whole case; not to be caught by one."""


def command(*arguments):
    """One command in RESP: command("SET", "k", b"\\x00") -> bytes."""
    out = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        if isinstance(argument, str):
            argument = argument.encode("latin-1")
        elif isinstance(argument, (int, float)):
            argument = str(argument).encode()
        out.append(b"$%d\r\n%s\r\n" % (len(argument), argument))
    return b"".join(out)


def encode(item):
    """bytes stay as they are (raw RESP); a string is split at blanks into a command; a tuple is a command's arguments."""
    if isinstance(item, (bytes, bytearray)):
        return bytes(item)
    return command(*(item if isinstance(item, tuple) else item.split()))


class Connection:
    """One client connection: raw bytes out, whole RESP2/RESP3 replies (as raw bytes) in."""

    def __init__(self, side, address, name):
        self.side, self.name, self.buffer, self.at = side, name, bytearray(), 0
        self.socket = socket.create_connection(address, timeout=READ_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    # -- sending
    def send(self, *items, pieces=None, pause=0.0005):
        """Sends items (see encode). pieces: None = in one go; N = in pieces of N bytes with a pause after each."""
        data = b"".join(encode(item) for item in items)
        self.socket.settimeout(60)
        try:
            if pieces is None:
                self.socket.sendall(data)
            else:
                for start in range(0, len(data), pieces):
                    self.socket.sendall(data[start:start + pieces])
                    time.sleep(pause)
        except (ConnectionError, socket.timeout):
            pass  # what the peer said before it closed is still to be read; read() tells
        return self

    def end_of_input(self):
        """Half-closes: the server sees the end of input, replies may still come."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        return self

    def close(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.socket.close()

    # -- receiving
    def _more(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            raise Slow(self.name)
        self.socket.settimeout(left)
        try:
            got = self.socket.recv(1 << 18)
        except socket.timeout:
            raise Slow(self.name) from None
        except ConnectionError:
            raise Gone(self.name) from None
        if not got:
            raise Gone(self.name)
        if self.at:
            del self.buffer[:self.at]
            self.at = 0
        self.buffer += got

    def _line(self, at, deadline):
        """at: relative to self.at, so it stays true when the buffer is compacted."""
        while True:
            end = self.buffer.find(b"\r\n", self.at + at)
            if end >= 0:
                return bytes(self.buffer[self.at + at:end]), end + 2 - self.at
            self._more(deadline)

    def _skip(self, at, deadline):
        """The end (relative to self.at) of the value that begins at `at`."""
        line, at = self._line(at, deadline)
        kind, rest = line[:1], line[1:]
        if kind in b"+-:,#_(":
            return at
        if kind in b"$=!":
            length = int(rest)
            if length < 0:
                return at
            while len(self.buffer) - self.at < at + length + 2:
                self._more(deadline)
            return at + length + 2
        if kind in b"*~>%|":
            count = int(rest)
            for _ in range(max(count, 0) * (2 if kind in b"%|" else 1)):
                at = self._skip(at, deadline)
            return self._skip(at, deadline) if kind == b"|" else at
        raise ValueError("not RESP: %r" % line[:80])

    def read(self, seconds=READ_SECONDS_MAX):
        """One whole reply or push, raw. Raises Gone, Slow, ValueError."""
        end = self._skip(0, time.monotonic() + seconds)
        reply = bytes(self.buffer[self.at:self.at + end])
        self.at += end
        return reply

    def read_many(self, count, seconds=READ_SECONDS_MAX):
        return [self.read(seconds) for _ in range(count)]

    def read_rest(self, seconds=READ_SECONDS_MAX):
        """Everything up to the end of the connection; b"...<slow>" when it is not ended in time."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                self._more(deadline)
        except Gone:
            tail = b"<end>"
        except Slow:
            tail = b"<still open>"
        out = bytes(self.buffer[self.at:])
        self.buffer, self.at = bytearray(), 0
        return out + tail

    def quiet(self, seconds=QUIET_SECONDS):
        """Nothing more comes for a while (for commands that must stay without a reply). -> what came, hopefully b""."""
        out = self.read_rest(seconds)
        return out[:-len(b"<still open>")] if out.endswith(b"<still open>") else out

    # -- both at once
    def do(self, *items):
        """Sends all items in one go, reads one reply for each, notes and returns them (the last one alone if one)."""
        self.send(*items)
        replies = [self.expect() for _ in items]
        return replies[0] if len(replies) == 1 else replies

    def expect(self, count=1, note=True):
        """Reads and notes `count` replies; the end or slowness is noted as well, as that is what a client would see."""
        reply = b""
        for _ in range(count):
            try:
                reply = self.read()
            except Gone:
                reply = b"<end>"
            except Slow:
                reply = b"<slow>"
            except ValueError as error:
                reply = str(error).encode()
            if note:
                self.side.note(self.name, reply)
            if reply == b"<slow>":
                raise Slow(self.name)
            if reply == b"<end>":
                break
        return reply

    def alone(self):
        """Does a command without noting the reply (for values that differ by nature: ids, addresses)."""
        return Unnoted(self)


class Unnoted:
    def __init__(self, connection):
        self.connection = connection

    def do(self, item):
        self.connection.send(item)
        return self.connection.read()

    def integer(self, item):
        return int(self.do(item)[1:].split(b"\r\n")[0])

    def text(self, item):
        """The body of a bulk or verbatim reply."""
        reply = self.do(item)
        body = reply.split(b"\r\n", 1)[1][:-2]
        return body[4:] if reply[:1] == b"=" else body


class Side:
    """One of the two worlds that are compared."""

    def __init__(self, name, address, direct):
        self.name, self.address, self.direct_address = name, address, direct
        self.notes, self.connections, self.masks = [], [], []

    def connect(self, name=None):
        connection = Connection(self, self.address, name or "c%d" % (len(self.connections) + 1))
        self.connections.append(connection)
        return connection

    def direct(self):
        """A connection to Redis itself, past the target (as an operator would have)."""
        connection = Connection(self, self.direct_address, "direct")
        self.connections.append(connection)
        return connection

    def note(self, who, what):
        if isinstance(what, str):
            what = what.encode()
        elif not isinstance(what, (bytes, bytearray)):
            what = repr(what).encode()
        for pattern, replacement in self.masks:
            what = re.sub(pattern, replacement, what)
        self.notes.append((who, bytes(what)))

    def mask(self, pattern, replacement=b"<masked>"):
        """From here on, what matches is replaced in the notes (ids, addresses, times)."""
        self.masks.append((pattern, replacement))

    def reset(self):
        """A clean server: as the next case, whatever this one did, must find it. Done directly at Redis."""
        for connection in self.connections:
            connection.close()
        self.connections, self.notes, self.masks = [], [], []
        c = Connection(self, self.direct_address, "reset")
        for password in ("", "pw1", "pw2"):
            if password:
                c.send(("AUTH", password))
                c.read()
            c.send("PING")
            reply = c.read()
            if reply.startswith(b"-BUSY"):
                c.send("SCRIPT KILL", "FUNCTION KILL")
                c.read_many(2)
                time.sleep(0.05)
            if not reply.startswith(b"-NOAUTH"):
                break
        users = ("ACL", "DELUSER", "alice", "bob")
        steps = ["CLIENT UNPAUSE", "FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH", users,
                 ("ACL", "SETUSER", "default", "reset", "on", "nopass", "~*", "&*", "+@all"),
                 ("CONFIG", "SET", "requirepass", "", "notify-keyspace-events", "", "busy-reply-threshold", "5000",
                  "timeout", "0", "maxmemory", "0", "maxclients", "10000", "proto-max-bulk-len", "512mb"),
                 "ACL LOG RESET", "SLOWLOG RESET", "CONFIG RESETSTAT"]
        for step in steps:
            c.send(step)
            reply = c.read()
            if reply.startswith(b"-"):
                raise RuntimeError("reset of %s: %r -> %r" % (self.name, step, reply))
        c.close()

    def wait_until(self, condition, seconds=10.0):
        """Waits for condition() to be true; notes and returns False if it is not in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.01)
        self.note("wait", "condition did not come true")
        return False


CASES = []


def case(group):
    """Decorator: a function of a Side becomes the case group/function_name."""
    def register(function):
        add(group, function.__name__, function)
        return function
    return register


def add(group, name, function):
    full = group + "/" + name
    if any(known == full for known, _ in CASES):
        raise RuntimeError("two cases are named " + full)
    CASES.append((full, function))

#!/usr/bin/env python3
"""Contract: runs the conformance cases on two sides and compares what clients see, byte for byte.

  run.py --left HOST:PORT --right HOST:PORT [--right-direct HOST:PORT] [--only REGEX] [--skip REGEX]
         [--exceptions FILE] [--list] [--seed N] [--long]

left: a raw Redis; right: the target; right-direct: the Redis behind the target (default: right itself). Both must be
of the same version and started alike (see common.sh), and are wiped before each case. exceptions: case TAB reason.
Prints differences, then `N passed, N failed`; exit 0 only without failures."""
import argparse
import os
import re
import signal
import sys
import time
import traceback

import harness

CASE_SECONDS_MAX = 180  # the longest take 20 s on raw Redis


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def run_side(side, function):
    try:
        side.reset()
    except Exception as error:  # the server is gone or stuck: say so, the case fails on this side
        return [("reset", repr(error).encode())]
    try:
        function(side)
    except (harness.Gone, harness.Slow, ValueError, OSError) as error:
        where = traceback.extract_tb(error.__traceback__)
        line = [frame.line for frame in where if "cases" in frame.filename][-1:] or ["?"]
        side.note("stopped", "%s: %s at: %s" % (type(error).__name__, error, line[0]))
    return list(side.notes)


def shorten(data):
    width = int(os.environ.get("CONFORMANCE_WIDTH", "220"))
    text = repr(data)
    return text if len(text) <= width else "%s ... (%d bytes)" % (text[:width], len(data))


def first_difference(left, right):
    for at in range(min(len(left), len(right))):
        if left[at] != right[at]:
            return at
    return min(len(left), len(right))


def report(name, left, right):
    at = first_difference(left, right)
    print("DIFFERS %s (of %d and %d notes)" % (name, len(left), len(right)))
    for n in range(max(0, at - 2), at):
        print("   both      #%d %-8s %s" % (n, left[n][0], shorten(left[n][1])))
    for label, notes in (("redis", left), ("target", right)):
        for n in range(at, min(at + 3, len(notes))):
            print("   %-9s #%d %-8s %s" % (label, n, notes[n][0], shorten(notes[n][1])))
        if at >= len(notes):
            print("   %-9s #%d (nothing more)" % (label, at))
    if at < len(left) and at < len(right):
        byte = first_difference(left[at][1], right[at][1])
        print("   first difference at byte %d: redis %s, target %s" % (
            byte, shorten(left[at][1][max(0, byte - 20):byte + 40]), shorten(right[at][1][max(0, byte - 20):byte + 40])))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--left")
    parser.add_argument("--right")
    parser.add_argument("--right-direct")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="(?!)")
    parser.add_argument("--exceptions")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--long", action="store_true", help="also the long cases (big values, long fuzzing)")
    parser.add_argument("--slowest", type=int, default=0, help="print the N slowest cases")
    parser.add_argument("--width", type=int, default=220, help="how much of a transcript's line is printed")
    options = parser.parse_args()
    os.environ["CONFORMANCE_WIDTH"] = str(options.width)

    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
    os.environ["CONFORMANCE_SEED"] = str(seed)
    os.environ["CONFORMANCE_LONG"] = "1" if options.long else ""
    for module in ("cases_protocol", "cases_sessions", "cases_shared", "cases_admin", "cases_fuzz", "cases_attack"):
        __import__(module)

    excused = {}
    if options.exceptions and os.path.exists(options.exceptions):
        for line in open(options.exceptions, encoding="utf-8"):
            if "\t" in line and not line.startswith("#"):
                key, reason = line.rstrip("\n").split("\t", 1)
                excused[key] = reason
    chosen = [(n, f) for n, f in harness.CASES if re.search(options.only, n) and not re.search(options.skip, n)]
    if options.list:
        print("\n".join(n for n, _ in chosen))
        return 0
    if not options.left or not options.right:
        parser.error("--left and --right are needed")
    print("conformance: %d cases, seed %d (replay with --seed %d)" % (len(chosen), seed, seed), flush=True)

    left = harness.Side("redis", address(options.left), address(options.left))
    right = harness.Side("target", address(options.right), address(options.right_direct or options.right))
    passed, failed, times = 0, [], []

    def give_up(_signal, _frame):
        raise harness.CaseTooLong("the case took longer than %d s" % CASE_SECONDS_MAX)
    signal.signal(signal.SIGALRM, give_up)

    for name, function in chosen:
        started = time.monotonic()
        seen = []
        for side in (left, right):
            signal.alarm(CASE_SECONDS_MAX)
            try:
                seen.append(run_side(side, function))
            except harness.CaseTooLong as slow:
                seen.append([("runner", str(slow).encode())])
            finally:
                signal.alarm(0)
        times.append((time.monotonic() - started, name))
        if seen[0] == seen[1]:
            # Two empty or equally broken transcripts prove nothing.
            broken = [note for note in seen[0] if note[0] in ("stopped", "runner", "reset") or note[1] == b"<slow>"]
            if not seen[0] or broken:
                print("BROKEN CASE %s: on raw Redis too: %s" % (name, broken[:1] or "no notes"))
                failed.append(name)
            else:
                passed += 1
                if name in excused:
                    print("excused but passes: " + name)
        elif name in excused:
            print("excused %s: %s" % (name, excused[name]))
        else:
            report(name, *seen)
            failed.append(name)
        sys.stdout.flush()
    for seconds, name in sorted(times, reverse=True)[:options.slowest]:
        print("%6.2f s %s" % (seconds, name))
    if failed:
        print("failed: " + " ".join(failed))
    print("conformance: %d cases, seed %d, %.0f s" % (len(chosen), seed, sum(t for t, _ in times)))
    print("%d passed, %d failed" % (passed, len(failed)))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

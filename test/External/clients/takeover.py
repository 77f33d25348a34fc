# Contract: as takeover.mjs, with redis-py: by its Sentinel class and through the balancer, a thread for each. Not as a cluster: what
# Debian has, 4.3.4, cannot copy its own settings when it looks for the slots anew.
import os
import re
import sys
import threading
import time

import redis
from redis.sentinel import Sentinel

NODES = [(text.split(":")[0], int(text.split(":")[1])) for text in os.environ["NODES"].split(",")]
STOP, PROGRESS = os.environ["STOP"], os.environ["PROGRESS"]
LIMIT = 5.0


def by_sentinel():
    return Sentinel(NODES, socket_timeout=LIMIT).master_for(os.environ["MASTER"], socket_timeout=LIMIT)


def by_balancer():
    return redis.Redis("127.0.0.1", int(os.environ["BALANCER"]), socket_timeout=LIMIT)


WAYS = {"redis-py-sentinel": by_sentinel, "redis-py-balancer": by_balancer}
failed = []


def run(name):
    client = WAYS[name]()
    key, acknowledged, errors = f"list:{name}", [], {}
    n, last, gap, told = 0, time.monotonic(), 0.0, 0.0
    while not os.path.exists(STOP):
        n += 1
        try:
            client.rpush(key, n)
            acknowledged.append(n)
            gap, last = max(gap, time.monotonic() - last), time.monotonic()
        except redis.RedisError as error:
            text = f"{type(error).__name__}: {error}".split("\n")[0][:60]
            errors[text] = errors.get(text, 0) + 1
            time.sleep(0.005)
        if time.monotonic() - told > 0.1:
            told = time.monotonic()
            with open(f"{PROGRESS}/{name}", "w") as file:
                file.write(str(len(acknowledged)))
        time.sleep(0.002)
    for tries in range(20):
        try:
            found = iter([int(value) for value in client.lrange(key, 0, -1)])
            break
        except redis.RedisError:
            if tries == 19:
                raise
            time.sleep(0.1)
    if not acknowledged:
        raise AssertionError(f"nothing was acknowledged ({'; '.join(errors)})")
    missing = [n for n in acknowledged if n not in found]     # `in` goes on behind what it found last: so order counts
    if missing:
        raise AssertionError(f"{len(missing)} of {len(acknowledged)} acknowledged are not there, or out of order: {missing[:5]}")
    return (f"{len(acknowledged)} acknowledged, the longest time between two {gap * 1000:.0f} ms, {sum(errors.values())} errors"
            + "".join(f"; {count} {text}" for text, count in errors.items()))


def report(name):
    try:
        print(f"ok {name} ({run(name)})", flush=True)
    except Exception as error:
        failed.append(name)
        print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)


chosen = [name for name in WAYS if re.search(os.environ.get("ONLY", ""), name)]
for path in [f"{PROGRESS}/{name}" for name in chosen] + [os.environ["BEGUN"] + ".python"]:
    with open(path, "w") as file:
        file.write("0")
threads = [threading.Thread(target=report, args=(name,)) for name in chosen]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(1 if failed else 0)

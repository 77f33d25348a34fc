// Contract: realistic use of Redis through the client libraries people run, on the server that HOST and PORT name. One
// line for each check: "ok LIBRARY/check" or "FAILED LIBRARY/check: why". Every check must pass on raw Redis (clients.sh
// runs that first); the target behind it must then give the same. Checks assert values, never times; each has a limit.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { randomBytes } from "node:crypto";

const require = createRequire(process.env.CLIENTS_DIR + "/");
const host = process.env.HOST ?? "127.0.0.1";
const port = Number(process.env.PORT);
const only = new RegExp(process.env.ONLY ?? "");
const checkMillisecondsMax = 60_000;
const bigBytes = 64 * 1024 * 1024;

let passed = 0;
const failures = [];
const checks = [];
const check = (name, body) => checks.push([name, body]);
const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function until(condition, what) {
  for (let i = 0; i < 1000; i++) {
    if (await condition()) return;
    await sleep(10);
  }
  throw new Error("did not come true: " + what);
}

// --- ioredis ---------------------------------------------------------------------------------------------------------
const Redis = require("ioredis");
const opened = [];

function io(options = {}) {
  const client = new Redis({ host, port, maxRetriesPerRequest: 1, ...options });
  client.on("error", () => {});
  opened.push(() => client.disconnect());
  return client;
}

check("ioredis/strings-and-types", async () => {
  const c = io();
  assert.equal(await c.set("k", "v"), "OK");
  assert.equal(await c.get("k"), "v");
  assert.equal(await c.hset("h", { a: 1, b: "x" }), 2);
  assert.deepEqual(await c.hgetall("h"), { a: "1", b: "x" });
  assert.deepEqual(await c.getBuffer("none"), null);
  await assert.rejects(c.incr("k"), /not an integer/);
});

check("ioredis/pipeline", async () => {
  const c = io();
  const p = c.pipeline();
  for (let i = 0; i < 10_000; i++) p.set("p" + (i % 100), i).get("p" + (i % 100));
  const replies = await p.exec();
  assert.equal(replies.length, 20_000);
  for (let i = 0; i < 10_000; i++) assert.equal(replies[2 * i + 1][1], String(i));
});

check("ioredis/auto-pipelining", async () => {
  const c = io({ enableAutoPipelining: true });
  const all = await Promise.all(Array.from({ length: 5_000 }, (_, i) => c.incrby("auto", 1).then(() => c.hset("ah", i % 50, i))));
  assert.equal(all.length, 5_000);
  assert.equal(await c.get("auto"), "5000");
});

check("ioredis/multi-and-watch", async () => {
  const a = io(), b = io();
  assert.deepEqual(await a.multi().set("m", 1).incr("m").exec(), [[null, "OK"], [null, 2]]);
  await a.watch("m");
  await b.set("m", 10);
  assert.equal(await a.multi().incr("m").exec(), null);
  await a.watch("m");
  assert.deepEqual(await a.multi().incr("m").exec(), [[null, 11]]);
  await assert.rejects(a.multi().call("nosuch").exec(), /EXECABORT|unknown command/);
  await a.multi({ pipeline: false });
  assert.equal(await a.get("m"), "QUEUED");
  assert.deepEqual(await a.exec(), [[null, "11"]]);
});

check("ioredis/pubsub", async () => {
  const sub = io(), shard = io(), pub = io();
  const seen = [];
  sub.on("message", (channel, message) => seen.push(channel + ":" + message));
  sub.on("pmessage", (pattern, channel, message) => seen.push(pattern + ":" + channel + ":" + message));
  shard.on("smessage", (channel, message) => seen.push("s:" + channel + ":" + message));
  assert.equal(await sub.subscribe("a", "b"), 2);
  assert.equal(await sub.psubscribe("x*"), 3);
  await shard.ssubscribe("shard");
  for (let i = 0; i < 100; i++) assert.equal(await pub.publish("a", i), 1);
  assert.equal(await pub.publish("xyz", "p"), 1);
  assert.equal(await pub.spublish("shard", "s"), 1);
  await until(() => seen.length === 102, "102 messages, seen " + seen.length);
  assert.deepEqual(seen.slice(0, 3), ["a:0", "a:1", "a:2"]);
  assert.deepEqual(seen.slice(100), ["x*:xyz:p", "s:shard:s"]);
  await sub.unsubscribe("a", "b");
  await sub.punsubscribe("x*");
  await shard.sunsubscribe("shard");
  assert.equal(await sub.set("after", "1"), "OK");
  assert.equal(await shard.get("after"), "1");
});

check("ioredis/blocking", async () => {
  const waiting = io(), other = io();
  const popped = waiting.blpop("list", 0);
  await sleep(20);
  await other.rpush("list", "x");
  assert.deepEqual(await popped, ["list", "x"]);
  assert.equal(await waiting.blpop("list", 0.01), null);
  const ends = waiting.bzpopmin("zset", 0);
  await other.zadd("zset", 1, "m");
  assert.deepEqual(await ends, ["zset", "m", "1"]);
  const many = Array.from({ length: 50 }, (_, i) => io().blpop("q" + i, 0));
  await sleep(50);
  await Promise.all(many.map((_, i) => other.rpush("q" + i, i)));
  assert.deepEqual((await Promise.all(many)).map((reply) => reply[1]), Array.from({ length: 50 }, (_, i) => String(i)));
});

check("ioredis/scripts", async () => {
  const c = io();
  c.defineCommand("addAndGet", { numberOfKeys: 1, lua: "redis.call('INCRBY', KEYS[1], ARGV[1]); return redis.call('GET', KEYS[1])" });
  assert.equal(await c.addAndGet("s", 5), "5");
  assert.equal(await c.addAndGet("s", 5), "10");
  await c.script("FLUSH");
  assert.equal(await c.addAndGet("s", 5), "15"); // NOSCRIPT, then EVAL
  const p = c.pipeline();
  for (let i = 0; i < 100; i++) p.addAndGet("s", 1);
  assert.equal((await p.exec())[99][1], "115");
  assert.equal(await c.call("FUNCTION", "LOAD", "REPLACE", "#!lua name=l\nredis.register_function('f', function(k, a) return a[1] end)"), "l");
  assert.equal(await c.call("FCALL", "f", 0, "hello"), "hello");
});

check("ioredis/streams-with-groups", async () => {
  const producer = io(), consumers = [io(), io(), io()];
  await producer.xgroup("CREATE", "st", "g", "$", "MKSTREAM");
  const total = 300, seen = new Set();
  const work = consumers.map(async (c, n) => {
    while (seen.size < total) {
      const reply = await c.xreadgroup("GROUP", "g", "c" + n, "COUNT", 7, "BLOCK", 200, "STREAMS", "st", ">");
      for (const [id, fields] of reply?.[0]?.[1] ?? []) {
        assert.equal(seen.has(fields[1]), false, "twice: " + fields[1]);
        seen.add(fields[1]);
        assert.equal(await c.xack("st", "g", id), 1);
      }
    }
  });
  for (let i = 0; i < total; i++) await producer.xadd("st", "*", "n", i);
  await Promise.all(work);
  assert.equal((await producer.xpending("st", "g"))[0], 0);
});

check("ioredis/databases", async () => {
  const zero = io(), three = io({ db: 3 });
  await zero.set("d", "0");
  await three.set("d", "3");
  assert.equal(await zero.get("d"), "0");
  assert.equal(await three.get("d"), "3");
  await zero.select(3);
  assert.equal(await zero.get("d"), "3");
});

check("ioredis/acl-users", async () => {
  const admin = io();
  await admin.call("ACL", "SETUSER", "carol", "on", ">pw", "~c:*", "+@all", "-flushall");
  const carol = io({ username: "carol", password: "pw" });
  assert.equal(await carol.call("ACL", "WHOAMI"), "carol");
  assert.equal(await carol.set("c:1", "x"), "OK");
  await assert.rejects(carol.set("d:1", "x"), /NOPERM/);
  await assert.rejects(carol.flushall(), /NOPERM/);
  const wrong = io({ username: "carol", password: "no", retryStrategy: null });
  await assert.rejects(wrong.get("c:1"));
  await admin.call("ACL", "DELUSER", "carol");
});

check("ioredis/big-values", async () => {
  const c = io(), other = io();
  const value = randomBytes(bigBytes);
  const written = c.set("big", value);
  for (let i = 0; i < 20; i++) await other.incr("meanwhile");
  assert.equal(await written, "OK");
  const back = await c.getBuffer("big");
  assert.ok(value.equals(back));
  assert.equal(await c.strlen("big"), bigBytes);
  await c.del("big");
});

check("ioredis/scan-streams", async () => {
  const c = io();
  await c.flushall();
  const p = c.pipeline();
  for (let i = 0; i < 3_000; i++) p.set("scan:" + i, i).sadd("sset", i);
  await p.exec();
  const keys = new Set();
  for await (const batch of c.scanStream({ match: "scan:*", count: 100 })) batch.forEach((k) => keys.add(k));
  assert.equal(keys.size, 3_000);
  const members = new Set();
  for await (const batch of c.sscanStream("sset", { count: 100 })) batch.forEach((k) => members.add(k));
  assert.equal(members.size, 3_000);
});

check("ioredis/monitor", async () => {
  const c = io();
  const monitor = await c.monitor();
  opened.push(() => monitor.disconnect());
  const seen = [];
  monitor.on("monitor", (time, args) => seen.push(args.join(" ")));
  for (let i = 0; i < 10; i++) await c.set("mon", i);
  await until(() => seen.filter((line) => line.startsWith("set mon")).length === 10, "10 lines of MONITOR");
  assert.deepEqual(seen.filter((line) => !line.startsWith("set mon") && !/^(info|client|select|hello)\b/i.test(line)), []);
});

check("ioredis/many-connections", async () => {
  const clients = Array.from({ length: 200 }, (_, i) => io({ connectionName: "crowd" + i, db: i % 8 }));
  await Promise.all(clients.map((c, i) => c.set("crowd" + i, i)));
  const got = await Promise.all(clients.map((c, i) => c.get("crowd" + i)));
  assert.deepEqual(got, clients.map((_, i) => String(i)));
  const names = await Promise.all(clients.map((c) => c.client("GETNAME")));
  assert.deepEqual(names, clients.map((_, i) => "crowd" + i));
});

// --- node-redis, 5 (RESP2 and RESP3) and 4 ---------------------------------------------------------------------------
for (const [library, module, respVersions] of [["node-redis-5", "redis", [2, 3]], ["node-redis-4", "redis4", [2]]]) {
  const nodeRedis = require(module);
  for (const RESP of respVersions) {
    const label = `${library}-resp${RESP}`;
    const make = async (options = {}) => {
      const client = nodeRedis.createClient({ socket: { host, port, reconnectStrategy: false }, ...(respVersions.length > 1 ? { RESP, unstableResp3: true } : {}), ...options });
      client.on("error", () => {});
      await client.connect();
      opened.push(() => (client.destroy ?? client.disconnect).call(client));
      return client;
    };

    check(`${label}/types`, async () => {
      const c = await make({ name: "named" });
      assert.equal(await c.set("k", "v"), "OK");
      assert.equal(await c.get("k"), "v");
      assert.equal(await c.get("none"), null);
      await c.hSet("h", { a: "1", b: "2" });
      assert.deepEqual({ ...(await c.hGetAll("h")) }, { a: "1", b: "2" });
      await c.zAdd("z", [{ score: 1.5, value: "m" }]);
      assert.equal(await c.zScore("z", "m"), 1.5);
      assert.deepEqual(await c.zRangeWithScores("z", 0, -1), [{ value: "m", score: 1.5 }]);
      assert.equal(await c.clientGetName(), "named");
      assert.equal((await c.configGet("databases")).databases, "16");
    });

    check(`${label}/pipelining`, async () => {
      const c = await make();
      const replies = await Promise.all(Array.from({ length: 20_000 }, (_, i) => c.incr("n" + (i % 10))));
      assert.equal(Math.max(...replies), 2_000);
    });

    check(`${label}/multi-and-watch`, async () => {
      const a = await make(), b = await make();
      assert.deepEqual(await a.multi().set("m", "1").incr("m").exec(), ["OK", 2]);
      await a.watch("m");
      await b.set("m", "5");
      await assert.rejects(a.multi().incr("m").exec(), /watch/i);
      assert.deepEqual(await a.multi().incr("m").get("m").exec(), [6, "6"]);
    });

    check(`${label}/pubsub`, async () => {
      const sub = await make(), shard = await make(), pub = await make();
      const seen = [];
      await sub.subscribe("a", (message, channel) => seen.push(channel + ":" + message));
      await sub.pSubscribe("x*", (message, channel) => seen.push("p:" + channel + ":" + message));
      await shard.sSubscribe("shard", (message, channel) => seen.push("s:" + channel + ":" + message));
      for (let i = 0; i < 50; i++) assert.equal(await pub.publish("a", String(i)), 1);
      await pub.publish("xx", "1");
      await pub.sPublish("shard", "2");
      await until(() => seen.length === 52, "52 messages");
      assert.deepEqual(seen.slice(50), ["p:xx:1", "s:shard:2"]);
      if (RESP === 3) assert.equal(await sub.set("while-subscribed", "1"), "OK");
      await sub.unsubscribe("a");
      await sub.pUnsubscribe("x*");
      await shard.sUnsubscribe("shard");
      assert.equal(await shard.get("none"), null);
      // A Buffer in some versions of the library after a subscription in RESP2.
      assert.equal(String(await sub.set("after", "1")), "OK");
    });

    check(`${label}/blocking-and-streams`, async () => {
      const waiting = await make(), other = await make();
      const popped = waiting.blPop("list", 0);
      await sleep(20);
      await other.rPush("list", "x");
      assert.deepEqual({ ...(await popped) }, { key: "list", element: "x" });
      await other.xGroupCreate("st", "g", "$", { MKSTREAM: true });
      const read = waiting.xReadGroup("g", "c", [{ key: "st", id: ">" }], { BLOCK: 5_000, COUNT: 1 });
      await sleep(20);
      const id = await other.xAdd("st", "*", { f: "v" });
      const reply = JSON.stringify(await read);
      assert.ok(reply.includes(id) && reply.includes('"f"'), reply);
      assert.equal(await other.xAck("st", "g", id), 1);
    });

    check(`${label}/scripts`, async () => {
      const c = await make({
        scripts: { add: nodeRedis.defineScript({
          NUMBER_OF_KEYS: 1, SCRIPT: "return redis.call('INCRBY', KEYS[1], ARGV[1])", FIRST_KEY_INDEX: 1,
          parseCommand(parser, key, n) { parser.pushKey(key); parser.push(String(n)); },
          transformArguments: (key, n) => [key, String(n)], transformReply: (reply) => reply }) },
      });
      await c.sendCommand(["SCRIPT", "FLUSH"]);
      assert.equal(await c.add("s", 4), 4);
      assert.equal(await c.add("s", 4), 8);
      assert.equal(await c.eval("return ARGV[1]", { arguments: ["x"] }), "x");
    });

    check(`${label}/databases-and-users`, async () => {
      const three = await make({ database: 3 }), zero = await make();
      await three.set("d", "3");
      assert.equal(await zero.get("d"), null);
      await zero.sendCommand(["ACL", "SETUSER", "dave", "on", ">pw", "~d:*", "+@all"]);
      const dave = await make({ username: "dave", password: "pw" });
      assert.equal(await dave.sendCommand(["ACL", "WHOAMI"]), "dave");
      await assert.rejects(dave.get("x"), /NOPERM/);
      await assert.rejects(make({ username: "dave", password: "no" }), /WRONGPASS/);
    });

    check(`${label}/big-values-and-scan`, async () => {
      const c = await make();
      const value = "0123456789abcdef".repeat(bigBytes / 16);
      assert.equal(await c.set("big", value), "OK");
      assert.equal((await c.get("big")) === value, true);
      await c.flushAll();
      await Promise.all(Array.from({ length: 2_000 }, (_, i) => c.set("scan:" + i, "x")));
      const keys = new Set();
      for await (const some of c.scanIterator({ MATCH: "scan:*", COUNT: 100 })) for (const key of [some].flat()) keys.add(key);
      assert.equal(keys.size, 2_000);
    });

    if (RESP === 3) {
      check(`${label}/client-side-cache`, async () => {
        const c = await make({ clientSideCache: { ttl: 0, maxEntries: 100, evictPolicy: "LRU" } }), other = await make();
        await other.set("cached", "1");
        assert.equal(await c.get("cached"), "1");
        assert.equal(await c.get("cached"), "1");
        for (let i = 2; i < 20; i++) {
          await other.set("cached", String(i));
          await until(async () => (await c.get("cached")) === String(i), "invalidation " + i);
        }
      });
    }

    if (nodeRedis.createClientPool) {
      check(`${label}/pool`, async () => {
        const pool = nodeRedis.createClientPool({ socket: { host, port }, RESP }, { minimum: 1, maximum: 20 });
        pool.on("error", () => {});
        await pool.connect();
        const replies = await Promise.all(Array.from({ length: 500 }, (_, i) => pool.set("pool" + i, "x")));
        assert.equal(replies.every((reply) => reply === "OK"), true);
        const popped = pool.blPop("pool-list", 0);
        await pool.rPush("pool-list", "x");
        assert.equal((await popped).element, "x");
        await pool.close();
      });
    }
  }
}

// --- node-redis 3 (callbacks, redis-parser, INFO at the start, no HELLO) ------------------------------------------------
check("node-redis-3/everything", async () => {
  const old = require("redis3");
  const make = (options = {}) => {
    const client = old.createClient({ host, port, ...options });
    client.on("error", () => {});
    opened.push(() => client.end(false));
    return client;
  };
  const promise = (c, name, ...args) => new Promise((done, fail) => c[name](...args, (error, reply) => (error ? fail(error) : done(reply))));
  const c = make(), sub = make(), db2 = make({ db: 2 });
  assert.equal(await promise(c, "set", "k", "v"), "OK");
  assert.equal(await promise(c, "get", "k"), "v");
  assert.equal(await promise(db2, "get", "k"), null);
  assert.deepEqual(await promise(c.multi().incr("n").incr("n"), "exec"), [1, 2]);
  assert.deepEqual(await promise(c.batch().get("k").incr("k"), "exec").then((r) => r.map((x) => (x instanceof Error ? x.code : x))), ["v", "ERR"]);
  const seen = [];
  sub.on("message", (channel, message) => seen.push(message));
  await promise(sub, "subscribe", "ch");
  for (let i = 0; i < 10; i++) assert.equal(await promise(c, "publish", "ch", String(i)), 1);
  await until(() => seen.length === 10, "10 messages");
  await promise(sub, "unsubscribe", "ch");
  assert.equal(await promise(sub, "get", "k"), "v");
  assert.ok((await promise(c, "info")).includes("redis_version"));
  assert.equal(await promise(c, "eval", "return KEYS[1]", 1, "x"), "x");
  assert.equal(await promise(make(), "quit"), "OK");
  const many = await Promise.all(Array.from({ length: 10_000 }, (_, i) => promise(c, "incr", "many")));
  assert.equal(many.at(-1), 10_000);
});

// --- job queues: Lua, blocking pops, streams, transactions, all at once -----------------------------------------------
check("bullmq/queue", async () => {
  const { Queue, Worker, QueueEvents, FlowProducer } = require("bullmq");
  const connection = { host, port, maxRetriesPerRequest: null };
  const queue = new Queue("work", { connection });
  const events = new QueueEvents("work", { connection });
  await events.waitUntilReady();
  const done = new Map();
  const failed = new Map();
  events.on("completed", ({ jobId }) => done.set(jobId, (done.get(jobId) ?? 0) + 1));
  events.on("failed", ({ jobId }) => failed.set(jobId, (failed.get(jobId) ?? 0) + 1));
  const tried = new Map();
  const body = async (job) => {
    tried.set(job.id, (tried.get(job.id) ?? 0) + 1);
    if (job.data.fails === "always" || (job.data.fails === "once" && tried.get(job.id) === 1)) throw new Error("as told");
    return job.data.n * 2;
  };
  const workers = [1, 2, 3].map(() => new Worker("work", body, { connection, concurrency: 10 }));
  workers.forEach((w) => w.on("error", () => {}));
  await queue.addBulk(Array.from({ length: 300 }, (_, n) => ({ name: "job", data: { n } })));
  for (let n = 0; n < 20; n++) await queue.add("delayed", { n }, { delay: 20 + n * 5 });
  for (let n = 0; n < 10; n++) await queue.add("flaky", { n, fails: "once" }, { attempts: 3, backoff: 10 });
  for (let n = 0; n < 5; n++) await queue.add("bad", { n, fails: "always" }, { attempts: 2 });
  for (let n = 0; n < 10; n++) await queue.add("urgent", { n }, { priority: 1 + (n % 3) });
  await until(() => done.size === 340 && failed.size === 5, `340 done (${done.size}), 5 failed (${failed.size})`);
  assert.deepEqual([...done.values()].filter((times) => times !== 1), []);
  const counts = await queue.getJobCounts("completed", "failed", "waiting", "active", "delayed");
  assert.deepEqual({ completed: counts.completed, failed: counts.failed, waiting: counts.waiting, active: counts.active, delayed: counts.delayed }, { completed: 340, failed: 5, waiting: 0, active: 0, delayed: 0 });
  const flow = new FlowProducer({ connection });
  const tree = await flow.add({ name: "parent", queueName: "work", data: { n: 1 }, children: [1, 2, 3].map((n) => ({ name: "child", queueName: "work", data: { n } })) });
  await until(() => done.has(tree.job.id), "the parent is done after its children");
  assert.equal(Object.keys(await tree.job.getChildrenValues()).length, 3);
  await Promise.all([...workers.map((w) => w.close()), events.close(), flow.close()]);
  await queue.obliterate({ force: true });
  await queue.close();
});

check("bull/queue", async () => {
  const Bull = require("bull");
  const queue = new Bull("old", { redis: { host, port } });
  const results = [];
  queue.process(10, async (job) => job.data.n + 1);
  queue.on("completed", (job, result) => results.push(result));
  await queue.addBulk(Array.from({ length: 200 }, (_, n) => ({ data: { n } })));
  await queue.add({ n: 999 }, { delay: 50 });
  await until(() => results.length === 201, `201 jobs (${results.length})`);
  assert.equal(new Set(results).size, 201);
  await queue.close();
});

// --- run -----------------------------------------------------------------------------------------------------------------
const clean = new Redis({ host, port });
process.on("uncaughtException", (error) => {
  if (error.message === "The client is closed") return; // node-redis's pool cleans up once more after its end
  console.log(`FAILED outside of a check: ${error.stack}`);
  failures.push("outside");
});
process.on("unhandledRejection", () => {}); // a connection that ends while a check is over; the checks tell
for (const [name, body] of checks.filter(([name]) => only.test(name))) {
  await clean.flushall();
  const started = Date.now();
  let timer;
  try {
    await Promise.race([body(), new Promise((_, fail) => { timer = setTimeout(() => fail(new Error("time limit")), checkMillisecondsMax); })]);
    passed++;
    console.log(`ok ${name} (${Date.now() - started} ms)`);
  } catch (error) {
    failures.push(name);
    console.log(`FAILED ${name}: ${String(error?.stack ?? error).split("\n").slice(0, 6).join(" | ")}`);
  } finally {
    clearTimeout(timer);
    for (const close of opened.splice(0)) try { close(); } catch { /* was closed by its check */ }
  }
}
await clean.quit();
console.log(`${passed} passed, ${failures.length} failed`);
process.exit(failures.length === 0 && passed > 0 ? 0 : 1);

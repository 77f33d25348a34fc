// Contract: clients of a cohort through takeovers, each found its leader in the way its library knows. Each writes to a list of
// its own until the file STOP is there, one request at a time, and never makes a new client. Whatever comes of a request it
// goes on with the next number. At the end the list must hold everything that was acknowledged, in order.
// Writes how many were acknowledged into PROGRESS/NAME; BEGUN.node once all of these are there. One line for each at the end: "ok NAME" or "FAILED NAME: why".
import { createRequire } from "node:module";
import { existsSync, writeFileSync } from "node:fs";

const require = createRequire(process.env.CLIENTS_DIR + "/");
const nodes = process.env.NODES.split(",").map((text) => ({ host: text.split(":")[0], port: Number(text.split(":")[1]) }));
const { MASTER: master, STOP: stop, PROGRESS: progress } = process.env;
const balancer = Number(process.env.BALANCER);
const Redis = require("ioredis");
const redis = require("redis6");
const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const requestMillisecondsMax = 5_000;

// What makes a client; how it is asked. Requests that got no answer are not sent again: the list would have them twice.
const ways = {
  "ioredis-sentinel": () => fromIo(new Redis({ sentinels: nodes, name: master, sentinelRetryStrategy: () => 50,
    retryStrategy: () => 20, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false })),
  "ioredis-cluster": () => fromIo(new Redis.Cluster(nodes, { retryDelayOnClusterDown: 50, retryDelayOnFailover: 50,
    clusterRetryStrategy: () => 50, redisOptions: { autoResendUnfulfilledCommands: false } })),
  "ioredis-balancer": () => fromIo(new Redis({ host: "127.0.0.1", port: balancer, retryStrategy: () => 20, maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false })),
  "node-redis-sentinel": () => fromNodeRedis(redis.createSentinel({ name: master, sentinelRootNodes: nodes, maxCommandRediscovers: 64,
    scanInterval: 200 })),
  "node-redis-cluster": () => fromNodeRedis(redis.createCluster({
    rootNodes: nodes.map(({ host, port }) => ({ socket: { host, port } })), maxCommandRedirections: 64,
    defaults: { socket: { reconnectStrategy: 50 } } })),
  "node-redis-balancer": () => fromNodeRedis(redis.createClient({ socket: { host: "127.0.0.1", port: balancer, reconnectStrategy: 20 },
    disableOfflineQueue: true })),
};

function fromIo(client) {
  client.on("error", () => {});
  return { push: (key, value) => client.rpush(key, value), all: (key) => client.lrange(key, 0, -1), end: () => client.disconnect() };
}

async function fromNodeRedis(client) {
  client.on("error", () => {});
  await client.connect();
  return { push: (key, value) => client.rPush(key, value), all: (key) => client.lRange(key, 0, -1), end: () => client.destroy() };
}

function within(promise) {
  let timer;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error("no answer")), requestMillisecondsMax); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function run(name) {
  const client = await ways[name]();
  const key = `list:${name}`, acknowledged = [], errors = new Map();
  let last = performance.now(), gap = 0, told = 0;
  for (let n = 1; !existsSync(stop); n++) {
    try {
      await within(client.push(key, String(n)));
      acknowledged.push(n);
      gap = Math.max(gap, performance.now() - last);
      last = performance.now();
    } catch (error) {
      const text = String(error?.message ?? error).split("\n")[0].slice(0, 60);
      errors.set(text, (errors.get(text) ?? 0) + 1);
      await sleep(5);
    }
    if (performance.now() - told > 100) {
      told = performance.now();
      writeFileSync(`${progress}/${name}`, String(acknowledged.length));
    }
    await sleep(2);
  }
  writeFileSync(`${progress}/${name}`, String(acknowledged.length));
  let list;
  for (let tries = 0; ; tries++) {
    try { list = (await within(client.all(key))).map(Number); break; } catch (error) { if (tries === 20) throw error; await sleep(100); }
  }
  client.end();
  const missing = acknowledged.filter(((at) => (n) => { at = list.indexOf(n, at); if (at >= 0) { at++; return false; } at = 0; return true; })(0));
  if (acknowledged.length === 0) throw new Error(`nothing was acknowledged (${[...errors.keys()].join("; ")})`);
  if (missing.length > 0) throw new Error(`${missing.length} of ${acknowledged.length} acknowledged are not there, or out of order: ${missing.slice(0, 5)}`);
  return `${acknowledged.length} acknowledged, the longest time between two ${gap.toFixed(0)} ms, ${[...errors.values()].reduce((a, b) => a + b, 0)} errors`
    + [...errors].map(([text, count]) => `; ${count} ${text}`).join("");
}

process.on("uncaughtException", (error) => { console.log(`FAILED outside of a client: ${error.stack}`); process.exitCode = 1; });
process.on("unhandledRejection", () => {}); // a request that nobody waits for any more
const only = new RegExp(process.env.ONLY ?? "");
const chosen = Object.keys(ways).filter((name) => only.test(name));
for (const name of chosen) writeFileSync(`${progress}/${name}`, "0");
writeFileSync(`${process.env.BEGUN}.node`, "");
await Promise.all(chosen.map(async (name) => {
  try {
    console.log(`ok ${name} (${await run(name)})`);
  } catch (error) {
    console.log(`FAILED ${name}: ${String(error?.message ?? error)}`);
    process.exitCode = 1;
  }
}));
process.exit();

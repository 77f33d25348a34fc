// The echo service of test/Slogger.Grpc.Tests on a stock implementation, either side of it. Run by those tests:
//   peer.mjs server PROTO [CERTIFICATES]         says "port N", serves until its input ends
//   peer.mjs client PROTO PORT [CERTIFICATES]    says "ok NAME" or "FAILED NAME: why" for each check, and ends with status 1 if one failed
// CERTIFICATES is a folder with ca.pem, server.pem, server.key, client.pem, client.key. SECRET in the environment goes with each call.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import grpc from '@grpc/grpc-js'
import loader from '@grpc/proto-loader'

const [role, proto, ...rest] = process.argv.slice(2)
const { Echo } = grpc.loadPackageDefinition(loader.loadSync(proto, { keepCase: true, longs: Number, defaults: true })).slogger.test.v1
const file = (folder, name) => fs.readFileSync(path.join(folder, name))
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))

if (role === 'server') serve(rest[0])
else await check(Number(rest[0]), rest[1])

// ---- server ----
function asked(call) {
  const head = new grpc.Metadata(), tail = new grpc.Metadata()
  for (const key of Object.keys(call.metadata.getMap())) {
    const to = key.startsWith('head-') ? head : key.startsWith('tail-') ? tail : null
    if (to) for (const value of call.metadata.get(key)) to.add(key, value)
  }
  call.sendMetadata(head)
  return tail
}

function serve(certificates) {
  const server = new grpc.Server()
  let cancelled = 0
  server.addService(Echo.service, {
    Unary(call, reply) {
      const tail = asked(call), { fail_with, text, wait } = call.request
      if (wait) return
      if (fail_with) reply({ code: fail_with, details: text, metadata: tail })
      else reply(null, text === 'cancelled?' ? { number: cancelled } : call.request, tail)
    },
    Chat(call) {
      const tail = asked(call)
      call.on('cancelled', () => cancelled++)
      call.on('data', message => {
        if (message.fail_with) call.emit('error', { code: message.fail_with, details: message.text, metadata: tail })
        else if (message.replies) for (let number = 0; number < message.replies; number++) call.write({ number, payload: message.payload })
        else call.write(message)
      })
      call.on('end', () => call.end(tail))
      call.on('error', () => { })
    },
  })
  const credentials = certificates
    ? grpc.ServerCredentials.createSsl(file(certificates, 'ca.pem'), [{ cert_chain: file(certificates, 'server.pem'), private_key: file(certificates, 'server.key') }], true)
    : grpc.ServerCredentials.createInsecure()
  server.bindAsync('127.0.0.1:0', credentials, (error, port) => {
    if (error) throw error
    console.log(`port ${port}`)
  })
}

// ---- client ----
async function check(port, certificates) {
  const credentials = certificates
    ? grpc.credentials.createSsl(file(certificates, 'ca.pem'), file(certificates, 'client.key'), file(certificates, 'client.pem'))
    : grpc.credentials.createInsecure()
  // Not by its address: that is no name for TLS.
  const open = options => new Echo(`127.0.0.1:${port}`, credentials, { ...options, ...certificates && { 'grpc.ssl_target_name_override': 'localhost' } })
  const secret = process.env.SECRET
  const metadata = entries => {
    const made = new grpc.Metadata()
    if (secret) made.set('authorization', `Bearer ${secret}`)
    for (const [key, value] of Object.entries(entries ?? {})) made.add(key, value)
    return made
  }
  const client = open(), gzip = open({ 'grpc.default_compression_algorithm': 2 })
  const unary = (request, { on = client, entries, deadline } = {}) => new Promise(resolve => {
    const seen = {}
    const call = on.Unary(request, metadata(entries), deadline ? { deadline: Date.now() + deadline } : {}, (error, reply) => { seen.error = error; seen.reply = reply })
    call.on('metadata', m => { seen.head = m })
    call.on('status', s => { seen.status = s; setImmediate(() => resolve(seen)) })
  })
  // Writes all requests (null: the end), gathers replies and how it ended; step sees each reply.
  const chat = (requests, { on = client, entries, step } = {}) => new Promise(resolve => {
    const seen = { replies: [] }
    const call = on.Chat(metadata(entries))
    call.on('metadata', m => { seen.head = m })
    call.on('data', reply => { seen.replies.push(reply); step?.(call, seen.replies) })
    call.on('error', error => { seen.error = error })
    call.on('status', s => { seen.status = s; setImmediate(() => resolve(seen)) })
    for (const request of requests) request === null ? call.end() : call.write(request)
  })
  const checks = {
    async unary_echo() {
      for (let number = 0; number < 50; number++) {
        const { reply, status } = await unary({ number, text: 'grüße' })
        assert.deepEqual([reply.number, reply.text, status.code], [number, 'grüße', 0])
      }
    },
    async unary_every_status() {
      for (let code = 1; code <= 16; code++) {
        const { error } = await unary({ fail_with: code, text: `100% größer\n${code}` })
        assert.deepEqual([error.code, error.details, error.metadata.get('failed')], [code, `100% größer\n${code}`, ['yes']])
      }
    },
    async unknown_method() {
      const error = await new Promise(resolve => client.makeUnaryRequest('/slogger.test.v1.Echo/Nowhere', x => x, x => x, Buffer.alloc(0), metadata(), resolve))
      assert.equal(error.code, grpc.status.UNIMPLEMENTED)
    },
    async large_messages() {
      for (const length of [0, 1, 16_384, 65_536, 1_000_000, 4_000_000]) {
        const { reply } = await unary({ payload: Buffer.alloc(length, 7) })
        assert.equal(reply.payload.length, length)
      }
    },
    async too_large_a_message() {
      const { error } = await unary({ payload: Buffer.alloc(5_000_000) })
      assert.equal(error.code, grpc.status.RESOURCE_EXHAUSTED)
    },
    async metadata_both_ways() {
      const bytes = Buffer.from([0, 1, 254, 255])
      const { head, status } = await chat([{ number: 1 }, null], { entries: { 'head-text': 'a, b', 'tail-text': 'late', 'head-raw-bin': bytes, 'tail-raw-bin': bytes } })
      assert.deepEqual([head.get('head-text'), status.metadata.get('tail-text')], [['a, b'], ['late']])
      assert.ok(head.get('head-raw-bin')[0].equals(bytes) && status.metadata.get('tail-raw-bin')[0].equals(bytes))
    },
    async chat_in_order() {
      const requests = Array.from({ length: 2000 }, (_, number) => ({ number, payload: Buffer.alloc(number % 700) }))
      const { replies, status } = await chat([...requests, null])
      assert.deepEqual([replies.map(r => r.number), status.code], [requests.map(r => r.number), 0])
    },
    async chat_ping_pong() {
      const { replies } = await chat([{ number: 0 }], { step: (call, all) => all.length < 200 ? call.write({ number: all.length }) : call.end() })
      assert.deepEqual(replies.map(r => r.number), Array.from({ length: 200 }, (_, n) => n))
    },
    async chat_many_replies_after_half_close() {
      const { replies } = await chat([{ replies: 5000, payload: Buffer.alloc(300) }, null])
      assert.equal(replies.length, 5000)
    },
    async chat_nothing_asked() {
      const { replies, status } = await chat([null])
      assert.deepEqual([replies, status.code], [[], 0])
    },
    async chat_fails_in_the_middle() {
      const { replies, error } = await chat([{ number: 1 }, { fail_with: 9, text: 'not now' }])
      assert.deepEqual([replies.length, error.code, error.details], [1, 9, 'not now'])
    },
    async deadline() {
      const { error } = await unary({ wait: true }, { deadline: 200 })
      assert.equal(error.code, grpc.status.DEADLINE_EXCEEDED)
    },
    async cancellation() {
      // Node ends the requests before it resets the stream: only a handler that waits is sure to hear of it.
      const { error } = await chat([{ replies: 1, wait: true }], { step: call => call.cancel() })
      assert.equal(error.code, grpc.status.CANCELLED)
    },
    async gzip_requests() {
      const { reply } = await unary({ payload: Buffer.alloc(100_000, 3) }, { on: gzip })
      assert.ok(reply.payload.equals(Buffer.alloc(100_000, 3)))
    },
    async gzip_both_ways() {
      const { replies } = await chat([{ payload: Buffer.alloc(50_000, 3) }, { number: 5 }, null], { on: gzip, entries: { 'want-gzip': '1' } })
      assert.deepEqual([replies[0].payload.length, replies[1].number], [50_000, 5])
    },
  }
  let failed = 0
  for (const [name, run] of Object.entries(checks)) {
    let guard
    try {
      await Promise.race([run(), new Promise((_, reject) => { guard = setTimeout(() => reject(new Error('does not end')), 30_000) })])
      console.log(`ok ${name}`)
    } catch (error) {
      failed++
      console.log(`FAILED ${name}: ${error.message.replaceAll('\n', ' ')}`)
    } finally {
      clearTimeout(guard)
    }
  }
  process.exit(failed ? 1 : 0)
}

// What ordinary Node programs lean on, with an output that is the same wherever it runs.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execFileSync, fork, spawn, spawnSync } = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const os = require('os');
const path = require('path');
const zlib = require('zlib');

if (!isMainThread) {
  parentPort.postMessage(workerData * workerData);
} else if (process.argv[2] === 'child') {
  process.on('message', (n) => process.send(n + 1, () => process.disconnect()));
} else {
  main().catch((e) => {
    console.error(e);
    process.exit(1);
  });
}

function once(emitter, event) {
  return new Promise((ok, bad) => emitter.once(event, ok).once('error', bad));
}

async function main() {
  const squares = await Promise.all([1, 2, 3, 4].map((n) => once(new Worker(__filename, { workerData: n }), 'message')));
  console.log('workers', squares);

  const child = fork(__filename, ['child']);
  child.send(41);
  console.log('fork', await once(child, 'message'), await once(child, 'exit'));

  const sort = spawn('sort', ['-n'], { stdio: ['pipe', 'pipe', 'inherit'] });
  sort.stdin.end('10\n9\n');
  let sorted = '';
  for await (const chunk of sort.stdout) sorted += chunk;
  console.log('spawn', JSON.stringify(sorted));
  console.log('exec', execFileSync(process.execPath, ['-p', '6*7']).toString().trim());
  console.log('killed', spawnSync('sleep', ['60'], { timeout: 200 }).signal);

  const server = http.createServer((q, r) => r.end('hello ' + q.url)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const response = await fetch(`http://127.0.0.1:${server.address().port}/loopback`);
  console.log('http', await response.text());
  server.close();
  server.closeAllConnections();

  fs.mkdirSync('a/b', { recursive: true });
  fs.writeFileSync('a/one', 'one');
  fs.renameSync('a/one', 'a/b/two');
  fs.symlinkSync('b/two', 'a/link');
  console.log('files', fs.readFileSync('a/link', 'utf8'), fs.readdirSync('a'));
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'x-'));
  fs.rmSync(scratch, { recursive: true });

  console.log('crypto', crypto.createHash('sha256').update('gobox').digest('hex').slice(0, 16), crypto.randomBytes(4).length);
  console.log('zlib', zlib.gunzipSync(zlib.gzipSync('x'.repeat(1000))).length);
  console.log('wasm', await wasm());
  console.log('heap', Buffer.alloc(64 << 20, 1).length);
}

// (module (func (export "f") (result i32) i32.const 42)): needs a just-in-time compiler.
async function wasm() {
  const code = Uint8Array.from(
    '0061736d010000000105016000017f03020100070501016600000a06010400412a0b'.match(/../g), (h) => parseInt(h, 16));
  return (await WebAssembly.instantiate(code)).instance.exports.f();
}

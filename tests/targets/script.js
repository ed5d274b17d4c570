// SPDX-License-Identifier: Apache-2.0
//
// A Node.js program with native allocations: buffers outside of V8's heap, zlib streams, JSON, and
// enough turns to be compiled by the JIT. "count" answers with the rounds so far.
'use strict';
const zlib = require('zlib');
const crypto = require('crypto');
const readline = require('readline');

let rounds = 0;
const kept = [];

function churn() {
  for (let i = 0; i < 20; i++) {
    kept.push(Buffer.allocUnsafeSlow(4096 + i * 100).fill(i));
    if (kept.length > 200)
      kept.shift();
  }
  const text = JSON.stringify(kept.slice(0, 5).map((b) => b.length));
  if (JSON.parse(text).length !== Math.min(5, kept.length))
    throw new Error('JSON differs');
}

function turn() {
  churn();
  const data = Buffer.from('some text to compress '.repeat(500));
  zlib.deflate(data, (error, packed) => {
    if (error)
      throw error;
    if (!zlib.inflateSync(packed).equals(data))
      throw new Error('zlib differs');
    crypto.createHash('sha256').update(packed).digest('hex');
    rounds++;
    setImmediate(turn);
  });
}

readline.createInterface({input: process.stdin}).on('line', (line) => {
  if (line === 'stop')
    process.exit(0);
  process.stdout.write(line === 'ping' ? 'pong\n' : `${rounds}\n`);
});
turn();
process.stdout.write(`ready ${process.pid}\n`);

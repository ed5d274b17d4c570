// SPDX-License-Identifier: Apache-2.0
//
// A Node.js program whose functions have names that a test knows, and allocate outside of V8's
// heap, where arrays of up to 64 bytes are. "count" answers with the rounds so far.
'use strict';
const crypto = require('crypto');
const readline = require('readline');

let rounds = 0;

function makeBuffer(bytes) {
  return Buffer.allocUnsafeSlow(4096 + bytes);
}

class Keeper {
  constructor() {
    this.kept = [];
  }

  keepOne(bytes) {
    this.kept.push(Buffer.allocUnsafeSlow(8000 + bytes));
    if (this.kept.length > 50)
      this.kept.shift();
    return this.kept[0];
  }
}

const keeper = new Keeper();
const digestKept = (bytes) => crypto.createHash('sha256').update(keeper.kept[bytes % 8]).digest('hex');

// A name that is not ASCII.
const gr\u00f6\u00dfe = function gr\u00f6\u00dfe(bytes) {
  return Buffer.allocUnsafeSlow(5000 + bytes);
};

// V8 does not inline functions at a call site with this many callees.
const makers = [makeBuffer, keeper.keepOne.bind(keeper), digestKept, gr\u00f6\u00dfe,
  (bytes) => Buffer.allocUnsafeSlow(6000 + bytes), (bytes) => Buffer.allocUnsafeSlow(7000 + bytes)];

function turn() {
  for (let i = 0; i < 60; i++)
    makers[i % makers.length](i + 1);
  rounds++;
  setTimeout(turn, 1);
}

readline.createInterface({input: process.stdin}).on('line', (line) => {
  if (line === 'stop')
    process.exit(0);
  process.stdout.write(line === 'ping' ? 'pong\n' : `${rounds}\n`);
});
for (let i = 0; i < 20; i++)
  keeper.keepOne(100);
turn();
process.stdout.write(`ready ${process.pid}\n`);

// SPDX-License-Identifier: Apache-2.0
//
// A Node.js program (--expose-gc) that makes functions, calls each once, drops them and, after a varying
// number of them, collects all garbage, so that new functions get the old addresses. Function number N
// allocates 100,000 + N bytes outside of V8's heap, by which a test checks the names in a trace.
// "count" answers with the functions so far.
'use strict';
const readline = require('readline');

let made = 0, turns = 0, until = 1;

function allocate(bytes) {
  return Buffer.allocUnsafeSlow(100000 + bytes);
}

// All functions have one shape, and so one size.
function makeOne(number) {
  return new Function('allocate', `
    return function made${number}() {
      return [${number}].map(function within${number}(n) { return allocate(n); });
    };`)(allocate);
}

function turn() {
  for (let i = 0; i < 10; i++)
    makeOne(made++)();
  if (++turns >= until) {
    gc();
    turns = 0;
    until = until % 16 + 1;
    // A second function at once, without a turn in between.
    makeOne(made++)();
  }
  setTimeout(turn, 1);
}

readline.createInterface({input: process.stdin}).on('line', (line) => {
  if (line === 'stop')
    process.exit(0);
  process.stdout.write(line === 'ping' ? 'pong\n' : `${made}\n`);
});
turn();
process.stdout.write(`ready ${process.pid}\n`);

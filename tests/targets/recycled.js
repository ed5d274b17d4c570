// SPDX-License-Identifier: Apache-2.0
//
// A Node.js program (--expose-gc) that makes functions, calls each once, drops them and, after now fewer
// and now more of them, collects all garbage, so that others soon lie where they lay. Function number N
// allocates 100,000 + N bytes outside of V8's heap: what a trace says of it can be held against that.
// "count" answers with the functions so far.
'use strict';
const readline = require('readline');

let made = 0, turns = 0, until = 1;

function allocate(bytes) {
  return Buffer.allocUnsafeSlow(100000 + bytes);
}

// Of one shape, so that they are of one size.
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
    // At once, too.
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

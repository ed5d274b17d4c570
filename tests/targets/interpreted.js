// SPDX-License-Identifier: Apache-2.0
//
// A Node.js program whose functions run a few times each, so that they stay interpreted, and allocate
// outside of V8's heap. "count" answers with the rounds so far.
'use strict';
const readline = require('readline');

let rounds = 0;
let kept = [];

function allocate(bytes) {
  return Buffer.allocUnsafeSlow(4096 + bytes);
}

class Shelf {
  put(bytes) {
    return allocate(bytes);
  }

  get top() {
    return this.put(1);
  }
}

const shelf = new Shelf();

function* series() {
  for (;;)
    yield allocate(2);
}

async function later() {
  await null;
  allocate(3);
}

const numbers = series();

// Makes a new function for each round; it calls the next function by name.
function makeOne(round) {
  return new Function('shelf', 'numbers', 'later', `
    return function made${round}() {
      shelf.top;
      numbers.next();
      later();
      return [1, 2].map(function within${round}(n) { return shelf.put(n); });
    };`)(shelf, numbers, later);
}

// Fills V8's young generation, so that closures are moved.
function fill() {
  kept.push(new Array(2000).fill(rounds).map((n) => ({n})));
  if (kept.length > 40)
    kept = [];
}

function turn() {
  makeOne(rounds)();
  fill();
  rounds++;
  // V8 drops the bytecode of functions that did not run for some collections of the old generation.
  if (typeof gc === 'function' && rounds % 10 === 0)
    gc();
  setTimeout(turn, 1);
}

readline.createInterface({input: process.stdin}).on('line', (line) => {
  if (line === 'stop')
    process.exit(0);
  process.stdout.write(line === 'ping' ? 'pong\n' : `${rounds}\n`);
});
turn();
process.stdout.write(`ready ${process.pid}\n`);

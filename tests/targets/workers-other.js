// SPDX-License-Identifier: Apache-2.0
//
// Runs in workers of workers.js, which see: functions of the same names, in other lines.
'use strict';
const {parentPort, workerData} = require('worker_threads');
let made = 0, rounds = 0;

function turn() {
  for (let i = 0; i < 10; i++)
    makeOne(made++ % 10000)();
  if (typeof gc === 'function' && rounds % 8 === 3)
    gc();
  parentPort.postMessage(++rounds);
  if (rounds !== workerData.turns)
    setTimeout(turn, 1);
}

function makeOne(number) {
  return new Function('allocate', `
    return function made${number}() {
      return [${number}].map(function within${number}(n) { return allocate(n); });
    };`)(allocate);
}

function allocate(bytes) {
  return Buffer.allocUnsafeSlow(300000 + bytes);
}

turn();

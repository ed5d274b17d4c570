// SPDX-License-Identifier: Apache-2.0
//
// A Node.js program that allocates outside of V8's heap in workers, whose functions run a few times
// each, so that they stay interpreted. Some workers stay, others end soon and have followers, all the
// time. Functions of one name are in this file and in workers-other.js, with other sizes: here function
// number N allocates 100,000 + N bytes, there 300,000 + N. "count" answers with the rounds of the
// one that stays and has worked least.
'use strict';
const {Worker, isMainThread, parentPort, workerData} = require('worker_threads');
const readline = require('readline');

function allocate(bytes) {
  return Buffer.allocUnsafeSlow(100000 + bytes);
}

// Of one shape, so that they are of one size: where one lay another may lie soon.
function makeOne(number) {
  return new Function('allocate', `
    return function made${number}() {
      return [${number}].map(function within${number}(n) { return allocate(n); });
    };`)(allocate);
}

if (isMainThread) {
  const rounds = [0, 0];
  const start = (file, turns, told) => new Worker(file, {workerData: {turns}}).on('message', told);
  const other = `${__dirname}/workers-other.js`;
  let ended = 0;
  function follow(file) {
    start(file, 1 + ended % 30, () => {}).on('exit', () => {
      ended++;
      follow(file);
    });
  }
  start(__filename, 0, (n) => { rounds[0] = n; });
  start(other, 0, (n) => { rounds[1] = n; });
  follow(__filename);
  follow(other);
  readline.createInterface({input: process.stdin}).on('line', (line) => {
    if (line === 'stop')
      process.exit(0);
    process.stdout.write(line === 'ping' ? 'pong\n' : `${Math.min(...rounds)}\n`);
  });
  process.stdout.write(`ready ${process.pid}\n`);
} else {
  let made = 0, rounds = 0;
  function turn() {
    for (let i = 0; i < 10; i++)
      makeOne(made++ % 10000)();
    if (typeof gc === 'function' && rounds % 8 === 7)
      gc();
    parentPort.postMessage(++rounds);
    if (rounds !== workerData.turns)
      setTimeout(turn, 1);
  }
  turn();
}

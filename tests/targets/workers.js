// SPDX-License-Identifier: Apache-2.0
//
// A Node.js program (--expose-gc) whose workers allocate outside of V8's heap. There are two kinds of
// workers, with the function allocateHere or allocateAway. Both have one shape, so that they may have the
// same address. Sizes show which one allocated: 100,000 bytes (here) or 300,000 (away), and N bytes more
// below functions with number N. One worker of each kind stays, and calls the same functions all the
// time. "begin" is answered at once; from then on these two make many functions and drop them, with
// collections of all garbage in between. Other workers make none, and form two chains: each begins when one
// of the other kind has ended, so that it may get that one's addresses of thread and heap. "count" answers
// with the rounds of the one of the two that has worked least,
// "left" with the workers that are still to end. All that is made is bounded, however long it takes.
// With an argument the two that stay begin on "crowd", when all threads of libuv's pool have allocated.
'use strict';
const {Worker, isMainThread, parentPort, workerData} = require('worker_threads');
const crypto = require('crypto');
const readline = require('readline');

const NUMBERS = 100, CHURN_ROUNDS = 96, FOLLOWERS = 3;

function allocateHere(n) {
  return Buffer.allocUnsafeSlow(100000 + n);
}

function allocateAway(n) {
  return Buffer.allocUnsafeSlow(300000 + n);
}

// All have one shape and so one size: a new one may soon get the address of a dropped one.
function makeOne(allocate, number) {
  return new Function('allocate', `
    return function made${number}() {
      return [${number}].map(function within${number}(n) { return allocate(n); });
    };`)(allocate);
}

function work() {
  const allocate = workerData.away ? allocateAway : allocateHere;
  const same = makeOne(allocate, NUMBERS - 1);
  let made = 0, rounds = 0, churn = workerData.turns;

  function turn() {
    for (let i = 0; i < 4; i++) {
      const one = churn ? makeOne(allocate, made++ % (NUMBERS - 1)) : same;
      one();
    }
    if (churn && churn-- % 8 === 0 && !workerData.turns)
      gc();
    parentPort.postMessage(++rounds);
    if (rounds !== workerData.turns)
      setTimeout(turn, 1);
  }

  if (!workerData.turns)
    parentPort.on('message', (turns) => { churn = turns; });
  turn();
}

function direct() {
  const kinds = [false, true], rounds = [0, 0];
  let left = 0;

  function follow(away, index) {
    if (index === FOLLOWERS)
      return;
    new Worker(__filename, {workerData: {away, turns: 40 * (index + 1)}}).on('exit', () => {
      left--;
      follow(!away, index + 1);
    });
  }

  let staying = [];

  function stay() {
    staying = kinds.map((away, i) => new Worker(__filename, {workerData: {away, turns: 0}})
      .on('message', (n) => { rounds[i] = n; }));
  }

  // More tasks at once than the pool has threads, so that each thread runs one.
  function crowd(threads) {
    let working = 2 * threads;
    for (let i = 0; i < 2 * threads; i++)
      crypto.scrypt('word', 'salt', 64, {N: 1024}, () => {
        if (--working === 0)
          stay();
      });
    return threads;
  }

  if (process.argv.length < 3)
    stay();
  const commands = {
    ping: () => 'pong',
    count: () => Math.min(...rounds),
    left: () => left,
    crowd: () => crowd(Number(process.env.UV_THREADPOOL_SIZE)),
    stop: () => process.exit(0),
    begin: () => {
      left = kinds.length * FOLLOWERS;
      staying.forEach((worker) => worker.postMessage(CHURN_ROUNDS));
      kinds.forEach((away) => follow(away, 0));
      return left;
    },
  };
  readline.createInterface({input: process.stdin}).on('line', (line) => {
    process.stdout.write(`${commands[line]()}\n`);
  });
  process.stdout.write(`ready ${process.pid}\n`);
}

if (isMainThread)
  direct();
else
  work();

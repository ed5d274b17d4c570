// SPDX-License-Identifier: Apache-2.0
//
// A Node.js program whose small functions V8 inlines into each other: hold, then take, then serve.
// "count" answers with the rounds so far.
'use strict';
const readline = require('readline');

let rounds = 0;
const kept = [];

function hold(bytes) {
  kept.push(Buffer.alloc(bytes));
}

function take(bytes) {
  hold(bytes + 100);
}

function serve() {
  for (let i = 0; i < 40; i++)
    take(i);
  if (kept.length > 4000)
    kept.length = 0;
  rounds++;
}

readline.createInterface({input: process.stdin}).on('line', (line) => {
  if (line === 'stop')
    process.exit(0);
  process.stdout.write(line === 'ping' ? 'pong\n' : `${rounds}\n`);
});
setInterval(serve, 1);
process.stdout.write(`ready ${process.pid}\n`);

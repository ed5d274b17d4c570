// SPDX-License-Identifier: Apache-2.0
//
// A Node.js program whose heap grows by JavaScript objects, which no allocator call shows: each
// "grow" keeps some 40 MiB more. "count" answers with the number of "grow"s.
'use strict';
const readline = require('readline');

const kept = [];

function grow() {
  const part = [];
  for (let i = 0; i < 400000; i++)
    part.push({number: i, pair: [i, i + 1]});
  kept.push(part);
}

readline.createInterface({input: process.stdin}).on('line', (line) => {
  if (line === 'stop')
    process.exit(0);
  if (line === 'grow')
    grow();
  process.stdout.write(line === 'ping' ? 'pong\n' : `${kept.length}\n`);
});
process.stdout.write(`ready ${process.pid}\n`);

// SPDX-License-Identifier: Apache-2.0
//
// Does the work of a server for its requests, as far as it reaches malloc: buffers, text, compression,
// hashes. Measures when told to: CPU and wall nanoseconds for a fixed amount of work.
'use strict';
const crypto = require('crypto');
const zlib = require('zlib');
const readline = require('readline');

const ROUNDS = 4000;

function work() {
	const kept = [];
	for (let i = 0; i < ROUNDS; i++) {
		const body = Buffer.alloc(8192 + (i % 64), i & 255);
		kept.push(crypto.createHash('sha256').update(body).digest('hex'));
		if (i % 8 === 0)
			zlib.deflateSync(body);
		JSON.parse(JSON.stringify({id: i, text: kept[kept.length - 1]}));
		if (kept.length > 512)
			kept.splice(0, 256);
	}
	return kept.length;
}

function measure() {
	const wall = process.hrtime.bigint(), cpu = process.cpuUsage();
	work();
	const used = process.cpuUsage(cpu);
	console.log(`${(used.user + used.system) * 1000} ${process.hrtime.bigint() - wall}`);
}

readline.createInterface({input: process.stdin}).on('line', (line) => {
	if (line === 'quit')
		process.exit(0);
	measure();
});
console.log(`ready ${process.pid}`);

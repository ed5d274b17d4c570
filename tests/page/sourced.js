/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: node sourced.js PAGE FILE
 *
 * The page of --embed-source has lines of FILE as they are there, around those with figures, each
 * once. Exits with 1 at the first failure.
 */
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");
const Decode = require(path.join(__dirname, "../../analyzer/page/decode.js"));

const [page, file] = process.argv.slice(2).map((name) => fs.readFileSync(name, "utf8"));
const data = /<script type="application\/octet-stream" id="data" data-bytes="(\d+)">([^<]*)<\/script>/
	.exec(page);
const {facts, frame} = Decode.decode(Decode.bytesOfBase64(data[2]), Number(data[1]));
const name = path.basename(process.argv[3]);
const source = facts.sources.find((one) => path.basename(one.path) === name);
const lines = file.split("\n");

assert.ok(source && source.problem === null);
assert.strictEqual(facts.strings[source.file - 1], source.path);
assert.ok(source.lines.length > 1);
source.lines.forEach(([number, text], i) => {
	assert.strictEqual(text, lines[number - 1]);
	assert.ok(!i || number > source.lines[i - 1][0]);
});
const there = new Set(source.lines.map(([number]) => number));
for (let i = 0; i < frame.count; i++)
	if (frame.file[i] === source.file && frame.line[i])
		assert.ok(there.has(frame.line[i]), "line " + frame.line[i]);
console.log("all right");

/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: node compared.js PAGE DIFF
 *
 * The comparison in the page is that of heaptap diff --json --limit 0 in the file DIFF: each site's
 * kind of change and its two figures, and the totals. Exits with 1 at the first failure.
 */
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");
const Decode = require(path.join(__dirname, "../../analyzer/page/decode.js"));

const page = fs.readFileSync(process.argv[2], "utf8");
const data = /<script type="application\/octet-stream" id="data" data-bytes="(\d+)">([^<]*)<\/script>/
	.exec(page);
const {diff} = Decode.decode(Decode.bytesOfBase64(data[2]), Number(data[1])).facts;
const printed = JSON.parse(fs.readFileSync(process.argv[3], "utf8"));
const figures = diff.metrics[printed.metric];
const key = figures.per_minute ? "per_minute" : "value";

assert.deepStrictEqual(diff.traces.map((one) => [one.path, one.to_ns]),
	printed.traces.map((one) => [one.path, one.to_ns]));
printed.traces.forEach((one, i) => assert.ok(Math.abs(figures.total[i] - one[key]) <= 0.5));
assert.strictEqual(diff.sites_total, printed.sites_total);
assert.strictEqual(diff.sites.length, printed.sites.length);

const order = (a, b) => a[0].localeCompare(b[0]) || a[1] - b[1] || a[2] - b[2];
const ours = diff.sites.map((_, i) => [diff.changes[figures.change[i]], figures.old[i],
	figures.new[i]]).sort(order);
const theirs = printed.sites.map((one) => [one.change, ...one[key]]).sort(order);
ours.forEach((one, i) => {
	assert.strictEqual(one[0], theirs[i][0]);
	assert.ok(Math.abs(one[1] - theirs[i][1]) <= 0.5 && Math.abs(one[2] - theirs[i][2]) <= 0.5,
		one + " is " + theirs[i]);
});
console.log("all right");

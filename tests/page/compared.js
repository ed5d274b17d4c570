/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: node compared.js PAGE DIFF
 *
 * The comparison in the page is that of heaptap diff --json --limit 0 in the file DIFF: each site's
 * kind of change, its two figures and their bounds, and the totals. Exits with 1 at the first failure.
 */
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");
const Decode = require(path.join(__dirname, "../../analyzer/page/decode.js"));
const Model = require(path.join(__dirname, "../../analyzer/page/model.js"));

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

/* --- bounds of samples: the analyzer rounds an amount's to whole bytes, before it is by minute */

const isSample = printed.traces.some((one) => one.totals.bounds95);
assert.strictEqual("total_variance" in figures, isSample);
if (isSample) {
	const boundKey = key + "_bound95";
	const check = (value, variance, bound, trace) => {
		const minutes = figures.per_minute ? (trace.to_ns - trace.from_ns) / 60e9 : 1;
		const found = Model.bound(value, variance);
		assert.ok(Math.abs(found - bound) <= 1 / minutes + bound / 1e4, found + " is " + bound);
	};
	printed.traces.forEach((one, i) =>
		check(one[key], figures.total_variance[i], one[boundKey], one));
	const bounds = diff.sites.map((_, i) => [diff.changes[figures.change[i]], figures.old[i],
		figures.new[i], figures.old_variance[i], figures.new_variance[i]]).sort(order);
	const listed = printed.sites.map((one) => [one.change, ...one[key], ...one[boundKey]]).sort(order);
	bounds.forEach((one, i) => {
		check(listed[i][1], one[3], listed[i][3], printed.traces[0]);
		check(listed[i][2], one[4], listed[i][4], printed.traces[1]);
	});
	assert.ok(figures.total_variance[1] > 0);
}
console.log("all right");

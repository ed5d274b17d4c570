/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: node model_test.js
 *
 * The page's decoder and sums by themselves. Exits with 1 at the first failure.
 */
"use strict";

const assert = require("assert");
const path = require("path");
const page = path.join(__dirname, "../../analyzer/page");
const Decode = require(path.join(page, "decode.js"));
const Model = require(path.join(page, "model.js"));
const Format = require(path.join(page, "format.js"));

const text = (bytes) => Buffer.from(bytes).toString("latin1");
const unpack = (bytes, length) => Decode.unpackLz4(Uint8Array.from(bytes), length);

/* --- LZ4: literals, a match that overlaps itself, long lengths, and what is no block */

assert.strictEqual(text(unpack([0x30, 97, 98, 99], 3)), "abc");
assert.strictEqual(text(unpack([0x14, 97, 1, 0, 0x10, 98], 10)), "aaaaaaaaab");
const long = [0xf0, 5, ...new Array(20).fill(120)];
assert.strictEqual(text(unpack(long, 20)), "x".repeat(20));
for (const [bytes, length] of [[[0x30, 97, 98], 3], [[0x30, 97, 98, 99], 4], [[0x30, 97, 98, 99], 2],
	[[0x14, 97, 2, 0], 9], [[0x14, 97, 0, 0], 9], [[0xf0, 255], 300], [[], 1]])
	assert.throws(() => unpack(bytes, length), /damaged/);

/* --- a trace of one site and four steps: sums of every window against its blocks */

const blocks = [[0, 4, 10], [0, 2, 20], [1, 2, 40], [1, 1, 80], [3, 4, 160]]; /* birth, death, bytes */
const BUCKETS = 4;

function traceOf(list) {
	const cell = {count: BUCKETS, site: [], bucket: []};
	const figures = ["samples", "allocations", "allocatedBytes", "frees", "freedBytes",
		"temporary", "lifetimeUs"];
	figures.forEach((figure) => { cell[figure] = new Array(BUCKETS).fill(0); });
	for (let i = 0; i < BUCKETS; i++) {
		cell.site.push(0);
		cell.bucket.push(i);
	}
	const survivor = {count: 0, site: [], birth: [], death: [], blocks: [], bytes: [],
		temporary: [], lifetimeUs: []};
	for (const [birth, death, bytes] of list) {
		cell.allocations[birth]++;
		cell.allocatedBytes[birth] += bytes;
		if (death === BUCKETS)
			continue;
		cell.frees[death]++;
		cell.freedBytes[death] += bytes;
		if (death === birth)
			continue;
		survivor.count++;
		for (const [name, value] of Object.entries({site: 0, birth, death, blocks: 1, bytes,
			temporary: 0, lifetimeUs: 0}))
			survivor[name].push(value);
	}
	const live = [10 + 20, 10 + 20 + 40, 10, 10 + 160];
	return {buckets: BUCKETS, stepNs: 1, site: {count: 1, node: [1], peak: [170]}, cell, survivor,
		tree: {count: 2, parent: [0, 0], frame: [-1, 0]}, frame: {count: 1},
		timeline: {liveMax: live, beforeFrees: [0, 0, 0, 0]},
		facts: {totals: {peak_bytes: 170, peak_time_ns: 3}}};
}

const model = traceOf(blocks);
for (let from = 0; from < BUCKETS; from++)
	for (let to = from + 1; to <= BUCKETS; to++) {
		const is = Model.report(model, from, to);
		const born = blocks.filter((one) => from <= one[0] && one[0] < to);
		const freed = born.filter((one) => one[1] < to);
		const sum = (list) => list.reduce((all, one) => all + one[2], 0);
		const at = (end) => sum(blocks.filter((one) => one[0] < end && one[1] >= end));
		assert.strictEqual(is.allocations, born.length);
		assert.strictEqual(is.allocated_bytes, sum(born));
		assert.strictEqual(is.frees, freed.length);
		assert.strictEqual(is.outstanding_bytes, sum(born) - sum(freed));
		assert.strictEqual(is.live_bytes, at(to));
		assert.strictEqual(is.growth_bytes, at(to) - at(from));
	}

/* --- a metric over time ends at, or adds up to, its value in every window */

for (let from = 0; from < BUCKETS; from++)
	for (let to = from + 1; to <= BUCKETS; to++)
		for (const metric of Object.keys(Model.METRICS)) {
			const [series, others] = Model.history(model, from, to, metric, [0], 2);
			const value = Model.valuesOf(model, Model.sumsOf(model, from, to), metric)[0];
			assert.strictEqual(series.length, to - from);
			assert.ok(others.every((one) => one === 0));
			if (Model.RATES[metric])
				assert.strictEqual(series.reduce((all, one) => all + one, 0), value);
			else if (metric !== "peak")
				assert.strictEqual(series[series.length - 1], value);
		}
assert.deepStrictEqual([...Model.history(model, 0, BUCKETS, "live", [0], 1)[0]], [30, 70, 10, 170]);
assert.deepStrictEqual([...Model.history(model, 1, 3, "outstanding", [0], 1)[0]], [40, 0]);
assert.deepStrictEqual([...Model.history(model, 0, BUCKETS, "live", [-1], 1)[0]], [0, 0, 0, 0]);
assert.strictEqual(Model.weights(model, 0, BUCKETS, "live")[0], 170);
assert.strictEqual(Model.weights(model, 0, 2, "live")[0], 70);
assert.strictEqual(Model.weights(model, 1, 3, "allocated")[0], 120);
assert.deepStrictEqual([...Model.liveSeries(model, [0])], [30, 70, 10, 170]);

/* --- a block that was freed after the window, while the capture settled */

const settled = traceOf(blocks);
for (const [name, value] of Object.entries({site: 0, birth: 3, death: BUCKETS, blocks: 1, bytes: 160,
	temporary: 0, lifetimeUs: 0}))
	settled.survivor[name].push(value);
settled.survivor.count++;
assert.strictEqual(Model.report(settled, 0, BUCKETS).outstanding_bytes, 170);
assert.strictEqual(Model.report(settled, 0, BUCKETS).survivors_bytes, 10);
assert.strictEqual(Model.report(settled, 0, BUCKETS).survivors_blocks, 1);
assert.strictEqual(Model.report(settled, 0, 2).survivors_bytes, 10);
assert.deepStrictEqual([...Model.history(settled, 0, BUCKETS, "survivors", [0], 1)[0]], [10, 10, 10, 10]);
assert.deepStrictEqual([...Model.history(settled, 1, BUCKETS, "survivors", [0], 1)[0]], [0, 0, 0]);

/* --- bounds: the variance of the metric test in C, of a sample of one in two blocks of 10 bytes */

const half = traceOf([[0, 4, 10], [0, 4, 10], [0, 4, 10], [0, 4, 10]]);
half.isSample = true;
half.site.varianceBytes = [400];
half.site.varianceBlocks = [4];
half.cell.frees[1] = 2;
half.cell.freedBytes[1] = 20;
assert.strictEqual(Model.sumsOf(half, 0, 2).of("variance:allocated")[0], 400);
assert.strictEqual(Model.sumsOf(half, 0, 2).of("variance:calls")[0], 4);
assert.strictEqual(Model.sumsOf(half, 0, 2).of("variance:outstanding")[0], 200);
assert.strictEqual(Model.sumsOf(half, 0, 2).of("variance:growth")[0], 200);
assert.strictEqual(Model.sumsOf(model, 0, 1).of("variance:allocated")[0], 0);
assert.strictEqual(Math.round(Model.bound(1000000, 100)), 20);
assert.strictEqual(Math.round(Model.bound(0, 100)), Math.round(1.959964 * Math.sqrt(300)));
assert.strictEqual(Model.bound(5, 0), 0);
assert.strictEqual(Format.bound(200, 6), " \u00b13.0 %");
assert.strictEqual(Format.bound(200, 0), "");

/* --- lifetimes: exact for the whole trace, means for a part, never another number of blocks */

model.facts.lifetimes = {blocks: [0, 0, 2], bytes: [0, 0, 60]};
const exact = Model.lifetimes(model, 0, BUCKETS, null);
assert.deepStrictEqual([exact.isExact, exact.blocks[2], exact.bytes[2]], [true, 2, 60]);
for (let from = 0; from < BUCKETS; from++)
	for (let to = from + 1; to <= BUCKETS; to++) {
		const lives = Model.lifetimes(model, from, to, [1]);
		const ended = blocks.filter((one) => from <= one[0] && one[1] < to);
		assert.strictEqual(lives.isExact, false);
		assert.strictEqual([...lives.blocks].reduce((all, one) => all + one, 0),
			ended.length);
		assert.strictEqual([...lives.bytes].reduce((all, one) => all + one, 0),
			ended.reduce((all, one) => all + one[2], 0));
		assert(Model.lifetimes(model, from, to, [0]).blocks.every((one) => one === 0));
	}
/* One block of 5 us, born and freed in one step: its life has 13 bits of nanoseconds. */
const short = traceOf([[1, 1, 8]]);
short.cell.lifetimeUs[1] = 5;
assert.strictEqual(Model.lifetimes(short, 1, 2, null).blocks[13], 1);
short.cell.lifetimeUs[1] = 2 ** 40 / 1000;
assert.strictEqual(Model.lifetimes(short, 1, 2, null).blocks[41], 1);

/* --- values: sites that do not count have none */

const sums = Model.sumsOf(model, 0, BUCKETS);
assert.deepStrictEqual([...Model.valuesOf(model, sums, "live", null)], [170]);
assert.deepStrictEqual([...Model.valuesOf(model, sums, "live", [0])], [0]);
assert.strictEqual(Model.total(model, sums, [0]).allocations, 0);
assert.strictEqual(Model.total(model, sums, [1]).allocations, blocks.length);

/* --- numbers and names as people read them */

assert.strictEqual(Format.bytes(1536), "1.5 KiB");
assert.strictEqual(Format.bytes(-1048576), "-1.0 MiB");
assert.strictEqual(Format.count(1234567), "1,234,567");
assert.strictEqual(Format.shortName("std::vector<int, A<b>>::push_back(int const&)"),
	"std::vector<>::push_back");
assert.strictEqual(Format.shortName("(anonymous namespace)::f(char) const"),
	"(anonymous namespace)::f");
assert.strictEqual(Format.shortName("a::operator()(int)"), "a::operator()");
assert.strictEqual(Format.shortName("bool operator<(A, B)"), "bool operator<");
assert.strictEqual(Format.shortName("f(std::function<void (int)>)::{lambda(int)#1}::operator()(int)"),
	"f::{lambda}::operator()");
assert.strictEqual(Format.shortName("plain"), "plain");
assert.strictEqual(Format.shortName("<T as U>::f"), "<T as U>::f");
console.log("all right");

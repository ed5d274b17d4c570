/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: node sums.js PAGE
 *
 * Computes as the page does from its tables, and prints a JSON array of windows, {from_ms, to_ms, totals}, a
 * time of null being an end of the trace.
 */
"use strict";

const fs = require("fs");
const path = require("path");
const code = path.join(__dirname, "../../analyzer/page");
const Decode = require(path.join(code, "decode.js"));
const Model = require(path.join(code, "model.js"));
const Stacks = require(path.join(code, "stacks.js"));
global.Format = require(path.join(code, "format.js"));
const Names = require(path.join(code, "names.js"));

const page = fs.readFileSync(process.argv[2], "utf8");
const data = /<script type="application\/octet-stream" id="data" data-bytes="(\d+)">([^<]*)<\/script>/
	.exec(page);
const model = Decode.decode(Decode.bytesOfBase64(data[2]), Number(data[1]));
const n = model.buckets, ms = model.stepNs / 1e6;
const windows = [[0, n], [0, Math.ceil(n / 2)], [Math.floor(n / 2), n],
	[Math.floor(n / 3), Math.ceil(n * 2 / 3)], [n - 1, n], [0, 1],
	[Math.floor(n / 4), Math.floor(n / 4) + 1]]
	/* An event may come after the end; the report refuses a window that begins there. */
	.filter(([from, to]) => from < to && from * model.stepNs < model.facts.capture.duration_ns);

/* However chains are shown, and from either end. */
const functions = Names.of(model).functions, trees = [];
for (const showsWrappers of [false, true])
	for (const mergesRecursion of [false, true]) {
		const down = Stacks.topDown(model, functions, {showsWrappers, mergesRecursion});
		trees.push(down, Stacks.bottomUp(down));
	}

/* The sum of all known figures of a kind of memory. */
const memory = (from, to) => Object.fromEntries(Object.entries({rss_bytes: "rss",
	anonymous_bytes: "anonymous", file_bytes: "file", shared_bytes: "shared", swap_bytes: "swap",
	major_faults: "majorFaults", cgroup_bytes: "cgroup"}).map(([name, column]) => [name,
	model.timeline[column].slice(from, to).reduce((sum, value) => sum + Math.max(0, value - 1), 0)]));

console.log(JSON.stringify(windows.map(([from, to]) => ({
	from_ms: from ? from * ms : null, to_ms: to === n ? null : to * ms,
	totals: Model.report(model, from, to), memory: memory(from, to),
	rootSums: trees.map((tree) => {
		const sums = Model.sumsOf(model, from, to);
		return Stacks.inclusive(tree, Model.valuesOf(model, sums, "outstanding")).total[0];
	}),
}))));

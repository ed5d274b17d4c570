/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: node sums.js PAGE
 *
 * What the page computes from its tables: prints a JSON array of windows, {from_ms, to_ms, totals}, a
 * time of null being an end of the trace.
 */
"use strict";

const fs = require("fs");
const path = require("path");
const Model = require(path.join(__dirname, "../../analyzer/page/model.js"));

const page = fs.readFileSync(process.argv[2], "utf8");
const data = /<script type="application\/octet-stream" id="data" data-bytes="(\d+)">([^<]*)<\/script>/
	.exec(page);
const model = Model.decode(Model.bytesOfBase64(data[2]), Number(data[1]));
const n = model.buckets, ms = model.stepNs / 1e6;
const windows = [[0, n], [0, Math.ceil(n / 2)], [Math.floor(n / 2), n],
	[Math.floor(n / 3), Math.ceil(n * 2 / 3)], [n - 1, n], [0, 1],
	[Math.floor(n / 4), Math.floor(n / 4) + 1]].filter(([from, to]) => from < to);

console.log(JSON.stringify(windows.map(([from, to]) => ({
	from_ms: from ? from * ms : null, to_ms: to === n ? null : to * ms,
	totals: Model.report(model, from, to),
	rootSums: ["down", "up"].map((direction) => {
		const tree = direction === "up" ? Model.bottomUp(model) : Model.topDown(model);
		const sums = Model.sumsOf(model, from, to);
		return Model.inclusive(tree, Model.valuesOf(model, sums, "outstanding")).total[0];
	}),
}))));

/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of the page and what is computed from it: pure functions, without the page. Sums of a
 * window are those of analyzer/cube/window.c.
 */
"use strict";

const Model = (() => {
	/* --- decoding ---------------------------------------------------------------------- */

	/* Alphabet of base64 without line breaks. */
	function bytesOfBase64(text) {
		const binary = atob(text);
		const bytes = new Uint8Array(binary.length);
		for (let i = 0; i < binary.length; i++)
			bytes[i] = binary.charCodeAt(i);
		return bytes;
	}

	/* One block of LZ4; throws where it is not one of `length` bytes. */
	function unpackLz4(from, length) {
		const to = new Uint8Array(length);
		let at = 0, put = 0;
		const more = (count) => {
			for (let byte = 255; byte === 255; count += byte)
				byte = at < from.length ? from[at++] : fail();
			return count;
		};
		const fail = () => {
			throw new Error("the data of this page is damaged");
		};
		while (at < from.length) {
			const token = from[at++];
			let literals = token >> 4;
			if (literals === 15)
				literals = more(literals);
			if (at + literals > from.length || put + literals > length)
				fail();
			to.set(from.subarray(at, at + literals), put);
			at += literals;
			put += literals;
			if (at >= from.length)
				break;
			const distance = from[at] | from[at + 1] << 8;
			at += 2;
			let count = token & 15;
			if (count === 15)
				count = more(count);
			count += 4;
			if (!distance || distance > put || put + count > length)
				fail();
			for (let i = 0; i < count; i++, put++)
				to[put] = to[put - distance];
		}
		return put === length ? to : fail();
	}

	/* Reads LEB128 numbers of up to 53 bits. */
	function reader(bytes, at) {
		function number() {
			let value = 0, scale = 1;
			for (;;) {
				const byte = bytes[at++];
				if (byte === undefined)
					throw new Error("the data of this page is damaged");
				value += (byte & 127) * scale;
				if (byte < 128)
					return value;
				scale *= 128;
			}
		}
		return {
			number,
			text(length) {
				const part = bytes.subarray(at, at + length);
				at += length;
				return new TextDecoder().decode(part);
			},
			column(count) {
				const column = new Float64Array(count);
				for (let i = 0; i < count; i++)
					column[i] = number();
				return column;
			},
		};
	}

	/* Keys are differences to the row above. */
	function addUp(column) {
		for (let i = 1; i < column.length; i++)
			column[i] += column[i - 1];
		return Int32Array.from(column);
	}

	/* The same within the rows of one site. */
	function addUpWithin(site, column) {
		for (let i = 1; i < column.length; i++)
			if (site[i] === site[i - 1])
				column[i] += column[i - 1];
		return Int32Array.from(column);
	}

	function columns(input, count, names) {
		const table = {count};
		for (const name of names)
			table[name] = input.column(count);
		return table;
	}

	function table(input, names) {
		return columns(input, input.number(), names);
	}

	function readTree(input) {
		const tree = table(input, ["parent", "frame"]);
		tree.parent = Int32Array.from(tree.parent, (up, i) => i - up);
		tree.frame = Int32Array.from(tree.frame, (frame) => frame - 1);
		return tree;
	}

	function readTimeline(input) {
		const line = table(input, ["allocations", "allocatedBytes", "live", "liveMax", "heap",
			"rss", "beforeFrees"]);
		let live = 0;
		for (let i = 0; i < line.count; i++) {
			const bits = line.live[i];
			live += bits % 2 ? -(bits + 1) / 2 : bits / 2;
			line.live[i] = live;
		}
		return line;
	}

	/* What data.c wrote. */
	function decode(packed, length) {
		const bytes = unpackLz4(packed, length);
		const input = reader(bytes, 0);
		const facts = JSON.parse(input.text(input.number()));
		const frame = table(input, ["name", "file", "line", "module"]);
		const tree = readTree(input);
		const site = table(input, ["node", "thread", "hook", "size", "peak"]);
		site.node = addUp(site.node);
		const cell = table(input, ["site", "bucket", "samples", "allocations",
			"allocatedBytes", "frees", "freedBytes", "temporary", "lifetimeUs"]);
		cell.site = addUp(cell.site);
		cell.bucket = addUpWithin(cell.site, cell.bucket);
		const survivor = table(input, ["site", "birth", "age", "blocks", "bytes",
			"temporary", "lifetimeUs"]);
		survivor.site = addUp(survivor.site);
		survivor.birth = addUpWithin(survivor.site, survivor.birth);
		survivor.death = survivor.birth.map((birth, i) => birth + survivor.age[i]);
		const timeline = readTimeline(input);
		return {facts, frame, tree, site, cell, survivor, timeline,
			buckets: timeline.count, stepNs: facts.window.bucket_ns,
			isSample: facts.capture.sample_bytes > 0};
	}

	/* --- sums of a window -------------------------------------------------------------- */

	const FIGURES = ["samples", "allocations", "allocatedBytes", "frees", "freedBytes",
		"temporary", "lifetimeUs", "growthBlocks", "growthBytes", "liveBlocks", "liveBytes",
		"peakBytes"];

	function isWhole(model, from, to) {
		return from === 0 && to === model.buckets;
	}

	/* The bucket with the highest total of buckets [from, to), and that total. */
	function peakOf(model, from, to) {
		if (isWhole(model, from, to)) {
			const totals = model.facts.totals;
			return {bucket: Math.min(model.buckets - 1,
				Math.floor(totals.peak_time_ns / model.stepNs)),
				bytes: totals.peak_bytes, timeNs: totals.peak_time_ns};
		}
		const peak = {bucket: from, bytes: 0, timeNs: 0};
		for (let i = from; i < to; i++)
			if (model.timeline.liveMax[i] > peak.bytes)
				Object.assign(peak, {bucket: i, bytes: model.timeline.liveMax[i],
					timeNs: (i + 1) * model.stepNs});
		return peak;
	}

	function addCells(model, from, to, sums) {
		const cell = model.cell;
		for (let i = 0; i < cell.count; i++) {
			if (cell.bucket[i] >= to)
				continue;
			const site = cell.site[i];
			const blocks = cell.allocations[i] - cell.frees[i];
			const bytes = cell.allocatedBytes[i] - cell.freedBytes[i];
			sums.liveBlocks[site] += blocks;
			sums.liveBytes[site] += bytes;
			if (cell.bucket[i] < from)
				continue;
			sums.samples[site] += cell.samples[i];
			sums.allocations[site] += cell.allocations[i];
			sums.allocatedBytes[site] += cell.allocatedBytes[i];
			sums.frees[site] += cell.frees[i];
			sums.freedBytes[site] += cell.freedBytes[i];
			sums.temporary[site] += cell.temporary[i];
			sums.lifetimeUs[site] += cell.lifetimeUs[i];
			sums.growthBlocks[site] += blocks;
			sums.growthBytes[site] += bytes;
		}
	}

	/* The frees of the window that are of blocks from before it. */
	function takeOlder(model, from, to, sums) {
		const survivor = model.survivor;
		for (let i = 0; i < survivor.count; i++) {
			const death = survivor.death[i];
			if (survivor.birth[i] >= from || death < from || death >= to)
				continue;
			const site = survivor.site[i];
			sums.frees[site] -= survivor.blocks[i];
			sums.freedBytes[site] -= survivor.bytes[i];
			sums.temporary[site] -= survivor.temporary[i];
			sums.lifetimeUs[site] -= survivor.lifetimeUs[i];
		}
	}

	function addPeaks(model, from, to, sums) {
		if (isWhole(model, from, to)) {
			sums.peakBytes.set(model.site.peak);
			return;
		}
		const peak = peakOf(model, from, to), cell = model.cell;
		for (let i = 0; i < cell.count; i++)
			if (cell.bucket[i] <= peak.bucket)
				sums.peakBytes[cell.site[i]] +=
					cell.allocatedBytes[i] - cell.freedBytes[i];
	}

	/* Figures by site of buckets [from, to). */
	function sumsOf(model, from, to) {
		const sums = {from, to};
		for (const figure of FIGURES)
			sums[figure] = new Float64Array(model.site.count);
		addCells(model, from, to, sums);
		if (from > 0)
			takeOlder(model, from, to, sums);
		addPeaks(model, from, to, sums);
		return sums;
	}

	/* Figures of the sites that `isIn` takes; all without it. */
	function total(model, sums, isIn) {
		const result = {};
		for (const figure of FIGURES)
			result[figure] = 0;
		for (let site = 0; site < model.site.count; site++)
			if (!isIn || isIn(site))
				for (const figure of FIGURES)
					result[figure] += sums[figure][site];
		return result;
	}

	/* --- metrics ----------------------------------------------------------------------- */

	/* By name, as analyzer/query/metric.h defines them; all but lifetime add up. */
	const METRICS = {
		outstanding: {unit: "bytes", value: (s, i) => s.allocatedBytes[i] - s.freedBytes[i]},
		growth: {unit: "bytes", value: (s, i) => s.growthBytes[i]},
		live: {unit: "bytes", value: (s, i) => s.liveBytes[i]},
		peak: {unit: "bytes", value: (s, i) => s.peakBytes[i]},
		allocated: {unit: "bytes", value: (s, i) => s.allocatedBytes[i]},
		calls: {unit: "blocks", value: (s, i) => s.allocations[i]},
		temporary: {unit: "blocks", value: (s, i) => s.temporary[i]},
		freed: {unit: "bytes", value: (s, i) => s.freedBytes[i]},
	};

	/* Values of a metric by site. */
	function valuesOf(model, sums, metric) {
		const values = new Float64Array(model.site.count);
		const value = METRICS[metric].value;
		for (let i = 0; i < values.length; i++)
			values[i] = value(sums, i);
		return values;
	}

	/* --- trees ------------------------------------------------------------------------- */

	/* Callers at the root: `siteNode` is where each site's figures stand. */
	function topDown(model) {
		return {parent: model.tree.parent, frame: model.tree.frame,
			count: model.tree.count, siteNode: model.site.node};
	}

	/* Allocating functions at the root: each site's chain, turned round. */
	function bottomUp(model) {
		const parent = [0], frame = [-1], children = new Map();
		const siteNode = new Int32Array(model.site.count);
		const frames = model.frame.count + 2;
		for (let site = 0; site < model.site.count; site++) {
			let at = 0;
			if (site && model.site.node[site] === model.site.node[site - 1]) {
				siteNode[site] = siteNode[site - 1];
				continue;
			}
			for (let node = model.site.node[site]; node; node = model.tree.parent[node]) {
				const key = at * frames + model.tree.frame[node] + 1;
				let child = children.get(key);
				if (child === undefined) {
					child = parent.length;
					parent.push(at);
					frame.push(model.tree.frame[node]);
					children.set(key, child);
				}
				at = child;
			}
			siteNode[site] = at;
		}
		return {parent: Int32Array.from(parent), frame: Int32Array.from(frame),
			count: parent.length, siteNode};
	}

	/* Own values at the nodes of sites, then inclusive ones: node 0 has the total. */
	function inclusive(tree, values) {
		const own = new Float64Array(tree.count);
		for (let site = 0; site < values.length; site++)
			own[tree.siteNode[site]] += values[site];
		const all = Float64Array.from(own);
		for (let i = tree.count - 1; i > 0; i--)
			all[tree.parent[i]] += all[i];
		return {own, total: all};
	}

	/* First child and next sibling of each node, the largest first; -1: none. */
	function childrenOf(tree, totals) {
		const order = Array.from({length: tree.count - 1}, (_, i) => i + 1)
			.filter((node) => totals[node] > 0)
			.sort((a, b) => totals[a] - totals[b] || b - a);
		const first = new Int32Array(tree.count).fill(-1);
		const next = new Int32Array(tree.count).fill(-1);
		for (const node of order) {
			next[node] = first[tree.parent[node]];
			first[tree.parent[node]] = node;
		}
		return {first, next};
	}

	/* What `matches` (by frame) finds: the sum below the outermost matching nodes. */
	function matched(tree, totals, matches) {
		const isIn = new Uint8Array(tree.count);
		let sum = 0, found = 0;
		for (let i = 1; i < tree.count; i++) {
			const isMatch = tree.frame[i] >= 0 && matches[tree.frame[i]];
			found += isMatch ? 1 : 0;
			if (isIn[tree.parent[i]] || !isMatch) {
				isIn[i] = isIn[tree.parent[i]];
				continue;
			}
			isIn[i] = 1;
			sum += Math.max(0, totals[i]);
		}
		return {sum, found};
	}

	/* --- series ------------------------------------------------------------------------ */

	/* First cell of each site, one more at the end. */
	function firstCells(model) {
		const first = new Int32Array(model.site.count + 1).fill(model.cell.count);
		for (let i = model.cell.count - 1; i >= 0; i--)
			first[model.cell.site[i]] = i;
		for (let site = model.site.count - 1; site >= 0; site--)
			first[site] = Math.min(first[site], first[site + 1]);
		return first;
	}

	/* Live bytes of these sites at the end of each bucket of the trace. */
	function liveSeries(model, sites) {
		const live = new Float64Array(model.buckets);
		model.firstCell = model.firstCell || firstCells(model);
		for (const site of sites)
			for (let i = model.firstCell[site]; i < model.firstCell[site + 1]; i++)
				live[model.cell.bucket[i]] +=
					model.cell.allocatedBytes[i] - model.cell.freedBytes[i];
		for (let i = 1; i < live.length; i++)
			live[i] += live[i - 1];
		return live;
	}

	/* The members of "totals" in heaptap report --json. */
	function report(model, from, to) {
		const sums = total(model, sumsOf(model, from, to));
		const peak = peakOf(model, from, to);
		let before = 0;
		for (let i = from; i < to; i++)
			before += model.timeline.beforeFrees[i];
		return {
			samples: sums.samples,
			allocations: sums.allocations,
			allocated_bytes: sums.allocatedBytes,
			frees: sums.frees,
			freed_bytes: sums.freedBytes,
			temporary: model.isSample ? null : sums.temporary,
			outstanding_blocks: sums.allocations - sums.frees,
			outstanding_bytes: sums.allocatedBytes - sums.freedBytes,
			growth_bytes: sums.growthBytes,
			live_bytes: sums.liveBytes,
			mean_lifetime_ns: sums.frees
				? Math.trunc(sums.lifetimeUs / sums.frees * 1000) : null,
			before_frees: before,
			peak_bytes: peak.bytes,
		};
	}

	return {bytesOfBase64, unpackLz4, decode, sumsOf, total, METRICS, valuesOf, topDown, bottomUp,
		inclusive, childrenOf, matched, liveSeries, peakOf, isWhole, report};
})();

if (typeof module !== "undefined")
	module.exports = Model;

/* SPDX-License-Identifier: Apache-2.0
 *
 * What is computed from the data of the page for a window: pure functions. Sums are those of
 * analyzer/cube/window.c, lifetimes those of analyzer/views/lifetimes.c.
 */
"use strict";

const Model = (() => {
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

	/* Figures of the sites in `isIn`, of all without it. */
	function total(model, sums, isIn) {
		const result = {};
		for (const figure of FIGURES) {
			const column = sums[figure];
			let all = 0;
			for (let site = 0; site < column.length; site++)
				if (!isIn || isIn[site])
					all += column[site];
			result[figure] = all;
		}
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

	/* Values of a metric by site; 0 for those that are not in `isIn`. */
	function valuesOf(model, sums, metric, isIn) {
		const values = new Float64Array(model.site.count);
		const value = METRICS[metric].value;
		for (let i = 0; i < values.length; i++)
			values[i] = !isIn || isIn[i] ? value(sums, i) : 0;
		return values;
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

	/* --- lifetimes --------------------------------------------------------------------- */

	/* Power of two of a life in ns, as cube_size_class counts it: 0 is no time at all. */
	function lifeClass(ns) {
		let size = ns < 1 ? 0 : Math.floor(Math.log2(ns)) + 1;
		/* Logarithms round. */
		size += size && ns >= 2 ** size ? 1 : size && ns < 2 ** (size - 1) ? -1 : 0;
		return size;
	}

	/*
	 * Blocks of the sites in `isIn` (null: all) that were allocated and freed in buckets
	 * [from, to), by class of their life. Exact for the whole trace; else blocks of one site,
	 * bucket of birth and bucket of death count with their mean.
	 */
	function lifetimes(model, from, to, isIn) {
		const all = model.facts.lifetimes, counts = {blocks: new Map(), bytes: new Map()};
		const add = (size, blocks, bytes) => {
			counts.blocks.set(size, (counts.blocks.get(size) || 0) + blocks);
			counts.bytes.set(size, (counts.bytes.get(size) || 0) + bytes);
		};
		const isExact = isWhole(model, from, to) && !isIn && all !== undefined;
		if (isExact) {
			all.blocks.forEach((blocks, size) => blocks && add(size, blocks, all.bytes[size]));
			return {...counts, isExact};
		}
		const addMean = (blocks, bytes, us) => blocks > 0 &&
			add(lifeClass(us / blocks * 1000), blocks, bytes);
		addLives(model, from, to, isIn, addMean);
		return {...counts, isExact};
	}

	function addLives(model, from, to, isIn, addMean) {
		const {cell, survivor} = model, within = new Float64Array(model.buckets * 3);
		let next = 0;
		for (let i = 0; i < cell.count;) {
			const site = cell.site[i], first = i;
			for (; i < cell.count && cell.site[i] === site; i++) {
				within[cell.bucket[i] * 3] = cell.frees[i];
				within[cell.bucket[i] * 3 + 1] = cell.freedBytes[i];
				within[cell.bucket[i] * 3 + 2] = cell.lifetimeUs[i];
			}
			while (next < survivor.count && survivor.site[next] < site)
				next++;
			for (; next < survivor.count && survivor.site[next] === site; next++) {
				const death = survivor.death[next], {blocks, bytes, lifetimeUs} = survivor;
				within[death * 3] -= blocks[next];
				within[death * 3 + 1] -= bytes[next];
				within[death * 3 + 2] -= lifetimeUs[next];
				if ((!isIn || isIn[site]) && death >= from && death < to &&
					survivor.birth[next] >= from)
					addMean(blocks[next], bytes[next], lifetimeUs[next]);
			}
			for (let at = first; at < i; at++) {
				const bucket = cell.bucket[at];
				if ((!isIn || isIn[site]) && bucket >= from && bucket < to)
					addMean(within[bucket * 3], within[bucket * 3 + 1], within[bucket * 3 + 2]);
				within.fill(0, bucket * 3, bucket * 3 + 3);
			}
		}
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

	return {FIGURES, sumsOf, total, METRICS, valuesOf, lifetimes, liveSeries, peakOf, isWhole,
		report};
})();

if (typeof module !== "undefined")
	module.exports = Model;

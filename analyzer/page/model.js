/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes figures of a window from the data of the page: pure functions. Sums are as in
 * analyzer/cube/window.c, lifetimes as in analyzer/views/lifetimes.c.
 */
"use strict";

const Model = (() => {
	/* --- sums of a window -------------------------------------------------------------- */

	const FIGURES = ["samples", "allocations", "allocatedBytes", "frees", "freedBytes",
		"temporary", "lifetimeUs", "growthBlocks", "growthBytes", "liveBlocks", "liveBytes",
		"laterFrees", "laterFreedBytes", "peakBytes"];

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

	/* First cell of each site, one more at the end. */
	function firstCells(model) {
		const first = new Int32Array(model.site.count + 1).fill(model.cell.count);
		for (let i = model.cell.count - 1; i >= 0; i--)
			first[model.cell.site[i]] = i;
		for (let site = model.site.count - 1; site >= 0; site--)
			first[site] = Math.min(first[site], first[site + 1]);
		return first;
	}

	/* Data independent of the window: where sites' cells begin, and by column the running sum
	 * of cells, so that the sum of some of a site's cells is a difference. */
	function indexOf(model) {
		if (model.index)
			return model.index;
		const before = new Map();
		model.index = {first: firstCells(model), before(column) {
			if (!before.has(column)) {
				const cells = model.cell[column], sums = new Float64Array(model.cell.count + 1);
				for (let i = 0; i < model.cell.count; i++)
					sums[i + 1] = sums[i] + cells[i];
				before.set(column, sums);
			}
			return before.get(column);
		}};
		return model.index;
	}

	/* By site, its first cell that is not before this bucket. */
	function cellsFrom(model, bucket) {
		const {first} = indexOf(model), of = model.cell.bucket;
		const from = new Int32Array(model.site.count);
		for (let site = 0; site < from.length; site++) {
			let low = first[site], high = first[site + 1];
			while (low < high) {
				const middle = (low + high) >> 1;
				if (of[middle] < bucket)
					low = middle + 1;
				else
					high = middle;
			}
			from[site] = low;
		}
		return from;
	}

	/* Indices of the survivors that were allocated before the window and freed in it. */
	function olderSurvivors(model, from, to) {
		const {birth, death, count} = model.survivor, older = [];
		for (let i = 0; from > 0 && i < count; i++)
			if (birth[i] < from && death[i] >= from && death[i] < to)
				older.push(i);
		return older;
	}

	/* For each column of cells, the column of survivors to subtract. */
	const OF_OLDER = {frees: "blocks", freedBytes: "bytes", temporary: "temporary",
		lifetimeUs: "lifetimeUs"};

	/* Figures by site of buckets [from, to); `of` computes a column at its first use. */
	function sumsOf(model, from, to) {
		const {first, before} = indexOf(model), {count} = model.site, known = new Map();
		const starts = from ? cellsFrom(model, from) : first;
		const ends = to < model.buckets ? cellsFrom(model, to) : first.subarray(1);
		const older = olderSurvivors(model, from, to);

		function between(column, low, high, sign, sums) {
			const all = before(column);
			for (let site = 0; site < count; site++)
				sums[site] += sign * (all[high[site]] - all[low[site]]);
			return sums;
		}

		const difference = (added, taken, low, high) => between(taken, low, high, -1,
			between(added, low, high, 1, new Float64Array(count)));

		function peaks() {
			if (isWhole(model, from, to))
				return Float64Array.from(model.site.peak);
			return difference("allocatedBytes", "freedBytes", first,
				cellsFrom(model, peakOf(model, from, to).bucket + 1));
		}

		function cells(figure) {
			const sums = between(figure, starts, ends, 1, new Float64Array(count));
			const taken = OF_OLDER[figure] && model.survivor[OF_OLDER[figure]];
			for (let i = 0; taken && i < older.length; i++)
				sums[model.survivor.site[older[i]]] -= taken[older[i]];
			return sums;
		}

		/* Frees after the window of blocks that were allocated in it. A death while the capture
		 * settled is in no bucket: it is model.buckets. */
		function later(column) {
			const {birth, death, site} = model.survivor, sums = new Float64Array(count);
			for (let i = 0; i < model.survivor.count; i++)
				if (birth[i] >= from && birth[i] < to && death[i] >= to)
					sums[site[i]] += model.survivor[column][i];
			return sums;
		}

		const make = {
			laterFrees: () => later("blocks"),
			laterFreedBytes: () => later("bytes"),
			growthBlocks: () => difference("allocations", "frees", starts, ends),
			growthBytes: () => difference("allocatedBytes", "freedBytes", starts, ends),
			liveBlocks: () => difference("allocations", "frees", first, ends),
			liveBytes: () => difference("allocatedBytes", "freedBytes", first, ends),
			peakBytes: peaks,
		};
		/* `of` also takes "variance:METRIC". */
		const sums = {from, to, of(figure) {
			if (!known.has(figure))
				known.set(figure, figure.startsWith(VARIANCE)
					? variances(model, sums, figure.slice(VARIANCE.length))
					: make[figure] ? make[figure]() : cells(figure));
			return known.get(figure);
		}};
		return sums;
	}

	/* Sums over the sites in `isIn` (default: all) of `figures` (default: all figures). */
	function total(model, sums, isIn, figures) {
		const result = {};
		for (const figure of figures || FIGURES) {
			const column = sums.of(figure);
			let all = 0;
			for (let site = 0; site < column.length; site++)
				if (!isIn || isIn[site])
					all += column[site];
			result[figure] = all;
		}
		return result;
	}

	/* --- metrics ----------------------------------------------------------------------- */

	/* By name, as analyzer/query/metric.h defines them: a figure, and figures to subtract. */
	const METRICS = {
		outstanding: {unit: "bytes", figure: "allocatedBytes", less: "freedBytes"},
		survivors: {unit: "bytes", figure: "allocatedBytes", less: "freedBytes",
			later: "laterFreedBytes"},
		growth: {unit: "bytes", figure: "growthBytes"},
		live: {unit: "bytes", figure: "liveBytes"},
		peak: {unit: "bytes", figure: "peakBytes"},
		allocated: {unit: "bytes", figure: "allocatedBytes"},
		calls: {unit: "blocks", figure: "allocations"},
		temporary: {unit: "blocks", figure: "temporary"},
		freed: {unit: "bytes", figure: "freedBytes"},
	};

	/* Values of a metric by site; 0 for those that are not in `isIn`. */
	function valuesOf(model, sums, metric, isIn) {
		const {figure, less, later} = METRICS[metric], values = Float64Array.from(sums.of(figure));
		for (const taken of [less, later].filter((name) => name).map(sums.of))
			for (let i = 0; i < values.length; i++)
				values[i] -= taken[i];
		for (let i = 0; isIn && i < values.length; i++)
			values[i] = isIn[i] ? values[i] : 0;
		return values;
	}

	/* --- bounds of a sample ------------------------------------------------------------ */

	const VARIANCE = "variance:", Z_95 = 1.959964;

	/* By site, the variance of a metric: the variance of all its allocations, in proportion to
	 * the metric's value, as sums_estimate in analyzer/query/metric.c. */
	function variances(model, sums, metric) {
		const {first, before} = indexOf(model), isBytes = METRICS[metric].unit === "bytes";
		const all = (column, site) => before(column)[first[site + 1]] - before(column)[first[site]];
		const values = valuesOf(model, sums, metric);
		const outstanding = metric === "growth" && valuesOf(model, sums, "outstanding");
		return values.map((value, site) => {
			const whole = all(isBytes ? "allocatedBytes" : "allocations", site);
			if (!model.isSample || metric === "temporary" || !whole)
				return 0;
			const moved = outstanding ? 2 * outstanding[site] - value : value;
			return Math.abs(moved) *
				model.site[isBytes ? "varianceBytes" : "varianceBlocks"][site] / whole;
		});
	}

	/* The bound of a value at 95 %, as figure_bound; 0: it is exact. */
	function bound(value, variance) {
		if (!(variance > 0))
			return 0;
		const square = value * value;
		return Z_95 * Math.sqrt(variance * (square > variance ? 1 + 2 * variance / square : 3));
	}

	/* --- series ------------------------------------------------------------------------ */

	/* Live bytes of these sites at the end of each bucket of the trace. */
	function liveSeries(model, sites) {
		const live = new Float64Array(model.buckets);
		const {first} = indexOf(model);
		for (const site of sites)
			for (let i = first[site]; i < first[site + 1]; i++)
				live[model.cell.bucket[i]] +=
					model.cell.allocatedBytes[i] - model.cell.freedBytes[i];
		for (let i = 1; i < live.length; i++)
			live[i] += live[i - 1];
		return live;
	}

	/* Metrics that count per bucket; the other metrics are levels. */
	const RATES = {allocated: "allocatedBytes", calls: "allocations", temporary: "temporary",
		freed: "freedBytes"};

	/* Turns levels of outstanding bytes into levels of survivors, which never fall: subtracts
	 * each freed block at its birth, and adds it again at its death if that is before `to`. */
	function takeLater(model, from, to, partOf, series) {
		const {birth, death, bytes, site, count} = model.survivor;
		for (let i = 0; i < count; i++) {
			const part = partOf[site[i]];
			if (part < 0 || birth[i] < from || birth[i] >= to)
				continue;
			series[part][birth[i] - from] -= bytes[i];
			if (death[i] < to)
				series[part][death[i] - from] += bytes[i];
		}
	}

	/*
	 * A metric in each of buckets [from, to), by part of the sites; sites with a part below 0
	 * are left out. A rate counts per bucket: its sum is the metric's value. Other metrics are
	 * levels at the bucket's end: the last is the metric's value, except for a peak.
	 */
	function history(model, from, to, metric, partOf, parts) {
		const {cell, survivor} = model, rate = RATES[metric];
		const isSinceStart = metric === "live" || metric === "peak";
		const series = Array.from({length: parts}, () => new Float64Array(to - from));
		for (let i = 0; i < cell.count; i++) {
			const part = partOf[cell.site[i]], bucket = cell.bucket[i];
			if (part < 0 || bucket >= to || (bucket < from && !isSinceStart))
				continue;
			series[part][Math.max(0, bucket - from)] += rate ? cell[rate][i]
				: cell.allocatedBytes[i] - cell.freedBytes[i];
		}
		const taken = rate ? OF_OLDER[rate] : metric === "outstanding" || metric === "survivors" ? "bytes" : null;
		for (const i of taken ? olderSurvivors(model, from, to) : [])
			if (partOf[survivor.site[i]] >= 0)
				series[partOf[survivor.site[i]]][survivor.death[i] - from] +=
					rate ? -survivor[taken][i] : survivor[taken][i];
		if (metric === "survivors")
			takeLater(model, from, to, partOf, series);
		for (const one of rate ? [] : series)
			for (let i = 1; i < one.length; i++)
				one[i] += one[i - 1];
		return series;
	}

	/* By site, its highest level at the end of a bucket before `to`; for rates, the sum of
	 * buckets [from, to). */
	function weights(model, from, to, metric) {
		const {cell} = model, {first} = indexOf(model), most = new Float64Array(model.site.count);
		const rate = RATES[metric];
		for (let site = 0; site < most.length; site++) {
			let level = 0;
			for (let i = first[site]; i < first[site + 1] && cell.bucket[i] < to; i++) {
				level += rate ? cell.bucket[i] < from ? 0 : cell[rate][i]
					: cell.allocatedBytes[i] - cell.freedBytes[i];
				most[site] = Math.max(most[site], level);
			}
		}
		return most;
	}

	/* --- lifetimes --------------------------------------------------------------------- */

	const LIFE_CLASSES = 65;

	/* Class of a lifetime in ns, as cube_size_class: 0 for 0 ns, else the number of bits. */
	function lifeClass(ns) {
		const high = Math.floor(ns / 2 ** 32);
		return high ? 64 - Math.clz32(high) : 32 - Math.clz32(ns);
	}

	/*
	 * Blocks of the sites in `isIn` (null: all) that were allocated and freed in buckets [from,
	 * to), by class of their life. Exact for the whole trace; otherwise the blocks of one site,
	 * birth bucket and death bucket share their mean.
	 */
	function lifetimes(model, from, to, isIn) {
		const all = model.facts.lifetimes, isExact = isWhole(model, from, to) && !isIn && !!all;
		const blocks = new Float64Array(LIFE_CLASSES), bytes = new Float64Array(LIFE_CLASSES);
		if (isExact) {
			blocks.set(all.blocks);
			bytes.set(all.bytes);
		} else
			addLives(model, from, to, isIn, (count, size, us) => {
				if (count <= 0)
					return;
				const life = lifeClass(us / count * 1000);
				blocks[life] += count;
				bytes[life] += size;
			});
		return {blocks, bytes, isExact};
	}

	function addLives(model, from, to, isIn, addMean) {
		const {cell, survivor} = model, within = new Float64Array(model.buckets * 3 + 3);
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
			survivors_blocks: sums.allocations - sums.frees - sums.laterFrees,
			survivors_bytes: sums.allocatedBytes - sums.freedBytes - sums.laterFreedBytes,
			growth_bytes: sums.growthBytes,
			live_bytes: sums.liveBytes,
			mean_lifetime_ns: sums.frees
				? Math.trunc(sums.lifetimeUs / sums.frees * 1000) : null,
			before_frees: before,
			peak_bytes: peak.bytes,
		};
	}

	return {VARIANCE, bound, FIGURES, sumsOf, total, METRICS, valuesOf, lifetimes, liveSeries, history, weights, RATES,
		peakOf, isWhole, report};
})();

if (typeof module !== "undefined")
	module.exports = Model;

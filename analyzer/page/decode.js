/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes the bytes of a page or a server into the model: tables of columns, and facts.
 */
"use strict";

const Decode = (() => {
	/* Decodes base64 without line breaks. */
	function bytesOfBase64(text) {
		const binary = atob(text);
		const bytes = new Uint8Array(binary.length);
		for (let i = 0; i < binary.length; i++)
			bytes[i] = binary.charCodeAt(i);
		return bytes;
	}

	/* Unpacks one LZ4 block; throws if it is malformed or does not give `length` bytes. */
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
			if (distance >= count && count > 24) {
				to.copyWithin(put, put - distance, put - distance + count);
				put += count;
			} else
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
				for (let i = 0; i < count; i++) {
					/* Most numbers are one byte, or fit 32 bits. */
					let byte = bytes[at];
					if (byte < 128) {
						at++;
						column[i] = byte;
						continue;
					}
					let value = 0, shift = 0, end = at;
					do {
						byte = bytes[end++];
						value |= (byte & 127) << shift;
						shift += 7;
					} while (byte > 127 && shift < 28);
					if (byte < 128) {
						at = end;
						column[i] = value;
					} else
						column[i] = number();
				}
				return column;
			},
		};
	}

	/* Decodes keys stored as differences to the row above. */
	function addUp(column) {
		for (let i = 1; i < column.length; i++)
			column[i] += column[i - 1];
		return new Int32Array(column);
	}

	/* Like addUp, but adds up only within the rows of one site. */
	function addUpWithin(site, column) {
		for (let i = 1; i < column.length; i++)
			if (site[i] === site[i - 1])
				column[i] += column[i - 1];
		return new Int32Array(column);
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
		const tree = table(input, ["up", "frame"]);
		/* Loops, because map() of typed arrays is ten times slower. */
		tree.parent = new Int32Array(tree.count);
		tree.frame = new Int32Array(tree.frame);
		/* The nodes from the root to the node before, by depth. */
		const chain = new Int32Array(tree.count + 1);
		for (let i = 0, depth = 0; i < tree.count; i++) {
			const caller = i ? depth - tree.up[i] : 0;
			tree.parent[i] = i ? chain[caller] : 0;
			depth = i ? caller + 1 : 0;
			chain[depth] = i;
			tree.frame[i]--;
		}
		delete tree.up;
		return tree;
	}

	/* As in data.c. */
	const ERROR_SCALE = 1024;

	function signed(bits) {
		return bits % 2 ? -(bits + 1) / 2 : bits / 2;
	}

	/* expected_bytes of data.c; exact below 2^53. */
	function expected(count, blocks, bytes) {
		const product = blocks ? count * Math.floor(bytes / blocks) : 0;
		return product > Number.MAX_SAFE_INTEGER ? 0 : product;
	}

	function readCells(input) {
		const cell = table(input, ["site", "bucket", "allocations", "samples",
			"allocatedBytes", "frees", "freedBytes", "temporary", "lifetimeUs"]);
		cell.site = addUp(cell.site);
		cell.bucket = addUpWithin(cell.site, cell.bucket);
		const {site, allocations, samples, allocatedBytes, frees, freedBytes} = cell;
		for (let i = 0; i < cell.count; i++) {
			const calls = allocations[i];
			samples[i] = calls + signed(samples[i]);
			allocatedBytes[i] = signed(allocatedBytes[i]) + (i && site[i] === site[i - 1]
				? expected(calls, allocations[i - 1], allocatedBytes[i - 1]) : 0);
			frees[i] = calls + signed(frees[i]);
			freedBytes[i] = signed(freedBytes[i]) +
				expected(frees[i], calls, allocatedBytes[i]);
		}
		return cell;
	}

	function readSurvivors(input, stepUs) {
		const survivor = table(input, ["site", "birth", "age", "blocks", "bytes",
			"temporary", "lifetimeUs"]);
		survivor.site = addUp(survivor.site);
		survivor.birth = addUpWithin(survivor.site, survivor.birth);
		survivor.death = new Int32Array(survivor.count);
		const {site, birth, death, age, blocks, bytes, lifetimeUs} = survivor;
		for (let i = 0; i < survivor.count; i++) {
			death[i] = birth[i] + age[i];
			bytes[i] = signed(bytes[i]) + (i && site[i] === site[i - 1]
				? expected(blocks[i], blocks[i - 1], bytes[i - 1]) : 0);
			lifetimeUs[i] = signed(lifetimeUs[i]) + expected(blocks[i], 1, age[i] * stepUs);
		}
		return survivor;
	}

	function readTimeline(input) {
		const line = table(input, ["allocations", "allocatedBytes", "live", "liveMax", "heap",
			"rss", "anonymous", "file", "shared", "swap", "majorFaults", "cgroup", "cgroupLimit", "beforeFrees"]);
		let live = 0;
		for (let i = 0; i < line.count; i++) {
			live += signed(line.live[i]);
			line.live[i] = live;
		}
		return line;
	}

	/* Builds the model from the bytes that data.c wrote. */
	function tables(bytes) {
		const input = reader(bytes, 0);
		const facts = JSON.parse(input.text(input.number()));
		const frame = table(input, ["name", "file", "line", "module", "isWrapper", "space"]);
		const tree = readTree(input);
		const site = table(input, ["node", "thread", "hook", "size", "peak", "varianceBytes",
			"varianceBlocks"]);
		site.node = addUp(site.node);
		for (const column of [site.varianceBytes, site.varianceBlocks])
			for (let i = 0; i < site.count; i++)
				column[i] = (column[i] / ERROR_SCALE) ** 2;
		const cell = readCells(input);
		const survivor = readSurvivors(input, Math.floor(facts.window.bucket_ns / 1000));
		const timeline = readTimeline(input);
		return {facts, frame, tree, site, cell, survivor, timeline,
			buckets: timeline.count, stepNs: facts.window.bucket_ns,
			isSample: facts.capture.sample_bytes > 0};
	}

	/* Builds the model from compressed data, which unpacks to `length` bytes. */
	function decode(packed, length) {
		return tables(unpackLz4(packed, length));
	}

	async function errorOf(answer) {
		const {error} = await answer.json().catch(() => ({}));
		return error || "the server answered " + answer.status;
	}

	/* Loads the model of an element: its text is base64 of LZ4, or data-source is the address
	 * of uncompressed tables. */
	async function load(element) {
		const {source, bytes} = element.dataset;
		if (!source)
			return decode(bytesOfBase64(element.textContent.trim()), Number(bytes));
		const answer = await Server.getChosen(source);
		if (!answer.ok)
			throw new Error(await errorOf(answer));
		return tables(new Uint8Array(await answer.arrayBuffer()));
	}

	return {bytesOfBase64, unpackLz4, tables, decode, load};
})();

if (typeof module !== "undefined")
	module.exports = Decode;

/* SPDX-License-Identifier: Apache-2.0
 *
 * Lifetimes of blocks allocated and freed in the selected time, and their sites.
 */
"use strict";

const Lifetimes = (() => {
	function lifeName(size) {
		return size ? Format.duration(2 ** (size - 1)) + " to below " + Format.duration(2 ** size)
			: "0 ns";
	}

	function histogram(app, lives) {
		const total = app.total(), unit = app.unit();
		const counts = unit === "bytes" ? lives.bytes : lives.blocks;
		const rows = [...lives.blocks].map((blocks, size) => ({size, blocks, value: counts[size]}))
			.filter((row) => row.blocks);
		const never = unit === "bytes" ? total.allocatedBytes - total.freedBytes
			: total.allocations - total.frees;
		rows.push({size: -1, value: never, blocks: total.allocations - total.frees});
		const all = rows.reduce((sum, row) => sum + row.value, 0);
		const most = Math.max(...rows.map((row) => row.value), 0);
		return Table.make(app, {id: "lives", rows, isFixed: true, sort: "", columns: [
			{key: "life", title: "Life", unit: "text", value: (row) => row.size < 0
				? "not freed by the end" : lifeName(row.size)},
			{key: "blocks", title: "Blocks", unit: "blocks", value: (row) => row.blocks},
			...unit === "bytes" ? [{key: "bytes", title: "Bytes", unit: "bytes",
				value: (row) => row.value}] : [],
			{key: "share", title: "Share", unit: "share", value: (row) => all ? row.value / all : 0},
			{key: "bar", title: "", unit: "text", isDrawn: true, hide: "medium",
				value: (row) => row.value, cell: (row) => Dom.meter(row.value, most)}]});
	}

	/* Sites that allocated, with their freed blocks and mean life: exact for any window. */
	function sites(app) {
		const sums = app.chainSums(), {frame} = app.model.tree, {ofFrame} = app.names.functions;
		const open = (node) => app.openFunction(node && frame[node] >= 0 ? ofFrame[frame[node]] : -1);
		const calls = sums.of("allocations"), frees = sums.of("frees");
		const rows = sums.rows.filter((row) => calls[row]);
		return Table.make(app, {id: "site-lives", rows, sort: "frees", columns: [
			Sites.nameColumn(app, open, "Shows its callers"),
			{key: "frees", title: "Blocks freed", unit: "blocks", value: (row) => frees[row]},
			{key: "kept", title: "Not freed", unit: "blocks", hide: "medium",
				value: (row) => calls[row] - frees[row]},
			{key: "freed", title: "Bytes freed", unit: "bytes", hide: "wide",
				value: Sites.figure("freedBytes")(sums)},
			...app.model.isSample ? [] : [{key: "temporary", title: "Temporary", unit: "blocks",
				hide: "wide", value: Sites.figure("temporary")(sums)}],
			{key: "life", title: "Mean life", unit: "ns", value: Sites.meanLife(sums)}]});
	}

	function create(app) {
		let tables = [];
		return {
			render(view) {
				const {from, to, focus, hide, thread} = app.state;
				const lives = app.remember("lives", [from, to, focus, hide, thread],
					() => Model.lifetimes(app.model, from, to, app.isIn()));
				tables = [histogram(app, lives), sites(app)];
				Dom.replace(view, Dom.element("h2", {}, "How long blocks lived"),
					Dom.element("p", {class: "hint", id: "lives-kind"}, lives.isExact
						? "Exact: each block that was allocated and freed in the capture is " +
							"counted in the class of its own life."
						: "An estimate: blocks of one site that were allocated in one step of the " +
							"timeline and freed in another count with their mean life. Numbers " +
							"of blocks and mean lives are exact; the class of a block may be off."),
					tables[0].element,
					Dom.element("h2", {}, "Which sites' blocks are freed"), tables[1].element);
			},
			/* The number of blocks that were allocated in the selected time. */
			sum: () => tables[0].rows().reduce((all, row) => all + row.blocks, 0),
			text: () => tables.map(Table.text).join("\n"),
			csv: () => Table.csv(tables[0]),
		};
	}

	return {create};
})();

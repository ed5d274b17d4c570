/* SPDX-License-Identifier: Apache-2.0
 *
 * How long blocks lived that were allocated and freed in the selected time, and which sites they
 * come from.
 */
"use strict";

const Lifetimes = (() => {
	function lifeName(size) {
		return size ? Format.duration(2 ** (size - 1)) + " to below " + Format.duration(2 ** size)
			: "no time at all";
	}

	function histogram(app, lives) {
		const total = app.total(), unit = app.unit();
		const counts = unit === "bytes" ? lives.bytes : lives.blocks;
		const rows = [...counts].map(([size, value]) => ({size, value,
			blocks: lives.blocks.get(size)})).sort((a, b) => a.size - b.size);
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

	/* Functions whose blocks are freed, with their mean life: exact for any window. */
	function sites(app) {
		const {model} = app, sums = app.sums(), isIn = app.isIn(), found = app.foundChains();
		const begin = app.begin(), rows = new Map();
		for (let site = 0; site < model.site.count; site++) {
			if ((isIn && !isIn[site]) || (found && !found[model.site.node[site]]) ||
				!sums.allocations[site])
				continue;
			const node = begin[model.site.node[site]];
			if (!rows.has(node))
				rows.set(node, {node, calls: 0, frees: 0, bytes: 0, us: 0, temporary: 0});
			const row = rows.get(node);
			row.calls += sums.allocations[site];
			row.frees += sums.frees[site];
			row.bytes += sums.freedBytes[site];
			row.us += sums.lifetimeUs[site];
			row.temporary += sums.temporary[site];
		}
		return Table.make(app, {id: "site-lives", rows: [...rows.values()], sort: "frees", columns: [
			{key: "name", title: "Function and callers", unit: "text",
				value: (row) => app.names.nodeName(row.node),
				cell: (row) => Dom.element("div", {}, Controls.link(app, row.node &&
					app.model.tree.frame[row.node] >= 0 ? app.names.functions.ofFrame[
						app.model.tree.frame[row.node]] : -1, app.names.shortName(row.node)),
				Dom.element("div", {class: "where"}, app.names.callersText(row.node)))},
			{key: "frees", title: "Blocks freed", unit: "blocks", value: (row) => row.frees},
			{key: "kept", title: "Not freed", unit: "blocks", hide: "medium",
				value: (row) => row.calls - row.frees},
			{key: "freed", title: "Bytes freed", unit: "bytes", hide: "wide",
				value: (row) => row.bytes},
			...model.isSample ? [] : [{key: "temporary", title: "Temporary", unit: "blocks",
				hide: "wide", value: (row) => row.temporary}],
			{key: "life", title: "Mean life", unit: "ns", hide: "",
				value: (row) => row.frees ? row.us / row.frees * 1000 : null}]});
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
			/* All blocks, or bytes, that were allocated in the selected time. */
			sum: () => tables[0].list.reduce((all, row) => all + row.blocks, 0),
			text: () => tables.map(Table.text).join("\n"),
			csv: () => Table.csv(tables[0]),
		};
	}

	return {create};
})();

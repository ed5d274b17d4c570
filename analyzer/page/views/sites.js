/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sites: one row for each call chain that allocated, with all figures.
 */
"use strict";

const Sites = (() => {
	/* Key, title, unit, value of a node's figures, class that hides it on small screens. */
	const COLUMNS = [
		["outstanding", "Outstanding", "bytes", (s) => s.allocatedBytes - s.freedBytes, "medium"],
		["growth", "Growth", "bytes", (s) => s.growthBytes, "medium"],
		["live", "Live at end", "bytes", (s) => s.liveBytes, "wide"],
		["peak", "At the peak", "bytes", (s) => s.peakBytes, "wide"],
		["allocated", "Allocated", "bytes", (s) => s.allocatedBytes, "medium"],
		["calls", "Calls", "blocks", (s) => s.allocations, "medium"],
		["temporary", "Temporary", "blocks", (s) => s.temporary, "wide"],
		["freed", "Freed", "bytes", (s) => s.freedBytes, "wide"],
		["lifetime", "Mean life", "ns", (s) => s.frees ? s.lifetimeUs / s.frees * 1000 : null,
			"wide"],
	];

	/* Figures by node; nodes without any are left out. */
	function nodesOf(app) {
		const {model} = app, sums = app.sums(), begin = app.begin(), isIn = app.isIn();
		const found = app.foundChains(), nodes = new Map();
		for (let site = 0; site < model.site.count; site++) {
			if ((isIn && !isIn[site]) || (found && !found[model.site.node[site]]))
				continue;
			const node = begin[model.site.node[site]];
			let one = nodes.get(node);
			if (!one) {
				one = {node};
				for (const figure of Model.FIGURES)
					one[figure] = 0;
				nodes.set(node, one);
			}
			for (const figure of Model.FIGURES)
				one[figure] += sums[figure][site];
		}
		return [...nodes.values()].filter((one) => one.allocations || one.liveBytes ||
			one.growthBytes);
	}

	function nameColumn(app) {
		return {key: "name", title: "Function and callers", unit: "text",
			value: (one) => app.names.nodeName(one.node), cell: (one) => Dom.element("div", {},
				Dom.element("button", {class: "link", type: "button",
					title: app.names.nodeName(one.node) + "\nShows this chain in the flame graph",
					onclick: () => app.openChain(one.node)}, app.names.shortName(one.node)),
				Dom.element("div", {class: "where"}, app.names.callersText(one.node)))};
	}

	function create(app) {
		let table = null, sum = 0;
		return {
			render(view) {
				const rows = app.remember("site rows", [app.state.from, app.state.to,
					app.state.focus, app.state.hide, app.state.thread, app.state.wrappers,
					app.state.search], () => nodesOf(app));
				const {metric} = app.state, sorted = app.state.sort.replace(/-$/, "") || metric;
				/* The column that counts is there on every screen. */
				const columns = COLUMNS.filter(([key]) => key === "lifetime" ||
					app.metrics.includes(key)).map(([key, title, unit, value, hide]) =>
					({key, title, unit, value, hide: key === sorted ? "" : hide}));
				const of = columns.find((one) => one.key === metric);
				sum = rows.reduce((all, one) => all + of.value(one), 0);
				table = Table.make(app, {id: "sites", rows, sort: metric,
					columns: [nameColumn(app), ...columns]});
				Dom.replace(view, Dom.element("h2", {}, Format.count(rows.length) + " sites"),
					table.element);
			},
			sum: () => sum,
			text: () => Table.text(table),
			csv: () => Table.csv(table),
		};
	}

	return {create};
})();

/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sites: one row for each call chain that allocated, with all figures.
 */
"use strict";

const Sites = (() => {
	const figure = (name) => (sums) => {
		const column = sums.of(name);
		return (row) => column[row];
	};

	function outstanding(sums) {
		const allocated = sums.of("allocatedBytes"), freed = sums.of("freedBytes");
		return (row) => allocated[row] - freed[row];
	}

	function survivors(sums) {
		const held = outstanding(sums), later = sums.of("laterFreedBytes");
		return (row) => held(row) - later[row];
	}

	function meanLife(sums) {
		const us = sums.of("lifetimeUs"), frees = sums.of("frees");
		return (row) => frees[row] ? us[row] / frees[row] * 1000 : null;
	}

	/* Key, title, unit, value of a row of the figures, class that hides it on small screens. */
	const COLUMNS = [
		["outstanding", "Outstanding", "bytes", outstanding, "medium"],
		["survivors", "Survivors", "bytes", survivors, "wide"],
		["growth", "Growth", "bytes", figure("growthBytes"), "medium"],
		["live", "Live at end", "bytes", figure("liveBytes"), "wide"],
		["peak", "At the peak", "bytes", figure("peakBytes"), "wide"],
		["allocated", "Allocated", "bytes", figure("allocatedBytes"), "medium"],
		["calls", "Calls", "blocks", figure("allocations"), "medium"],
		["temporary", "Temporary", "blocks", figure("temporary"), "wide"],
		["freed", "Freed", "bytes", figure("freedBytes"), "wide"],
		["lifetime", "Mean life", "ns", meanLife, "wide"],
	];

	/* A chain's function, its place and its callers; a click calls `open` with the chain's
	 * node. */
	function nameColumn(app, open, hint) {
		const {nodes} = app.chains();
		return {key: "name", title: "Function and callers", unit: "text",
			value: (row) => app.names.nodeName(nodes[row]), cell: (row) => Dom.element("div", {},
				Dom.element("button", {class: "link", type: "button",
					title: app.names.nodeName(nodes[row]) + "\n" + hint,
					onclick: () => open(nodes[row])}, app.names.shortName(nodes[row])),
				Dom.element("div", {class: "where"}, app.names.callersText(nodes[row])))};
	}

	/* The bound of the metric; null: the capture is no sample. */
	function boundColumn(app, sums) {
		const {metric} = app.state;
		if (!app.model.isSample)
			return null;
		const value = COLUMNS.find(([key]) => key === metric);
		const values = value ? value[3](sums) : () => 0;
		const variance = sums.of(Model.VARIANCE + metric);
		return Table.bound("bound", values, (row) => Model.bound(values(row), variance[row]));
	}

	function create(app) {
		let table = null, sum = 0;
		return {
			render(view) {
				const sums = app.chainSums();
				const {metric} = app.state, sorted = app.state.sort.replace(/-$/, "") || metric;
				/* The column that decides the order is visible on every screen. */
				const columns = COLUMNS.filter(([key]) => key === "lifetime" ||
					app.metrics.includes(key)).map(([key, title, unit, value, hide]) =>
					({key, title, unit, value: value(sums), hide: key === sorted ? "" : hide}));
				const bound = boundColumn(app, sums);
				if (bound)
					columns.splice(columns.findIndex((one) => one.key === metric) + 1, 0, bound);
				const of = columns.find((one) => one.key === metric);
				sum = sums.rows.reduce((all, row) => all + of.value(row), 0);
				table = Table.make(app, {id: "sites", rows: sums.rows, sort: metric, columns: [
					nameColumn(app, app.openChain, "Shows this chain in the flame graph"),
					...columns]});
				Dom.replace(view, Dom.element("h2", {}, Format.count(table.count) + " sites"),
					table.element);
			},
			sum: () => sum,
			text: () => Table.text(table),
			csv: () => Table.csv(table),
		};
	}

	return {create, nameColumn, figure, meanLife};
})();

/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sites: one row for each call chain that allocated, with all figures.
 */
"use strict";

const Sites = (() => {
	const FIRST_ROWS = 100;

	/* Key, title, unit, value of a node's figures, class that hides it on small screens. */
	const COLUMNS = [
		["outstanding", "Outstanding", "bytes", (s) => s.allocatedBytes - s.freedBytes, ""],
		["growth", "Growth", "bytes", (s) => s.growthBytes, "medium"],
		["live", "Live at end", "bytes", (s) => s.liveBytes, "wide"],
		["peak", "At the peak", "bytes", (s) => s.peakBytes, "wide"],
		["allocated", "Allocated", "bytes", (s) => s.allocatedBytes, "medium"],
		["calls", "Calls", "blocks", (s) => s.allocations, "medium"],
		["temporary", "Temporary", "blocks", (s) => s.temporary, "wide"],
		["freed", "Freed", "bytes", (s) => s.freedBytes, "wide"],
		["lifetime", "Mean life", "ns", (s) => s.frees
			? s.lifetimeUs / s.frees * 1000 : -1, "wide"],
	];

	/* Figures by node; nodes without any are left out. */
	function nodesOf(model, sums) {
		const nodes = [];
		let last = null;
		for (let site = 0; site < model.site.count; site++) {
			const node = model.site.node[site];
			if (!last || last.node !== node) {
				last = {node};
				nodes.push(last);
			}
			for (const [figure, values] of Object.entries(sums))
				if (values.length)
					last[figure] = (last[figure] || 0) + values[site];
		}
		return nodes.filter((one) => one.allocations || one.liveBytes || one.growthBytes);
	}

	function cell(column, one) {
		const value = column[3](one);
		const text = column[2] !== "ns" ? Format.value(value, column[2])
			: value < 0 ? "" : Format.duration(value);
		return Dom.element("td", {class: "number " + column[4]}, text);
	}

	function create(app) {
		let limit = FIRST_ROWS;

		function header(column, shown) {
			const isSort = app.state.sort === column[0];
			return Dom.element("th", {scope: "col", class: "number " + shown,
				"aria-sort": isSort ? "descending" : undefined},
				Dom.element("button", {type: "button",
					onclick: () => app.set({sort: column[0]})},
					column[1] + (isSort ? " \u2193" : "")));
		}

		function row(one, columns) {
			return Dom.element("tr", {},
				Dom.element("td", {class: "name"},
					Dom.element("button", {class: "link", type: "button",
						title: app.nodeName(one.node),
						onclick: () => app.open(one.node)}, app.shortName(one.node)),
					Dom.element("div", {class: "where"}, app.callersText(one.node))),
				...columns.map((column) => cell(column, one)));
		}

		return {
			render(view) {
				const sums = app.sums(), matches = app.matchesNode();
				const sort = COLUMNS.find((column) => column[0] === app.state.sort) || COLUMNS[0];
				/* The column that counts is there on every screen. */
				const columns = COLUMNS.map((column) => column === sort
					? [...column.slice(0, 4), ""] : column[0] === "outstanding"
						? [...column.slice(0, 4), "medium"] : column)
					.filter((column) => !(app.model.isSample && column[0] === "temporary"));
				const nodes = nodesOf(app.model, sums).filter((one) => !matches ||
					matches(one.node)).sort((a, b) => sort[3](b) - sort[3](a) ||
					b.allocatedBytes - a.allocatedBytes);
				Dom.replace(view,
					Dom.element("h2", {}, Format.count(nodes.length) + " sites"),
					Dom.element("div", {class: "scroll"}, Dom.element("table", {id: "sites"},
						Dom.element("thead", {}, Dom.element("tr", {},
							Dom.element("th", {scope: "col"}, "Function and callers"),
							...columns.map((column) => header(column, column[4])))),
						Dom.element("tbody", {}, ...nodes.slice(0, limit).map((one) =>
							row(one, columns))))));
				if (nodes.length > limit)
					view.append(Dom.element("p", {}, Dom.element("button", {type: "button",
						onclick: () => {
							limit *= 4;
							app.render();
						}}, "Show more")));
			},
		};
	}

	return {create};
})();

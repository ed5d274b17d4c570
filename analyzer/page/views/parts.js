/* SPDX-License-Identifier: Apache-2.0
 *
 * The blocks of the selected time by thread, size, or function called: each site is in one part.
 */
"use strict";

const Parts = (() => {
	const {FOLDED} = Stacks;

	function sizeName(size) {
		if (size < 2)
			return size + " B";
		return Format.bytes(2 ** (size - 1)) + " to below " + Format.bytes(2 ** size);
	}

	/* Key of a site, name of a key, and whether keys have an order of their own. */
	const KINDS = {
		threads: {title: "By thread that allocated", name: "Thread",
			column: (model) => model.site.thread,
			text: (app, key) => app.names.threadName(key),
			cell: (app, key) => Dom.element("button", {type: "button", class: "link",
				title: "Keep only this thread", onclick: () => app.set({thread: key, zoom: 0})},
			app.names.threadName(key))},
		sizes: {title: "By requested size", name: "Size", inOrder: true,
			column: (model) => model.site.size, text: (app, key) => sizeName(key)},
		functions: {title: "By function that was called", name: "Function",
			column: (model) => model.site.hook,
			text: (app, key) => app.model.facts.functions[key] || "unknown"},
	};

	function partsOf(app, kind) {
		const {model} = app, sums = app.sums(), values = app.values(), isIn = app.isIn();
		const allocated = sums.of("allocatedBytes"), freed = sums.of("freedBytes");
		const calls = sums.of("allocations"), variances = app.variances();
		const keys = Stacks.keysOf(model, kind.column(model)), found = app.foundChains(), parts = new Map();
		for (let site = 0; site < model.site.count; site++) {
			if ((isIn && !isIn[site]) || (found && !found[model.site.node[site]]))
				continue;
			const key = keys[site];
			let part = parts.get(key);
			if (!part)
				parts.set(key, part = {key, value: 0, variance: 0, outstanding: 0,
					allocated: 0, calls: 0});
			part.value += values[site];
			part.variance += variances ? variances[site] : 0;
			part.outstanding += allocated[site] - freed[site];
			part.allocated += allocated[site];
			part.calls += calls[site];
		}
		return [...parts.values()].filter((part) => part.value || part.calls)
			.sort((a, b) => a.key - b.key);
	}

	/* Columns in addition to the metric's. */
	const MORE = [["outstanding", "Outstanding", "bytes", "medium"],
		["allocated", "Allocated", "bytes", "wide"], ["calls", "Calls", "blocks", "wide"]];

	function tableOf(app, name) {
		const kind = KINDS[name], rows = partsOf(app, kind), {metric} = app.state;
		const sum = rows.reduce((all, part) => all + part.value, 0);
		const most = rows.reduce((top, part) => Math.max(top, Math.abs(part.value)), 0);
		return {sum, ...Table.make(app, {id: name, rows, sort: kind.inOrder ? "" : metric,
			isFixed: kind.inOrder, columns: [
				{key: "name", title: kind.name, unit: "text",
					value: (part) => part.key === FOLDED ? "(folded)" : kind.text(app, part.key),
					cell: kind.cell && ((part) => part.key === FOLDED ? "(folded)"
						: kind.cell(app, part.key))},
				{key: metric, title: metric, unit: app.unit(), value: (part) => part.value},
				...app.model.isSample ? [Table.bound("bound", (part) => part.value,
					(part) => Model.bound(part.value, part.variance))] : [],
				{key: "share", title: "Share", unit: "share",
					value: (part) => sum ? Math.abs(part.value / sum) : 0},
				{key: "bar", title: "", unit: "text", isDrawn: true, hide: "medium",
					value: (part) => part.value, cell: (part) => Dom.meter(part.value, most)},
				...MORE.filter((one) => one[0] !== metric).map(([key, title, unit, hide]) =>
					({key, title, unit, hide, value: (part) => part[key]}))]})};
	}

	function create(app, ...names) {
		let tables = [];
		return {
			render(view) {
				tables = names.map((name) => tableOf(app, name));
				Dom.replace(view, ...names.flatMap((name, i) => [
					Dom.element("h2", {}, KINDS[name].title), tables[i].element]));
			},
			sum: () => tables[0].sum,
			text: () => tables.map((table, i) => KINDS[names[i]].title + "\n" +
				Table.text(table)).join("\n"),
			csv: () => Table.csv(tables[0]),
		};
	}

	return {create};
})();

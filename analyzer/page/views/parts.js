/* SPDX-License-Identifier: Apache-2.0
 *
 * The blocks of the selected time by thread, size, module or function called.
 */
"use strict";

const Parts = (() => {
	const ROWS = 200;

	function sizeName(size) {
		if (size < 2)
			return size + " B";
		return Format.bytes(2 ** (size - 1)) + " to below " + Format.bytes(2 ** size);
	}

	/* Key of a site, name of a key, and order of keys where it is not by value. */
	const KINDS = {
		threads: {title: "By thread that allocated",
			key: (model, site) => model.site.thread[site],
			name: (model, key) => {
				const thread = model.facts.threads[key] || [0, "unknown"];
				return thread[1] + " (" + thread[0] + ")";
			}},
		sizes: {title: "By size that was asked for", inOrder: true,
			key: (model, site) => model.site.size[site],
			name: (model, key) => sizeName(key)},
		modules: {title: "By module of the allocating function",
			key: (model, site) => {
				const frame = model.tree.frame[model.site.node[site]];
				return frame < 0 ? 0 : model.frame.module[frame];
			},
			name: (model, key) => key ? model.facts.modules[key - 1][0] || "unnamed"
				: "no file: code that was made at run time, or no stack"},
		functions: {title: "By function that was called",
			key: (model, site) => model.site.hook[site],
			name: (model, key) => model.facts.functions[key] || "unknown"},
	};

	function partsOf(app, kind) {
		const parts = new Map(), {model} = app, sums = app.sums();
		const values = app.values();
		const matches = app.matchesNode();
		for (let site = 0; site < model.site.count; site++) {
			if (matches && !matches(model.site.node[site]))
				continue;
			const key = kind.key(model, site);
			const part = parts.get(key) || {key, value: 0, outstanding: 0, allocated: 0, calls: 0};
			part.value += values[site];
			part.outstanding += sums.allocatedBytes[site] - sums.freedBytes[site];
			part.allocated += sums.allocatedBytes[site];
			part.calls += sums.allocations[site];
			parts.set(key, part);
		}
		return [...parts.values()].filter((part) => part.value || part.calls)
			.sort((a, b) => kind.inOrder ? a.key - b.key : b.value - a.value ||
				b.allocated - a.allocated);
	}

	function meter(value, most) {
		const canvas = Dom.element("canvas", {"aria-hidden": "true"});
		const context = Dom.paintOn(canvas, 160, 8);
		context.fillStyle = Dom.colour("live");
		context.fillRect(0, 0, Math.max(0, value) / Math.max(1, most) * 160, 8);
		return Dom.element("div", {class: "meter"}, canvas);
	}

	/* Figures beside that of the metric: key, title, unit, class that hides it. */
	const MORE = [["outstanding", "Outstanding", "bytes", "medium"],
		["allocated", "Allocated", "bytes", "wide"], ["calls", "Calls", "blocks", "wide"]];

	function tableOf(app, kind) {
		const more = MORE.filter((column) => column[0] !== app.state.metric);
		const parts = partsOf(app, kind);
		const unit = Model.METRICS[app.state.metric].unit;
		const sum = parts.reduce((all, part) => all + part.value, 0);
		const most = Math.max(0, ...parts.map((part) => part.value));
		const number = (text, hide) => Dom.element("td", {class: "number " + (hide || "")}, text);
		const head = (text, hide) => Dom.element("th", {scope: "col",
			class: "number " + (hide || "")}, text);
		return Dom.element("div", {class: "scroll"}, Dom.element("table", {},
			Dom.element("thead", {}, Dom.element("tr", {},
				Dom.element("th", {scope: "col"}, ""), head(app.state.metric), head("Share"),
				Dom.element("th", {class: "medium"}, ""),
				...more.map((column) => head(column[1], column[3])))),
			Dom.element("tbody", {}, ...parts.slice(0, ROWS).map((part) =>
				Dom.element("tr", {},
					Dom.element("td", {class: "name"}, kind.name(app.model, part.key)),
					number(Format.value(part.value, unit)),
					number(Format.percent(part.value, sum)),
					Dom.element("td", {class: "medium"}, meter(part.value, most)),
					...more.map((column) => number(Format.value(part[column[0]], column[2]),
						column[3])))))));
	}

	function create(app, ...names) {
		return {
			render(view) {
				Dom.replace(view);
				for (const name of names)
					view.append(Dom.element("h3", {}, KINDS[name].title),
						tableOf(app, KINDS[name]));
			},
		};
	}

	return {create};
})();

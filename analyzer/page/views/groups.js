/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions, modules and namespaces: own values are those of chains that allocate in them, totals
 * those of all chains through them, each counted once.
 */
"use strict";

const Groups = (() => {
	/* By function, the number of its group; the texts of groups. */
	function keysOf(app, kind) {
		const {model, names} = app, {frame} = model, {first, count} = names.functions;
		const {strings, modules} = model.facts, known = new Map(), texts = [];
		const keyOfText = (text) => {
			if (!known.has(text)) {
				known.set(text, texts.length);
				texts.push(text);
			}
			return known.get(text);
		};
		const moduleOf = (one) => frame.module[one] ? modules[frame.module[one] - 1][0] || "unnamed"
			: "no file: code that was made at run time";
		const spaceOf = (one) => frame.space[one] ? strings[frame.space[one] - 1]
			: Names.base(moduleOf(one));
		const of = {functions: (one, call) => call, modules: (one) => keyOfText(moduleOf(one)),
			spaces: (one) => keyOfText(spaceOf(one))}[kind];
		const ofCall = new Int32Array(count);
		for (let call = 0; call < count; call++)
			ofCall[call] = of(first[call], call);
		return {ofCall, texts, hasSpaces: frame.space.some((space) => space)};
	}

	/* Data independent of the window: the group of each node, and the outermost nodes of all
	 * groups. */
	function nodesOf(app, kind) {
		const tree = app.down();
		const keys = app.remember("keys " + kind, 0, () => keysOf(app, kind));
		return app.remember("outermost " + kind, [app.state.wrappers, app.state.recursion], () => {
			const keyOf = new Int32Array(tree.count);
			for (let i = 0; i < tree.count; i++)
				keyOf[i] = tree.call[i] < 0 ? -1 : keys.ofCall[tree.call[i]];
			return {...keys, keyOf, outermost: Stacks.outermost(tree, keyOf)};
		});
	}

	/* {key, name, own, total, variance: of total} with figures, and the sum of all own ones. */
	function rowsOf(app, kind) {
		const {own, total} = app.downTotals(), {keyOf, outermost, texts} = nodesOf(app, kind);
		const count = kind === "functions" ? app.names.functions.count : texts.length;
		const owns = new Float64Array(count), totals = new Float64Array(count), rows = [];
		const spread = app.downVariances(), variances = new Float64Array(count);
		let sum = 0, none = 0, noneVariance = 0;
		for (let node = 0; node < keyOf.length; node++) {
			sum += own[node];
			if (keyOf[node] < 0) {
				none += own[node];
				noneVariance += spread ? spread.own[node] : 0;
			} else
				owns[keyOf[node]] += own[node];
		}
		for (const node of outermost) {
			totals[keyOf[node]] += total[node];
			variances[keyOf[node]] += spread ? spread.total[node] : 0;
		}
		for (let key = 0; key < count; key++)
			if (owns[key] || totals[key])
				rows.push({key, own: owns[key], total: totals[key], variance: variances[key],
					name: kind === "functions" ? app.names.functionName(key) : texts[key]});
		if (none)
			rows.push({key: -1, own: none, total: none, variance: noneVariance, name: "(no stack)"});
		/* Sorting keeps this order among equals. */
		rows.sort((a, b) => b.total - a.total);
		return {rows, sum};
	}

	function columnsOf(app, kind, sum, most) {
		const {metric} = app.state, unit = app.unit();
		return [
			{key: "name", title: {functions: "Function", modules: "Module",
				spaces: "Namespace, crate or package"}[kind], unit: "text", value: (row) => row.name,
			cell: kind !== "functions" ? undefined : (row) => Dom.element("div", {},
				Controls.link(app, row.key),
				Dom.element("div", {class: "where"}, app.names.functionWhere(row.key)))},
			{key: "own", title: "Own " + metric, unit, value: (row) => row.own},
			{key: "total", title: "Total", unit, value: (row) => row.total},
			...app.model.isSample ? [Table.bound("bound", (row) => row.total,
				(row) => Model.bound(row.total, row.variance))] : [],
			{key: "share", title: "Share", unit: "share", hide: "medium",
				value: (row) => sum ? Math.abs(row.total / sum) : 0},
			{key: "bar", title: "", unit: "text", isDrawn: true, hide: "medium",
				value: (row) => row.total, cell: (row) => Dom.meter(row.total, most)},
		];
	}

	function tableOf(app, kind) {
		const {rows, sum} = rowsOf(app, kind), found = app.state.search ? app.foundCalls() : null;
		const text = app.state.search.toLowerCase();
		const shown = !found ? rows : rows.filter((row) => kind === "functions"
			? row.key >= 0 && found[row.key] : row.name.toLowerCase().includes(text));
		const most = rows.reduce((top, row) => Math.max(top, Math.abs(row.total)), 0);
		return {sum, ...Table.make(app, {id: kind === "functions" ? "function-list" : kind,
			rows: shown, sort: "own",
			columns: columnsOf(app, kind, sum, most)})};
	}

	/* The view of modules and, if names have them, of namespaces. */
	function create(app) {
		let tables = [];
		return {
			render(view) {
				const {hasSpaces} = nodesOf(app, "modules");
				tables = [tableOf(app, "modules"), ...hasSpaces ? [tableOf(app, "spaces")] : []];
				Dom.replace(view, Dom.element("h2", {}, "By module"), tables[0].element,
					...hasSpaces ? [Dom.element("h2", {}, "By namespace, crate or package"),
						tables[1].element] : [],
					Dom.element("p", {class: "hint"}, "Own: what functions of the module " +
						"allocate. Total: what they or functions they call allocate; one chain " +
						"counts in each module it passes through, so totals do not add up."));
			},
			sum: () => tables[0].sum,
			text: () => tables.map(Table.text).join("\n"),
			csv: () => Table.csv(tables[0]),
		};
	}

	return {create, tableOf};
})();
